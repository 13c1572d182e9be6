from __future__ import annotations

import math
from itertools import product
from typing import Any

import mpmath
import pytest
import torch
from botorch.acquisition import (
    LogExpectedImprovement,
    PosteriorMean,
    UpperConfidenceBound,
    qSimpleRegret,
)
from botorch.posteriors import GPyTorchPosterior, TransformedPosterior
from botorch.sampling import IIDNormalSampler, SobolQMCNormalSampler
from botorch.sampling.get_sampler import get_sampler
from gpytorch.distributions import MultivariateNormal
from hypothesis import given
from linear_operator import to_linear_operator
from scipy.stats import multivariate_normal
from torch import Tensor

from botorch_binary_context import (
    BinaryLaplaceGP,
    ClassProbability,
    LabelPosterior,
    PreferenceLaplaceGP,
    PreferenceLikelihood,
    ProbitLikelihood,
)
from tests import strategies
from tests.closeness import assert_all_close
from tests.derivatives import finite_difference, jacobian
from tests.devices import RequireDevice
from tests.quadrature import normal_expectation
from tests.small_models import random_model
from tests.tensors import double, uniform

RATES = ((0.0, 0.0), (0.2, 0.05))
NUM_SAMPLES = torch.Size([4096])
# Of the mean of that many samples in [0, 1]: five standard errors of the worst case.
SAMPLING_ERROR = 5 * 0.5 / math.sqrt(NUM_SAMPLES[0])


def joint_normal(n: int, batch: tuple[int, ...] = (), seed: int = 0) -> Any:
    """A distribution with means around zero and strong correlations."""
    root = 3 * uniform(*batch, n, n, seed=seed)
    covar = root @ root.mT + 0.1 * torch.eye(n, dtype=torch.double)
    return MultivariateNormal(2 * uniform(*batch, n, seed=seed + 1) - 1, covar)


def joint_success(
    distribution: MultivariateNormal, i: int, j: int, rates: tuple[float, float]
) -> float:
    """``P(cᵢ = 1, cⱼ = 1)``, by the bivariate normal distribution function."""
    guess, lapse = rates
    scale = 1 - guess - lapse
    mean = distribution.mean[[i, j]]
    covar = distribution.covariance_matrix[[i, j]][:, [i, j]]
    # f + noise > 0 for both, the noises independent and standard normal
    shifted: Any = (covar + torch.eye(2, dtype=torch.double)).numpy()
    both = multivariate_normal.cdf(mean.numpy(), [0.0, 0.0], shifted)
    single = torch.special.ndtr(mean / (1 + covar.diagonal()).sqrt())
    return guess**2 + guess * scale * float(single.sum()) + scale**2 * float(both)


