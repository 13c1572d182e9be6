r"""Tests of kernels of contexts times kernels of parameters."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from botorch_binary_context.models.products import (
    context_covar_module,
    product_covar_module,
    separate_covar_module,
)
from tests.closeness import assert_all_close
from tests.tensors import uniform

SHAPES = pytest.mark.parametrize("shape", [(), (3,)], ids=["single", "batch"])


@SHAPES
@pytest.mark.parametrize("num_parameters", [1, 2, 4])
def test_covariance_falls_along_contexts_and_parameters(
    shape: tuple[int, ...], num_parameters: int
) -> None:
    """Distances of more than two parameters grow, and lengthscales with them."""
    batch = torch.Size(shape)
    kernel = product_covar_module(
        context_covar_module([0], batch),
        separate_covar_module(range(1, 1 + num_parameters), batch),
    )
    X = uniform(5, 1 + num_parameters)
    squares = (X.unsqueeze(0) - X.unsqueeze(1)).square()
    width = 0.25 * max(1.0, math.sqrt(num_parameters / 2))
    exponent = squares[..., 0] + squares[..., 1:].sum(dim=-1) / width**2
    found = kernel.double()(X.expand(*shape, 5, -1)).to_dense()
    assert_all_close(found, (9.0 * (-exponent / 2).exp()).expand(*shape, 5, 5), 1e-6)


def test_contexts_alone() -> None:
    kernel = product_covar_module(context_covar_module([0, 1], torch.Size()))
    S = 2 * uniform(5, 2) - 1
    squares = (S.unsqueeze(0) - S.unsqueeze(1)).square().sum(dim=-1)
    assert_all_close(kernel.double()(S).to_dense(), 9.0 * (-squares / 2).exp(), 1e-6)


@pytest.mark.parametrize(
    ("make", "median"), [(context_covar_module, 1.0), (separate_covar_module, 0.25)]
)
def test_lengthscales_are_expected_near_their_first_value(
    make: Any, median: float
) -> None:
    kernel = make([0, 1], torch.Size())
    prior = kernel.lengthscale_prior
    assert float(prior.loc.exp()) == pytest.approx(median)
    assert float(prior.scale) == pytest.approx(0.5)
    assert kernel.lengthscale.flatten().tolist() == pytest.approx([median] * 2)
    assert float(kernel.raw_lengthscale_constraint.lower_bound) == pytest.approx(0.025)
