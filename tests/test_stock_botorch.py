r"""BoTorch's own parts, unchanged, on both models."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from botorch.acquisition import (
    AcquisitionFunction,
    FixedFeatureAcquisitionFunction,
    LogExpectedImprovement,
    PosteriorMean,
    UpperConfidenceBound,
    qKnowledgeGradient,
    qLogNoisyExpectedImprovement,
    qUpperConfidenceBound,
)
from botorch.acquisition.active_learning import qNegIntegratedPosteriorVariance
from botorch.acquisition.objective import LinearMCObjective
from botorch.acquisition.preference import (
    AnalyticExpectedUtilityOfBestOption,
    qExpectedUtilityOfBestOption,
)
from botorch.cross_validation import efficient_loo_cv
from botorch.exceptions.warnings import BadInitialCandidatesWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelList, ModelListGP
from botorch.models.transforms import Normalize
from botorch.optim import optimize_acqf
from botorch.sampling.get_sampler import get_sampler
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.utils.datasets import SupervisedDataset
from torch import Tensor
from torch.distributions import Normal

from botorch_binary_context import (
    BinaryLaplaceGP,
    ClassProbability,
    LaplaceMarginalLogLikelihood,
    MultiplicativeContextKernel,
    PreferenceLaplaceGP,
)
from tests.latent_posteriors import label_posterior, latent, latent_covariance
from tests.small_models import (
    MODEL_CLASSES,
    AnyModel,
    ModelClass,
    join_rows,
    random_model,
    random_trials,
    simple_kernel,
)
from tests.tensors import double, uniform

BOUNDS = double([[0.0, 0.0], [1.0, 1.0]])
X_TEST = uniform(5, 1, 2, seed=3)

both_models = pytest.mark.parametrize("model_class", MODEL_CLASSES)


@pytest.fixture(autouse=True)
def _seed() -> None:
    """BoTorch draws starting points and base samples from torch's own generator."""
    torch.manual_seed(0)


def propose(
    acqf: AcquisitionFunction, bounds: Tensor = BOUNDS, q: int = 1, **kwargs: Any
) -> tuple[Tensor, Tensor]:
    """The best candidate, ``q x d``, and its value."""
    candidate, value = optimize_acqf(
        acqf,
        bounds,
        q=q,
        num_restarts=4,
        raw_samples=64,
        options={"seed": 0, "maxiter": 50},
        **kwargs,
    )
    assert value is not None
    return candidate, value


def optimize(acqf: AcquisitionFunction, q: int = 1) -> Tensor:
    """The value of the best candidate, which must beat 32 random ones."""
    candidate, value = propose(acqf, q=q)
    assert candidate.shape == (q, 2)
    assert ((candidate >= 0) & (candidate <= 1)).all()
    with torch.no_grad():
        random_value = acqf(uniform(32, q, 2, seed=9)).max()
    assert value.isfinite()
    assert value >= random_value - 1e-6
    return value


