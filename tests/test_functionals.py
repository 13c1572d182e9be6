r"""Functionals against products with their matrices."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from gpytorch.distributions import MultivariateNormal
from hypothesis import given
from hypothesis import strategies as st
from linear_operator import to_dense
from torch import Tensor

from botorch_binary_context import DIFFERENCE, VALUE, Functional
from botorch_binary_context.functionals import StackedFunctional
from tests.tensors import double, uniform

AVERAGE = Functional((0.2, 0.3, 0.5))
FUNCTIONALS = {
    "value": VALUE,
    "difference": DIFFERENCE,
    "average": AVERAGE,
    "twice": Functional((2.0,)),
    "second": Functional((0.0, 1.0)),
    "curvature": Functional((1.0, -2.0, 1.0)),
}
every_functional = pytest.mark.parametrize(
    "functional", FUNCTIONALS.values(), ids=FUNCTIONALS
)
STACKED = StackedFunctional([(VALUE, 3), (AVERAGE, 2), (DIFFERENCE, 4), (AVERAGE, 0)])
NUM_ROWS = 3 + 6 + 8


def matrix_of(functional: Functional, n: int) -> Tensor:
    """The matrix that takes the values of the rows to what ``n`` trials observe."""
    weights = double(functional.weights).unsqueeze(0)
    return torch.kron(torch.eye(n, dtype=torch.double), weights)


def stacked_matrix(functional: StackedFunctional) -> Tensor:
    blocks = [matrix_of(part, n) for part, n in functional.parts]
    return torch.block_diag(*[block for block in blocks if block.numel()])


def covariance_of(num_rows: int, *batch_shape: int) -> Tensor:
    """A covariance matrix of full rank."""
    root = uniform(*batch_shape, num_rows, num_rows) - 0.5
    return root @ root.mT + 0.1 * torch.eye(num_rows, dtype=torch.double)


def near(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)


@every_functional
class TestFunctional:
    @pytest.mark.parametrize("batch_shape", [(), (3,), (2, 3)])
    def test_is_a_product(
        self, functional: Functional, batch_shape: tuple[int, ...]
    ) -> None:
        n = 4
        values = uniform(*batch_shape, n * functional.num_rows, 5)
        D = matrix_of(functional, n)
        near(functional(values, dim=-2), D @ values)
        near(functional(values.mT), (D @ values).mT)

    def test_covariance_is_a_product_with_the_matrix(
        self, functional: Functional
    ) -> None:
        for batch_shape in ((), (3,)):
            K = covariance_of(4 * functional.num_rows, *batch_shape)
            D = matrix_of(functional, 4)
            near(functional.of_covariance(K), D @ K @ D.mT)

    def test_distribution_is_a_product_with_the_matrix(
        self, functional: Functional
    ) -> None:
        for batch_shape in ((), (3,)):
            rows = 4 * functional.num_rows
            mean = uniform(*batch_shape, rows)
            K = covariance_of(rows, *batch_shape)
            D = matrix_of(functional, 4)
            found = functional.of_distribution(MultivariateNormal(mean, K))
            near(found.mean, mean @ D.mT)
            near(to_dense(found.lazy_covariance_matrix), D @ K @ D.mT)

    def test_rows_and_trials(self, functional: Functional) -> None:
        q = functional.num_rows
        sides = () if q == 1 else (q,)
        assert functional.trial_dim == 1 + len(sides)
        for batch_shape in ((), (3,), (2, 3)):
            trials = uniform(*batch_shape, 4, *sides, 5)
            rows = functional.rows(trials)
            assert rows.shape == (*batch_shape, 4 * q, 5)
            assert torch.equal(functional.trials(rows), trials)
            first = trials[..., 0, :] if q == 1 else trials[..., 0, :, :].select(-2, -1)
            assert torch.equal(rows[..., q - 1, :], first)

    def test_no_trials(self, functional: Functional) -> None:
        empty = torch.zeros(2, 0, dtype=torch.double)
        assert functional(empty).shape == (2, 0)
        assert functional(empty, dim=-1).dtype == torch.double
        sides = () if functional.num_rows == 1 else (functional.num_rows,)
        rows = functional.rows(torch.zeros(2, 0, *sides, 5))
        assert rows.shape == (2, 0, 5)
        assert functional.trials(rows).shape == (2, 0, *sides, 5)

    def test_dtype_and_gradient(self, functional: Functional) -> None:
        values = uniform(2 * functional.num_rows).float().requires_grad_()
        found = functional(values)
        assert found.dtype == torch.float
        (gradient,) = torch.autograd.grad(found.sum(), values)
        expected = matrix_of(functional, 2).sum(dim=0)
        torch.testing.assert_close(gradient, expected.float())


class TestFunctionalProperties:
    @given(
        weights=st.lists(st.floats(-5.0, 5.0), min_size=1, max_size=4),
        n=st.integers(1, 4),
    )
    def test_is_a_product(self, weights: list[float], n: int) -> None:
        functional = Functional(tuple(weights))
        K = covariance_of(n * functional.num_rows)
        D = matrix_of(functional, n)
        torch.testing.assert_close(functional.of_covariance(K), D @ K @ D.mT)


class TestIdentityAndErrors:
    def test_equal_weights_are_equal_and_hash_alike(self) -> None:
        assert Functional((1.0, -1.0)) == DIFFERENCE
        assert hash(Functional((1.0,))) == hash(VALUE)
        assert Functional((-1.0, 1.0)) != DIFFERENCE
        assert len({VALUE, DIFFERENCE, Functional((1.0,))}) == 2

    def test_value_costs_nothing(self) -> None:
        values = uniform(4)
        assert VALUE(values) is values
        assert VALUE.rows(values) is values
        distribution = MultivariateNormal(values, torch.eye(4).double())
        assert VALUE.of_distribution(distribution) is distribution

    def test_no_weights(self) -> None:
        with pytest.raises(InputDataError, match="name a row, but got none"):
            Functional(())

    def test_incomplete_trials(self) -> None:
        expected = "Expected the rows of duels to come in pairs, but got 3 of them"
        with pytest.raises(UnsupportedError, match=expected):
            DIFFERENCE(uniform(3))
        expected = "Expected the rows of trials to come in sets of 3, but got 4 of them"
        with pytest.raises(UnsupportedError, match=expected):
            AVERAGE(uniform(4, 2), dim=-2)
        with pytest.raises(UnsupportedError, match="come in pairs"):
            DIFFERENCE.of_covariance(covariance_of(5))


class TestStackedFunctional:
    def test_is_a_product(self) -> None:
        D = stacked_matrix(STACKED)
        assert D.shape == (9, NUM_ROWS)
        for batch_shape in ((), (2,), (2, 3)):
            values = uniform(*batch_shape, NUM_ROWS, 5)
            near(STACKED(values, dim=-2), D @ values)
            near(STACKED(values.mT), (D @ values).mT)
            K = covariance_of(NUM_ROWS, *batch_shape)
            near(STACKED(STACKED(K), dim=-2), D @ K @ D.mT)

    def test_one_kind(self) -> None:
        values = uniform(6)
        near(StackedFunctional([(AVERAGE, 2)])(values), AVERAGE(values))

    def test_no_trials(self) -> None:
        empty = torch.zeros(2, 0, dtype=torch.double)
        for kinds in ([(DIFFERENCE, 0)], [(VALUE, 0), (DIFFERENCE, 0)]):
            assert StackedFunctional(kinds)(empty).shape == (2, 0)

    def test_order_of_kinds(self) -> None:
        swapped = StackedFunctional([(DIFFERENCE, 2), (VALUE, 3)])
        straight = StackedFunctional([(VALUE, 3), (DIFFERENCE, 2)])
        values = uniform(7)
        rolled: Any = torch.cat([values[3:], values[:3]])
        found = torch.cat([swapped(rolled)[2:], swapped(rolled)[:2]])
        near(straight(values), found)

    def test_the_wrong_number_of_rows(self) -> None:
        with pytest.raises(RuntimeError, match="split"):
            STACKED(uniform(NUM_ROWS - 1))
