r"""The knowledge gradient in closed form, and the rule ``mkg``.

What one more outcome does to the posterior mean is found here by quadrature over what
the candidate observes, and the best mean after it by ever finer grids.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from scipy.special import ndtr
from torch import Tensor

from botorch_binary_context import (
    BinaryGP,
    BinaryLaplaceGP,
    ContextSpace,
    MixedGP,
    MomentMatchedKnowledgeGradient,
    MultiplicativeContextKernel,
    Observations,
    PreferenceGP,
    PreferenceLaplaceGP,
    PreferenceLikelihood,
    ProbitLikelihood,
    suggest,
)
from botorch_binary_context.inference import (
    ExpectationPropagation,
    Inference,
    Laplace,
)
from botorch_binary_context.models.latent_gp import LatentGP
from tests import strategies
from tests.acquisition.by_hand import Array, LaplaceByHand, grid_maximum
from tests.acquisition.problems import (
    KINDS,
    Problem,
    assert_batch_equals_loop,
    assert_close,
    assert_right_gradient,
    assert_takes_t_batches,
    optimize,
)
from tests.derivatives import finite_difference, jacobian
from tests.devices import RequireDevice
from tests.small_models import MODEL_CLASSES, ModelClass, random_trials, simple_kernel
from tests.tensors import double, uniform

INFERENCES = (ExpectationPropagation(), Laplace())
both_models = pytest.mark.parametrize("model_class", MODEL_CLASSES)


def name_of(value: object) -> str:
    return type(value).__name__


both_inferences = pytest.mark.parametrize("inference", INFERENCES, ids=name_of)


def by_laplace(problem: Problem) -> MomentMatchedKnowledgeGradient:
    return MomentMatchedKnowledgeGradient(problem.model, problem.space)


def by_ep(problem: Problem) -> MomentMatchedKnowledgeGradient:
    model = problem.model.with_inference(ExpectationPropagation())
    return MomentMatchedKnowledgeGradient(model, problem.space)


# --------------------------------------------------------------------------- models


@dataclass(frozen=True)
class Case:
    """A problem, the rates of its pass/fail trials, and whether it has both kinds.

    Candidates are trials of the problem's own kind.
    """

    problem: Problem
    rates: tuple[float, float] = (0.0, 0.0)
    mixed: bool = False
    mean: float = 0.0

    @property
    def duels(self) -> bool:
        return self.problem.rows_per_trial == 2

    @property
    def asked_rates(self) -> tuple[float, float]:
        return (0.0, 0.0) if self.duels else self.rates

    def observations(self, duels: bool) -> Observations:
        """The trials of one kind."""
        model_class = PreferenceLaplaceGP if duels else BinaryLaplaceGP
        X, Y = replace(self.problem, model_class=model_class).element_trials(0)
        if duels:
            return Observations(X, Y, PreferenceLikelihood())
        return Observations(X.squeeze(-2), Y, ProbitLikelihood(*self.rates))

    def model(self, inference: Inference) -> MixedGP:
        kinds = [False, True] if self.mixed else [self.duels]
        observations = [self.observations(duels) for duels in kinds]
        mean_module = ConstantMean().double()
        mean_module.constant = double(self.mean)
        kernel = self.problem.kernel
        model = MixedGP(observations, kernel, mean_module, inference=inference)
        return model.asking(int(self.mixed and self.duels))


DUELS = PreferenceLaplaceGP
CASES = {
    **{kind: Case(Problem(kind, 2)) for kind in KINDS},
    **{f"duels {kind}": Case(Problem(kind, 2, DUELS)) for kind in KINDS},
    "one parameter": Case(Problem("product", 1)),
    "duels in one parameter": Case(Problem("product", 1, DUELS)),
    "two choices": Case(Problem("product", 2), (0.5, 0.0)),
    "guesses and lapses": Case(Problem("additive", 1), (0.25, 0.05), mean=0.7),
    "two contexts": Case(Problem("multiplicative", 2, contexts=2), (0.25, 0.05)),
    "three contexts": Case(Problem("product", 1, contexts=3)),
    "duels in two contexts": Case(Problem("product", 2, DUELS, contexts=2)),
    "no data": Case(Problem("additive", 2, n=0), (0.5, 0.0), mean=0.3),
    "more data": Case(Problem("product", 2, n=40), (0.25, 0.05)),
    "mixed, an outcome": Case(Problem("product", 1), (0.25, 0.05), mixed=True),
    "mixed, a duel": Case(Problem("product", 1, DUELS), (0.25, 0.05), mixed=True),
    "mixed, two contexts": Case(
        Problem("additive", 2, DUELS, contexts=2), (0.5, 0.0), mixed=True
    ),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


# ----------------------------------------------------------------- one more outcome


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
        spread = sign @ covariance[0, :-1, :-1] @ sign
        cross = covariance[:, -1, :-1] @ sign
        return Moments(mean[:, -1], cross, mean[0, :-1] @ sign, spread)

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

    def test_value(self, case: Case, inference: Inference) -> None:
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
    def test_kernels(self, model_class: ModelClass, kind: str) -> None:
        for parameters in (1, 2):
            self.check(Problem(kind, parameters, model_class))

    def test_input_transform(self, model_class: ModelClass) -> None:
        for kind in ("multiplicative", "none"):
            self.check(Problem(kind, 2, model_class, normalized=True))

    def test_prior_mean(self, model_class: ModelClass) -> None:
        self.check(Problem("product", 1, model_class, constant=0.7))

    def test_guesses(self, model_class: ModelClass) -> None:
        if model_class is BinaryLaplaceGP:
            self.check(Problem("product", 1, guess_rate=0.25, constant=0.3))


class TestFirstTrial:
    def test_equals_conditioning(self) -> None:
        # Of a single trial expectation propagation matches the moments exactly.
        for case in (CASES["no data"], Case(Problem("additive", 1, DUELS, n=0))):
            problem, model = case.problem, case.model(ExpectationPropagation())
            acqf = MomentMatchedKnowledgeGradient(model, problem.space)
            X, inner = problem.candidates(), uniform(2, problem.parameters)
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


# ------------------------------------------------------------- knowledge never costs


@st.composite
def settings_of_models(draw: DrawFn) -> tuple[LatentGP, ContextSpace]:
    """Models of random trials in a box, batches of models among them."""
    duels, inference = draw(st.booleans()), draw(st.sampled_from(INFERENCES))
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

    def test_saturated(self) -> None:
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


# --------------------------------------------------------- derivatives, batches, shapes


@both_models
class TestContract:
    @pytest.mark.parametrize("kind", KINDS)
    def test_gradient(self, model_class: ModelClass, kind: str) -> None:
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
        X, inner = problem.candidates(4, 3), uniform(4, 3, 2, 2, seed=8)
        values = by_ep(problem).evaluate_joint(X, inner)
        assert values.shape == (4, 3)
        for i in range(3):
            alone = by_ep(problem.element((i,)))
            expected = alone.evaluate_joint(X[:, i], inner[:, i])
            assert_close(values[:, i], expected, 1e-9)

    def test_t_batches(self, model_class: ModelClass) -> None:
        for elements in (0, [0, 1, 2], [[0, 1, 2], [3, 4, 5]]):
            problem = Problem("additive", 1, model_class, elements)
            assert_takes_t_batches(by_ep, problem)

    def test_screen(self, model_class: ModelClass) -> None:
        # A lower bound: the value at its own inner points.
        problem = Problem("product", 2, model_class, [0, 1, 2])
        acqf, X = by_ep(problem), problem.candidates(50, 3)
        with torch.no_grad():
            value, estimate = acqf.evaluate(X), acqf.screen(X)
            starts = acqf.inner_starts(X)
            assert starts.shape == (50, 3, 2, 2)
            assert_close(acqf.evaluate_joint(X, starts), estimate, 1e-12)
        gap = value - estimate
        assert gap.min() > -1e-12
        assert 1e-6 < gap.max() < 0.1  # the local search has something to do

    def test_is_largest(self, model_class: ModelClass) -> None:
        problem = Problem("additive", 2, model_class)
        acqf, X = by_ep(problem), problem.candidates(20)
        inner = uniform(50, 20, 2, 2, seed=8)
        others = acqf.evaluate_joint(X.expand(50, *X.shape), inner)
        assert (acqf(X) - others).min() > -1e-12

    def test_single_precision(self, model_class: ModelClass) -> None:
        problem = Problem("product", 2, model_class)
        X = problem.candidates(4)
        expected = by_ep(problem)(X)
        problem.model.float()
        X = X.float().requires_grad_()
        found = by_ep(problem)(X)
        assert found.dtype == torch.float
        assert_close(found.double(), expected, 1e-4)
        (gradient,) = torch.autograd.grad(found.sum(), X)
        assert gradient.isfinite().all()

    def test_device(self, model_class: ModelClass) -> None:
        problem = Problem("product", 1, model_class)
        X = problem.candidates(4).requires_grad_()
        with RequireDevice():
            by_ep(problem)(X).sum().backward()

    def test_copies(self, model_class: ModelClass) -> None:
        problem = Problem("product", 1, model_class)
        X = problem.candidates(4)
        acqf = by_ep(problem)
        expected = acqf(X)
        for copy in (deepcopy(acqf), pickle.loads(pickle.dumps(acqf))):
            assert_close(copy(X), expected, 1e-9)

    def test_seed(self, model_class: ModelClass) -> None:
        # The points searched hardly matter, and those of one seed repeat themselves.
        problem = Problem("product", 2, model_class)
        model, X = by_ep(problem).model, problem.candidates(8)
        first, again, other = (
            MomentMatchedKnowledgeGradient(model, problem.space, seed=seed)(X)
            for seed in (0, 0, 1)
        )
        assert torch.equal(first, again)
        assert_close(other, first, 1e-9)


class TestLaplace:
    def test_gradient(self) -> None:
        problem = Problem("product", 2, BinaryLaplaceGP, [0, 1])
        X = problem.candidates(2, 2)
        assert_right_gradient(by_laplace(problem), X, 1e-6, step=1e-4)

    def test_batches(self) -> None:
        problem = Problem("product", 1, DUELS, [[0, 1], [2, 3]])
        assert_batch_equals_loop(by_laplace, problem)
        assert_takes_t_batches(by_laplace, problem)


class TestDuels:
    def test_sides_are_alike(self) -> None:
        problem = Problem("product", 2, DUELS)
        X = problem.candidates(10)
        acqf = by_ep(problem)
        assert_close(acqf(X.flip(-2)), acqf(X), 1e-9)


class TestMessages:
    def test_number_of_rows(self) -> None:
        for model_class, rows, message in (
            (BinaryLaplaceGP, 2, "one row, but got 2 rows"),
            (PreferenceLaplaceGP, 1, "a duel, two rows, but got 1 rows"),
        ):
            problem = Problem("product", 1, model_class)
            with pytest.raises(UnsupportedError, match=message):
                by_ep(problem)(uniform(4, rows, 2))

    def test_mixed_number_of_rows(self) -> None:
        case = CASES["mixed, an outcome"]
        model = case.model(ExpectationPropagation())
        for kind, rows, message in ((0, 2, "one row"), (1, 1, "a duel, two rows")):
            asking = model.asking(kind)
            acqf = MomentMatchedKnowledgeGradient(asking, case.problem.space)
            with pytest.raises(UnsupportedError, match=message):
                acqf(uniform(4, rows, 2))

    def test_one_dimension(self) -> None:
        with pytest.raises(ValueError, match="at least 2 dimensions"):
            by_ep(Problem())(uniform(2))

    def test_columns(self) -> None:
        space = ContextSpace(double([[0.0] * 3, [1.0] * 3]))
        with pytest.raises(InputDataError, match="the 2 columns"):
            MomentMatchedKnowledgeGradient(Problem().model, space)


# -------------------------------------------------------------------------- the search


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

    def test_batch(self) -> None:
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
        model, space = model_to_search(2, 0), space_to_search(2)
        first, again = (suggest(model, space, "mkg", seed=3) for _ in range(2))
        assert torch.equal(first, again)

    def test_mixed(self) -> None:
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
        plain, other = Problem("product", 1), Problem("product", 1, normalized=True)
        first, second = (
            suggest(problem.model, problem.space, "mkg", seed=0)
            for problem in (plain, other)
        )
        assert_close((second + 1) / 3, first, 1e-6)
