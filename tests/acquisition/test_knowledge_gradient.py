from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from botorch.acquisition import FixedFeatureAcquisitionFunction
from botorch.exceptions import UnsupportedError
from botorch.optim import optimize_acqf
from torch import Tensor

from botorch_binary_context import (
    BinaryLaplaceGP,
    ContextSpace,
    ContextualBinaryKnowledgeGradient,
    OneShotContextualBinaryKnowledgeGradient,
    PreferenceLaplaceGP,
    gen_one_shot_knowledge_gradient_initial_conditions,
)
from botorch_binary_context.acquisition.knowledge_gradient import (
    maximize_knowledge_gradient,
    maximize_posterior_mean,
)
from tests.acquisition.problems import (
    CONTEXT_KINDS,
    KINDS,
    Array,
    LaplaceByHand,
    Problem,
    assert_batch_equals_loop,
    assert_close,
    assert_right_gradient,
    assert_takes_t_batches,
)
from tests.helpers import (
    MODEL_CLASSES,
    ModelClass,
    RequireDevice,
    StrictTestCase,
    double,
    golden_kernel,
    load_golden,
    uniform,
)

both_models = pytest.mark.parametrize("model_class", MODEL_CLASSES)


def nested(problem: Problem, **kwargs: Any) -> ContextualBinaryKnowledgeGradient:
    return ContextualBinaryKnowledgeGradient(problem.model, problem.space, **kwargs)


def one_shot(
    problem: Problem, **kwargs: Any
) -> OneShotContextualBinaryKnowledgeGradient:
    return OneShotContextualBinaryKnowledgeGradient(
        problem.model, problem.space, **kwargs
    )


# ------------------------------------------------------------------------- brute force


def grid_maximum(
    function: Callable[[Array], Array], bounds: Tensor
) -> tuple[Array, float]:
    """The maximiser and the maximum on a box: a dense grid, then ever finer ones."""
    outer = bounds.numpy()
    low, high = outer
    for step in range(8):
        size = 21 if step else (401 if len(low) == 1 else 61)
        axes = np.linspace(low, high, size).T
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
        points = grid.reshape(-1, len(low))
        values = function(points)
        best = points[values.argmax()]
        reach = 1.5 * (high - low) / (size - 1)
        low, high = np.clip([best - reach, best + reach], *outer)
    return best, values.max()


def inner_maximum(problem: Problem, posterior: LaplaceByHand) -> tuple[Array, float]:
    """Of the posterior mean in the reference context."""
    return grid_maximum(
        lambda parameters: posterior.mean(problem.at_reference(parameters)),
        problem.space.parameter_bounds,
    )


def knowledge_gradient_by_hand(problem: Problem, trial: Array) -> tuple[float, Array]:
    """The knowledge gradient, and the inner maximisers for a pass and for a fail."""
    by_hand = problem.by_hand
    passed, failed = (inner_maximum(problem, by_hand.given(trial, c)) for c in (1, 0))
    success = by_hand.success(trial[None]).item()
    expected = success * passed[1] + (1 - success) * failed[1]
    value = expected - inner_maximum(problem, by_hand)[1]
    return value, np.stack([passed[0], failed[0]])


def assert_equals_brute_force(problem: Problem, num_candidates: int = 3) -> None:
    """The nested form; and the one-shot form at the maximisers found by hand."""
    X = problem.candidates(num_candidates)
    results = [knowledge_gradient_by_hand(problem, trial) for trial in X.numpy()]
    values, maximizers = zip(*results, strict=True)
    assert max(values) > 1e-3
    assert_close(nested(problem)(X), values, 1e-9)
    inner = problem.space.at_reference(double(np.stack(maximizers)))
    found = one_shot(problem)(torch.cat([X, inner], dim=-2))
    assert_close(found, values, 1e-9)


@both_models
@pytest.mark.parametrize("parameters", [1, 2])
class TestBruteForce:
    @pytest.mark.parametrize("kind", KINDS)
    def test_kernels(self, model_class: ModelClass, parameters: int, kind: str) -> None:
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


class TestBruteForceWithGuesses(StrictTestCase):
    def test_kernels(self) -> None:
        for kind in KINDS:
            for parameters in (1, 2):
                problem = Problem(kind, parameters, guess_rate=0.25, constant=0.3)
                assert_equals_brute_force(problem, 2)


