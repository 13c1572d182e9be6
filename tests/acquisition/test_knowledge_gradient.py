from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from botorch.acquisition import FixedFeatureAcquisitionFunction
from torch import Tensor

from botorch_binary_context import (
    BinaryLaplaceGP,
    ContextSpace,
    ContextualBinaryKnowledgeGradient,
    PreferenceLaplaceGP,
)
from botorch_binary_context.acquisition import knowledge_gradient as module
from botorch_binary_context.acquisition.fantasies import EXACT
from tests.acquisition.by_hand import grid_maximum
from tests.acquisition.problems import (
    KINDS,
    Problem,
    assert_batch_equals_loop,
    assert_close,
    assert_right_gradient,
    inner_maximum,
    knowledge_gradient_by_hand,
    nested,
    one_shot,
    optimize,
)
from tests.golden_numbers import golden_kernel, load_golden
from tests.small_models import MODEL_CLASSES, ModelClass
from tests.tensors import double

both_models = pytest.mark.parametrize("model_class", MODEL_CLASSES)


# -------------------------------------------------------------------------- brute force


def assert_equals_brute_force(problem: Problem, num_candidates: int = 3) -> None:
    """The nested form; and the one-shot form at the maximizers found by hand."""
    X = problem.candidates(num_candidates)
    results = [knowledge_gradient_by_hand(problem, trial) for trial in X.numpy()]
    values, maximizers = zip(*results, strict=True)
    assert np.abs(values).max() > 1e-3
    assert_close(nested(problem)(X), values, 1e-9)
    inner = problem.space.at_reference(double(np.stack(maximizers)))
    found = one_shot(problem)(torch.cat([X, inner], dim=-2))
    assert_close(found, values, 1e-9)


@both_models
@pytest.mark.parametrize("parameters", [1, 2])
class TestBruteForce:
    @pytest.mark.parametrize("kind", KINDS)
    def test_agrees_for_every_kernel(
        self, model_class: ModelClass, parameters: int, kind: str
    ) -> None:
        assert_equals_brute_force(Problem(kind, parameters, model_class))

    def test_prior_mean(self, model_class: ModelClass, parameters: int) -> None:
        problem = Problem("product", parameters, model_class, constant=0.7)
        assert_equals_brute_force(problem)

    def test_input_transform(self, model_class: ModelClass, parameters: int) -> None:
        for kind in ("multiplicative", "none"):
            problem = Problem(kind, parameters, model_class, normalized=True)
            assert_equals_brute_force(problem)

    def test_more_contexts(self, model_class: ModelClass, parameters: int) -> None:
        for contexts, kind in ((2, "multiplicative"), (3, "product")):
            problem = Problem(kind, parameters, model_class, contexts=contexts)
            assert_equals_brute_force(problem)

    def test_without_data(self, model_class: ModelClass, parameters: int) -> None:
        problem = Problem("additive", parameters, model_class, n=0, constant=0.2)
        assert_equals_brute_force(problem)

    def test_more_data(self, model_class: ModelClass, parameters: int) -> None:
        problem = Problem("product", parameters, model_class, n=40)
        assert_equals_brute_force(problem)


class TestBruteForceWithGuesses:
    def test_agrees_for_every_kernel(self) -> None:
        for kind in KINDS:
            for parameters in (1, 2):
                problem = Problem(kind, parameters, guess_rate=0.25, constant=0.3)
                assert_equals_brute_force(problem, 2)


@pytest.mark.parametrize("case", load_golden("knowledge_gradient"))
class TestGolden:
    def acquisition(self, case: dict[str, Any]) -> ContextualBinaryKnowledgeGradient:
        X = double(case["z"])
        Y = double(case["c"]).unsqueeze(-1)
        kernel = golden_kernel(case["kernel"], case["hyper"])
        bounds = double([[0.0] * X.shape[-1], [1.0] * X.shape[-1]])
        return ContextualBinaryKnowledgeGradient(
            BinaryLaplaceGP(X, Y, covar_module=kernel),
            ContextSpace(bounds, [0], [case["s0"]]),
        )

    def test_values_and_best_equal_the_golden_numbers(
        self, case: dict[str, Any]
    ) -> None:
        acqf = self.acquisition(case)
        X = double(case["zq"]).unsqueeze(-2)
        assert_close(acqf(X), case["U"], 1e-10)
        assert_close(acqf.current_value, case["ybest"], 1e-10)
        assert_close(acqf.best.flatten(), np.ravel(case["xbest"]), 1e-6)

    def test_gradient_equals_the_golden_numbers(self, case: dict[str, Any]) -> None:
        # The context first. The golden gradient is itself by finite differences.
        acqf = self.acquisition(case)
        X = double(case["zq"]).unsqueeze(-2).requires_grad_()
        (found,) = torch.autograd.grad(acqf(X).sum(), X)
        assert_close(found.squeeze(-2), case["dU_fd"], 1e-6)


