import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from botorch_binary_context import BinaryLaplaceGP, PreferenceLaplaceGP
from botorch_binary_context.inference import GivenContrasts
from botorch_binary_context.rules.parameters import hallucinate
from tests.closeness import assert_all_close
from tests.small_models import random_model
from tests.tensors import uniform

NOISE = 0.1


def contrasts(model: PreferenceLaplaceGP | BinaryLaplaceGP, rows: Tensor) -> Tensor:
    """The covariance of rows with the training contrasts, by hand."""
    kernel = model.covar_module
    data = model.train_inputs[0]
    if data.ndim == rows.ndim:
        return kernel(rows, data).to_dense()
    first, second = (kernel(rows, side).to_dense() for side in data.unbind(dim=-2))
    return first - second


class TestGivenContrasts:
    def test_regression_by_hand(self) -> None:
        X = uniform(5, 2, seed=3)
        for model_class in (BinaryLaplaceGP, PreferenceLaplaceGP):
            model = random_model(model_class, 6, 2)
            values = uniform(6, seed=1)
            given = model.with_inference(GivenContrasts(values, NOISE)).eval()
            posterior = given.posterior(X)
            K = model.approximation.prior_covariance
            system = K + NOISE**2 * torch.eye(6).double()
            cross = contrasts(model, X)
            mean = cross @ torch.linalg.solve(system, values)
            covar = model.covar_module(X).to_dense()
            covar = covar - cross @ torch.linalg.solve(system, cross.mT)
            assert_all_close(posterior.mean.squeeze(-1), mean)
            found = posterior.distribution.covariance_matrix  # pyright: ignore
            assert_all_close(found, covar, atol=1e-7)
            evidence = MultivariateNormal(torch.zeros(6).double(), system)
            assert_all_close(
                given.approximation.log_evidence, evidence.log_prob(values)
            )

    def test_batched_equals_looped(self) -> None:
        model = random_model(PreferenceLaplaceGP, 6, 2, (3,))
        values = uniform(3, 6, seed=1)
        X = uniform(4, 2)
        given = model.with_inference(GivenContrasts(values)).eval()
        means = given.posterior(X).mean
        for i in range(3):
            K = model.approximation.prior_covariance[i]
            system = K + 0.03**2 * torch.eye(6).double()
            weights = torch.linalg.solve(system, values[i])
            assert_all_close(given.approximation.weights[i], weights)
        assert means.shape == (3, 4, 1)

    def test_sites_have_the_precision_of_the_noise_and_the_values_as_means(
        self,
    ) -> None:
        model = random_model(BinaryLaplaceGP, 6, 2, (3,))
        values = uniform(3, 6, seed=1)
        given = model.with_inference(GivenContrasts(values, NOISE)).eval()
        precision, shift = given.approximation.as_sites().unbind(dim=-1)
        assert_all_close(precision, torch.full_like(values, NOISE**-2))
        assert_all_close(shift / precision, values)

    def test_a_mixture_of_all_is_the_true_posterior(self) -> None:
        model = random_model(PreferenceLaplaceGP, 5, 2)
        X = uniform(4, 2, seed=5)
        draws = model.sample_contrasts(256).values
        truth = model.exact_posterior(X, num_samples=256)
        given = GivenContrasts(draws, noise=1e-4)
        K = model.approximation.prior_covariance.detach()
        mean = torch.zeros(256, 5).double()
        found = given.approximate(
            model.trial_likelihood, mean, K.expand(256, 5, 5), model.train_targets
        )
        means = found.weights @ contrasts(model, X).mT
        assert_all_close(means, truth.means, atol=1e-5)

    def test_hallucinations_are_such_draws(self) -> None:
        model = random_model(PreferenceLaplaceGP, 5, 2, (2,))
        draws = model.sample_contrasts(256).values
        torch.manual_seed(0)
        found = []
        for _ in range(5):
            inference = hallucinate(model).inference
            assert isinstance(inference, GivenContrasts)
            equal = (draws == inference.values).all(dim=-1)  # 256 x 2
            assert equal.any(dim=0).all()
            found.append(equal.to(torch.double).argmax(dim=0).tolist())
        assert len({index for pair in found for index in pair}) == 10
