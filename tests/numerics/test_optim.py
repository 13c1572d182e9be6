r"""Tests of the batched maximizer."""

from __future__ import annotations

import itertools
from unittest import mock

import pytest
import torch
from botorch.test_functions import (
    Branin,
    Hartmann,
    Levy,
    SixHumpCamel,
    SyntheticTestFunction,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import lsq_linear
from torch import Tensor

from botorch_binary_context import SearchOptions
from botorch_binary_context.numerics.optim import (
    CHECK_EVERY,
    choose_best,
    find_starts,
    maximize,
    maximize_from,
)
from tests.devices import RequireDevice
from tests.numerics.hills import (
    Bumps,
    Function,
    generator,
    highest,
    is_within,
    unit_box,
)
from tests.strategies import boxes
from tests.tensors import double, uniform


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
    def test_published_maxima_are_found(
        self, function: SyntheticTestFunction, tolerance: float
    ) -> None:
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
    def test_corners_are_found_exactly(self, dim: int) -> None:
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

    def test_maxima_on_the_faces_are_found(self) -> None:
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
    def test_number_of_evaluations_is_the_budget(self, budget: int) -> None:
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

    def test_same_seed_finds_the_same_and_another_does_not(self) -> None:
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

    def test_checking_less_often_finds_the_same(self) -> None:
        function = Bumps(3, 4)
        box = unit_box(3)
        shape = torch.Size([4])
        X, values = maximize(function, box, shape, seed=0)
        with mock.patch.dict(CHECK_EVERY, cpu=4):
            found, found_values = maximize(function, box, shape, seed=0)
        # Values to rounding, maximizers to the root of it.
        torch.testing.assert_close(found_values, values, rtol=0, atol=1e-14)
        torch.testing.assert_close(found, X, rtol=0, atol=1e-8)

    def test_makes_nothing_on_the_default_device(self) -> None:
        box = unit_box(3)
        function = Bumps(3, 2)
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

    def test_value_is_that_of_the_only_point(self) -> None:
        constant = double([2.0, 3.0])
        point, value = maximize(
            lambda x: constant + x.sum(dim=-1), double([[], []]), torch.Size([2])
        )
        assert point.shape == (2, 0)
        assert torch.equal(value, constant)