class TestLabelPosterior:
    def test_shapes_and_moments(self) -> None:
        for batch, rates in product(((), (3,), (2, 3)), RATES):
            distribution = joint_normal(4, batch)
            likelihood = ProbitLikelihood(*rates)
            posterior: Any = LabelPosterior(distribution, likelihood)
            assert posterior.dtype == torch.double
            assert posterior.device == torch.device("cpu")
            success = likelihood.marginal(distribution).probs.unsqueeze(-1)
            assert posterior.mean.shape == (*batch, 4, 1)
            assert_all_close(posterior.mean, success, rtol=1e-14)
            assert_all_close(posterior.variance, success * (1 - success))
            assert posterior._extended_shape() == (*batch, 4, 1)
            samples = posterior.rsample(torch.Size([5, 2]))
            assert samples.shape == (5, 2, *batch, 4, 1)
            assert posterior.rsample().shape == (1, *batch, 4, 1)
            assert bool(((samples == 0) | (samples == 1)).all())

    def test_single_precision_stays_single(self) -> None:
        distribution = MultivariateNormal(torch.zeros(3), torch.eye(3))
        posterior: Any = LabelPosterior(distribution, ProbitLikelihood())
        assert posterior.dtype == torch.float
        assert posterior.rsample().dtype == torch.float
        assert posterior.mean.dtype == torch.float

    def test_density_of_a_label_is_its_probability(self) -> None:
        posterior: Any = LabelPosterior(joint_normal(4, (3,)), ProbitLikelihood(0.1))
        mean = posterior.mean
        ones = torch.ones_like(mean)
        zeros = torch.zeros_like(mean)
        assert_all_close(posterior.density(ones), mean)
        assert_all_close(posterior.density(zeros), 1 - mean)
        mixed = torch.stack([ones, zeros])
        assert posterior.density(mixed).shape == (2, 3, 4, 1)

    def test_moments_of_samples(self, subtests: pytest.Subtests) -> None:
        for rates in RATES:
            distribution = joint_normal(3)
            posterior: Any = LabelPosterior(distribution, ProbitLikelihood(*rates))
            for draw in ("random", "quasi-random"):
                with subtests.test(rates=rates, draw=draw), torch.random.fork_rng():
                    torch.manual_seed(0)
                    samples = (
                        posterior.rsample(NUM_SAMPLES)
                        if draw == "random"
                        else get_sampler(posterior, NUM_SAMPLES, seed=1)(posterior)
                    )
                    self._check_moments(samples.squeeze(-1), distribution, rates)

    def _check_moments(
        self,
        samples: Tensor,
        distribution: MultivariateNormal,
        rates: tuple[float, float],
    ) -> None:
        success = ProbitLikelihood(*rates).marginal(distribution).probs
        assert_all_close(samples.mean(0), success, rtol=0, atol=SAMPLING_ERROR)
        for i, j in ((0, 1), (0, 2), (1, 2)):
            together = float((samples[:, i] * samples[:, j]).mean())
            truth = joint_success(distribution, i, j, rates)
            assert abs(together - truth) < SAMPLING_ERROR
            # The trials are far from independent, or this would test nothing.
            assert abs(truth - float(success[i] * success[j])) > 0.01

    def test_one_latent_value(self) -> None:
        """Trials at one point with a latent value that is far from zero agree."""
        covar = 1e6 + torch.eye(2, dtype=torch.double)
        distribution = MultivariateNormal(double([0.0, 0.0]), covar)
        posterior: Any = LabelPosterior(distribution, ProbitLikelihood())
        with torch.random.fork_rng():
            torch.manual_seed(0)
            first, second = posterior.rsample(NUM_SAMPLES).squeeze(-1).unbind(-1)
        assert float((first == second).double().mean()) > 0.99
        assert_all_close(first.mean(), double(0.5), rtol=0, atol=SAMPLING_ERROR)

    def test_known_latent_value(self) -> None:
        """Trials at one point with a known latent value are independent."""
        mean = double([0.4, 0.4])
        covar = 1e-6 * (1 + torch.eye(2, dtype=torch.double))
        distribution = MultivariateNormal(mean, covar)
        posterior: Any = LabelPosterior(distribution, ProbitLikelihood())
        with torch.random.fork_rng():
            torch.manual_seed(0)
            first, second = posterior.rsample(NUM_SAMPLES).squeeze(-1).unbind(-1)
        success = torch.special.ndtr(mean[0])
        together = (first * second).mean()
        assert_all_close(together, success.square(), rtol=0, atol=SAMPLING_ERROR)


class TestLabelSamplers:
    def test_base_samples(self) -> None:
        """By hand: the latent values from one column, the labels from the other."""
        for batch in ((), (3,)):
            distribution = joint_normal(4, batch)
            likelihood = ProbitLikelihood(0.1)
            posterior: Any = LabelPosterior(distribution, likelihood)
            shape = torch.Size([6])
            assert posterior.base_sample_shape == (*batch, 4, 2)
            base = (
                torch.distributions.Normal(0.0, 1.0).sample((6, *batch, 4, 2)).double()
            )
            found = posterior.rsample_from_base_samples(shape, base)
            assert found.shape == (6, *batch, 4, 1)
            root = torch.linalg.cholesky(distribution.covariance_matrix)
            latent = distribution.mean + (root @ base[..., :1]).squeeze(-1)
            success = 0.1 + 0.9 * torch.special.ndtr(latent)
            expected = (torch.special.ndtr(base[..., 1]) < success).double()
            assert torch.equal(found.squeeze(-1), expected)

    def test_get_sampler(self) -> None:
        posterior: Any = LabelPosterior(joint_normal(4, (3,)), ProbitLikelihood())
        sampler = get_sampler(posterior, torch.Size([16]), seed=1)
        samples = sampler(posterior)
        assert samples.shape == (16, 3, 4, 1)
        assert bool(((samples == 0) | (samples == 1)).all())
        # The base samples are drawn once, and the seed decides them.
        assert torch.equal(sampler(posterior), samples)
        again = get_sampler(posterior, torch.Size([16]), seed=1)(posterior)
        assert torch.equal(again, samples)
        other = get_sampler(posterior, torch.Size([16]), seed=2)(posterior)
        assert not torch.equal(other, samples)

    def test_base_samples_are_shared_by_t_batches(self) -> None:
        """Equal posteriors in a batch get equal labels, as BoTorch's optimizers ask."""
        single = joint_normal(4)
        mean = single.mean.expand(3, 4)
        covar = single.covariance_matrix.expand(3, 4, 4)
        posterior: Any = LabelPosterior(
            MultivariateNormal(mean, covar), ProbitLikelihood()
        )
        assert posterior.batch_range == (0, -2)
        for sampler_class in (SobolQMCNormalSampler, IIDNormalSampler):
            sampler = sampler_class(sample_shape=torch.Size([32]), seed=0)
            samples = sampler(posterior)
            assert samples.shape == (32, 3, 4, 1)
            assert torch.equal(samples, samples[:, :1].expand_as(samples))

    def test_sampler_follows_other_posteriors(self) -> None:
        sampler = SobolQMCNormalSampler(sample_shape=torch.Size([8]), seed=0)
        for batch in ((), (2,), (3, 2)):
            posterior: Any = LabelPosterior(joint_normal(2, batch), ProbitLikelihood())
            assert sampler(posterior).shape == (8, *batch, 2, 1)

    def test_seeded_generator(self) -> None:
        posterior: Any = LabelPosterior(joint_normal(4), ProbitLikelihood())
        draws = []
        for seed in (0, 0, 1):
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                draws.append(posterior.rsample(torch.Size([16])))
        assert torch.equal(draws[0], draws[1])
        assert not torch.equal(draws[0], draws[2])

    def test_makes_nothing_on_the_default_device(self) -> None:
        distribution = joint_normal(4)
        latent = GPyTorchPosterior(distribution)
        with RequireDevice():
            posterior: Any = LabelPosterior(distribution, ProbitLikelihood(0.1))
            posterior.rsample(torch.Size([2]))
            get_sampler(posterior, torch.Size([2]), seed=0)(posterior)
            posterior.density(posterior.mean + posterior.variance)
            for likelihood in (ProbitLikelihood(0.1), PreferenceLikelihood()):
                transformed = ClassProbability(likelihood)(latent)
                transformed.rsample(torch.Size([2]))
                _ = transformed.mean + transformed.variance


