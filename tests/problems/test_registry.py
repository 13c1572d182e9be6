from __future__ import annotations

import contextlib
import copy
import io
import json
import math
import pickle
import tempfile
from pathlib import Path

import pytest
import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_binary_context.problems import (
    BENCHMARKS,
    Benchmark,
    ScaledObjective,
    get_benchmark,
    make_objective,
)
from botorch_binary_context.problems.functions import Sphere
from botorch_binary_context.problems.registry import MOMENTS_PATH
from scripts.compute_moments import (
    CHUNK,
    NUM_POINTS,
    compute_moments,
    main,
    sample_values,
)
from tests.devices import RequireDevice
from tests.problems.golden import GOLDEN, authors_form, rows
from tests.tensors import double, uniform

STORED = json.loads(MOMENTS_PATH.read_text(encoding="utf-8"))


def uniform_points(benchmark: Benchmark, n: int, seed: int = 0) -> Tensor:
    low, high = double(benchmark.box).T
    return torch.lerp(low, high, uniform(n, benchmark.dim, seed=seed))


def standard_errors(values: Tensor, n: int) -> tuple[float, float]:
    """Of the mean and the variance of ``n`` values distributed like these."""
    squares = (values - values.mean()).square()
    return float(values.std()) / math.sqrt(n), float(squares.std()) / math.sqrt(n)


def unscaled(objective: ScaledObjective, X: Tensor) -> Tensor:
    """What is to be maximized, in the units of the function."""
    return objective(X) * math.sqrt(objective.variance) + objective.mean


class TestTable:
    def test_rows_are_the_papers(self, subtests: pytest.Subtests) -> None:
        assert list(BENCHMARKS) == list(GOLDEN)
        for benchmark, row in rows():
            with subtests.test(benchmark.name):
                assert benchmark.dim == row["dim"]
                box = list(zip(row["lower"], row["upper"], strict=True))
                assert list(benchmark.box) == box
                assert benchmark.kernel == row["kernel"]
                assert benchmark.log == row["authors_take_log"]

    def test_functions_live_on_the_box(self, subtests: pytest.Subtests) -> None:
        for name, benchmark in BENCHMARKS.items():
            function = benchmark.make_function()
            with subtests.test(name):
                assert get_benchmark(name) == benchmark
                assert function.dim == benchmark.dim
                bounds = function.get_buffer("bounds")
                assert torch.equal(bounds, double(benchmark.box).T)

    def test_logarithm_is_where_the_authors_say(
        self, subtests: pytest.Subtests
    ) -> None:
        logged = [name for name, benchmark in BENCHMARKS.items() if benchmark.log]
        assert len(logged) == 17
        for name, benchmark in BENCHMARKS.items():
            with subtests.test(name):
                positive = benchmark.make_function().optimal_value >= 0.0
                varied = STORED[name]["plain"]["variance"] > 100.0
                assert benchmark.log == (positive and varied)

    def test_unknown_name(self) -> None:
        message = r"Expected ``name`` to be one of \['Ackley', .*\], but got 'Branin'"
        for function in (get_benchmark, make_objective):
            with pytest.raises(InputDataError, match=message):
                function("Branin")


