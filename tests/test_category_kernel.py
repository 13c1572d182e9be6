r"""Tests of the kernel of categories."""

from __future__ import annotations

import itertools

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import RBFKernel
from torch import Tensor

from botorch_binary_context import CategoryKernel
from botorch_binary_context.numerics.covariance import covariance, variance
from tests.tensors import double, uniform

SIZES = (3, 2)


def rows() -> Tensor:
    """All pairs of values, one-hot."""
    pairs = itertools.product(torch.eye(3).double(), torch.eye(2).double())
    return torch.stack([torch.cat(pair) for pair in pairs])


def kernel(batch_shape: torch.Size = torch.Size()) -> CategoryKernel:  # noqa: B008
    made = CategoryKernel(SIZES, batch_shape=batch_shape).double()
    made.correlation = double([0.7, 0.2])
    return made


def test_equal_values_count_one_and_others_the_correlation() -> None:
    """Equal values count 1, others the correlation of the variable."""
    X = rows()
    same = [X[:, :3] @ X[:, :3].T, X[:, 3:] @ X[:, 3:].T]
    expected = (0.7 + 0.3 * same[0]) * (0.2 + 0.8 * same[1])
    torch.testing.assert_close(kernel()(X).to_dense(), expected)
    torch.testing.assert_close(covariance(kernel(), X, X[:2]), expected[:, :2])
    torch.testing.assert_close(variance(kernel(), X), torch.ones(6).double())
    torch.testing.assert_close(kernel()(X, diag=True), torch.ones(6).double())


def test_is_a_covariance() -> None:
    """Also between categories: no eigenvalue is negative."""
    X = uniform(40, 5)
    values = torch.linalg.eigvalsh(covariance(kernel(), X, X)).detach()
    assert float(values.min()) > -1e-12


def test_as_a_factor() -> None:
    product = RBFKernel(active_dims=(0,)).double() * CategoryKernel(
        [3], active_dims=[1, 2, 3]
    )
    X = torch.cat([double([[0.1], [0.4]]), torch.eye(3).double()[:2]], dim=-1)
    expected = RBFKernel()(X[:1, :1], X[1:, :1]).to_dense() * 0.5
    torch.testing.assert_close(covariance(product.double(), X[:1], X[1:]), expected)


def test_batches_of_kernels_equal_one() -> None:
    made = kernel(torch.Size([4]))
    assert made.correlation.shape == (4, 2)
    X = rows().expand(4, 6, 5)
    torch.testing.assert_close(
        covariance(made, X, X), covariance(kernel(), X, X).expand(4, 6, 6)
    )
    assert variance(made, X).shape == (4, 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), "``sizes`` to be positive numbers of values, but got"),
        (([3, 0],), r"``sizes`` to be .* but got \[3, 0\]"),
        (([3], torch.Size(), [0, 1]), "``active_dims`` to be 3 columns, .* but got 2"),
    ],
)
def test_refuses_wrong_sizes_and_columns(arguments: tuple, message: str) -> None:
    with pytest.raises(InputDataError, match=message):
        CategoryKernel(*arguments)
