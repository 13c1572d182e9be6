from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from botorch.test_functions.base import BaseTestProblem
from botorch.test_functions.synthetic import (
    EggHolder,
    Hartmann,
    HolderTable,
    Shekel,
    SixHumpCamel,
    SyntheticTestFunction,
)
from botorch.utils.testing import (
    BaseTestProblemTestCaseMixIn,
    BotorchTestCase,
    SyntheticTestFunctionTestCaseMixin,
)
from scipy.optimize import minimize
from torch import Tensor
from torch.quasirandom import SobolEngine

from botorch_binary_context.problems import BENCHMARKS, functions
from tests.devices import RequireDevice
from tests.problems.golden import GOLDEN, authors_form, rows
from tests.tensors import double, uniform


def points_in_box(function: SyntheticTestFunction, n: int, seed: int = 0) -> Tensor:
    unit = SobolEngine(function.dim, scramble=True, seed=seed).draw(n).double()
    low, high = function.get_buffer("bounds")
    return torch.lerp(low, high, unit)


def descend(function: SyntheticTestFunction, start: Tensor) -> float:
    """The value where L-BFGS-B ends in the box."""

    def value_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
        point = torch.tensor(x, requires_grad=True)
        value = function(point)
        value.backward()
        assert point.grad is not None
        return value.item(), point.grad.numpy()

    bounds = function.get_buffer("bounds").T.numpy()
    options = {"ftol": 1e-15, "gtol": 1e-10}
    found = minimize(
        value_and_gradient, start.numpy(), jac=True, bounds=bounds, options=options
    )
    return float(found.fun)


class TestAllFunctions(
    BaseTestProblemTestCaseMixIn, SyntheticTestFunctionTestCaseMixin, BotorchTestCase
):
    def setUp(self, suppress_input_warnings: bool = False) -> None:
        """Keep the filters of the test run, which BoTorch's own ``setUp`` resets."""

    @property
    def functions(self) -> Sequence[BaseTestProblem]:
        return [benchmark.make_function() for benchmark in BENCHMARKS.values()]


class TestValues:
    def test_golden_values(self, subtests: pytest.Subtests) -> None:
        assert len(GOLDEN) == 34
        for benchmark, row in rows():
            with subtests.test(benchmark.name):
                values = benchmark.make_function()(double(row["points"]))
                found = -authors_form(benchmark.name, values)
                expected = double(row["value_to_maximise"])
                torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-10)

    def test_single_precision(self, subtests: pytest.Subtests) -> None:
        for name, benchmark in BENCHMARKS.items():
            function = benchmark.make_function()
            points = points_in_box(function, 64).float()
            expected = function(points.double())
            single = benchmark.make_function().to(torch.float)
            with subtests.test(name):
                scale = float(expected.std())
                error = (single(points).double() - expected).abs().max()
                assert float(error) / scale < 1e-3

    def test_gradients_are_finite(self, subtests: pytest.Subtests) -> None:
        for name, benchmark in BENCHMARKS.items():
            function = benchmark.make_function()
            points = points_in_box(function, 64).requires_grad_()
            (gradient,) = torch.autograd.grad(function(points).sum(), points)
            with subtests.test(name):
                assert bool(gradient.isfinite().all())
                assert bool((gradient.abs().sum(dim=-1) > 0).all())

    def test_copy_and_pickle(self, subtests: pytest.Subtests) -> None:
        for name, benchmark in BENCHMARKS.items():
            function = benchmark.make_function()
            points = points_in_box(function, 3)
            with subtests.test(name):
                for other in (
                    copy.deepcopy(function),
                    pickle.loads(pickle.dumps(function)),
                ):
                    assert torch.equal(other(points), function(points))

    def test_makes_nothing_on_the_default_device(self) -> None:
        for benchmark in BENCHMARKS.values():
            with RequireDevice():
                function = benchmark.make_function()
                function(function.optimizers)