class TestMoments:
    def test_stored_moments_are_those_of_the_authors_functions(
        self, subtests: pytest.Subtests
    ) -> None:
        for benchmark, row in rows():
            values = authors_form(benchmark.name, sample_values(benchmark, 2**14))
            mean, variance = STORED[benchmark.name]["plain"].values()
            if benchmark.name == "Hartmann 6D":
                mean, variance = (mean + 2.58) / 1.94, variance / 1.94**2
            errors = standard_errors(values, 1_000_000)
            with subtests.test(benchmark.name):
                assert abs(mean + row["raw_mean"]) < 5 * errors[0]
                assert abs(variance - row["raw_variance"]) < 5 * errors[1]

    def test_stored_moments_are_those_of_another_sample(
        self, subtests: pytest.Subtests
    ) -> None:
        n = 2**14
        for name, benchmark in BENCHMARKS.items():
            values = benchmark.make_function()(uniform_points(benchmark, n))
            for key, moments in STORED[name].items():
                y = -values.log1p() if key == "log1p" else -values
                errors = standard_errors(y, n)
                with subtests.test(name, key=key):
                    assert abs(float(y.mean()) - moments["mean"]) < 5 * errors[0]
                    difference = abs(float(y.var()) - moments["variance"])
                    assert difference < 6 * errors[1]

    def test_exact_moments(self) -> None:
        # Of x², with x uniform on [-a, a]: mean a²/3, variance 4a⁴/45.
        sphere, squares = STORED["Sphere"]["plain"], STORED["Sum Squares"]["plain"]
        assert sphere["mean"] == pytest.approx(-2 * 5.12**2 / 3, rel=0, abs=0.5e-5)
        assert sphere["variance"] == pytest.approx(8 * 5.12**4 / 45, rel=0, abs=0.5e-2)
        assert squares["mean"] == pytest.approx(-100.0, rel=0, abs=0.5e-4)
        assert squares["variance"] == pytest.approx(5 * 4 * 1e4 / 45, rel=0, abs=0.5e-1)

    def test_stored_moments_are_reproduced(self) -> None:
        for name in ("Forrester et al (2008)", "Levy", "Perm d,β"):
            found = compute_moments(BENCHMARKS[name], NUM_POINTS)
            assert found.keys() == STORED[name].keys()
            for key, moments in found.items():
                for moment, value in moments.items():
                    expected = STORED[name][key][moment]
                    assert value / expected == pytest.approx(1.0, rel=0, abs=0.5e-10)

    def test_sample_begins_alike_for_every_size_and_has_no_repeats(self) -> None:
        benchmark = BENCHMARKS["Trid"]
        values = sample_values(benchmark, CHUNK + 3)
        assert values.shape == (CHUNK + 3,)
        assert values.dtype == torch.double
        assert torch.equal(values[:10], sample_values(benchmark, 10))
        assert not torch.equal(values[:10], sample_values(benchmark, 10, seed=1))
        assert len(values.unique()) == len(values)

    def test_command_writes_the_moments_of_every_function(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "moments.json"
            with contextlib.redirect_stderr(io.StringIO()):
                main(["--points", "8", "--output", str(path)])
            written = json.loads(path.read_text(encoding="utf-8"))
        assert list(written) == list(STORED)
        for name, benchmark in BENCHMARKS.items():
            assert written[name] == compute_moments(benchmark, 8)
            assert list(written[name]) == list(STORED[name])


class TestScaledObjective:
    def test_scaled_values_equal_the_formula(self) -> None:
        X = uniform(3, 5, 2)
        plain = ScaledObjective(Sphere(), mean=-3.0, variance=4.0)
        squares = X.square().sum(dim=-1)
        torch.testing.assert_close(plain(X), (3 - squares) / 2)
        assert plain.optimal_value == 1.5
        logged = ScaledObjective(Sphere(), mean=-3.0, variance=4.0, log=True)
        torch.testing.assert_close(logged(X), (3 - (1 + squares).log()) / 2)
        assert logged.optimal_value == 1.5
        assert plain.dim == 2
        assert torch.equal(plain.bounds, double([[-5.12] * 2, [5.12] * 2]))

    def test_optimal_value(self, subtests: pytest.Subtests) -> None:
        for name in BENCHMARKS:
            for log in (True, False):
                objective = make_objective(name, log=log)
                values = objective(objective.function.optimizers)
                expected = torch.full_like(values, objective.optimal_value)
                with subtests.test(name, log=log):
                    torch.testing.assert_close(values, expected, rtol=0, atol=1e-9)
                    sample = objective(uniform_points(BENCHMARKS[name], 2**12))
                    assert float(sample.max()) < objective.optimal_value
                    assert math.isfinite(objective.optimal_value)

    def test_mean_and_variance(self, subtests: pytest.Subtests) -> None:
        n = 2**14
        for name, benchmark in BENCHMARKS.items():
            values = make_objective(name)(uniform_points(benchmark, n, seed=1))
            errors = standard_errors(values, n)
            with subtests.test(name):
                assert abs(float(values.mean())) < 5 * errors[0]
                assert abs(float(values.var()) - 1.0) < 6 * errors[1]

    def test_logarithm_is_taken_where_the_benchmark_says_so(
        self, subtests: pytest.Subtests
    ) -> None:
        for name, benchmark in BENCHMARKS.items():
            X = uniform_points(benchmark, 16)
            logged = make_objective(name)
            plain = make_objective(name, log=False)
            values = benchmark.make_function()(X)
            with subtests.test(name):
                assert logged.log == benchmark.log
                assert not plain.log
                torch.testing.assert_close(unscaled(plain, X), -values)
                expected = -(1 + values).log() if benchmark.log else -values
                torch.testing.assert_close(unscaled(logged, X), expected)

    def test_single_precision(self, subtests: pytest.Subtests) -> None:
        for name, benchmark in BENCHMARKS.items():
            objective = make_objective(name)
            low, high = double(benchmark.box).T.float()
            X = torch.lerp(low, high, 0.1 + 0.8 * uniform(8, benchmark.dim).float())
            with subtests.test(name):
                values = objective(X)
                assert values.dtype == torch.float
                # The objective stays as precise as it was.
                assert objective.bounds.dtype == torch.double
                assert torch.equal(objective(X.double()).float(), values)
                single = make_objective(name).to(torch.float)
                assert single.bounds.dtype == torch.float
                torch.testing.assert_close(single(X), values, rtol=1e-3, atol=1e-3)

    def test_outside_the_box(self) -> None:
        with pytest.raises(ValueError, match="within the bounds"):
            make_objective("Sphere")(double([[0.0, 5.13]]))

    def test_copy_and_pickle(self) -> None:
        objective = make_objective("Hartmann 4D")
        X = uniform(3, 4)
        for other in (copy.deepcopy(objective), pickle.loads(pickle.dumps(objective))):
            assert torch.equal(other(X), objective(X))
            assert other.optimal_value == objective.optimal_value

    def test_makes_nothing_on_the_default_device(self) -> None:
        with RequireDevice():
            for name, benchmark in BENCHMARKS.items():
                make_objective(name)
                compute_moments(benchmark, 4)
