from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.posteriors import GPyTorchPosterior
from gpytorch.means import ConstantMean, ZeroMean
from torch import Tensor

from botorch_binary_context import (
    AdditiveContextKernel,
    BinaryLaplaceGP,
    ProbitLikelihood,
)
from tests.closeness import assert_all_close
from tests.derivatives import finite_difference, jacobian
from tests.golden_numbers import BINARY_FILES, golden_kernel, load_golden
from tests.latent_posteriors import label_posterior, latent, latent_covariance
from tests.small_models import random_model, random_trials, simple_kernel
from tests.tensors import double, uniform

GOLDEN_CASES = [
    pytest.param(name, i, id=f"{name}-{load_golden(name)['kernels'][i]['name']}")
    for name in BINARY_FILES
    for i in range(7)
]


def golden_model(name: str, i: int) -> tuple[BinaryLaplaceGP, Tensor, dict[str, Any]]:
    """The model of a golden case, its test points and the expected numbers."""
    data = load_golden(name)
    case = data["kernels"][i]
    model = BinaryLaplaceGP(
        double(data["z"]),
        double(data["c"]).unsqueeze(-1),
        covar_module=golden_kernel(case["name"], case["hyper"]),
    )
    return model, double(data["z_test"]), case["laplace"]


def assert_near(found: Tensor, expected: Any, atol: float) -> None:
    torch.testing.assert_close(found.detach(), double(expected), rtol=0, atol=atol)


@pytest.mark.parametrize(("name", "i"), GOLDEN_CASES)
class TestGolden:
    def test_mode_equals_the_golden_numbers(self, name: str, i: int) -> None:
        model, _, expected = golden_model(name, i)
        model.eval()
        approximation = model.laplace_approximation
        assert_near(approximation.mode, expected["mode"], 1e-9)
        assert_near(approximation.sqrt_information.square(), expected["W"], 1e-9)
        assert_near(approximation.weights, expected["grad_log_lik"], 1e-9)

    def test_evidence_equals_the_golden_number(self, name: str, i: int) -> None:
        model, _, expected = golden_model(name, i)
        found = -model.laplace_approximation.log_evidence
        assert_near(found, expected["neg_log_marginal_likelihood"], 1e-9)

    def test_latent_posterior(self, name: str, i: int) -> None:
        model, Z, expected = golden_model(name, i)
        for X in (Z, Z.unsqueeze(-2)):  # all points jointly, and one by one
            posterior = latent(model, X)
            assert_near(posterior.mean.flatten(), expected["latent_mean"], 1e-9)
            variance = posterior.variance.flatten()
            assert_near(variance, expected["latent_variance"], 1e-10)

    def test_probability_equals_the_golden_numbers(self, name: str, i: int) -> None:
        model, Z, expected = golden_model(name, i)
        posterior = model.probability_posterior(Z)
        assert_near(posterior.mean.flatten(), expected["probability"], 1e-9)
        assert_near(
            posterior.variance.flatten(), expected["probability_variance"], 1e-10
        )
        labels = label_posterior(model, Z)
        assert_near(labels.mean.flatten(), expected["probability"], 1e-9)

    def test_gradients_equal_the_golden_numbers(self, name: str, i: int) -> None:
        model, Z, expected = golden_model(name, i)
        Z = Z.unsqueeze(-2).requires_grad_()

        def gradient(value: Tensor) -> Tensor:
            return torch.autograd.grad(value.sum(), Z)[0].squeeze(-2)

        posterior = latent(model, Z)
        assert_near(gradient(posterior.mean), expected["latent_mean_grad"], 1e-7)
        assert_near(
            gradient(latent(model, Z).variance),
            expected["latent_variance_grad"],
            1e-7,
        )
        assert_near(
            gradient(model.probability_posterior(Z).mean),
            expected["probability_grad"],
            1e-7,
        )


