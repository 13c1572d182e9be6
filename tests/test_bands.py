from __future__ import annotations

import torch
from torch.special import ndtr

from botorch_binary_context import BinaryLaplaceGP, PreferenceLaplaceGP
from botorch_binary_context.bands import latent_band, probability_band
from botorch_binary_context.likelihoods import ProbitLikelihood
from tests.helpers import (
    StrictTestCase,
    latent,
    latent_covariance,
    random_model,
    uniform,
)


class TestLatentBand(StrictTestCase):
    def test_moments(self) -> None:
        model, X = random_model(BinaryLaplaceGP, 8, 2), uniform(5, 2)
        with torch.no_grad():
            band, posterior = latent_band(model, X, 2.0), latent(model, X)
        mean, variance = posterior.mean.squeeze(-1), posterior.variance.squeeze(-1)
        self.assertAllClose(band.center, mean, atol=1e-10)
        self.assertAllClose(band.high - band.center, 2 * variance.sqrt(), atol=1e-8)
        self.assertAllClose(band.center - band.low, 2 * variance.sqrt(), atol=1e-8)


class TestProbabilityBand(StrictTestCase):
    def test_quantiles_of_samples(self) -> None:
        likelihood = ProbitLikelihood(guess_rate=0.2, lapse_rate=0.1)
        model = random_model(BinaryLaplaceGP, 8, 2, likelihood=likelihood)
        X = uniform(4, 1, 2)
        with torch.no_grad(), torch.random.fork_rng():
            torch.manual_seed(0)
            band = probability_band(model, X, 1.0)
            f = model.posterior(X).rsample(torch.Size([200_000])).flatten(1)
        samples = 0.2 + 0.7 * ndtr(f)
        self.assertAllClose(band.center, samples.mean(dim=0), atol=5e-3)
        one_deviation = ndtr(torch.tensor(1.0)).item()
        for bound, level in ((band.low, 1 - one_deviation), (band.high, one_deviation)):
            self.assertAllClose(bound, samples.quantile(level, dim=0), atol=5e-3)

    def test_duels(self) -> None:
        model = random_model(PreferenceLaplaceGP, 8, 2)
        duels = uniform(4, 2, 2)
        with torch.no_grad():
            band = probability_band(model, duels, 1.5)
            swapped = probability_band(model, duels.flip(-2), 1.5)
            covariance = latent_covariance(model, duels)
            difference = latent(model, duels).mean.squeeze(-1).diff(dim=-1).neg()
        weights = torch.tensor([1.0, -1.0], dtype=torch.double)
        spread = (covariance @ weights @ weights).sqrt()
        self.assertAllClose(
            band.high, ndtr(difference.squeeze(-1) + 1.5 * spread), atol=1e-8
        )
        self.assertAllClose(band.center, 1 - swapped.center, atol=1e-10)
        self.assertAllClose(band.low, 1 - swapped.high, atol=1e-10)