class TestClassProbability:
    def test_exact_moments(self) -> None:
        for rates, batch in product(RATES, ((), (3,))):
            distribution = joint_normal(2, batch)
            guess, lapse = rates
            transform = ClassProbability(ProbitLikelihood(*rates))
            posterior = transform(GPyTorchPosterior(distribution))
            assert isinstance(posterior, TransformedPosterior)
            assert posterior.mean.shape == (*batch, 2, 1)
            assert posterior.variance.shape == (*batch, 2, 1)
            mean, variance = distribution.mean, distribution.variance

            def success(f: Any, rates: tuple[float, float] = (guess, lapse)) -> Any:
                return rates[0] + (1 - sum(rates)) * mpmath.ncdf(f)

            for index in range(mean.numel()):
                moments = mean.flatten()[index].item(), variance.flatten()[index].item()
                first = float(normal_expectation(success, *moments))
                squared = normal_expectation(lambda f, p=success: p(f) ** 2, *moments)
                assert posterior.mean.flatten()[index].item() == pytest.approx(
                    first, rel=0, abs=0.5e-12
                )
                spread = float(squared - first**2)
                assert posterior.variance.flatten()[index].item() == pytest.approx(
                    spread, rel=0, abs=0.5e-12
                )

    def test_samples_have_the_moments_of_the_posterior(self) -> None:
        distribution = joint_normal(3)
        transform = ClassProbability(ProbitLikelihood(0.1, 0.05))
        posterior = transform(GPyTorchPosterior(distribution))
        samples = get_sampler(posterior, NUM_SAMPLES, seed=1)(posterior)
        assert samples.shape == (*NUM_SAMPLES, 3, 1)
        assert bool(((samples >= 0.1) & (samples <= 0.95)).all())
        tolerance = SAMPLING_ERROR
        assert_all_close(samples.mean(0), posterior.mean, rtol=0, atol=tolerance)
        assert_all_close(samples.var(0), posterior.variance, rtol=0, atol=tolerance)

    def test_samples_are_those_of_the_latent_values(self) -> None:
        latent = GPyTorchPosterior(joint_normal(3))
        likelihood = ProbitLikelihood(0.1, 0.05)
        posterior = ClassProbability(likelihood)(latent)
        base = torch.randn(5, 3, dtype=torch.double)
        shape = torch.Size([5])
        found = posterior.rsample_from_base_samples(shape, base)
        expected = latent.rsample_from_base_samples(shape, base)
        assert_all_close(found, likelihood.probability(expected))

    def test_evaluate_equals_the_formula(self) -> None:
        Y = uniform(3, 4, 1)
        likelihood = ProbitLikelihood(0.1, 0.05)
        found = ClassProbability(likelihood).evaluate(Y)
        assert_all_close(found, 0.1 + 0.85 * torch.special.ndtr(Y).squeeze(-1))
        found = ClassProbability(PreferenceLikelihood()).evaluate(Y)
        gap = Y[:, 0::2, 0] - Y[:, 1::2, 0]
        assert_all_close(found, torch.special.ndtr(gap))

    @given(strategies.latent_moments((2,)), strategies.rates())
    def test_moments_are_in_range(
        self, moments: tuple[Tensor, Tensor], rates: tuple[float, float]
    ) -> None:
        mean, variance = moments
        covar = to_linear_operator(torch.diag_embed(variance))
        latent = GPyTorchPosterior(MultivariateNormal(mean, covar))
        posterior = ClassProbability(ProbitLikelihood(*rates))(latent)
        center, spread = posterior.mean, posterior.variance
        guess, lapse = rates
        assert bool((center >= guess).all())
        assert bool((center <= 1 - lapse + 1e-15).all())
        assert bool((spread >= 0).all())
        ceiling = (center - guess) * (1 - lapse - center)
        assert bool((spread <= ceiling + 1e-14).all())


