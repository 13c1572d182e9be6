from __future__ import annotations

import torch

from botorch_binary_context import ProbitLikelihood
from botorch_binary_context.inference.local_posterior import LocalPosterior
from botorch_binary_context.inference.sites import Sites
from tests.inference.ep_cases import Prior, make_prior
from tests.tensors import uniform

N = 20


def make_sites(seed: int) -> Sites:
    return Sites(0.2 + uniform(N, seed=seed), uniform(N, seed=seed + 1) - 0.5)


def posterior(prior: Prior, sites: Sites) -> LocalPosterior:
    """That of sites, by direct inversion of its precision."""
    covariance = torch.linalg.inv(torch.linalg.inv(prior.K) + sites.precision.diag())
    mean = covariance @ (sites.location + torch.linalg.solve(prior.K, prior.mean))
    known = ProbitLikelihood(), prior.targets, sites, mean, covariance
    return LocalPosterior.of_moments(*known)


class TestMove:
    def check(self, rank: int) -> tuple[LocalPosterior, Sites]:
        """The moments are those of the sites that it is said to be near."""
        prior = make_prior(N)
        target = make_sites(5)
        found = posterior(prior, make_sites(3)).move(target, rank)
        expected = posterior(prior, found.sites)
        assert torch.allclose(
            found.marginals.covariance, expected.marginals.covariance, atol=1e-12
        )
        assert torch.allclose(found.marginals.mean, expected.marginals.mean, atol=1e-11)
        assert torch.allclose(found.error, expected.error, rtol=1e-9)
        return found, target

    def test_to_all_sites(self) -> None:
        found, target = self.check(N)
        assert torch.equal(found.sites.precision, target.precision)
        assert torch.allclose(found.sites.location, target.location, atol=1e-14)

    def test_to_the_sites_that_change_most(self) -> None:
        found, target = self.check(5)
        old = make_sites(3)
        variance = posterior(make_prior(N), old).marginals.variance
        change = (target.precision - old.precision).abs() * variance
        kept = found.sites.precision == old.precision
        assert int(kept.sum()) == N - 5
        assert change[kept].max() < change[~kept].min()