# --------------------------------------------------------- derivatives, batches, shapes


# Of finite differences: a maximizer that comes to a bound bends the slope.
STEP = 1e-4


def assert_is_envelope_gradient(problem: Problem, X: Tensor) -> None:
    """The nested form has the gradient of the one-shot form at its maximum."""
    inner = [knowledge_gradient_by_hand(problem, trial)[1] for trial in X.numpy()]
    points = problem.space.at_reference(double(np.stack(inner)))
    X = X.clone().requires_grad_()
    total = one_shot(problem)(torch.cat([X, points], dim=-2)).sum()
    (expected,) = torch.autograd.grad(total, X)
    (found,) = torch.autograd.grad(nested(problem)(X).sum(), X)
    assert_close(found, expected, 1e-6)


class TestHardGradients:
    def test_slow_inner_search(self) -> None:
        # Candidates whose inner search advances slowly at its end.
        for problem, index in (
            (Problem("none", 1, PreferenceLaplaceGP, 0, n=12), 133),
            (Problem("none", 1, PreferenceLaplaceGP, 2, n=12), 211),
            (Problem("additive", 2, BinaryLaplaceGP, 3, n=12), 270),
        ):
            X = problem.candidates(300, seed=11)
            assert_is_envelope_gradient(problem, X[index : index + 1])


@both_models
class TestContract:
    @pytest.mark.parametrize("kind", KINDS)
    def test_gradient_equals_finite_differences(
        self, model_class: ModelClass, kind: str
    ) -> None:
        for parameters in (1, 2):
            problem = Problem(kind, parameters, model_class)
            X = problem.candidates(4)
            assert_right_gradient(nested(problem), X, 1e-6, step=STEP)

    def test_gradient_with_everything(self, model_class: ModelClass) -> None:
        guess_rate = 0.25 if model_class is BinaryLaplaceGP else 0.0
        problem = Problem(
            "product",
            2,
            model_class,
            [0, 1],
            constant=0.3,
            guess_rate=guess_rate,
            normalized=True,
        )
        X = problem.candidates(2, 2)
        assert_right_gradient(nested(problem), X, 1e-6, step=STEP)

    def test_envelope_theorem(self, model_class: ModelClass) -> None:
        # The gradient is that at the exact inner maximizers, held fixed.
        for kind in KINDS:
            problem = Problem(kind, 1, model_class)
            assert_is_envelope_gradient(problem, problem.candidates(8))

    @pytest.mark.parametrize("kind", KINDS)
    def test_batch_equals_loop(self, model_class: ModelClass, kind: str) -> None:
        problem = Problem(kind, 2, model_class, [[0, 1, 2], [3, 4, 5]], constant=0.2)
        assert_batch_equals_loop(nested, problem)

    def test_is_the_same_without_gradients(self, model_class: ModelClass) -> None:
        problem = Problem("product", 2, model_class)
        X = problem.candidates(4)
        expected = nested(problem)(X)
        with torch.no_grad():
            assert_close(nested(problem)(X), expected, 1e-12)


# ---------------------------------------------------------------------- the nested form


