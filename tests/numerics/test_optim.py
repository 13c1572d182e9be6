r"""Tests of the batched maximizer."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError
from botorch.test_functions import (
    Branin,
    Hartmann,
    Levy,
    SixHumpCamel,
    SyntheticTestFunction,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import lsq_linear, minimize
from torch import Tensor

from botorch_binary_context import SearchOptions
from botorch_binary_context.numerics.optim import (
    NUMBERS_AT_ONCE,
    choose_best,
    choose_starts,
    climb,
    draw_corners,
    find_starts,
    maximize,
    maximize_from,
)
from tests.devices import RequireDevice
from tests.strategies import boxes
from tests.tensors import double, uniform

Function = Callable[[Tensor], Tensor]


def unit_box(dim: int) -> Tensor:
    """Bounds of the unit cube."""
    return torch.stack([torch.zeros(dim), torch.ones(dim)]).double()


def is_within(X: Tensor, bounds: Tensor) -> bool:
    """Whether all points are in a box."""
    return torch.equal(X, X.clamp(bounds[0], bounds[1]))


class Bumps:
    """Batches of sums of Gaussian bumps, some of them centered outside the unit cube.

    Args:
        dim: The dimension.
        batch_shape: The shape of the batch of functions.
        seed: The seed of centres and heights.
    """

    width = 0.25
    num_bumps = 4

    def __init__(self, dim: int, *batch_shape: int, seed: int = 0) -> None:
        shape = (*batch_shape, self.num_bumps)
        self.batch_shape = torch.Size(batch_shape)
        self.centers = -0.2 + 1.4 * uniform(*shape, dim, seed=seed)
        self.heights = 0.4 + 0.6 * uniform(*shape, seed=seed + 1)

    def __call__(self, X: Tensor) -> Tensor:
        squares = (X.unsqueeze(-2) - self.centers).square().sum(dim=-1)
        return (self.heights * (-squares / (2 * self.width**2)).exp()).sum(dim=-1)

    def element(self, *index: int) -> Bumps:
        """One function of the batch."""
        single = Bumps(self.centers.shape[-1])
        single.centers, single.heights = self.centers[index], self.heights[index]
        return single


def highest(function: Bumps) -> float:
    """The maximum of one sum of bumps in the unit cube, by SciPy from every centre."""

    def negative(x: Any) -> tuple[float, Any]:
        X = double(x).requires_grad_()
        value = -function(X)
        (gradient,) = torch.autograd.grad(value, X)
        return value.item(), gradient.numpy()

    dim = function.centers.shape[-1]
    results = [
        minimize(
            negative,
            start.clamp(0, 1).numpy(),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, 1)] * dim,
            options={"ftol": 1e-15, "gtol": 1e-10},
        )
        for start in function.centers
    ]
    return -min(result.fun for result in results)


class TestGlobalMaxima:
    @pytest.mark.parametrize("dim", [1, 2, 3, 4, 5, 6])
    def test_sums_of_bumps(self, dim: int) -> None:
        function = Bumps(dim, 6, seed=dim)
        X, values = maximize(function, unit_box(dim), function.batch_shape, seed=0)
        assert X.shape == (6, dim)
        assert is_within(X, unit_box(X.shape[-1]))
        expected = double([highest(function.element(i)) for i in range(6)])
        torch.testing.assert_close(values, expected, rtol=1e-8, atol=0)
        torch.testing.assert_close(function(X), values, rtol=1e-14, atol=0)

    @pytest.mark.parametrize(
        ("function", "tolerance"),
        [
            # How many digits of the maximum are published.
            (Levy(dim=1), 1e-12),
            (SixHumpCamel(), 5e-5),
            (Branin(), 5e-7),
            (Hartmann(dim=3), 5e-6),
            (Hartmann(dim=6), 5e-6),
        ],
    )
    def test_published(self, function: SyntheticTestFunction, tolerance: float) -> None:
        """Every element of the batch sees the function mirrored in its own way."""
        bounds, dim = double(function._bounds).mT, function.dim
        low, high = bounds
        mirrors = double(list(itertools.product([0.0, 1.0], repeat=dim)))[-16:]

        def mirrored(X: Tensor) -> Tensor:
            X = torch.where(mirrors == 1, low + high - X, X)
            return -function(X, noise=False)

        X, values = maximize(mirrored, bounds, mirrors.shape[:1], seed=1)
        expected = torch.full_like(values, -function.optimal_value)
        torch.testing.assert_close(values, expected, rtol=0, atol=tolerance)
        assert ((low <= X) & (high >= X)).all()

    @pytest.mark.parametrize("dim", [1, 2, 4, 6])
    def test_corners(self, dim: int) -> None:
        slopes = 2.0 * torch.randint(2, (8, dim), generator=generator(dim)) - 1.0
        X, values = maximize(
            lambda X: (slopes * X).sum(dim=-1), unit_box(dim), slopes.shape[:1], seed=0
        )
        assert torch.equal(X, (slopes > 0).double())
        torch.testing.assert_close(values, slopes.clamp_min(0).sum(dim=-1).double())

    def test_not_past_the_bounds(self) -> None:
        """``low + (high - low)`` is greater than ``high`` here, by rounding."""
        bounds = double([[-2.1658142069142636], [7.38637572039246]])
        low, high = bounds
        assert low + (high - low) > high
        X, _ = maximize(lambda X: X.sum(dim=-1), bounds, seed=0)
        assert torch.equal(X, high)

    def test_faces(self) -> None:
        # One coordinate pressed to each face in turn, the other inside.
        target = double([[0.3, 2.0], [0.6, -1.0], [1.5, 0.2], [-0.4, 0.9]])
        X, _ = maximize(
            lambda X: -(X - target).square().sum(dim=-1) - 0.1 * X.prod(dim=-1),
            unit_box(2),
            target.shape[:1],
            seed=0,
        )
        # The free coordinate: -2 (x - t) - 0.1 y = 0 with y the other one.
        expected = double([[0.25, 1.0], [0.6, 0.0], [1.0, 0.15], [0.0, 0.9]])
        torch.testing.assert_close(X, expected, rtol=0, atol=1e-5)

    @given(st.data())
    def test_concave_quadratic(self, data: st.DataObject) -> None:
        """Correlated coordinates and an optimum anywhere: bounded least squares."""
        dim = data.draw(st.integers(1, 5))
        seed = data.draw(st.integers(0, 1000))
        bounds = data.draw(boxes(dim))
        low, high = bounds
        A = torch.eye(dim).double() + uniform(dim, dim, seed=seed)
        A = A / (high - low)
        target = A @ (low + (high - low) * (2 * uniform(dim, seed=seed + 1) - 0.5))
        X, value = maximize(
            lambda X: -0.5 * (X @ A.mT - target).square().sum(dim=-1), bounds, seed=0
        )
        solution = lsq_linear(
            A.numpy(), target.numpy(), (low.numpy(), high.numpy()), tol=1e-14
        )
        assert abs(value.item() + solution.cost) <= 1e-8 * (1 + solution.cost)
        assert ((low <= X) & (high >= X)).all()

    def test_curved_valley(self) -> None:
        _, value = maximize(
            lambda X: (
                -(1 - X[..., 0]).square()
                - 100 * (X[..., 1] - X[..., 0].square()).square()
            ),
            double([[-2.0, -1.0], [2.0, 3.0]]),
            seed=0,
        )
        assert -1e-8 <= value <= 0


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class TestIndependence:
    @pytest.mark.parametrize("dim", [1, 3, 6])
    def test_batch_equals_loop(self, dim: int) -> None:
        function = Bumps(dim, 3, 2, seed=dim)
        X, values = maximize(function, unit_box(dim), function.batch_shape, seed=3)
        assert X.shape == (3, 2, dim)
        for index in itertools.product(range(3), range(2)):
            single = maximize(function.element(*index), unit_box(dim), seed=3)
            # Values to rounding, maximizers to the root of it.
            torch.testing.assert_close(values[index], single[1], rtol=1e-12, atol=0)
            torch.testing.assert_close(X[index], single[0], rtol=0, atol=1e-6)

    def test_of_difficult_companions(self) -> None:
        """Constant, steep, and undefined companions change nothing."""

        def easy(X: Tensor) -> Tensor:
            return (7 * X).sin().sum(dim=-1)

        def all_together(X: Tensor) -> Tensor:
            X = X.expand(-1, 4, -1)
            return torch.stack(
                [
                    easy(X[:, 0]),
                    0.0 * X[:, 1].sum(dim=-1),
                    1e8 * -(X[:, 2] - 0.3).abs().sum(dim=-1),
                    torch.nan * X[:, 3].sum(dim=-1),
                ],
                dim=-1,
            )

        X, values = maximize(all_together, unit_box(2), torch.Size([4]), seed=0)
        alone = maximize(easy, unit_box(2), seed=0)
        torch.testing.assert_close(X[0], alone[0], rtol=0, atol=1e-6)
        torch.testing.assert_close(values[0], alone[1], rtol=1e-12, atol=0)
        assert values[1] == 0
        assert -1e3 < values[2] <= 0
        assert is_within(X, unit_box(X.shape[-1]))

    def test_scale_of_values(self) -> None:
        """A factor on the function does not move its maximizer."""
        function = Bumps(3, seed=4)
        X, _ = maximize(function, unit_box(3), seed=0)
        for factor in (1e-100, 1e-6, 1e6, 1e100):
            scaled = maximize(lambda X, c=factor: c * function(X), unit_box(3), seed=0)
            torch.testing.assert_close(scaled[0], X, rtol=0, atol=1e-6)


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
    def test_constant(self, constant: float) -> None:
        X, values = maximize(
            lambda X: constant + 0.0 * X.sum(dim=-1).expand(-1, 3),
            unit_box(2),
            torch.Size([3]),
            seed=0,
        )
        assert X.shape == (3, 2)
        assert is_within(X, unit_box(X.shape[-1]))
        assert (values == constant).all()

    def test_plateau(self) -> None:
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


class TestStarts:
    def test_extra_starts(self) -> None:
        """A peak too narrow for the quasi-random points is found from beside it."""
        needles = double([[0.123, 0.456], [0.654, 0.321]])

        def function(X: Tensor) -> Tensor:
            squares = (X - needles).square().sum(dim=-1)
            return 5 * (-squares / (2 * 0.002**2)).exp() - (X - 0.9).square().sum(-1)

        box, batch = unit_box(2), torch.Size([2])
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

    def test_ties(self) -> None:
        U = uniform(8, 2)
        chosen = choose_starts(U, torch.zeros(8).double(), 3, seed=0)
        assert chosen.shape == (3, 2)
        assert len({tuple(row) for row in chosen.tolist()}) == 3


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


class TestEffort:
    def count(self, options: SearchOptions, function: Function, dim: int) -> list[int]:
        """The number of points in each call."""
        calls = []

        def counted(X: Tensor) -> Tensor:
            calls.append(X.shape[:-1].numel())
            return function(X)

        maximize(counted, unit_box(dim), options=options, seed=0)
        return calls

    def rosenbrock(self, X: Tensor) -> Tensor:
        """Too curved to end early."""
        X = 4 * X - 2
        return -((1 - X[..., 0]) ** 2) - 1000 * (X[..., 1] - X[..., 0] ** 2) ** 2

    @pytest.mark.parametrize("budget", [1, 2, 7, 15])
    def test_budget(self, budget: int) -> None:
        options = SearchOptions(5, 32, max_evaluations=budget)
        calls = self.count(options, self.rosenbrock, 2)
        assert calls[0] == 32
        assert len(calls) == 1 + budget
        assert max(calls[1:]) <= 5  # those who gave up are not evaluated any more

    def test_stops_when_done(self) -> None:
        options = SearchOptions(5, 32, max_evaluations=1000)
        calls = self.count(options, lambda X: -(X - 0.4).square().sum(dim=-1), 3)
        assert len(calls) < 40

    def test_coarse_gain_ends_earlier(self) -> None:
        def function(X: Tensor) -> Tensor:
            return 1 + 1e-3 * self.rosenbrock(X)

        fine, coarse = (
            SearchOptions(5, 32, max_evaluations=200, relative_gain=gain)
            for gain in (1e-14, 1e-6)
        )
        counts = [len(self.count(options, function, 2)) for options in (fine, coarse)]
        assert counts[1] < counts[0]
        value = maximize(function, unit_box(2), options=coarse, seed=0)[1]
        assert 1 - 1e-5 < value <= 1

    def test_no_loss_of_the_starts(self) -> None:
        """However small the budget, the result is not worse than the best start."""
        for budget in (1, 3):
            options = SearchOptions(4, 64, max_evaluations=budget)
            starts = find_starts(
                self.rosenbrock, unit_box(2), torch.Size(), options, seed=0
            )
            best = self.rosenbrock(starts).max()
            value = maximize_from(self.rosenbrock, starts, unit_box(2), options)[1]
            assert value >= best


class TestRandomness:
    def setup_method(self) -> None:
        self.function = Bumps(2, seed=2)
        self.options = SearchOptions(num_restarts=2, raw_samples=4, max_evaluations=2)

    def search(self, seed: int | None) -> Tensor:
        return maximize(self.function, unit_box(2), options=self.options, seed=seed)[0]

    def test_seed(self) -> None:
        assert torch.equal(self.search(3), self.search(3))
        assert not torch.equal(self.search(3), self.search(4))

    def test_seed_leaves_the_global_generator_alone(self) -> None:
        state = torch.get_rng_state()
        self.search(11)
        assert torch.equal(torch.get_rng_state(), state)

    def test_global_generator(self) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(5)
            first = self.search(None), self.search(None)
            torch.manual_seed(5)
            second = self.search(None), self.search(None)
        assert torch.equal(first[0], second[0])
        assert torch.equal(first[1], second[1])
        assert not torch.equal(first[0], first[1])


class TestSurroundings:
    def test_dtype_and_batch_shape(self) -> None:
        for dtype in (torch.float, torch.double):
            for batch_shape in ((), (2,), (2, 1, 3)):
                box = unit_box(2).to(dtype)
                target = uniform(*batch_shape, 2, seed=1).to(dtype)
                X, values = maximize(
                    lambda X, t=target: -(X - t).square().sum(dim=-1),
                    box,
                    torch.Size(batch_shape),
                    seed=0,
                )
                assert X.dtype == dtype
                assert values.dtype == dtype
                assert values.shape == torch.Size(batch_shape)
                torch.testing.assert_close(X, target, rtol=0, atol=1e-3)

    def test_without_gradients_around(self) -> None:
        function = Bumps(2, seed=2)
        expected = maximize(function, unit_box(2), seed=0)
        with torch.no_grad():
            found = maximize(function, unit_box(2), seed=0)
        assert torch.equal(found[0], expected[0])
        assert not found[0].requires_grad
        assert not expected[1].requires_grad

    def test_device(self) -> None:
        box, function = unit_box(3), Bumps(3, 2)
        with RequireDevice():
            maximize(function, box, torch.Size([2]), seed=77)


class TestChooseBest:
    def test_each_function_has_its_own(self) -> None:
        points = uniform(5, 2, 3)
        values = double([[1.0, 0.0], [5.0, 2.0], [3.0, 9.0], [4.0, 1.0], [0.0, 3.0]])
        best = choose_best(points, values, 2)
        torch.testing.assert_close(best[:, 0], points[[1, 3], 0])
        torch.testing.assert_close(best[:, 1], points[[2, 4], 1])
        assert choose_best(points, values, 9).shape == (5, 2, 3)


class TestNoDimensions:
    """A box of one point."""

    def test_value(self) -> None:
        constant = double([2.0, 3.0])
        point, value = maximize(
            lambda x: constant + x.sum(dim=-1), double([[], []]), torch.Size([2])
        )
        assert point.shape == (2, 0)
        assert torch.equal(value, constant)
