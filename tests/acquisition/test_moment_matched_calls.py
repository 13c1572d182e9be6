r"""Moment-matched knowledge gradients: how they are called, maximized and refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.kernels import RBFKernel, ScaleKernel
from torch import Tensor

from botorch_binary_context import (
    BinaryGP,
    BinaryLaplaceGP,
    ContextSpace,
    MomentMatchedKnowledgeGradient,
    MultiplicativeContextKernel,
    PreferenceGP,
    PreferenceLaplaceGP,
    suggest,
)
from botorch_binary_context.inference import (
    ExpectationPropagation,
)
from botorch_binary_context.models.latent_gp import LatentGP
from tests.acquisition.moment_matched_cases import (
    CASES,
    DUELS,
    both_models,
    by_ep,
    by_laplace,
)
from tests.acquisition.problems import (
    KINDS,
    Problem,
    assert_batch_equals_loop,
    assert_close,
    assert_right_gradient,
    optimize,
)
from tests.derivatives import finite_difference, jacobian
from tests.small_models import MODEL_CLASSES, ModelClass, random_trials
from tests.tensors import double, uniform


@both_models
class TestContract:
    @pytest.mark.parametrize("kind", KINDS)
    def test_gradient_equals_finite_differences(
        self, model_class: ModelClass, kind: str
    ) -> None:
        for parameters in (1, 2):
            problem = Problem(kind, parameters, model_class)
            X = problem.candidates(2)
            assert_right_gradient(by_ep(problem), X, 1e-6, step=1e-4)

    def test_gradient_with_everything(self, model_class: ModelClass) -> None:
        problem = Problem(
            "product",
            2,
            model_class,
            [0, 1],
            constant=0.3,
            guess_rate=0.25 if model_class is BinaryLaplaceGP else 0.0,
            normalized=True,
            contexts=2,
        )
        X = problem.candidates(2, 2)
        assert_right_gradient(by_ep(problem), X, 1e-6, step=1e-4)

    def test_joint_gradient(self, model_class: ModelClass) -> None:
        problem = Problem("product", 2, model_class)
        acqf, rows = by_ep(problem), problem.rows_per_trial
        inner = problem.space.at_reference(uniform(1, 2, 2, seed=8))
        both = torch.cat([problem.candidates(1), inner], dim=-2)

        def value(X: Tensor) -> Tensor:
            inner = problem.space.parameters(X[:, rows:])
            return acqf.evaluate_joint(X[:, :rows], inner)

        assert_close(jacobian(value, both), finite_difference(value, both), 1e-9)

    @pytest.mark.parametrize("kind", KINDS)
    def test_batch_equals_loop(self, model_class: ModelClass, kind: str) -> None:
        problem = Problem(kind, 2, model_class, [0, 1, 2], constant=0.2)
        assert_batch_equals_loop(by_ep, problem)

    def test_joint_batch_equals_loop(self, model_class: ModelClass) -> None:
        problem = Problem("product", 2, model_class, [0, 1, 2])
        X = problem.candidates(4, 3)
        inner = uniform(4, 3, 2, 2, seed=8)
        values = by_ep(problem).evaluate_joint(X, inner)
        assert values.shape == (4, 3)
        for i in range(3):
            alone = by_ep(problem.element((i,)))
            expected = alone.evaluate_joint(X[:, i], inner[:, i])
            assert_close(values[:, i], expected, 1e-9)

    def test_screen_is_the_lower_bound_at_its_own_points(
        self, model_class: ModelClass
    ) -> None:
        # A lower bound: the value at its own inner points.
        problem = Problem("product", 2, model_class, [0, 1, 2])
        acqf = by_ep(problem)
        X = problem.candidates(50, 3)
        with torch.no_grad():
            value = acqf.evaluate(X)
            estimate = acqf.screen(X)
            starts = acqf.inner_starts(X)
            assert starts.shape == (50, 3, 2, 2)
            assert_close(acqf.evaluate_joint(X, starts), estimate, 1e-12)
        gap = value - estimate
        assert gap.min() > -1e-12
        assert 1e-6 < gap.max() < 0.1  # the local search has something to do

    def test_is_largest(self, model_class: ModelClass) -> None:
        problem = Problem("additive", 2, model_class)
        acqf = by_ep(problem)
        X = problem.candidates(20)
        inner = uniform(50, 20, 2, 2, seed=8)
        others = acqf.evaluate_joint(X.expand(50, *X.shape), inner)
        assert (acqf(X) - others).min() > -1e-12

    def test_seed_repeats_itself_and_hardly_matters(
        self, model_class: ModelClass
    ) -> None:
        # The points searched hardly matter, and those of one seed repeat themselves.
        problem = Problem("product", 2, model_class)
        model = by_ep(problem).model
        X = problem.candidates(8)
        first, again, other = (
            MomentMatchedKnowledgeGradient(model, problem.space, seed=seed)(X)
            for seed in (0, 0, 1)
        )
        assert torch.equal(first, again)
        assert_close(other, first, 1e-9)


class TestDuels:
    def test_sides_are_alike(self) -> None:
        problem = Problem("product", 2, DUELS)
        X = problem.candidates(10)
        acqf = by_ep(problem)
        assert_close(acqf(X.flip(-2)), acqf(X), 1e-9)


class TestMessages:
    def test_mixed_number_of_rows(self) -> None:
        case = CASES["mixed, an outcome"]
        model = case.model(ExpectationPropagation())
        for kind, rows, message in ((0, 2, "one row"), (1, 1, "a duel, two rows")):
            asking = model.asking(kind)
            acqf = MomentMatchedKnowledgeGradient(asking, case.problem.space)
            with pytest.raises(UnsupportedError, match=message):
                acqf(uniform(4, rows, 2))

    def test_refuses_a_space_of_other_columns(self) -> None:
        space = ContextSpace(double([[0.0] * 3, [1.0] * 3]))
        with pytest.raises(InputDataError, match="the 2 columns"):
            MomentMatchedKnowledgeGradient(Problem().model, space)


class TestOptimize:
    def test_optimize_acqf(self) -> None:
        for problem in (Problem("product", 1), Problem("none", 1, DUELS)):
            acqf = by_ep(problem)
            q = problem.rows_per_trial
            _, value = optimize(acqf, problem.bounds, q=q)
            with torch.no_grad():
                others = acqf(problem.candidates(1000))
            assert value.item() >= others.max().item()


def model_to_search(
    parameters: int, seed: int, duels: bool = False, multiplicative: bool = False
) -> LatentGP:
    """A model of twelve trials in one context, the first column."""
    model_class = PreferenceLaplaceGP if duels else BinaryLaplaceGP
    X, Y = random_trials(model_class, 12, parameters + 1, seed=seed)
    dim = parameters if multiplicative else parameters + 1
    base = ScaleKernel(RBFKernel(dim)).double()
    base.outputscale = 4.0
    base.base_kernel.lengthscale = 0.3 + 0.3 * uniform(1, dim, seed=7)
    kernel = MultiplicativeContextKernel(base, [0]) if multiplicative else base
    if duels:
        X[:, 1, 0] = X[:, 0, 0]
        return PreferenceGP(X, Y, covar_module=kernel)
    return BinaryGP(X, Y, covar_module=kernel)


def space_to_search(parameters: int) -> ContextSpace:
    dim = parameters + 1
    return ContextSpace(double([[0.0] * dim, [1.0] * dim]), [0], [0.9])


def share_reached(model: LatentGP, parameters: int, num_points: int = 2000) -> float:
    """The value of the suggested trial, as a share of that of quasi-random ones."""
    space, sides = space_to_search(parameters), model.functional.num_rows
    trial = model.functional.rows(suggest(model, space, "mkg", seed=0))
    assert trial.shape == (sides, parameters + 1)
    unit = double([[0.0], [1.0]]).expand(2, 1 + sides * parameters)
    U = draw_sobol_samples(unit, n=num_points, q=1, seed=5)
    others = space.join(U[..., 1:].unflatten(-1, (sides, -1)).squeeze(-3), U[..., :1])
    acqf = MomentMatchedKnowledgeGradient(model, space)
    with torch.no_grad():
        return (acqf(trial) / acqf(others).max()).item()


class TestRule:
    @pytest.mark.parametrize("parameters", [1, 2, 3])
    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_finds_maximum(self, parameters: int, seed: int) -> None:
        for multiplicative in (False, True):
            model = model_to_search(parameters, seed, multiplicative=multiplicative)
            assert share_reached(model, parameters) > 0.99

    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_finds_maximum_of_duels(self, seed: int) -> None:
        for multiplicative in (False, True):
            model = model_to_search(1, seed, True, multiplicative)
            assert share_reached(model, 1) > 0.99

    def test_finds_a_good_trial_for_each_model_of_a_batch(self) -> None:
        # Every element of a batch of models gets a good trial of its own.
        for model_class in MODEL_CLASSES:
            problem = Problem("product", 1, model_class, [0, 1, 2])
            trials = suggest(problem.model, problem.space, "mkg", seed=0)
            trials = problem.model.functional.rows(trials)
            assert trials.shape == (3, problem.rows_per_trial, 2)
            acqf = by_laplace(problem)
            with torch.no_grad():
                others = acqf(problem.candidates(1000, 3)).amax(dim=0)
                assert (acqf(trials) / others).min() > 0.99

    def test_repeats_itself(self) -> None:
        model = model_to_search(2, 0)
        space = space_to_search(2)
        first, again = (suggest(model, space, "mkg", seed=3) for _ in range(2))
        assert torch.equal(first, again)

    def test_mixed_trials_stay_in_bounds_and_in_one_context(self) -> None:
        case = CASES["mixed, two contexts"]
        problem, model = case.problem, case.model(ExpectationPropagation())
        low, high = problem.bounds
        for kind in (0, 1):
            asking = model.asking(kind)
            trial = suggest(asking, problem.space, "mkg", seed=0)
            trial = asking.functional.rows(trial)
            assert trial.shape == (kind + 1, problem.dim)
            assert bool(((trial >= low) & (trial <= high)).all())
            contexts = problem.space.contexts(trial)
            assert torch.equal(contexts, contexts[:1].expand_as(contexts))

    def test_mixed_finds_maximum(self) -> None:
        case = CASES["mixed, a duel"]
        problem, model = case.problem, case.model(ExpectationPropagation())
        for kind, own in enumerate(
            (replace(problem, model_class=BinaryLaplaceGP), problem)
        ):
            asking = model.asking(kind)
            trial = suggest(asking, problem.space, "mkg", seed=0)
            trial = asking.functional.rows(trial)
            acqf = MomentMatchedKnowledgeGradient(asking, problem.space)
            with torch.no_grad():
                best = acqf(own.candidates(1000)).max()
                assert acqf(trial) > 0.99 * best

    def test_without_context(self) -> None:
        for model_class in MODEL_CLASSES:
            problem = Problem("none", 2, model_class)
            trial = suggest(problem.model, problem.space, "mkg", seed=0)
            trial = problem.model.functional.rows(trial)
            assert trial.shape == (problem.rows_per_trial, 2)
            acqf = by_laplace(problem)
            with torch.no_grad():
                assert acqf(trial) > 0.99 * acqf(problem.candidates(1000)).max()

    def test_input_transform(self) -> None:
        # In a box of another size the same trial is suggested, moved and stretched.
        plain = Problem("product", 1)
        other = Problem("product", 1, normalized=True)
        first, second = (
            suggest(problem.model, problem.space, "mkg", seed=0)
            for problem in (plain, other)
        )
        assert_close((second + 1) / 3, first, 1e-6)
