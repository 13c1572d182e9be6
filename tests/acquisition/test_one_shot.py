from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from gpytorch.kernels import RQKernel, ScaleKernel
from torch import Tensor

from botorch_binary_context import (
    BinaryLaplaceGP,
    ContextualBinaryKnowledgeGradient,
    OneShotContextualBinaryKnowledgeGradient,
    PreferenceLaplaceGP,
    gen_one_shot_knowledge_gradient_initial_conditions,
)
from botorch_binary_context.acquisition.joint_search import (
    maximize_knowledge_gradient,
)
from botorch_binary_context.acquisition.posterior_mean import maximize_posterior_mean
from tests.acquisition.problems import (
    KINDS,
    Problem,
    assert_close,
    assert_right_gradient,
    inner_maximum,
    nested,
    one_shot,
    optimize,
)
from tests.closeness import assert_all_close
from tests.devices import RequireDevice
from tests.small_models import MODEL_CLASSES, ModelClass
from tests.tensors import double, uniform

both_models = pytest.mark.parametrize("model_class", MODEL_CLASSES)


def conditioned_means(
    problem: Problem, X: Tensor, inner: Tensor
) -> tuple[Tensor, Tensor]:
    """At the first inner point given a pass, and at the second given a fail."""
    trials = X if problem.rows_per_trial == 1 else X.unsqueeze(-3)
    Y = torch.ones(*X.shape[:-2], 1, 1, dtype=X.dtype)
    passed = problem.model.condition_on_observations(trials, Y)
    failed = problem.model.condition_on_observations(trials, 1 - Y)
    return (
        passed.posterior_mean(inner[..., :1, :]).squeeze(-1),
        failed.posterior_mean(inner[..., 1:, :]).squeeze(-1),
    )