class TestWithModels:
    def test_probability_posterior(self) -> None:
        for batch in ((), (2,)):
            model = random_model(BinaryLaplaceGP, batch_shape=batch)
            X = uniform(*batch, 3, 2, seed=4)
            transform = ClassProbability(model.likelihood)
            posterior: Any = model.posterior(X, posterior_transform=transform)
            latent: Any = model.posterior(X)
            expected = torch.special.ndtr(latent.mean / (1 + latent.variance).sqrt())
            assert_all_close(posterior.mean, expected)
            assert_all_close(model.probability_posterior(X).mean, expected)
            labels: Any = model.posterior(X, observation_noise=True)
            assert isinstance(labels, LabelPosterior)
            assert_all_close(labels.mean, expected)

    def test_acquisition_functions(self) -> None:
        model = random_model(BinaryLaplaceGP)
        transform = ClassProbability(model.likelihood)
        X = uniform(5, 1, 2, seed=4)
        probability = model.probability_posterior(X)
        mean = probability.mean.squeeze(-1).squeeze(-1)
        sd = probability.variance.sqrt().squeeze(-1).squeeze(-1)
        acqf = PosteriorMean(model, posterior_transform=transform)
        assert_all_close(acqf(X), mean)
        ucb = UpperConfidenceBound(model, beta=4.0, posterior_transform=transform)
        assert_all_close(ucb(X), mean + 2 * sd)
        log_ei = LogExpectedImprovement(
            model, best_f=0.5, posterior_transform=transform
        )
        assert bool(log_ei(X).isfinite().all())
        sampler = SobolQMCNormalSampler(NUM_SAMPLES, seed=0)
        regret = qSimpleRegret(model, sampler=sampler, posterior_transform=transform)
        assert_all_close(regret(X), mean, rtol=0, atol=SAMPLING_ERROR)

    def test_gradient_equals_finite_differences(self) -> None:
        model = random_model(BinaryLaplaceGP, likelihood=ProbitLikelihood(0.1, 0.02))
        acqf = PosteriorMean(
            model, posterior_transform=ClassProbability(model.likelihood)
        )
        X = uniform(3, 1, 2, seed=4)
        expected = finite_difference(acqf, X)
        assert_all_close(jacobian(acqf, X), expected, rtol=1e-6, atol=1e-9)

    def test_duels_have_the_probability_of_the_difference(self) -> None:
        for batch in ((), (2,)):
            model = random_model(PreferenceLaplaceGP, batch_shape=batch)
            X = uniform(5, *batch, 4, 2, seed=4)  # two duels each
            transform = ClassProbability(model.likelihood)
            posterior: Any = model.posterior(X, posterior_transform=transform)
            assert posterior.mean.shape == (5, *batch, 2, 1)
            latent: Any = model.posterior(X)
            mean, covar = (
                latent.distribution.mean,
                latent.distribution.covariance_matrix,
            )
            for i, (a, b) in enumerate(((0, 1), (2, 3))):
                gap = mean[..., a] - mean[..., b]
                contrast_variance = (
                    covar[..., a, a] + covar[..., b, b] - 2 * covar[..., a, b]
                )
                expected = torch.special.ndtr(gap / (1 + contrast_variance).sqrt())
                assert_all_close(posterior.mean[..., i, 0], expected)
            swapped = X.unflatten(-2, (2, 2)).flip(-2).flatten(-3, -2)
            mirrored: Any = model.probability_posterior(swapped)
            assert_all_close(mirrored.mean, 1 - posterior.mean)
            assert_all_close(mirrored.variance, posterior.variance)
            labels: Any = model.posterior(X, observation_noise=True)
            assert_all_close(labels.mean, posterior.mean)
            assert labels.rsample().shape == (1, 5, *batch, 2, 1)
