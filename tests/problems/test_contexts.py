from __future__ import annotations

import copy
import pickle

import pytest
import torch
from botorch.exceptions import InputDataError
from botorch.exceptions.errors import BotorchTensorDimensionError
from gpytorch.kernels import RBFKernel, ScaleKernel
from torch import Tensor
from torch.special import ndtr

from botorch_binary_context import (
    AdditiveContextKernel,
    BinaryLaplaceGP,
    MultiplicativeContextKernel,
    PreferenceLaplaceGP,
)
from botorch_binary_context.problems import (
    BENCHMARKS,
    BinaryContextProblem,
    ContextProblem,
    DuelContextProblem,
    ThresholdContextProblem,
    make_objective,
)
from tests.derivatives import finite_difference, jacobian
from tests.devices import RequireDevice
from tests.tensors import double, uniform

ProblemClass = (
    type[BinaryContextProblem]
    | type[DuelContextProblem]
    | type[ThresholdContextProblem]
)
CLASSES: tuple[ProblemClass, ...] = (
    BinaryContextProblem,
    DuelContextProblem,
    ThresholdContextProblem,
)


def trials(problem: ContextProblem, *shape: int, seed: int = 0) -> Tensor:
    """Trials in the space of a problem; the sides of duels share their context."""
    sides = (2,) if isinstance(problem, DuelContextProblem) else ()
    unit = uniform(*shape, *sides, problem.space.dim, seed=seed)
    if sides:
        unit[..., 1, 0] = unit[..., 0, 0]
    low, high = problem.space.bounds
    return torch.lerp(low, high, unit)


def performance(name: str, parameters: Tensor) -> Tensor:
    """``g`` at parameters in the unit cube."""
    low, high = double(BENCHMARKS[name].box).T
    return make_objective(name)(low + (high - low) * parameters)


class TestSpace:
    def test_bounds_are_the_unit_cube_and_those_of_the_context(self) -> None:
        for problem_class, context, reference in (
            (BinaryContextProblem, (0.0, 1.0), 1.0),
            (DuelContextProblem, (0.0, 1.0), 1.0),
            (ThresholdContextProblem, (-2.0, 3.0), 2.0),
        ):
            for name, dim in (("Forrester et al (2008)", 1), ("Hartmann 6D", 6)):
                space = problem_class(make_objective(name)).space
                assert space.dim == dim + 1
                assert space.context_dims == (0,)
                assert space.context_bounds.flatten().tolist() == [*context]
                unit = [[0.0] * dim, [1.0] * dim]
                assert space.parameter_bounds.tolist() == unit
                assert space.reference_context.tolist() == [reference]

    def test_follows_the_objective(self) -> None:
        for problem_class in CLASSES:
            problem = problem_class(make_objective("Levy"))
            assert problem.space.bounds.dtype == torch.double
            problem.to(torch.float)
            assert problem.space.bounds.dtype == torch.float