class TestBinaryLaplaceGP:
    def test_equals_a_regression(self) -> None:
        # Targets f + a / W, noise 1 / W, in BoTorch's own regression model.
        for constant in (0.0, 0.7):
            mean_module = ConstantMean()
            mean_module.constant = double(constant)
            model = random_model(BinaryLaplaceGP, mean_module=mean_module)
            approximation = model.laplace_approximation
            noise = 1 / approximation.sqrt_information.square()
            targets = approximation.mode + noise * approximation.weights
            regression = SingleTaskGP(
                model.train_inputs[0],
                targets.unsqueeze(-1),
                train_Yvar=noise.unsqueeze(-1),
                covar_module=simple_kernel(),
                mean_module=mean_module,
                outcome_transform=None,
            )
            X = uniform(6, 2, seed=3)
            expected = regression.posterior(X)
            assert isinstance(expected, GPyTorchPosterior)
            assert_all_close(latent(model, X).mean, expected.mean, rtol=0, atol=1e-10)
            assert_all_close(
                latent_covariance(model, X),
                expected.distribution.covariance_matrix,
                rtol=0,
                atol=1e-10,
            )

    def test_constant_mean_is_the_prior_far_away(self) -> None:
        mean_module = ConstantMean().double()
        mean_module.constant = double(0.7)
        model = random_model(BinaryLaplaceGP, mean_module=mean_module)
        far = torch.full((1, 2), 100.0, dtype=torch.double)
        assert_all_close(latent(model, far).mean.item(), 0.7)
        assert_all_close(
            latent(model, far).variance.item(), simple_kernel().outputscale.item()
        )

    def test_defaults_are_probit_zero_mean_and_two_priors(self) -> None:
        X, Y = random_trials(BinaryLaplaceGP, 8)
        model = BinaryLaplaceGP(X, Y)
        assert type(model.likelihood) is ProbitLikelihood
        assert model.likelihood.is_log_concave
        assert isinstance(model.mean_module, ZeroMean)
        assert model.num_outputs == 1
        assert model.batch_shape == torch.Size()
        names = {name for name, *_ in model.named_priors()}
        assert len(names) == 2  # output scale and lengthscales
        for parameter in model.parameters():
            assert parameter.dtype == torch.double

    def test_label_is_more_likely_where_it_was_seen(self) -> None:
        X = uniform(1, 2)
        for label in (0.0, 1.0):
            model = BinaryLaplaceGP(X, double([[label]]), covar_module=simple_kernel())
            probability = model.probability_posterior(X).mean.item()
            assert abs(probability - (1 - label)) > 0.5


def psychometric_log_loss(guess_rate: float, X: Tensor, Y: Tensor) -> Tensor:
    """The mean held-out negative log probability after 150 trials of each batch."""
    kernel = AdditiveContextKernel(simple_kernel(dim=1), context_dims=[0])
    kernel.context_variance = double(64.0)
    model = BinaryLaplaceGP(
        X[:, :150],
        Y[:, :150],
        likelihood=ProbitLikelihood(guess_rate=guess_rate),
        covar_module=kernel,
    )
    with torch.no_grad():
        p = model.probability_posterior(X[:, 150:]).mean
    return -torch.where(Y[:, 150:] == 1, p, 1 - p).log().mean(dim=(-1, -2))


class TestGuessRate:
    def test_right_rate_predicts_better(self) -> None:
        # A letter chart, eight times: below threshold, one guess in 26 is right. With
        # the wrong rate the slope of the psychometric function comes out too shallow.
        torch.manual_seed(0)
        X = torch.rand(8, 1000, 2, dtype=torch.double)
        X[..., 0] = 2 * X[..., 0] - 1
        contrast = 8 * X[..., :1] + (6 * X[..., 1:]).sin()
        Y = torch.bernoulli(ProbitLikelihood(guess_rate=1 / 26).probability(contrast))
        right, wrong = (
            psychometric_log_loss(guess_rate, X, Y) for guess_rate in (1 / 26, 0.0)
        )
        assert bool((right < wrong).all())

    def test_probability_stays_between_the_rates(self) -> None:
        likelihood = ProbitLikelihood(guess_rate=0.25, lapse_rate=0.1)
        model = random_model(BinaryLaplaceGP, n=20, likelihood=likelihood)
        posterior = model.probability_posterior(uniform(50, 2, seed=4))
        assert bool((posterior.mean > 0.25).all())
        assert bool((posterior.mean < 0.9).all())
        assert bool((posterior.variance > 0).all())

    def test_posterior_gradients_with_rates(self) -> None:
        likelihood = ProbitLikelihood(guess_rate=0.25, lapse_rate=0.1)
        model = random_model(BinaryLaplaceGP, likelihood=likelihood)
        for moment in ("mean", "variance"):

            def value(X: Tensor, moment: str = moment) -> Tensor:
                return getattr(model.probability_posterior(X), moment).squeeze(-1)

            X = uniform(3, 2, seed=5)
            assert_all_close(
                jacobian(value, X), finite_difference(value, X), rtol=0, atol=1e-9
            )
