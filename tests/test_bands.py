from __future__ import annotations

import torch
from gpytorch.kernels import RBFKernel
from torch.special import ndtr

from botorch_binary_context import BinaryLaplaceGP, PreferenceLaplaceGP
from botorch_binary_context.bands import (
    latent_band,
    probability_band,
    threshold_band,
)
from botorch_binary_context.kernels import AdditiveContextKernel
from botorch_binary_context.likelihoods import ProbitLikelihood
from tests.closeness import assert_all_close
from tests.latent_posteriors import latent, latent_covariance
from tests.small_models import random_model
from tests.tensors import uniform


class TestLatentBand:
    def test_band_is_the_mean_and_two_deviations(self) -> None:
        model = random_model(BinaryLaplaceGP, 8, 2)
        X = uniform(5, 2)
        with torch.no_grad():
            band = latent_band(model, X, 2.0)
            posterior = latent(model, X)
        mean = posterior.mean.squeeze(-1)
        variance = posterior.variance.squeeze(-1)
        assert_all_close(band.center, mean, atol=1e-10)
        assert_all_close(band.high - band.center, 2 * variance.sqrt(), atol=1e-8)
        assert_all_close(band.center - band.low, 2 * variance.sqrt(), atol=1e-8)


class TestProbabilityBand:
    def test_quantiles_of_samples(self) -> None:
        likelihood = ProbitLikelihood(guess_rate=0.2, lapse_rate=0.1)
        model = random_model(BinaryLaplaceGP, 8, 2, likelihood=likelihood)
        X = uniform(4, 1, 2)
        with torch.no_grad(), torch.random.fork_rng():
            torch.manual_seed(0)
            band = probability_band(model, X, 1.0)
            f = model.posterior(X).rsample(torch.Size([200_000])).flatten(1)
        samples = 0.2 + 0.7 * ndtr(f)
        assert_all_close(band.center, samples.mean(dim=0), atol=5e-3)
        one_deviation = ndtr(torch.tensor(1.0)).item()
        for bound, share in ((band.low, 1 - one_deviation), (band.high, one_deviation)):
            assert_all_close(bound, samples.quantile(share, dim=0), atol=5e-3)

    def test_duels_have_the_band_of_the_difference(self) -> None:
        model = random_model(PreferenceLaplaceGP, 8, 2)
        duels = uniform(4, 2, 2)
        with torch.no_grad():
            band = probability_band(model, duels, 1.5)
            swapped = probability_band(model, duels.flip(-2), 1.5)
            covariance = latent_covariance(model, duels)
            difference = latent(model, duels).mean.squeeze(-1).diff(dim=-1).neg()
        weights = torch.tensor([1.0, -1.0], dtype=torch.double)
        deviation = (covariance @ weights @ weights).sqrt()
        assert_all_close(
            band.high, ndtr(difference.squeeze(-1) + 1.5 * deviation), atol=1e-8
        )
        assert_all_close(band.center, 1 - swapped.center, atol=1e-10)
        assert_all_close(band.low, 1 - swapped.high, atol=1e-10)


class TestThresholdBand:
    def line(self, model: BinaryLaplaceGP, n: int) -> torch.Tensor:
        """Trials at three parameters, the easiest end of the context first."""
        context = torch.linspace(-2, 2, n, dtype=torch.double)
        with torch.no_grad():
            ends = latent(model, torch.tensor([[-2.0, 0.5], [2.0, 0.5]]).double())
        if ends.mean[0] < ends.mean[1]:
            context = context.flip(0)
        parameters = torch.tensor([0.2, 0.5, 0.9], dtype=torch.double)
        return torch.stack(torch.broadcast_tensors(context, parameters[:, None]), -1)

    def model(self) -> BinaryLaplaceGP:
        """With so much data about the context that no ``f`` in question rises."""
        X = uniform(200, 2)
        X[:, 0] = 4 * X[:, 0] - 2
        kernel = AdditiveContextKernel(RBFKernel(), [0]).to(X)
        Y = (X[:, :1] + 0.5 * X[:, 1:] > 0.2 * torch.randn(200, 1).to(X)).to(X)
        return BinaryLaplaceGP(X, Y, covar_module=kernel).eval()

    def test_quantiles_of_samples(self) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = self.model()
            line = self.line(model, 401)
            ends = line[:, [0, -1]]
            with torch.no_grad():
                band = threshold_band(model, line, 0.3, 1.0)
                samples = model.posterior(ends).rsample(torch.Size([100_000]))
        # Of this kernel ``f`` is a line in the context.
        first, last = samples.squeeze(-1).unbind(-1)
        assert (first > last).all()
        crossings = 400 * (first - 0.3) / (first - last)
        one_deviation = ndtr(torch.tensor(1.0)).item()
        shares = (0.5, 1 - one_deviation, one_deviation)
        for bound, share in zip(band, shares, strict=True):
            assert_all_close(bound, crossings.quantile(share, dim=0), atol=0.5)

    def test_between_the_trials(self) -> None:
        """Few trials show the same as many, since ``f`` is a line."""
        model = self.model()
        with torch.no_grad():
            fine = threshold_band(model, self.line(model, 401), 0.0, 0.0).center
            coarse = threshold_band(model, self.line(model, 5), 0.0, 0.0).center
        assert_all_close(fine / 400, coarse / 4, atol=1e-9)

    def test_values_never_reached_have_infinite_thresholds(self) -> None:
        model = self.model()
        line = self.line(model, 5)
        with torch.no_grad():
            always = threshold_band(model, line, -1e3, 1.0)
            never = threshold_band(model, line, 1e3, 1.0)
        for bound in always:
            assert (bound == torch.inf).all()
        for bound in never:
            assert (bound == -torch.inf).all()