class TestScore:
    def test_score_is_the_performance_of_every_benchmark(
        self, subtests: pytest.Subtests
    ) -> None:
        for problem_class in CLASSES:
            for name, benchmark in BENCHMARKS.items():
                problem = problem_class(make_objective(name))
                parameters = uniform(2, 3, benchmark.dim)
                with subtests.test(name):
                    found = problem.score(parameters)
                    assert found.shape == (2, 3)
                    torch.testing.assert_close(found, performance(name, parameters))

    def test_optimal_score(self, subtests: pytest.Subtests) -> None:
        for name in BENCHMARKS:
            objective = make_objective(name)
            problem = BinaryContextProblem(objective)
            low, high = objective.bounds
            optimizers = torch.as_tensor(objective.function.optimizers)
            parameters = (optimizers - low) / (high - low)
            with subtests.test(name):
                assert problem.optimal_score == objective.optimal_value
                best = problem.score(parameters)
                expected = torch.full_like(best, problem.optimal_score)
                torch.testing.assert_close(best, expected, rtol=0, atol=1e-9)

    def test_corners_of_the_cube(self, subtests: pytest.Subtests) -> None:
        # Rounding must not take them out of the box.
        for dtype in (torch.float, torch.double):
            for name, benchmark in BENCHMARKS.items():
                objective = make_objective(name)
                corners = torch.cartesian_prod(
                    *[torch.tensor([0.0, 1.0], dtype=dtype)] * benchmark.dim
                ).reshape(-1, benchmark.dim)
                near = corners.nextafter(torch.full_like(corners, 0.5))
                for module in (objective, copy.deepcopy(objective).to(dtype)):
                    problem = ThresholdContextProblem(module)
                    for parameters in (corners, near):
                        with subtests.test(name, dtype=dtype):
                            score = problem.score(parameters)
                            assert score.dtype == dtype
                            assert bool(score.isfinite().all())

    def test_refuses_parameters_outside_and_wrong_columns(self) -> None:
        problem = BinaryContextProblem(make_objective("Levy"))
        with pytest.raises(ValueError, match="within the bounds"):
            problem.score(double([[0.5, 1.1]]))
        for columns in (1, 3):
            message = rf"parameters to have 2 columns, but got shape \[4, {columns}\]"
            with pytest.raises(BotorchTensorDimensionError, match=message):
                problem.score(uniform(4, columns))


class TestSuccessProbability:
    def test_probability_equals_the_formula_of_every_problem(self) -> None:
        for name in ("Forrester et al (2008)", "Levy", "Hartmann 3-D"):
            objective = make_objective(name)
            binary = BinaryContextProblem(objective)
            X = trials(binary, 4, 3)
            expected = ndtr(X[..., 0] * performance(name, X[..., 1:]))
            torch.testing.assert_close(binary.success_probability(X), expected)

            duel = DuelContextProblem(objective)
            X = trials(duel, 4, 3)
            values = performance(name, X[..., 1:])
            expected = ndtr(X[..., 0, 0] * (values[..., 0] - values[..., 1]))
            torch.testing.assert_close(duel.success_probability(X), expected)

            for slope in (3.0, 0.5):
                threshold = ThresholdContextProblem(objective, slope=slope)
                X = trials(threshold, 4, 3)
                expected = ndtr(slope * (performance(name, X[..., 1:]) - X[..., 0]))
                torch.testing.assert_close(threshold.success_probability(X), expected)

    def test_default_slope(self) -> None:
        objective = make_objective("Levy")
        default = ThresholdContextProblem(objective)
        X = trials(default, 5)
        steep = ThresholdContextProblem(objective, slope=3.0)
        assert torch.equal(default.latent(X), steep.latent(X))

    def test_no_difficulty_no_information(self) -> None:
        objective = make_objective("Levy")
        for problem in (BinaryContextProblem(objective), DuelContextProblem(objective)):
            X = trials(problem, 5)
            X[..., 0] = 0.0
            assert problem.success_probability(X).tolist() == [0.5] * 5

    def test_duels_are_antisymmetric(self) -> None:
        problem = DuelContextProblem(make_objective("Six-Hump Camel"))
        X = trials(problem, 20)
        forth = problem.success_probability(X)
        back = problem.success_probability(X.flip(-2))
        torch.testing.assert_close(forth + back, torch.ones_like(forth))
        equal = X[..., :1, :].expand_as(X)
        assert problem.success_probability(equal).tolist() == [0.5] * 20

    def test_maximizer_is_that_of_the_objective_in_every_context(self) -> None:
        objective = make_objective("Forrester et al (2008)")
        grid = torch.linspace(0, 1, 101, dtype=torch.double).unsqueeze(-1)
        for problem in (
            BinaryContextProblem(objective),
            ThresholdContextProblem(objective),
        ):
            best = int(problem.score(grid).argmax())
            for context in ([0.1], [0.9]):
                X = problem.space.join(grid, double(context))
                assert int(problem.success_probability(X).argmax()) == best

    def test_latent_gradients_equal_finite_differences(self) -> None:
        for problem_class in CLASSES:
            problem = problem_class(make_objective("Hartmann 3-D"))
            X = trials(problem, seed=2)
            latent = problem.latent
            expected = finite_difference(latent, X)
            torch.testing.assert_close(
                jacobian(latent, X), expected, rtol=1e-7, atol=1e-7
            )

    def test_refuses_wrong_duels_and_slopes(self) -> None:
        problem = DuelContextProblem(make_objective("Levy"))
        message = r"``X`` to hold duels, ``... x 2 x d``, but got shape "
        for shape in ((3,), (5, 3), (4, 1, 3)):
            with pytest.raises(BotorchTensorDimensionError, match=message):
                problem.success_probability(uniform(*shape))
        with pytest.raises(InputDataError, match="share their context"):
            problem.success_probability(uniform(5, 2, 3))
        for slope in (0.0, -1.0, float("nan")):
            message = f"Expected ``slope`` to be positive, but got {slope}"
            with pytest.raises(InputDataError, match=message):
                ThresholdContextProblem(make_objective("Levy"), slope=slope)