@both_models
class TestOneShot:
    def inner_points(self, problem: Problem, *shape: int) -> Tensor:
        return problem.space.at_reference(uniform(*shape, 2, problem.parameters))

    def test_adds_two_rows_and_extracts_the_candidates(
        self, model_class: ModelClass
    ) -> None:
        problem = Problem("product", 1, model_class)
        acqf, q = one_shot(problem), problem.rows_per_trial
        assert acqf.get_augmented_q_batch_size(q) == q + 2
        X = problem.candidates(5, 4)
        full = torch.cat([X, self.inner_points(problem, 5, 4)], dim=-2)
        assert torch.equal(acqf.extract_candidates(full), X)

    def test_order_of_outcomes(self, model_class: ModelClass) -> None:
        # The first further row is for a pass, the second for a fail.
        problem = Problem("additive", 2, model_class)
        X = problem.candidates(1)
        inner = self.inner_points(problem, 1)
        by_hand, trial = problem.by_hand, X[0].numpy()
        success = by_hand.success(trial[None]).item()
        points = inner[0].unsqueeze(-2).numpy()
        passed, failed = (by_hand.given(trial, c).mean(points) for c in (1, 0))
        expected = success * passed[0] + (1 - success) * failed[1]
        expected -= inner_maximum(problem, by_hand)[1]
        found = one_shot(problem)(torch.cat([X, inner], dim=-2))
        assert_close(found, [expected], 1e-9)

    def test_is_a_lower_bound(self, model_class: ModelClass) -> None:
        for kind in KINDS:
            problem = Problem(kind, 2, model_class)
            X = problem.candidates(50)
            inner = self.inner_points(problem, 50)
            with torch.no_grad():
                value = one_shot(problem)(torch.cat([X, inner], dim=-2))
                assert bool((value <= nested(problem)(X) + 1e-12).all())

    def test_contexts_of_the_inner_points_do_not_count(
        self, model_class: ModelClass
    ) -> None:
        problem = Problem("additive", 2, model_class, contexts=2)
        X = problem.candidates(3)
        inner = self.inner_points(problem, 3)
        acqf = one_shot(problem)
        expected = acqf(torch.cat([X, inner], dim=-2))
        inner[..., problem.context_dims] = 17.0
        assert_close(acqf(torch.cat([X, inner], dim=-2)), expected, 1e-14)

    def test_gradient_equals_finite_differences(self, model_class: ModelClass) -> None:
        for kind in KINDS:
            problem = Problem(kind, 2, model_class, [0, 1], normalized=True)
            X = problem.candidates(2, 2)
            full = torch.cat([X, self.inner_points(problem, 2, 2)], dim=-2)
            assert_right_gradient(one_shot(problem), full, 1e-8)

    def test_batch_equals_loop(self, model_class: ModelClass) -> None:
        for kind in KINDS:
            problem = Problem(kind, 2, model_class, [[0, 1, 2], [3, 4, 5]])
            inner = self.inner_points(problem, 4, 2, 3)
            full = torch.cat([problem.candidates(4, 2, 3), inner], dim=-2)
            values = one_shot(problem)(full)
            for index in np.ndindex(2, 3):
                at = (slice(None), *index)
                alone = one_shot(problem.element(index))
                assert_close(values[at], alone(full[at]), 1e-9)

    def test_t_batches(self, model_class: ModelClass) -> None:
        for elements in (0, [0, 1, 2]):
            problem = Problem("product", 1, model_class, elements)
            batch_shape = problem.model.batch_shape
            inner = self.inner_points(problem, 5, 4, *batch_shape)
            full = torch.cat([problem.candidates(5, 4, *batch_shape), inner], dim=-2)
            acqf = one_shot(problem)
            values = acqf(full)
            assert values.shape == (5, 4, *batch_shape)
            alone = acqf(full[4, 3]).reshape(batch_shape)
            assert_close(values[4, 3], alone, 1e-12)

    def test_any_kernel(self, model_class: ModelClass) -> None:
        # Also one that the package leaves to GPyTorch, against conditioned models.
        for elements in (0, [0, 1, 2]):
            problem = Problem("none", 2, model_class, elements)
            batch_shape = problem.model.batch_shape
            base = RQKernel(batch_shape=batch_shape)
            kernel = ScaleKernel(base, batch_shape=batch_shape).double()
            problem.model.covar_module = kernel
            X = problem.candidates(4, *batch_shape)
            inner = self.inner_points(problem, 4, *batch_shape)
            found = one_shot(problem)(torch.cat([X, inner], dim=-2))
            passed, failed = conditioned_means(problem, X, inner)
            success = problem.model.probability_posterior(X).mean[..., 0, 0]
            _, current = maximize_posterior_mean(problem.model, problem.space)
            expected = success * passed + (1 - success) * failed - current
            assert_close(found, expected, 1e-9)
            assert bool((nested(problem)(X) > found).all())

    def test_makes_nothing_on_the_default_device(self, model_class: ModelClass) -> None:
        problem = Problem("product", 1, model_class)
        X = problem.candidates(4).requires_grad_()
        with RequireDevice():
            inner = problem.space.at_reference(nested(problem).inner_starts(X))
            one_shot(problem)(torch.cat([X, inner], dim=-2)).sum().backward()
            gen_one_shot_knowledge_gradient_initial_conditions(
                one_shot(problem), problem.bounds, problem.rows_per_trial, 2, 8
            )

    def test_initial_conditions(self, model_class: ModelClass) -> None:
        problem = Problem("additive", 2, model_class)
        acqf, q = one_shot(problem), problem.rows_per_trial
        fixed = gen_one_shot_knowledge_gradient_initial_conditions(
            acqf, problem.bounds, q, 6, 64, fixed_features={1: 0.3}
        )
        assert bool((fixed[:, :q, 1] == 0.3).all())
        X = gen_one_shot_knowledge_gradient_initial_conditions(
            acqf, problem.bounds, q, 6, 64, options={"seed": 1}
        )
        assert X.shape == (6, q + 2, 3)
        assert bool(((X >= 0) & (X <= 1)).all())
        assert bool((X[:, :q, 1] == X[:, :1, 1]).all())  # one context for both sides
        again = gen_one_shot_knowledge_gradient_initial_conditions(
            acqf, problem.bounds, q, 6, 64, options={"seed": 1}
        )
        assert torch.equal(X, again)
        # They come with the best of the searched points: the screened value.
        screened = nested(problem).screen(X[:, :q])
        assert_close(acqf(X), screened, 1e-3)
        assert bool((screened.diff() <= 0).all())


class TestMessages:
    def test_number_of_rows(self) -> None:
        for model_class, expected in ((BinaryLaplaceGP, 3), (PreferenceLaplaceGP, 4)):
            acqf = one_shot(Problem("product", 1, model_class))
            message = f"rows of a trial and two more, {expected}, but got 2"
            with pytest.raises(UnsupportedError, match=message):
                acqf(uniform(4, 2, 2))

    def test_one_dimension(self) -> None:
        with pytest.raises(ValueError, match="at least 2 dimensions"):
            one_shot(Problem())(uniform(2))


# ------------------------------------------------------------------------- optimization

SAME_CONTEXT = (torch.tensor([[0, 0], [1, 0]]), double([1.0, -1.0]), 0.0)


def maximize_nested(problem: Problem, **kwargs: Any) -> tuple[Tensor, Tensor]:
    return optimize(
        nested(problem),
        problem.bounds,
        problem.rows_per_trial,
        raw_samples=128,
        **kwargs,
    )


def maximize_one_shot(problem: Problem, **kwargs: Any) -> tuple[Tensor, Tensor]:
    return optimize(
        one_shot(problem),
        problem.bounds,
        problem.rows_per_trial,
        raw_samples=128,
        ic_generator=gen_one_shot_knowledge_gradient_initial_conditions,
        **kwargs,
    )


