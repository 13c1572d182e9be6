r"""What a likelihood gets from its base class: a logistic one, written here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.distributions import MultivariateNormal
from numpy import ndarray
from scipy import integrate, stats
from scipy.special import entr, expit, log_expit, logit
from torch import Tensor
from torch.nn.functional import logsigmoid

from botorch_binary_context import BinaryGP, Functional, PreferenceLikelihood
from botorch_binary_context.inference import (
    ExpectationPropagation,
    Inference,
    Laplace,
)
from botorch_binary_context.likelihoods import (
    LogDerivatives,
    OutcomeLikelihood,
    ProbitLikelihood,
)
from tests.closeness import assert_all_close
from tests.derivatives import finite_difference, jacobian
from tests.small_models import simple_kernel
from tests.tensors import double, uniform

EXACT = ExpectationPropagation(tolerance=1e-10)


class Logistic(OutcomeLikelihood):
    """``p(c=1|f) = 1 / (1 + exp(-f))``, by the three abstract methods alone."""

    def probability(self, contrast: Tensor) -> Tensor:
        return contrast.sigmoid()

    def log_prob(self, contrast: Tensor, targets: Tensor) -> Tensor:
        return logsigmoid((2 * targets - 1) * contrast)

    def log_derivatives(self, contrast: Tensor, targets: Tensor) -> LogDerivatives:
        p = contrast.sigmoid()
        curvature = p * (1 - p)
        return LogDerivatives(
            targets - p, curvature, curvature, lambda: self.log_prob(contrast, targets)
        )


class LogisticDuels(Logistic):
    """Duels in which a win has odds ``exp(f(z₁) - f(z₂))``."""

    functional = PreferenceLikelihood.functional


LOGISTIC = Logistic()
MEANS = double([-4.0, -1.3, 0.0, 0.4, 2.0, 3.5])
VARIANCES = double([0.1, 1.0, 2.0, 4.0, 0.01, 3.0])
LABELS = double([0.0, 1.0, 1.0, 0.0, 0.0, 1.0])


def expectation(func: Callable[[ndarray], ndarray], mean: float, sd: float) -> float:
    """``E func(f)`` by SciPy's adaptive quadrature."""
    found = integrate.quad(
        lambda u: func(mean + sd * u) * stats.norm.pdf(u),
        -12,
        12,
        epsabs=1e-14,
        epsrel=1e-13,
        limit=200,
    )
    return float(found[0])


def expectations(func: Callable[[ndarray, ndarray], ndarray]) -> Tensor:
    """``E func(f, label)`` for all means, variances and labels."""
    rows = zip(MEANS.tolist(), VARIANCES.sqrt().tolist(), LABELS.tolist(), strict=True)
    return double(
        [expectation(lambda f, c=c: func(f, c), mean, sd) for mean, sd, c in rows]
    )


def likelihood_of(f: Any, label: Any) -> Any:
    """``p(c|f)`` by SciPy."""
    return expit((2 * label - 1) * f)


def normal() -> MultivariateNormal:
    return MultivariateNormal(MEANS, torch.diag_embed(VARIANCES))


def probability_entropy(f: ndarray) -> ndarray:
    """The entropy of a label, in nats."""
    return entr(expit(f)) + entr(expit(-f))


