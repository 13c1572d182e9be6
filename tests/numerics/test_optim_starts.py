r"""Where the batched maximizer starts."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_binary_context import SearchOptions
from botorch_binary_context.numerics.optim import (
    NUMBERS_AT_ONCE,
    choose_starts,
    draw_corners,
    find_starts,
    maximize,
)
from tests.numerics.hills import unit_box
from tests.tensors import double, uniform


class TestStarts:
    def test_extra_starts(self) -> None:
        """A peak too narrow for the quasi-random points is found from beside it."""
        needles = double([[0.123, 0.456], [0.654, 0.321]])

        def function(X: Tensor) -> Tensor:
            squares = (X - needles).square().sum(dim=-1)
            return 5 * (-squares / (2 * 0.002**2)).exp() - (X - 0.9).square().sum(-1)

        box = unit_box(2)
        batch = torch.Size([2])
        options = SearchOptions(num_restarts=2, raw_samples=4)
        values = maximize(function, box, batch, options, seed=0)[1]
        assert (values < 1).all()
        starts = (needles + 0.001).unsqueeze(0)
        X, values = maximize(function, box, batch, options, starts, seed=0)
        torch.testing.assert_close(X, needles, rtol=0, atol=1e-5)
        expected = 5 - (needles - 0.9).square().sum(dim=-1)
        torch.testing.assert_close(values, expected, rtol=1e-6, atol=0)

    def test_extra_starts_outside_the_box(self) -> None:
        def function(X: Tensor) -> Tensor:
            assert ((X >= -1) & (X <= 1)).all()
            return X.square().sum(dim=-1)

        starts = double([[[5.0]], [[-7.0]]])
        X, values = maximize(
            function, 2 * unit_box(1) - 1, torch.Size([3]), starts=starts, seed=0
        )
        assert torch.equal(X.abs(), torch.ones(3, 1).double())
        assert torch.equal(values, torch.ones(3).double())

    def two_peaks(self, X: Tensor) -> Tensor:
        """A broad peak of height 1 at 0.3 and a narrow one of 0.8 at 0.9."""
        x = X[..., 0]
        broad = (-((x - 0.3) ** 2) / (2 * 0.2**2)).exp()
        return broad + 0.8 * (-((x - 0.9) ** 2) / (2 * 0.02**2)).exp()

    def test_distinct_peaks(self) -> None:
        """Two starts: one for each peak, though the best points are all on one."""
        options = SearchOptions(num_restarts=2, raw_samples=128)
        starts = find_starts(
            self.two_peaks, unit_box(1), torch.Size(), options, seed=0
        ).squeeze(-1)
        assert abs(starts[0] - 0.3) < 0.02
        assert abs(starts[1] - 0.9) < 0.02

    def test_peaks_then_the_best_others(self) -> None:
        options = SearchOptions(num_restarts=64, raw_samples=64)
        U = find_starts(self.two_peaks, unit_box(1), torch.Size(), options, seed=0)
        values = self.two_peaks(U)
        assert (U[:2] - double([[0.3], [0.9]])).abs().max() < 0.02
        rest = values[2:]
        assert (rest[1:] <= rest[:-1]).all()

    def test_per_element(self) -> None:
        centers = double([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
        starts = find_starts(
            lambda X: -(X - centers).square().sum(dim=-1),
            unit_box(2),
            torch.Size([3]),
            SearchOptions(raw_samples=256, num_restarts=4),
            seed=5,
        )
        assert starts.shape == (4, 3, 2)
        torch.testing.assert_close(starts[0], centers, rtol=0, atol=0.1)

    def test_few_points(self) -> None:
        for n in (2, 3, 5):
            options = SearchOptions(num_restarts=n, raw_samples=n)
            X, value = maximize(
                lambda X: -(X - 0.3).square().sum(dim=-1), unit_box(2), options=options
            )
            torch.testing.assert_close(X, double([0.3, 0.3]), rtol=0, atol=1e-5)
            assert value > -1e-9

    @pytest.mark.parametrize(("restarts", "points"), [(0, 8), (9, 8), (1, 1), (-1, 2)])
    def test_wrong_numbers(self, restarts: int, points: int) -> None:
        message = (
            "Expected ``num_restarts`` to be at least 1 and at most ``raw_samples``, "
            f"and that at least 2, but got {restarts} and {points}."
        )
        with pytest.raises(InputDataError, match=message):
            SearchOptions(num_restarts=restarts, raw_samples=points)

    def test_undefined_points_last(self) -> None:
        options = SearchOptions(num_restarts=16, raw_samples=32)
        box = unit_box(1)
        U = find_starts(lambda X: X[..., 0], box, torch.Size(), options, seed=2)
        values = U[:, 0].clone()
        starts = find_starts(
            lambda X: torch.where(X[..., 0] > values.median(), torch.nan, X[..., 0]),
            box,
            torch.Size(),
            SearchOptions(num_restarts=4, raw_samples=32),
            seed=2,
        )
        assert (starts[:, 0] <= values.median()).all()

    def test_ties_give_distinct_points(self) -> None:
        U = uniform(8, 2)
        chosen = choose_starts(U, torch.zeros(8).double(), 3, seed=0)
        assert chosen.shape == (3, 2)
        assert len({tuple(row) for row in chosen.tolist()}) == 3


def test_starts_do_not_depend_on_how_many_points_fit_at_once() -> None:
    shapes = []

    def function(X: Tensor) -> Tensor:
        shapes.append(X.shape[0])
        return -(X - 0.3).square().sum(dim=-1)

    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()
    options = SearchOptions(raw_samples=1024)
    together = find_starts(function, bounds, torch.Size(), options, seed=0)
    assert shapes == [1024]
    for size, parts in ((NUMBERS_AT_ONCE // 512, 2), (NUMBERS_AT_ONCE, 4)):
        shapes.clear()
        apart = find_starts(function, bounds, torch.Size(), options, seed=0, size=size)
        assert shapes == [1024 // parts] * parts
        assert torch.equal(together, apart)


class TestCorners:
    def test_all_of_a_small_box(self) -> None:
        bounds = double([[-1.0, 2.0, 0.0], [1.0, 5.0, 0.5]])
        corners = draw_corners(bounds, 128, seed=0)
        expected = torch.cartesian_prod(*bounds.T)
        assert torch.equal(corners, expected.unique(dim=0))

    def test_some_of_a_large_box(self) -> None:
        bounds = double([[0.0] * 20, [1.0] * 20])
        corners = draw_corners(bounds, 64, seed=0)
        assert corners.shape == (64, 20)
        assert bool(((corners == 0) | (corners == 1)).all())

    def test_of_nothing(self) -> None:
        assert draw_corners(torch.zeros(2, 0), 8, seed=0).shape == (1, 0)