def sort_sides(trial: Tensor) -> Tensor:
    """A duel has the same knowledge gradient if its sides are swapped."""
    return trial[trial[:, -1].argsort()]


class TestOptimize:
    def assert_same_choice(self, problem: Problem, **kwargs: Any) -> Tensor:
        """Both forms reach the same maximum, at the same trial, which is returned."""
        acqf = nested(problem)
        candidate, value = maximize_nested(problem, **kwargs)
        chosen, reached = maximize_one_shot(problem, **kwargs)
        with torch.no_grad():
            others = acqf(problem.candidates(512))
            assert value.item() > others.max().item()
            assert value.item() > 1e-3
            assert_close(reached.reshape(1), acqf(chosen), 1e-4)
        assert_close(reached, value, 1e-4)
        assert_close(sort_sides(chosen), sort_sides(candidate), 1e-2)
        return chosen

    def test_outcomes_give_the_trial_of_the_nested_form(self) -> None:
        for kind in KINDS:
            self.assert_same_choice(Problem(kind, 1, n=10))

    def test_two_parameters(self) -> None:
        self.assert_same_choice(Problem("product", 2, n=10))

    def test_duels_give_the_trial_of_the_nested_form(self) -> None:
        self.assert_same_choice(Problem("none", 1, PreferenceLaplaceGP, n=10))

    def test_duels_in_one_context(self) -> None:
        problem = Problem("product", 1, PreferenceLaplaceGP, n=10)
        chosen = self.assert_same_choice(problem, equality_constraints=[SAME_CONTEXT])
        assert_close(chosen[0, 0], chosen[1, 0], 1e-7)

    def test_fixed_context(self) -> None:
        problem = Problem("product", 1, n=10)
        self.assert_same_choice_in_context(problem, 0.4)

    def assert_same_choice_in_context(self, problem: Problem, context: float) -> None:
        fixed = {0: context}
        candidate, value = maximize_nested(problem, fixed_features=fixed)
        chosen, reached = maximize_one_shot(problem, fixed_features=fixed)
        assert candidate[0, 0].item() == context
        assert chosen[0, 0].item() == context
        assert_close(reached, value, 1e-4)
        assert_close(chosen, candidate, 1e-2)


class TestMaximize:
    """The search of the package itself, which batches can use."""

    def maximum(self, problem: Problem) -> tuple[Tensor, Tensor]:
        def decode(variables: Tensor) -> Tensor:
            return variables.unflatten(-1, (problem.rows_per_trial, problem.dim))

        variables, value = maximize_knowledge_gradient(
            ContextualBinaryKnowledgeGradient(problem.model, problem.space),
            decode,
            problem.bounds.repeat(1, problem.rows_per_trial),
            seed=0,
        )
        return decode(variables), value

    def test_equals_optimize_acqf(self) -> None:
        for problem in (
            Problem("product", 1, n=10),
            Problem("product", 2, n=10),
            Problem("none", 1, PreferenceLaplaceGP, n=10),
        ):
            trial, value = self.maximum(problem)
            assert_close(value.reshape(1), nested(problem)(trial), 1e-6)
            _, expected = maximize_nested(problem)
            assert_close(value, expected, 1e-5)

    def test_in_a_corner(self) -> None:
        # Where a few starts miss it.
        problem = Problem("additive", 2, n=10)
        trial, value = self.maximum(problem)
        with torch.no_grad():
            others = nested(problem)(problem.candidates(2000))
        assert value.item() > others.max().item()
        assert_close(trial, [[0.0, 1.0, 0.0]], 1e-12)

    def test_of_a_batch(self) -> None:
        problem = Problem("product", 1, elements=[[0, 1, 2], [3, 4, 5]], n=10)
        trials, values = self.maximum(problem)
        assert trials.shape == (2, 3, 1, 2)
        for index in np.ndindex(2, 3):
            _, expected = self.maximum(problem.element(index))
            assert_all_close(values[index], expected, rtol=1e-6, atol=0)


class TestFixedFeatures:
    def test_parameters_are_refused(self) -> None:
        problem = Problem("product", 1, n=10)
        acqf = OneShotContextualBinaryKnowledgeGradient(problem.model, problem.space)
        with pytest.raises(UnsupportedError, match=r"``fixed_features`` .* \[1\]"):
            gen_one_shot_knowledge_gradient_initial_conditions(
                acqf,
                problem.space.bounds,
                q=1,
                num_restarts=2,
                raw_samples=8,
                fixed_features={1: 0.2},
            )


class TestSpace:
    def test_must_have_the_columns_of_the_model(self) -> None:
        model = Problem("product", 1, n=10).model
        space = Problem("product", 2, n=10).space
        with pytest.raises(InputDataError, match="the 2 columns .* got 3"):
            OneShotContextualBinaryKnowledgeGradient(model, space)