class TestQuadrature:
    """Gauss-Hermite quadrature with 32 nodes, up to a variance of 4."""

    def test_probability_moments(self) -> None:
        mean, variance = LOGISTIC.probability_moments(MEANS, VARIANCES)
        expected = expectations(lambda f, _: expit(f))
        assert_all_close(mean, expected, rtol=0, atol=2e-7)
        squares = expectations(lambda f, _: expit(f) ** 2)
        assert_all_close(variance, squares - expected**2, rtol=0, atol=4e-7)
        found = LOGISTIC.expected_probability(MEANS, VARIANCES)
        assert_all_close(found, expected, rtol=0, atol=2e-7)

    def test_mutual_information(self) -> None:
        p = expectations(lambda f, _: expit(f)).numpy()
        known = expectations(lambda f, _: probability_entropy(f))
        expected = torch.from_numpy(entr(p) + entr(1 - p)) - known
        found = LOGISTIC.mutual_information(MEANS, VARIANCES)
        assert_all_close(found, expected, rtol=0, atol=1e-6)

    def test_tilted_value(self) -> None:
        expected = expectations(likelihood_of).log()
        found = LOGISTIC.tilted_derivatives(MEANS, VARIANCES, LABELS)
        assert_all_close(found.value, expected, rtol=0, atol=4e-7)
        marginal = LOGISTIC.log_marginal(LABELS, normal())
        assert_all_close(marginal, expected, rtol=0, atol=4e-7)

    def test_tilted_derivatives_give_the_tilted_moments(self) -> None:
        # Of a Gaussian times a likelihood: μ + σ² ∂, and σ² - σ⁴ (-∂²).
        mass, first, second = (
            expectations(lambda f, c, k=k: f**k * likelihood_of(f, c)) for k in range(3)
        )
        mean = first / mass
        found = LOGISTIC.tilted_derivatives(MEANS, VARIANCES, LABELS)
        center = MEANS + VARIANCES * found.gradient
        assert_all_close(center, mean, rtol=0, atol=5e-6)
        left = VARIANCES - VARIANCES.square() * found.negative_hessian
        assert_all_close(left, second / mass - mean.square(), rtol=0, atol=2e-4)
        assert torch.equal(found.negative_hessian, found.information)

    def test_tilted_moments_of_wide_gaussians(self, subtests: pytest.Subtests) -> None:
        # The default kernels have variances of 8 and of 34.
        for variance in (8.0, 34.0, 100.0):
            for mean in (-3.0, 0.3, 4.0):
                f = mean + variance**0.5 * np.linspace(-12, 12, 24001)
                density = stats.norm.pdf(f, mean, variance**0.5) * expit(f)
                density /= density.sum()
                center = density @ f
                squares = density @ (f - center) ** 2
                moments = double([mean]), double([variance])
                found = LOGISTIC.tilted_derivatives(*moments, double([1.0]))
                error = mean + variance * found.gradient - center
                with subtests.test(mean=mean, variance=variance):
                    assert error.abs().item() < 0.01 * squares**0.5
                    left = variance - variance**2 * found.negative_hessian.item()
                    assert abs(left / squares - 1) < 0.02

    def test_tilted_derivatives_are_those_of_the_value(self) -> None:
        def value(mean: Tensor) -> Tensor:
            return LOGISTIC.tilted_derivatives(mean, VARIANCES, LABELS).value

        def gradient(mean: Tensor) -> Tensor:
            return LOGISTIC.tilted_derivatives(mean, VARIANCES, LABELS).gradient

        found = LOGISTIC.tilted_derivatives(MEANS, VARIANCES, LABELS)
        slope = finite_difference(value, MEANS).diagonal()
        assert_all_close(found.gradient, slope, rtol=0, atol=1e-10)
        bend = -finite_difference(gradient, MEANS).diagonal()
        assert_all_close(found.negative_hessian, bend, rtol=0, atol=1e-10)

    def test_tilted_derivatives_where_no_label_is_likely(self) -> None:
        # Far from zero the logarithm is nearly linear, and all of it stays finite.
        mean = double([-200.0, 200.0])
        variance = double([1.0, 4.0])
        found = LOGISTIC.tilted_derivatives(mean, variance, double([1.0, 0.0]))
        expected = double([-200.0 + 0.5, -200.0 + 2.0])
        assert_all_close(found.value, expected, rtol=0, atol=1e-10)
        assert_all_close(found.gradient, double([1.0, -1.0]), rtol=0, atol=1e-10)

    def test_expected_log_prob(self) -> None:
        expected = expectations(lambda f, c: log_expit((2 * c - 1) * f))
        found = LOGISTIC.expected_log_prob(LABELS, normal())
        assert_all_close(found, expected, rtol=0, atol=1e-6)

    def test_distributions_of_labels(self) -> None:
        marginal = LOGISTIC.marginal(normal())
        expected = expectations(lambda f, _: expit(f))
        assert_all_close(marginal.probs, expected, rtol=0, atol=2e-7)
        given: Any = LOGISTIC(MEANS)
        assert_all_close(given.probs, torch.from_numpy(expit(MEANS.numpy())))

    def test_batches_and_gradients(self) -> None:
        mean = MEANS.reshape(2, 1, 3)
        variance = VARIANCES.reshape(2, 1, 3)
        for name in ("expected_probability", "mutual_information"):
            method = getattr(LOGISTIC, name)
            found = method(mean, variance)
            assert found.shape == (2, 1, 3)
            flat = method(MEANS, VARIANCES)
            assert_all_close(found.flatten(), flat, rtol=0, atol=1e-14)

            def func(m: Tensor, method: Any = method) -> Tensor:
                return method(m, VARIANCES)

            slope = finite_difference(func, MEANS)
            assert_all_close(jacobian(func, MEANS), slope, rtol=0, atol=1e-9)


class TestContrastAt:
    def test_inverts_the_probability(self) -> None:
        for p in (1e-6, 0.1, 0.5, 0.75, 0.99):
            assert_all_close(LOGISTIC.contrast_at(p), float(logit(p)), atol=1e-10)
            contrast = double([LOGISTIC.contrast_at(p)])
            assert_all_close(LOGISTIC.probability(contrast).item(), p, rtol=1e-10)

    def test_agrees_with_a_closed_form(self) -> None:
        likelihood = ProbitLikelihood(0.5, 0.02)
        for p in (0.51, 0.75, 0.97):
            found = OutcomeLikelihood.contrast_at(likelihood, p)
            expected = stats.norm.ppf((p - 0.5) / 0.48)
            assert_all_close(found, expected, rtol=1e-9)

    def test_refuses_probabilities_out_of_reach(self) -> None:
        for p in (0.0, 1.0, -0.3, 1.2):
            with pytest.raises(InputDataError, match=f"between .* but got {p}"):
                LOGISTIC.contrast_at(p)