@pytest.mark.parametrize("case", load_golden("knowledge_gradient"))
class TestGolden:
    def acquisition(self, case: dict[str, Any]) -> ContextualBinaryKnowledgeGradient:
        X, Y = double(case["z"]), double(case["c"]).unsqueeze(-1)
        kernel = golden_kernel(case["kernel"], case["hyper"])
        bounds = double([[0.0] * X.shape[-1], [1.0] * X.shape[-1]])
        return ContextualBinaryKnowledgeGradient(
            BinaryLaplaceGP(X, Y, covar_module=kernel),
            ContextSpace(bounds, [0], [case["s0"]]),
        )

    def test_value(self, case: dict[str, Any]) -> None:
        acqf = self.acquisition(case)
        X = double(case["zq"]).unsqueeze(-2)
        assert_close(acqf(X), case["U"], 1e-10)
        assert_close(acqf.current_value, case["ybest"], 1e-10)
        assert_close(acqf.best.flatten(), np.ravel(case["xbest"]), 1e-6)

    def test_gradient(self, case: dict[str, Any]) -> None:
        # The context first. The golden gradient is itself by finite differences.
        acqf = self.acquisition(case)
        X = double(case["zq"]).unsqueeze(-2).requires_grad_()
        (found,) = torch.autograd.grad(acqf(X).sum(), X)
        assert_close(found.squeeze(-2), case["dU_fd"], 1e-6)


# ---------------------------------------------------------- derivatives, batches, shapes


@both_models
class TestContract:
    @pytest.mark.parametrize("kind", KINDS)
    def test_gradient(self, model_class: ModelClass, kind: str) -> None:
        for parameters in (1, 2):
            problem = Problem(kind, parameters, model_class)
            X = problem.candidates(2)
            assert_right_gradient(nested(problem), X, 1e-6)

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
        assert_right_gradient(nested(problem), problem.candidates(2, 2), 1e-6)

    @pytest.mark.parametrize("kind", KINDS)
    def test_batch_equals_loop(self, model_class: ModelClass, kind: str) -> None:
        problem = Problem(kind, 2, model_class, [[0, 1, 2], [3, 4, 5]], constant=0.2)
        assert_batch_equals_loop(nested, problem)

    def test_t_batches(self, model_class: ModelClass) -> None:
        for elements in (0, [0, 1, 2], [[0, 1, 2], [3, 4, 5]]):
            problem = Problem("additive", 1, model_class, elements)
            assert_takes_t_batches(nested, problem)

    def test_single_precision(self, model_class: ModelClass) -> None:
        problem = Problem("product", 2, model_class)
        X = problem.candidates(4)
        expected = nested(problem)(X)
        problem.model.float()
        X = X.float().requires_grad_()
        found = nested(problem)(X)
        assert found.dtype == torch.float
        assert_close(found.double(), expected, 1e-3)
        (gradient,) = torch.autograd.grad(found.sum(), X)
        assert gradient.isfinite().all()

    def test_device(self, model_class: ModelClass) -> None:
        problem = Problem("product", 1, model_class)
        X = problem.candidates(4).requires_grad_()
        with RequireDevice():
            nested(problem)(X).sum().backward()
            inner = problem.space.at_reference(nested(problem).inner_starts(X))
            one_shot(problem)(torch.cat([X, inner], dim=-2)).sum().backward()

    def test_copies(self, model_class: ModelClass) -> None:
        problem = Problem("product", 1, model_class)
        X = problem.candidates(4)
        acqf = nested(problem)
        expected = acqf(X)
        for copy in (deepcopy(acqf), pickle.loads(pickle.dumps(acqf))):
            assert_close(copy(X), expected, 1e-14)

    def test_is_the_same_without_gradients(self, model_class: ModelClass) -> None:
        problem = Problem("product", 2, model_class)
        X = problem.candidates(4)
        expected = nested(problem)(X)
        with torch.no_grad():
            assert_close(nested(problem)(X), expected, 1e-12)