@contextmanager
def jumps_allowed() -> Iterator[None]:
    """Sampled labels jump as X moves, so that a line search may end on an edge."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Optimization failed")
        yield


def duel_size(model_class: ModelClass) -> int:
    """How many rows a trial has."""
    return 1 if model_class is BinaryLaplaceGP else 2


@both_models
class TestAnalytic:
    def moments(self, model: AnyModel, X: Tensor) -> tuple[Tensor, Tensor]:
        posterior = latent(model, X)
        return posterior.mean.flatten(), posterior.variance.sqrt().flatten()

    def test_posterior_mean(self, model_class: ModelClass) -> None:
        model = random_model(model_class)
        acqf, X = PosteriorMean(model), X_TEST
        torch.testing.assert_close(acqf(X), self.moments(model, X)[0])
        optimize(acqf)

    def test_upper_confidence_bound(self, model_class: ModelClass) -> None:
        model = random_model(model_class)
        acqf, X = UpperConfidenceBound(model, beta=4.0), X_TEST
        mean, sd = self.moments(model, X)
        torch.testing.assert_close(acqf(X), mean + 2 * sd)
        optimize(acqf)

    def test_log_expected_improvement(self, model_class: ModelClass) -> None:
        model = random_model(model_class)
        acqf, X = LogExpectedImprovement(model, best_f=0.2), X_TEST
        mean, sd = self.moments(model, X)
        z, normal = (mean - 0.2) / sd, Normal(double(0.0), double(1.0))
        improvement = sd * (z * normal.cdf(z) + normal.log_prob(z).exp())
        torch.testing.assert_close(acqf(X), improvement.log())
        optimize(acqf)

    def test_batch_of_models(self, model_class: ModelClass) -> None:
        model = random_model(model_class, batch_shape=(3,))
        X = uniform(5, 3, 1, 2)
        for acqf in (PosteriorMean(model), UpperConfidenceBound(model, beta=1.0)):
            assert acqf(X).shape == (5, 3)

    def test_fixed_feature(self, model_class: ModelClass) -> None:
        model = random_model(model_class)
        ucb = UpperConfidenceBound(model, beta=4.0)
        acqf = FixedFeatureAcquisitionFunction(ucb, d=2, columns=[0], values=[0.25])
        x = uniform(5, 1, 1)
        full = torch.cat([torch.full_like(x, 0.25), x], dim=-1)
        torch.testing.assert_close(acqf(x), ucb(full))
        candidate, _ = propose(acqf, BOUNDS[:, 1:])
        assert candidate.shape == (1, 1)
        candidate, _ = propose(ucb, fixed_features={0: 0.25})
        assert candidate[0, 0] == 0.25

    def test_prior_only(self, model_class: ModelClass) -> None:
        X, Y = random_trials(model_class, 0)
        kernel = MultiplicativeContextKernel(simple_kernel(dim=1), context_dims=[0])
        model = model_class(X, Y, covar_module=kernel)
        value = optimize(UpperConfidenceBound(model, beta=1.0))
        # s² k0 is greatest at s = 1.
        torch.testing.assert_close(value, simple_kernel(1).outputscale.sqrt().detach())
        flat = model_class(X, Y, covar_module=simple_kernel())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BadInitialCandidatesWarning)  # all equal
            optimize(UpperConfidenceBound(flat, beta=1.0))


@both_models
class TestMonteCarlo:
    def sampler(self, num_samples: int = 64) -> SobolQMCNormalSampler:
        return SobolQMCNormalSampler(torch.Size([num_samples]), seed=0)

    def test_upper_confidence_bound(self, model_class: ModelClass) -> None:
        model = random_model(model_class)
        acqf = qUpperConfidenceBound(model, beta=4.0, sampler=self.sampler(4096))
        X = X_TEST
        expected = UpperConfidenceBound(model, beta=4.0)(X)
        torch.testing.assert_close(acqf(X), expected, rtol=0, atol=1e-2)
        optimize(qUpperConfidenceBound(model, beta=4.0, sampler=self.sampler()), q=2)

    def test_log_noisy_expected_improvement(self, model_class: ModelClass) -> None:
        model = random_model(model_class)
        baseline = join_rows(model, model.train_inputs[0])
        acqf = qLogNoisyExpectedImprovement(model, baseline, sampler=self.sampler())
        assert acqf(uniform(5, 2, 2, seed=3)).isfinite().all()
        optimize(acqf, q=2)

    def test_pending_points(self, model_class: ModelClass) -> None:
        model = random_model(model_class)
        acqf = qUpperConfidenceBound(
            model, beta=4.0, sampler=self.sampler(), X_pending=uniform(2, 2, seed=5)
        )
        assert acqf(X_TEST).shape == (5,)
        optimize(acqf)

    def test_negative_integrated_variance(self, model_class: ModelClass) -> None:
        model = random_model(model_class)
        points = uniform(16, 2, seed=5)
        acqf = qNegIntegratedPosteriorVariance(model, mc_points=points)
        q = duel_size(model_class)
        value = acqf(uniform(5, q, 2))
        assert (value < 0).all()
        # A trial at the points themselves tells more than one far away.
        near, far = points[:q], torch.full((q, 2), 50.0).double()
        far[0] += 1.0
        assert acqf(near) > acqf(far)
        with jumps_allowed():
            candidate, value = propose(acqf, q=q)
        assert candidate.shape == (q, 2)
        assert value.isfinite()

    def test_knowledge_gradient(self, model_class: ModelClass) -> None:
        model = random_model(model_class)
        q = duel_size(model_class)
        acqf = qKnowledgeGradient(model, num_fantasies=4, current_value=double(0.0))
        X = uniform(3, q + 4, 2, seed=3).requires_grad_()
        value = acqf(X)
        assert value.shape == (3,)
        gradient = torch.autograd.grad(value.sum(), X)[0]
        assert gradient.isfinite().all()
        assert (gradient.abs().amax(dim=(-1, -2)) > 0).all()
        with jumps_allowed():
            candidate, value = propose(acqf, q=q)
        assert candidate.shape == (q, 2)
        assert value.isfinite()


@both_models
class TestExpectedUtilityOfBestOption:
    def test_value_equals_that_of_a_grid(self, model_class: ModelClass) -> None:
        # E max(f₁, f₂) by the density of the difference, on a grid.
        model = random_model(model_class)
        X = uniform(1, 2, 2, seed=3)
        mean = latent(model, X).mean.flatten()
        covariance = latent_covariance(model, X)[0]
        gap = mean[0] - mean[1]
        sd = (covariance.diagonal().sum() - 2 * covariance[0, 1]).sqrt()
        grid = torch.linspace(-10, 10, 20001).double()
        weight = Normal(double(0.0), double(1.0)).log_prob(grid).exp() * 1e-3
        expected = mean[1] + ((gap + sd * grid).clamp_min(0.0) * weight).sum()
        found = AnalyticExpectedUtilityOfBestOption(model)(X)
        torch.testing.assert_close(found, expected.reshape(1), rtol=0, atol=1e-6)

    def test_optimum_is_found_with_and_without_a_winner(
        self, model_class: ModelClass
    ) -> None:
        model = random_model(model_class)
        optimize(AnalyticExpectedUtilityOfBestOption(model), q=2)
        winner = uniform(1, 2, seed=3)
        optimize(
            AnalyticExpectedUtilityOfBestOption(model, previous_winner=winner), q=1
        )
        sampler = SobolQMCNormalSampler(torch.Size([64]), seed=0)
        optimize(qExpectedUtilityOfBestOption(model, sampler=sampler), q=2)

    def test_duel_in_one_context(self, model_class: ModelClass) -> None:
        kernel = MultiplicativeContextKernel(simple_kernel(dim=1), context_dims=[0])
        model = random_model(model_class, covar_module=kernel)
        same_context = (torch.tensor([[0, 0], [1, 0]]), double([1.0, -1.0]), 0.0)
        duel, _ = propose(
            AnalyticExpectedUtilityOfBestOption(model),
            q=2,
            equality_constraints=[same_context],
        )
        torch.testing.assert_close(duel[0, 0], duel[1, 0])
        # What the optimizer proposes, the model takes.
        PreferenceLaplaceGP(
            duel.unsqueeze(0), torch.ones(1, 1).double(), covar_module=kernel
        )


@both_models
class TestFantasize:
    def test_labels_are_as_frequent_as_their_probability(
        self, model_class: ModelClass
    ) -> None:
        model = random_model(model_class)
        sampler = SobolQMCNormalSampler(torch.Size([512]), seed=0)
        X = uniform(3, 2, 2, seed=5)
        fantasy = model.fantasize(X, sampler)
        num_new = 2 // duel_size(model_class)
        labels = fantasy.train_targets[..., -num_new:]
        assert labels.shape == (512, 3, num_new)
        assert set(labels.unique().tolist()) == {0.0, 1.0}
        expected = model.probability_posterior(X).mean.squeeze(-1)
        torch.testing.assert_close(labels.mean(dim=0), expected, rtol=0, atol=0.05)

    def test_posterior_equals_that_after_conditioning(
        self, model_class: ModelClass
    ) -> None:
        model = random_model(model_class)
        X = uniform(3, 2, 2, seed=5)
        test_X = uniform(4, 2, seed=6)
        fantasy = model.fantasize(X, SobolQMCNormalSampler(torch.Size([8]), seed=0))
        assert fantasy.batch_shape == (8, 3)
        mean = latent(fantasy, test_X).mean
        assert mean.shape == (8, 3, 4, 1)
        new_X = X if model_class is BinaryLaplaceGP else X.unflatten(-2, (-1, 2))
        labels = fantasy.train_targets[5, 1, 8:].unsqueeze(-1)
        single = model.condition_on_observations(new_X[1], labels)
        torch.testing.assert_close(
            mean[5, 1], latent(single, test_X).mean, rtol=0, atol=1e-10
        )

    def test_of_a_batch_with_a_transform(self, model_class: ModelClass) -> None:
        bounds = double([[-1.0, -1.0], [3.0, 3.0]])
        model = random_model(
            model_class, batch_shape=(3,), input_transform=Normalize(2, bounds=bounds)
        )
        sampler = SobolQMCNormalSampler(torch.Size([4]), seed=0)
        X = uniform(5, 3, 2, 2, seed=5)
        fantasy = model.fantasize(X, sampler)
        assert fantasy.batch_shape == (4, 5, 3)
        assert latent(fantasy, uniform(2, 2)).mean.shape == (4, 5, 3, 2, 1)
        fantasy.train()
        new_rows = join_rows(fantasy, fantasy.train_inputs[0])[..., -2:, :]
        torch.testing.assert_close(new_rows, X.expand_as(new_rows))

    def test_keeps_the_gradient_in_X(self, model_class: ModelClass) -> None:
        model = random_model(model_class)
        X = uniform(2, 2, seed=5).requires_grad_()
        fantasy = model.fantasize(X, SobolQMCNormalSampler(torch.Size([4]), seed=0))
        total = latent(fantasy, uniform(3, 2, seed=6)).mean.square().sum()
        assert torch.autograd.grad(total, X)[0].abs().max() > 0

    def test_default_sampler(self, model_class: ModelClass) -> None:
        model = random_model(model_class)
        posterior: Any = label_posterior(model, uniform(2, 2))
        sampler = get_sampler(posterior, torch.Size([4]), seed=1)
        fantasy = model.fantasize(uniform(2, 2), sampler)
        assert fantasy.batch_shape == (4,)


class TestProbabilityScale:
    def test_posterior_mean(self) -> None:
        model = random_model(BinaryLaplaceGP)
        transform = ClassProbability(model.likelihood)
        acqf, X = PosteriorMean(model, posterior_transform=transform), X_TEST
        expected = model.probability_posterior(X).mean.flatten()
        torch.testing.assert_close(acqf(X), expected)
        assert optimize(acqf) < 1

    def test_monte_carlo(self) -> None:
        model = random_model(BinaryLaplaceGP)
        transform = ClassProbability(model.likelihood)
        sampler = SobolQMCNormalSampler(torch.Size([64]), seed=0)
        acqf = qUpperConfidenceBound(
            model, beta=1.0, posterior_transform=transform, sampler=sampler
        )
        optimize(acqf)


class TestModelLists:
    def models(self) -> list[AnyModel]:
        return [random_model(model_class) for model_class in MODEL_CLASSES]

    @pytest.mark.parametrize("list_class", [ModelList, ModelListGP])
    def test_posterior_has_the_moments_of_each_model(
        self, list_class: Callable[..., ModelList]
    ) -> None:
        models = self.models()
        X = uniform(5, 2, 2)
        posterior: Any = list_class(*models).posterior(X)
        expected = torch.cat([latent(m, X).mean for m in models], dim=-1)
        torch.testing.assert_close(posterior.mean, expected)
        expected = torch.cat([latent(m, X).variance for m in models], dim=-1)
        torch.testing.assert_close(posterior.variance, expected)

    @pytest.mark.parametrize("list_class", [ModelList, ModelListGP])
    def test_acquisition_function_can_be_optimized(
        self, list_class: Callable[..., ModelList]
    ) -> None:
        acqf = qUpperConfidenceBound(
            list_class(*self.models()),
            beta=1.0,
            objective=LinearMCObjective(double([0.5, 0.5])),
        )
        optimize(acqf)

    def test_labels_need_a_list_without_a_joint_gaussian(self) -> None:
        models = [random_model(BinaryLaplaceGP), random_model(BinaryLaplaceGP)]
        X = uniform(5, 2)
        posterior: Any = ModelList(*models).posterior(X, observation_noise=True)
        assert posterior.mean.shape == (5, 2)
        with pytest.raises(AttributeError, match="``ModelList`` instead of"):
            ModelListGP(*models).posterior(X, observation_noise=True)

    def test_subset_has_the_posterior_of_its_model(self) -> None:
        models = self.models()
        subset = ModelList(*models).subset_output([1])
        X = uniform(3, 2)
        posterior: Any = subset.posterior(X)
        torch.testing.assert_close(posterior.mean, latent(models[1], X).mean)


def test_construct_inputs_of_outcomes() -> None:
    X, Y = random_trials(BinaryLaplaceGP, 6)
    dataset = SupervisedDataset(
        X, Y, feature_names=["a", "b"], outcome_names=["passed"]
    )
    arguments: dict[str, Any] = BinaryLaplaceGP.construct_inputs(dataset)
    model = BinaryLaplaceGP(**arguments)
    assert torch.equal(model.train_inputs[0], X)
    assert torch.equal(model.train_targets, Y.squeeze(-1))


def test_cross_validation_for_gaussian_noise_fails_rather_than_giving_numbers() -> None:
    with pytest.raises(AttributeError, match="Bernoulli"):
        efficient_loo_cv(random_model(BinaryLaplaceGP))


def value_of(X: Tensor) -> Tensor:
    """Greatest, 2, at (0.314, 0.314)."""
    return (5 * X).sin().sum(dim=-1)


@both_models
def test_a_loop_of_optimization(model_class: ModelClass) -> None:
    """Fit, propose, observe: then the posterior mean knows a good point."""
    q = duel_size(model_class)
    X, _ = random_trials(model_class, 5)
    for _ in range(10):
        value = value_of(X)
        Y = (value > 0 if q == 1 else value[:, 0] > value[:, 1]).double().unsqueeze(-1)
        model = model_class(X, Y)
        fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
        acqf: AcquisitionFunction = UpperConfidenceBound(model, beta=4.0)
        if q == 2:
            acqf = AnalyticExpectedUtilityOfBestOption(model)
        candidate, _ = propose(acqf, q=q)
        X = torch.cat([X, candidate.reshape(1, *X.shape[1:])])
    best, _ = propose(PosteriorMean(model))
    assert value_of(best) > 1.0