class TestDefaults:
    def test_two_outcomes_of_one_value_not_taken_as_log_concave(self) -> None:
        assert not LOGISTIC.is_log_concave  # a safe guess
        assert not LOGISTIC.requires_grad
        assert LOGISTIC.num_outcomes == 2
        assert LOGISTIC.functional == Functional((1.0,))

    def test_is_like(self) -> None:
        assert LOGISTIC.is_like(Logistic())
        for other in (LogisticDuels(), ProbitLikelihood()):
            assert not LOGISTIC.is_like(other)
            assert not other.is_like(LOGISTIC)
        assert ProbitLikelihood(0.5).is_like(ProbitLikelihood(0.5))
        assert not ProbitLikelihood(0.5).is_like(ProbitLikelihood(0.4))
        assert not ProbitLikelihood().is_like(PreferenceLikelihood())

    def test_is_abstract(self) -> None:
        with pytest.raises(TypeError, match="abstract"):
            OutcomeLikelihood()  # pyright: ignore[reportAbstractUsage]


# ------------------------------------------------------------------------ in a model


def logistic_model(n: int, inference: Inference, scale: float = 1.0) -> BinaryGP:
    """A model of trials with this likelihood."""
    kernel = simple_kernel()
    kernel.outputscale = scale
    X = uniform(n, 2)
    Y = (uniform(n, 1, seed=4) > 0.4).double()
    return BinaryGP(X, Y, LOGISTIC, covar_module=kernel, inference=inference)


def brute_posterior(model: BinaryGP) -> tuple[ndarray, ndarray, float]:
    """The mean and covariance of two trials and their evidence, on a grid."""
    u = np.linspace(-9, 9, 721)
    grid = np.stack(np.meshgrid(u, u, indexing="ij"), axis=-1).reshape(-1, 2)
    K = model.covar_module(model.train_inputs[0]).to_dense().detach().numpy()
    f = grid @ np.linalg.cholesky(K).T
    weights = stats.norm.pdf(grid).prod(axis=-1) * (u[1] - u[0]) ** 2
    weights = weights * likelihood_of(f, model.train_targets.numpy()).prod(axis=-1)
    mean = weights @ f / weights.sum()
    error = f - mean
    covariance = (weights[:, None] * error).T @ error / weights.sum()
    return mean, covariance, float(np.log(weights.sum()))


def log_posterior_gradient(model: BinaryGP, f: Tensor) -> Tensor:
    """That of the posterior density at the trials, times the prior covariance."""
    K = model.covar_module(model.train_inputs[0]).to_dense().detach()
    residual = model.train_targets - torch.from_numpy(expit(f.numpy()))
    return K @ residual - f


class TestModel:
    @pytest.mark.parametrize("scale", [1.0, 4.0, 9.0, 34.0, 100.0])
    def test_expectation_propagation_is_near_brute_force(self, scale: float) -> None:
        model = logistic_model(2, EXACT, scale)
        mean, covariance, evidence = brute_posterior(model)
        found: Any = model.posterior(model.train_inputs[0])
        deviation = torch.from_numpy(covariance).diagonal().sqrt()
        error = (found.mean.squeeze(-1) - torch.from_numpy(mean)) / deviation
        assert error.abs().max() < 1e-3
        difference = found.distribution.covariance_matrix - torch.from_numpy(covariance)
        assert difference.abs().max() < 4e-3 * scale
        assert abs(model.approximation.log_evidence.item() - evidence) < 1e-3

    def test_laplace_finds_the_mode(self) -> None:
        model = logistic_model(12, Laplace(), 4.0)
        mode = model.laplace_approximation.mode
        assert log_posterior_gradient(model, mode).abs().max() < 1e-9

    @pytest.mark.parametrize("inference", [EXACT, Laplace()], ids=repr)
    def test_label_posterior(self, inference: Inference) -> None:
        model = logistic_model(12, inference)
        X = uniform(5, 1, 2, seed=3)
        latent: Any = model.posterior(X)
        labels: Any = model.posterior(X, observation_noise=True)
        sd = latent.variance.detach().sqrt().flatten().tolist()
        expected = [
            expectation(expit, mean, spread)
            for mean, spread in zip(latent.mean.flatten().tolist(), sd, strict=True)
        ]
        for probability in (labels.mean, model.probability_posterior(X).mean):
            found = probability.flatten().detach()
            torch.testing.assert_close(found, double(expected), rtol=0, atol=1e-10)

    @pytest.mark.parametrize("inference", [EXACT, Laplace()], ids=repr)
    def test_conditioning_equals_a_model_of_all_trials(
        self, inference: Inference
    ) -> None:
        full = logistic_model(8, inference)
        part = logistic_model(5, inference)
        X, Y = full.train_inputs[0], full.train_targets.unsqueeze(-1)
        part.set_train_data(X[:5], Y[:5].squeeze(-1))
        conditioned = part.condition_on_observations(X[5:], Y[5:])
        test_X = uniform(4, 2, seed=3)
        for name in ("mean", "variance"):
            values = [getattr(m.posterior(test_X), name) for m in (conditioned, full)]
            torch.testing.assert_close(*values, rtol=0, atol=1e-9)