class TestMessages(StrictTestCase):
    def test_number_of_rows(self) -> None:
        for model_class, rows, message in (
            (BinaryLaplaceGP, 2, "one row, but got 2 rows"),
            (PreferenceLaplaceGP, 1, "a duel, two rows, but got 1 rows"),
        ):
            problem = Problem("product", 1, model_class)
            with self.assertRaisesRegex(UnsupportedError, message):
                nested(problem)(uniform(4, rows, 2))

    def test_number_of_rows_of_one_shot(self) -> None:
        for model_class, expected in ((BinaryLaplaceGP, 3), (PreferenceLaplaceGP, 4)):
            acqf = one_shot(Problem("product", 1, model_class))
            message = f"rows of a trial and two more, {expected}, but got 2"
            with self.assertRaisesRegex(UnsupportedError, message):
                acqf(uniform(4, 2, 2))

    def test_one_dimension(self) -> None:
        for make in (nested, one_shot):
            with self.assertRaisesRegex(ValueError, "at least 2 dimensions"):
                make(Problem())(uniform(2))


# ------------------------------------------------------------------------- the nested form


@both_models
class TestNested:
    def test_screen_is_a_lower_bound(self, model_class: ModelClass) -> None:
        for kind in KINDS:
            problem = Problem(kind, 2, model_class, [0, 1, 2])
            acqf = nested(problem, num_points=32)
            X = problem.candidates(50, 3)
            with torch.no_grad():
                gap = acqf.evaluate(X) - acqf.screen(X)
            assert gap.min() > -1e-12
            assert gap.max() > 1e-6  # the local search has something to do
            assert gap.max() < 0.1

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
            assert_close(acqf.screen(X)[i], expected, 1e-9)
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
            lambda x: problem.by_hand.mean(problem.at_reference(x)), space.bounds
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
            candidate, value = optimize_acqf(
                fixed,
                problem.space.parameter_bounds,
                q=1,
                num_restarts=2,
                raw_samples=32,
                options={"nonnegative": True, "seed": 0},
            )
            others = problem.candidates(64)
            others[..., 1] = 0.3
            assert value >= acqf(others).max()
            assert candidate.shape == (1, 2)

    def test_in_a_context_of_the_trial_alone(self, model_class: ModelClass) -> None:
        # The reference context counts for the inner maximum, not for the trial.
        problem = Problem("product", 1, model_class)
        other = ContextSpace(problem.bounds, [0], [0.1])
        X = problem.candidates(4)
        moved = ContextualBinaryKnowledgeGradient(problem.model, other)(X)
        assert (moved - nested(problem)(X)).abs().min() > 1e-5


@both_models
class TestPosteriorMean:
    def test_maximum(self, model_class: ModelClass) -> None:
        for kind in KINDS:
            for parameters in (1, 2):
                problem = Problem(kind, parameters, model_class, constant=0.4)
                x, value = maximize_posterior_mean(problem.model, problem.space)
                best, maximum = inner_maximum(problem, problem.by_hand)
                assert_close(value, maximum, 1e-10)
                assert_close(x, best, 1e-4)

    def test_of_a_batch(self, model_class: ModelClass) -> None:
        problem = Problem("product", 2, model_class, [[0, 1, 2], [3, 4, 5]])
        x, value = maximize_posterior_mean(problem.model, problem.space)
        assert x.shape == (2, 3, 2)
        for index in np.ndindex(2, 3):
            alone = problem.element(index)
            _, expected = inner_maximum(alone, alone.by_hand)
            assert_close(value[index], expected, 1e-10)

    def test_without_data(self, model_class: ModelClass) -> None:
        problem = Problem("product", 2, model_class, n=0, constant=0.4)
        x, value = maximize_posterior_mean(problem.model, problem.space)
        assert x.shape == (2,)
        assert_close(value, 0.4, 1e-15)


# ----------------------------------------------------------------------- the one-shot form