class TestObserve:
    def test_labels_are_zero_or_one_in_the_shape_of_the_trials(self) -> None:
        for problem_class in CLASSES:
            problem = problem_class(make_objective("Levy"))
            for shape in ((), (5,), (4, 1), (2, 3)):
                for dtype in (torch.float, torch.double):
                    Y = problem.observe(trials(problem, *shape).to(dtype))
                    assert Y.shape == (*shape, 1)
                    assert Y.dtype == dtype
                    assert bool(((Y == 0) | (Y == 1)).all())

    def test_frequencies_of_passes_are_the_probabilities(self) -> None:
        n = 20_000
        for problem_class in CLASSES:
            problem = problem_class(make_objective("Levy"))
            X = trials(problem, 6, seed=3)
            generator = torch.Generator().manual_seed(0)
            Y = problem.observe(X.expand(n, *X.shape), generator)
            probability = problem.success_probability(X)
            assert float(probability.max() - probability.min()) > 0.3
            error = (probability * (1 - probability) / n).sqrt()
            deviation = (Y.squeeze(-1).mean(dim=0) - probability).abs()
            assert bool((deviation <= 4 * error).all())

    def test_generator_or_global_seed_decides_the_labels(self) -> None:
        problem = BinaryContextProblem(make_objective("Levy"))
        X = trials(problem, 200)
        first, again, other = (
            problem.observe(X, torch.Generator().manual_seed(seed))
            for seed in (1, 1, 2)
        )
        assert torch.equal(first, again)
        assert not torch.equal(first, other)
        torch.manual_seed(0)
        drawn = problem.observe(X)
        torch.manual_seed(0)
        assert torch.equal(problem.observe(X), drawn)

    def test_models_take_the_trials(self) -> None:
        base = ScaleKernel(RBFKernel(ard_num_dims=3)).double()
        multiplicative = MultiplicativeContextKernel(base, context_dims=[0])
        additive = AdditiveContextKernel(base, context_dims=[0])
        for problem_class, model_class, kernel in (
            (BinaryContextProblem, BinaryLaplaceGP, multiplicative),
            (DuelContextProblem, PreferenceLaplaceGP, multiplicative),
            (ThresholdContextProblem, BinaryLaplaceGP, additive),
        ):
            problem = problem_class(make_objective("Hartmann 3-D"))
            X = trials(problem, 2, 5)
            model = model_class(X, problem.observe(X), covar_module=kernel)
            assert model.batch_shape == (2,)

    def test_copy_and_pickle(self) -> None:
        for problem_class in CLASSES:
            problem = problem_class(make_objective("Shekel"))
            X = trials(problem, 5)
            expected = problem.success_probability(X)
            for other in (copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
                assert torch.equal(other.success_probability(X), expected)

    def test_makes_nothing_on_the_default_device(self) -> None:
        for problem_class in CLASSES:
            for name in ("Levy", "Schubert", "Hartmann 4D", "Langer"):
                with RequireDevice():
                    problem = problem_class(make_objective(name))
                    problem.observe(trials(problem, 5))