class TestOptima:
    def test_value_at_the_optimizers(self, subtests: pytest.Subtests) -> None:
        for name, benchmark in BENCHMARKS.items():
            function = benchmark.make_function()
            values = function(function.optimizers)
            expected = torch.full_like(values, function.optimal_value)
            with subtests.test(name):
                torch.testing.assert_close(values, expected, rtol=1e-12, atol=1e-12)

    def test_optimizers_are_different_points_of_the_box(
        self, subtests: pytest.Subtests
    ) -> None:
        for name, benchmark in BENCHMARKS.items():
            function = benchmark.make_function()
            low, high = function.get_buffer("bounds")
            points = torch.as_tensor(function.optimizers)
            with subtests.test(name):
                assert bool(((points >= low) & (points <= high)).all())
                assert len(points.unique(dim=0)) == len(points)

    def test_no_point_is_better(self, subtests: pytest.Subtests) -> None:
        for name, benchmark in BENCHMARKS.items():
            function = benchmark.make_function()
            points = points_in_box(function, 2**13)
            starts = points[function(points).argsort()[:8]]
            best = min(descend(function, start) for start in starts)
            optimum = function.optimal_value
            with subtests.test(name):
                assert best >= optimum - 1e-12 * max(1.0, abs(optimum))
                # The search is not in vain, but where the optimum is one of hundreds.
                if name not in ("Eggholder", "Griewank", "Schaffer n4"):
                    assert best < optimum + 1e-6

    def test_two_minima_of_perm(self) -> None:
        for function, expected in (
            (functions.Perm0(), [[1, 1 / 2], [11 / 23, 45 / 46]]),
            (functions.PermD(), [[1, 2], [23 / 13, 14 / 13]]),
        ):
            torch.testing.assert_close(function.optimizers, double(expected))

    def test_ursem_waves_at_the_corner(self) -> None:
        function = functions.UrsemWaves()
        corner = float(function(double([1.2, 1.2])))
        assert corner > function.optimal_value + 2e-3
        assert corner < function.optimal_value + 3e-3


class TestPrecise:
    cases: tuple[tuple[SyntheticTestFunction, SyntheticTestFunction], ...] = (
        (functions.PreciseEggHolder(), EggHolder()),
        (functions.PreciseHolderTable(), HolderTable()),
        (functions.PreciseSixHumpCamel(), SixHumpCamel()),
        (functions.PreciseShekel(), Shekel()),
        (functions.PreciseHartmann(3), Hartmann(3)),
        (functions.PreciseHartmann(4), Hartmann(4)),
        (functions.PreciseHartmann(), Hartmann()),
    )

    def test_values_are_those_of_botorch(self, subtests: pytest.Subtests) -> None:
        for precise, stock in self.cases:
            points = points_in_box(precise, 64)
            with subtests.test(f"{stock}"):
                torch.testing.assert_close(
                    precise(points), stock(points), rtol=1e-6, atol=1e-7
                )

    def test_optima_are_those_of_botorch(self, subtests: pytest.Subtests) -> None:
        for precise, stock in self.cases:
            if isinstance(stock, Hartmann) and stock.dim == 4:
                continue
            with subtests.test(f"{stock}"):
                assert precise.optimal_value == pytest.approx(
                    stock.optimal_value, rel=0, abs=0.5e-4
                )
                torch.testing.assert_close(
                    precise.optimizers, stock.optimizers, rtol=0, atol=2e-4
                )

    def test_options_of_botorch(self) -> None:
        X = uniform(3, 4)
        for make in (functions.PreciseHartmann, functions.PreciseShekel):
            kwargs: dict[str, Any] = (
                {} if make is functions.PreciseShekel else {"dim": 4}
            )
            function = make(**kwargs)
            negated = make(negate=True, **kwargs)
            assert torch.equal(negated(X), -function(X))
            assert negated.optimal_value == -function.optimal_value
            single = make(dtype=torch.float, **kwargs)
            assert single(X.float()).dtype == torch.float
            assert single.optimizers.dtype == torch.float
