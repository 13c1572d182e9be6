r"""The knowledge gradient in closed form, and the rule ``mkg``.

What one more outcome does to the posterior mean is found here by quadrature over what
the candidate observes, and the best mean after it by ever finer grids.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from scipy.special import ndtr
from torch import Tensor

from botorch_binary_context import (
    BinaryGP,
    BinaryLaplaceGP,
    ContextSpace,
    MomentMatchedKnowledgeGradient,
    PreferenceGP,
    ProbitLikelihood,
)
from botorch_binary_context.inference import (
    ExpectationPropagation,
    Inference,
    Laplace,
)
from botorch_binary_context.models.latent_gp import LatentGP
from tests import strategies
from tests.acquisition.by_hand import Array, LaplaceByHand, grid_maximum
from tests.acquisition.moment_matched_cases import (
    CASES,
    DUELS,
    Case,
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
    assert_takes_t_batches,
)
from tests.small_models import MODEL_CLASSES, ModelClass, simple_kernel
from tests.tensors import double, uniform

INFERENCES = (ExpectationPropagation(), Laplace())


def name_of(value: object) -> str:
    return type(value).__name__


both_inferences = pytest.mark.parametrize("inference", INFERENCES, ids=name_of)


every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


class Moments(NamedTuple):
    """What is known of ``J`` points and of what a candidate observes."""

    mean: Array
    covariance: Array
    contrast_mean: float
    contrast_variance: float

    def after(self, rates: tuple[float, float]) -> Array:
        """The means after a pass and after a fail, times their probabilities.

        Trapezoidal sums over ``N(g; μ, v) p(c|g)``, which decays: they are exact.
        """
        guess, lapse = rates
        u = np.linspace(-14, 14, 8001)
        weights = np.exp(-(u**2) / 2)
        weights /= weights.sum()
        g = self.contrast_mean + np.sqrt(self.contrast_variance) * u
        success = guess + (1 - guess - lapse) * ndtr(g)
        failure = lapse + (1 - guess - lapse) * ndtr(-g)
        joint = weights * np.stack([success, failure])
        probability, moved = joint.sum(-1), joint @ (g - self.contrast_mean)
        slope = self.covariance / self.contrast_variance
        return probability[:, None] * self.mean + moved[:, None] * slope


MomentsAt = Callable[[Array], Moments]


def moments_by_posterior(model: LatentGP, space: ContextSpace, X: Tensor) -> MomentsAt:
    """From the joint posterior of the rows of a candidate and of each point."""
    sign = np.array([1.0, -1.0])[: X.shape[-2]]

    def moments(parameters: Array) -> Moments:
        points = space.at_reference(torch.from_numpy(parameters)).unsqueeze(-2)
        joint = torch.cat([X.expand(len(points), *X.shape), points], dim=-2)
        posterior: Any = model.posterior(joint)
        mean = posterior.mean.detach().squeeze(-1).numpy()
        covariance = posterior.distribution.covariance_matrix.detach().numpy()
        contrast_variance = sign @ covariance[0, :-1, :-1] @ sign
        cross = covariance[:, -1, :-1] @ sign
        return Moments(mean[:, -1], cross, mean[0, :-1] @ sign, contrast_variance)

    return moments


def moments_by_hand(problem: Problem, X: Tensor) -> MomentsAt:
    """From Laplace's method in numpy."""
    posterior: LaplaceByHand = problem.by_hand
    trial = X.numpy()[None]

    def moments(parameters: Array) -> Moments:
        points = problem.at_reference(parameters)
        cross = posterior.covariance(points, trial).squeeze(-1)
        contrast = posterior.mean(trial).item(), posterior.variance(trial).item()
        return Moments(posterior.mean(points), cross, *contrast)

    return moments


def inner_maxima(
    moments: MomentsAt, rates: tuple[float, float], bounds: Tensor
) -> tuple[float, float]:
    """The best posterior mean, now and on average after an outcome."""
    functions: list[Callable[[Array], Array]] = [
        lambda x: moments(x).mean,
        lambda x: moments(x).after(rates)[0],
        lambda x: moments(x).after(rates)[1],
    ]
    now, passed, failed = (grid_maximum(f, bounds.numpy())[1] for f in functions)
    return now, passed + failed


