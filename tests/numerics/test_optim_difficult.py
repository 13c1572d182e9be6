r"""The batched maximizer where functions are undefined, flat or constant."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from botorch_binary_context.numerics.optim import climb, maximize
from tests.numerics.hills import is_within, unit_box
from tests.tensors import double


class TestDifficultFunctions:
    def test_undefined_on_a_part(self) -> None:
        """NaN, and no gradient, left of 0.4: log(x - 0.4) - x has its maximum at 1."""

        def function(X: Tensor) -> Tensor:
            return ((X - 0.4).log() - 2.5 * X).sum(dim=-1)

        X, value = maximize(function, unit_box(2), seed=0)
        # 1 / (x - 0.4) = 2.5
        torch.testing.assert_close(X, double([0.8, 0.8]), rtol=0, atol=1e-4)
        expected = 2 * (double(0.4).log() - 2.0)
        torch.testing.assert_close(value, expected, rtol=1e-8, atol=0)

    def test_undefined_almost_everywhere(self) -> None:
        """Fewer points with a value than restarts."""

        def function(X: Tensor) -> Tensor:
            inside = (X - 0.5).abs().sum(dim=-1) < 0.05
            return torch.where(inside, -(X - 0.51).square().sum(dim=-1), torch.nan)

        X, value = maximize(function, unit_box(2), seed=0)
        torch.testing.assert_close(X, double([0.51, 0.51]), rtol=0, atol=1e-4)
        assert value > -1e-8

    def test_undefined_start(self) -> None:
        def function(X: Tensor) -> Tensor:
            return (X - 0.5).sqrt().sum(dim=-1) - X.sum(dim=-1)

        starts = double([[0.1], [0.9]])
        X, value = maximize(function, unit_box(1), seed=0, starts=starts)
        torch.testing.assert_close(X, double([0.75]), rtol=0, atol=1e-4)
        torch.testing.assert_close(value, double(-0.25), rtol=1e-8, atol=0)

    def test_undefined_everywhere(self) -> None:
        X, value = maximize(lambda X: torch.nan * X.sum(dim=-1), unit_box(2), seed=0)
        assert is_within(X, unit_box(X.shape[-1]))
        assert not value.isfinite()

    @pytest.mark.parametrize("constant", [0.0, -3.0, 1e200])
    def test_constant_gives_a_point_of_the_box_and_its_value(
        self, constant: float
    ) -> None:
        X, values = maximize(
            lambda X: constant + 0.0 * X.sum(dim=-1).expand(-1, 3),
            unit_box(2),
            torch.Size([3]),
            seed=0,
        )
        assert X.shape == (3, 2)
        assert is_within(X, unit_box(X.shape[-1]))
        assert (values == constant).all()

    def test_slope_is_found_beside_a_plateau(self) -> None:
        """Most of the box has no slope; the slope is found all the same."""
        X, value = maximize(
            lambda X: -(X[..., 0] - 0.9).abs().clamp_max(0.05).square(),
            unit_box(1),
            seed=0,
        )
        torch.testing.assert_close(X, double([0.9]), rtol=0, atol=1e-4)
        assert value > -1e-8

    def test_zero_gradient_in_some_columns(self) -> None:
        X, _ = maximize(
            lambda X: -(X[..., 1] - 0.25).square() + 0.0 * X[..., 0],
            unit_box(3),
            seed=0,
        )
        torch.testing.assert_close(X[1], double(0.25), rtol=0, atol=1e-6)

    def test_start_at_a_stationary_point(self) -> None:
        """A saddle gives the climber no slope: it stays, and is not an error."""
        X, values = climb(
            lambda U: U[..., 0].square() - U[..., 1].square(),
            double([[[0.0, 0.0]]]),
            20,
        )
        assert torch.equal(X, double([[0.0, 0.0]]))
        assert torch.equal(values, double([0.0]))