@both_models
class TestOneShot:
    def inner_points(self, problem: Problem, *shape: int) -> Tensor:
        return problem.space.at_reference(uniform(*shape, 2, problem.parameters))

    def test_rows(self, model_class: ModelClass) -> None:
        problem = Problem("product", 1, model_class)
        acqf, q = one_shot(problem), problem.rows_per_trial
        assert acqf.get_augmented_q_batch_size(q) == q + 2
        X = problem.candidates(5, 4)
        full = torch.cat([X, self.inner_points(problem, 5, 4)], dim=-2)
        assert torch.equal(acqf.extract_candidates(full), X)

    def test_order_of_outcomes(self, model_class: ModelClass) -> None:
        # The first further row is for a pass, the second for a fail.
        problem = Problem("additive", 2, model_class)
        X, inner = problem.candidates(1), self.inner_points(problem, 1)
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
            X, inner = problem.candidates(50), self.inner_points(problem, 50)
            with torch.no_grad():
                value = one_shot(problem)(torch.cat([X, inner], dim=-2))
                assert bool((value <= nested(problem)(X) + 1e-12).all())

    def test_contexts_of_the_inner_points_do_not_count(
        self, model_class: ModelClass
    ) -> None:
        problem = Problem("additive", 2, model_class, contexts=2)
        X, inner = problem.candidates(3), self.inner_points(problem, 3)
        acqf = one_shot(problem)
        expected = acqf(torch.cat([X, inner], dim=-2))
        inner[..., problem.context_dims] = 17.0
        assert_close(acqf(torch.cat([X, inner], dim=-2)), expected, 1e-14)

    def test_gradient(self, model_class: ModelClass) -> None:
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

    def test_initial_conditions(self, model_class: ModelClass) -> None:
        problem = Problem("additive", 2, model_class)
        acqf, q = one_shot(problem), problem.rows_per_trial
        X = gen_one_shot_knowledge_gradient_initial_conditions(
            acqf, problem.bounds, q, 6, 64, fixed_features={0: 0.3}, options={"seed": 1}
        )
        assert X.shape == (6, q + 2, 3)
        assert bool((X[:, :q, 0] == 0.3).all())
        assert bool(((X >= 0) & (X <= 1)).all())
        assert bool((X[:, :q, 1] == X[:, :1, 1]).all())  # one context for both sides
        again = gen_one_shot_knowledge_gradient_initial_conditions(
            acqf, problem.bounds, q, 6, 64, fixed_features={0: 0.3}, options={"seed": 1}
        )
        assert torch.equal(X, again)
        # They come with the best of the searched points, so their value is the screened.
        screened = nested(problem).screen(X[:, :q])
        assert_close(acqf(X), screened, 1e-9)
        assert bool((screened.diff() <= 0).all())


# ---------------------------------------------------------------------------- optimisation

SAME_CONTEXT = (torch.tensor([[0, 0], [1, 0]]), double([1.0, -1.0]), 0.0)


def maximize_nested(problem: Problem, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """As a user does it."""
    candidate, value = optimize_acqf(
        nested(problem),
        problem.bounds,
        q=problem.rows_per_trial,
        num_restarts=4,
        raw_samples=128,
        options={"nonnegative": True, "seed": 0},
        **kwargs,
    )
    assert value is not None
    return candidate, value


def maximize_one_shot(problem: Problem, **kwargs: Any) -> tuple[Tensor, Tensor]:
    candidate, value = optimize_acqf(
        one_shot(problem),
        problem.bounds,
        q=problem.rows_per_trial,
        num_restarts=4,
        raw_samples=128,
        ic_generator=gen_one_shot_knowledge_gradient_initial_conditions,
        options={"seed": 0},
        **kwargs,
    )
    assert value is not None
    return candidate, value


class TestOptimize(StrictTestCase):
    def assert_same_choice(self, problem: Problem, **kwargs: Any) -> None:
        candidate, value = maximize_nested(problem, **kwargs)
        chosen, reached = maximize_one_shot(problem, **kwargs)
        self.assertEqual(chosen.shape, (problem.rows_per_trial, problem.dim))
        self.assertGreater(value.item(), nested(problem)(problem.candidates(256)).max())
        assert_close(reached.reshape(1), nested(problem)(chosen), 1e-4)
        assert_close(reached, value, 1e-4)
        if problem.rows_per_trial == 2 and candidate[0, -1] > candidate[1, -1]:
            candidate = candidate.flip(0)
        if problem.rows_per_trial == 2 and chosen[0, -1] > chosen[1, -1]:
            chosen = chosen.flip(0)
        assert_close(chosen, candidate, 1e-2)

    def test_outcomes(self) -> None:
        for kind in KINDS:
            self.assert_same_choice(Problem(kind, 1, n=10))

    def test_two_parameters(self) -> None:
        self.assert_same_choice(Problem("product", 2, n=10))