@every_case
@both_inferences
class TestBruteForce:
    def test_given_inner_points(self, case: Case, inference: Inference) -> None:
        problem, model = case.problem, case.model(inference)
        acqf = MomentMatchedKnowledgeGradient(model, problem.space)
        X = problem.candidates(5)
        low, high = problem.space.parameter_bounds
        inner = low + (high - low) * uniform(5, 2, problem.parameters, seed=8)
        expected = []
        for trial, parameters in zip(X, inner, strict=True):
            moments = moments_by_posterior(model, problem.space, trial)
            after = moments(parameters.numpy()).after(case.asked_rates)
            expected.append(np.trace(after) - float(acqf.current_value))
        assert_close(acqf.evaluate_joint(X, inner), expected, 1e-12)

    def test_value_agrees_for_every_case_and_inference(
        self, case: Case, inference: Inference
    ) -> None:
        problem, model = case.problem, case.model(inference)
        X, bounds = problem.candidates(2)[1:], problem.space.parameter_bounds
        moments = moments_by_posterior(model, problem.space, X[0])
        current, after = inner_maxima(moments, case.asked_rates, bounds)
        assert after - current > 1e-4
        acqf = MomentMatchedKnowledgeGradient(model, problem.space)
        assert_close(acqf.current_value, current, 1e-10)
        assert_close(acqf(X).squeeze(), after - current, 1e-9)


@both_models
class TestLaplaceByHand:
    """The posterior, too, is found without the package."""

    def check(self, problem: Problem) -> None:
        X, rates = problem.candidates(1), (problem.guess_rate, 0.0)
        moments = moments_by_hand(problem, X[0])
        bounds = problem.space.parameter_bounds
        current, after = inner_maxima(moments, rates, bounds)
        assert_close(by_laplace(problem)(X).squeeze(), after - current, 1e-9)

    @pytest.mark.parametrize("kind", KINDS)
    def test_value_agrees_for_every_kernel(
        self, model_class: ModelClass, kind: str
    ) -> None:
        for parameters in (1, 2):
            self.check(Problem(kind, parameters, model_class))

    def test_input_transform(self, model_class: ModelClass) -> None:
        for kind in ("multiplicative", "none"):
            self.check(Problem(kind, 2, model_class, normalized=True))

    def test_prior_mean(self, model_class: ModelClass) -> None:
        self.check(Problem("product", 1, model_class, constant=0.7))

    def test_guesses_or_a_mean_in_two_dimensions(self, model_class: ModelClass) -> None:
        problem = (
            Problem("product", 1, guess_rate=0.25, constant=0.3)
            if model_class is BinaryLaplaceGP
            else Problem("product", 2, model_class, constant=0.3)
        )
        self.check(problem)


class TestFirstTrial:
    def test_equals_conditioning(self) -> None:
        # Of a single trial expectation propagation matches the moments exactly.
        for case in (CASES["no data"], Case(Problem("additive", 1, DUELS, n=0))):
            problem, model = case.problem, case.model(ExpectationPropagation())
            acqf = MomentMatchedKnowledgeGradient(model, problem.space)
            X = problem.candidates()
            inner = uniform(2, problem.parameters)
            points = problem.space.at_reference(inner)
            success = model.probability_posterior(X).mean
            expected = -acqf.current_value
            for c, weight in ((1, success), (0, 1 - success)):
                trial = X.unsqueeze(-3) if case.duels else X
                label = torch.full((1, 1), c).double()
                known = model.condition_on_observations(trial, label)
                mean = known.posterior(points[1 - c : 2 - c]).mean
                expected = expected + (weight * mean).squeeze()
            assert_close(acqf.evaluate_joint(X, inner), expected, 1e-9)


@st.composite
def settings_of_models(draw: DrawFn) -> tuple[LatentGP, ContextSpace]:
    """Models of random trials in a box, batches of models among them."""
    duels = draw(st.booleans())
    inference = draw(st.sampled_from(INFERENCES))
    data = strategies.duel_data if duels else strategies.binary_data
    X, Y = draw(data())
    X = X[..., : draw(st.integers(0, Y.shape[-2])), :, :] if duels else X
    Y = Y[..., : X.shape[-3], :] if duels else Y
    dim = X.shape[-1]
    kernel = simple_kernel(dim)
    kernel.outputscale = draw(st.sampled_from([0.01, 1.0, 25.0]))
    kwargs: dict[str, Any] = {"covar_module": kernel, "inference": inference}
    columns = draw(strategies.context_columns(dim))
    space = ContextSpace(
        double([[-2.0] * dim, [2.0] * dim]), columns, [0.5] * len(columns)
    )
    if duels:
        return PreferenceGP(X, Y, **kwargs), space
    likelihood = ProbitLikelihood(*draw(strategies.rates()))
    return BinaryGP(X, Y, likelihood, **kwargs), space