@both_models
class TestNested:
    def test_screen_is_close_to_a_lower_bound(self, model_class: ModelClass) -> None:
        # Solved exactly it is a lower bound, and as it is, a thousandth from that.
        for kind in KINDS:
            problem = Problem(kind, 2, model_class, [0, 1, 2])
            acqf = nested(problem, num_points=32)
            X = problem.candidates(50, 3)
            with torch.no_grad():
                value = acqf.evaluate(X)
                estimate = acqf.screen(X)
                with mock.patch.object(module, "COARSE", EXACT):
                    exact = acqf.screen(X)
            gap = value - exact
            assert gap.min() > -1e-12
            assert 1e-6 < gap.max() < 0.1  # the local search has something to do
            assert 0 < (estimate - exact).abs().max() < 5e-3

    def test_screen_by_hand(self, model_class: ModelClass) -> None:
        problem = Problem("additive", 2, model_class)
        acqf = nested(problem)
        X = problem.candidates(3)
        points = problem.at_reference(acqf.parameters_searched.numpy())
        starts = acqf.inner_starts(X)
        by_hand = problem.by_hand
        for i, trial in enumerate(X.numpy()):
            success = by_hand.success(trial[None]).item()
            means = [by_hand.given(trial, c).mean(points) for c in (1, 0)]
            best = success * means[0].max() + (1 - success) * means[1].max()
            expected = best - inner_maximum(problem, by_hand)[1]
            assert_close(acqf.screen(X)[i], expected, 1e-3)
            chosen = [acqf.parameters_searched[m.argmax()] for m in means]
            assert torch.equal(starts[i], torch.stack(chosen))

    def test_points_searched(self, model_class: ModelClass) -> None:
        # Quasi-random ones, those of the data, and the current best.
        problem = Problem("product", 1, model_class, [0, 1, 2])
        acqf = nested(problem, num_points=16)
        rows = problem.n * problem.rows_per_trial
        assert acqf.parameters_searched.shape == (3, 16 + rows + 1, 1)
        data = problem.space.parameters(problem.model.datapoints)
        assert torch.equal(acqf.parameters_searched[:, 16:-1], data)
        again = nested(problem, num_points=16)
        assert torch.equal(again.parameters_searched, acqf.parameters_searched)
        other = nested(problem, num_points=16, seed=1)
        assert not torch.equal(other.parameters_searched, acqf.parameters_searched)

    def test_data_outside_of_the_box(self, model_class: ModelClass) -> None:
        # The inner maximum is within the box, wherever trials have been run.
        problem = Problem("none", 2, model_class)
        model = problem.model
        space = ContextSpace(double([[0.4, 0.4], [0.6, 0.6]]))
        acqf = ContextualBinaryKnowledgeGradient(model, space)
        low, high = space.bounds
        points = acqf.parameters_searched
        assert bool(((points >= low) & (points <= high)).all())
        _, expected = grid_maximum(
            lambda x: problem.by_hand.mean(problem.at_reference(x)),
            space.bounds.numpy(),
        )
        assert_close(acqf.current_value, expected, 1e-10)

    def test_current_value(self, model_class: ModelClass) -> None:
        problem = Problem("product", 2, model_class, [0, 1])
        X = problem.candidates(4, 2)
        acqf = nested(problem)
        for make in (nested, one_shot):
            given = make(problem, current_value=double([0.0, 2.0]))
            assert given.current_value.tolist() == [0.0, 2.0]
        found = nested(problem, current_value=double([0.0, 2.0]))(X)
        shift = acqf.current_value - double([0.0, 2.0])
        assert_close(found, acqf(X) + shift, 1e-9)

    def test_gain_of_an_uninformative_trial_is_nothing(
        self, model_class: ModelClass
    ) -> None:
        # f(s,x) = s g(x): at s = 0 nothing is learned.
        problem = Problem("multiplicative", 2, model_class)
        X = problem.candidates(4)
        X[..., problem.context_dims] = 0.0
        assert_close(nested(problem)(X), torch.zeros(4).double(), 1e-10)

    def test_fixed_features(self, model_class: ModelClass) -> None:
        problem = Problem("additive", 2, model_class)
        acqf = nested(problem)
        fixed = FixedFeatureAcquisitionFunction(acqf, 3, columns=[1], values=[0.3])
        X = problem.candidates(4)
        X[..., 1] = 0.3
        assert_close(fixed(X[..., [0, 2]]), acqf(X), 1e-14)
        if model_class is BinaryLaplaceGP:
            _, value = optimize(fixed, problem.space.parameter_bounds)
            others = problem.candidates(64)
            others[..., 1] = 0.3
            assert value >= acqf(others).max()

    def test_in_a_context_of_the_trial_alone(self, model_class: ModelClass) -> None:
        # The reference context counts for the inner maximum, not for the trial.
        problem = Problem("product", 1, model_class)
        other = ContextSpace(problem.bounds, [0], [0.1])
        X = problem.candidates(4)
        moved = ContextualBinaryKnowledgeGradient(problem.model, other)(X)
        assert (moved - nested(problem)(X)).abs().min() > 1e-5