def candidates_of(model: LatentGP, scale: float) -> Tensor:
    """Candidates, ``4 x batch_shape x q x d``, at a distance from the origin."""
    dim = model.datapoints.shape[-1]
    shape = 4, *model.batch_shape, model.functional.num_rows, dim
    return scale * (2 * uniform(*shape, seed=2) - 1)


class TestNeverNegative:
    @settings(max_examples=25)
    @given(settings_of_models(), st.sampled_from([0.1, 2.0, 50.0, 1e4]))
    def test_random_models(
        self, setting: tuple[LatentGP, ContextSpace], scale: float
    ) -> None:
        model, space = setting
        acqf = MomentMatchedKnowledgeGradient(model, space)
        X = candidates_of(model, scale)
        value = acqf(X)
        assert value.shape == X.shape[:-2]
        assert bool((value >= -1e-12).all()), f"{value.min()}"

    def test_without_data(self) -> None:
        for model_class in MODEL_CLASSES:
            for elements in (0, [0, 1, 2]):
                problem = Problem("product", 1, model_class, elements, n=0)
                value = by_ep(problem)(problem.candidates(20, 1))
                assert value.min().item() > 0.0

    def test_certain_outcomes_are_worth_nothing(self) -> None:
        # Trials whose outcome is certain teach nothing.
        for mean in (-40.0, 40.0):
            case = Case(Problem("product", 1, n=0), mean=mean)
            for inference in INFERENCES:
                model = case.model(inference)
                acqf = MomentMatchedKnowledgeGradient(model, case.problem.space)
                X = case.problem.candidates(20).requires_grad_()
                value = acqf(X)
                assert_close(value, torch.zeros(20), 1e-12)
                (gradient,) = torch.autograd.grad(value.sum(), X)
                assert bool(gradient.isfinite().all())

    def test_far_away(self) -> None:
        # What is correlated with nothing teaches nothing.
        for model_class in MODEL_CLASSES:
            problem = Problem("none", 2, model_class)
            X = problem.candidates(20) + torch.arange(10, 1010, 50)[:, None, None]
            for make in (by_ep, by_laplace):
                assert_close(make(problem)(X), torch.zeros(20), 1e-12)

    def test_huge_contexts(self) -> None:
        # f(s, x) = s g(x): the outcome is as good as the sign of g.
        for model_class in MODEL_CLASSES:
            problem = Problem("multiplicative", 1, model_class)
            X = problem.candidates(20)
            X[..., problem.context_dims] *= 1e6
            for make in (by_ep, by_laplace):
                value = make(problem)(X)
                assert bool(value.isfinite().all())
                assert value.min().item() >= -1e-12

    def test_uninformative_context(self) -> None:
        for model_class in MODEL_CLASSES:
            problem = Problem("multiplicative", 2, model_class)
            X = problem.candidates(4)
            X[..., problem.context_dims] = 0.0
            assert_close(by_ep(problem)(X), torch.zeros(4), 1e-12)

    def test_duel_of_equals(self) -> None:
        problem = Problem("product", 1, DUELS)
        X = problem.candidates(4)[:, :1].expand(4, 2, 2)
        assert_close(by_ep(problem)(X), torch.zeros(4), 1e-9)


class TestLaplace:
    def test_gradient_equals_finite_differences(self) -> None:
        problem = Problem("product", 2, BinaryLaplaceGP, [0, 1])
        X = problem.candidates(2, 2)
        assert_right_gradient(by_laplace(problem), X, 1e-6, step=1e-4)

    def test_batches_equal_loops_of_models_and_of_trials(self) -> None:
        problem = Problem("product", 1, DUELS, [[0, 1], [2, 3]])
        assert_batch_equals_loop(by_laplace, problem)
        assert_takes_t_batches(by_laplace, problem)
