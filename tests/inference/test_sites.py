from __future__ import annotations

import torch
from torch import Tensor

from botorch_binary_context.inference import sites as module
from botorch_binary_context.inference.sites import Marginals, Sites
from tests.tensors import uniform


def prior(n: int) -> tuple[Tensor, Tensor]:
    """A mean and a covariance of distinct points."""
    X = 3 * uniform(n, 2)
    K = 4 * (-torch.cdist(X, X).square() / 2).exp() + torch.eye(n).double()
    return uniform(n, seed=1), K


def make_sites(n: int, num_weak: int) -> Sites:
    """Sites, some of which hardly tell anything."""
    precision = 0.2 + uniform(n, seed=2)
    precision[:num_weak] *= 1e-9
    return Sites(precision, uniform(n, seed=3) - 0.5)


class TestByInverse:
    def check(self, num_weak: int) -> None:
        """Against the posterior by direct inversion of its precision."""
        n = 20
        mean, K = prior(n)
        sites = make_sites(n, num_weak)
        found = Marginals.by_inverse(mean, K, sites)
        assert found is not None
        covariance = torch.linalg.inv(torch.linalg.inv(K) + sites.precision.diag())
        b = sites.location + torch.linalg.solve(K, mean)
        assert torch.allclose(found.covariance, covariance, rtol=1e-9, atol=1e-11)
        assert torch.allclose(found.variance, covariance.diagonal(), rtol=1e-9)
        assert torch.allclose(found.mean, covariance @ b, rtol=1e-9, atol=1e-10)
        log_det = torch.linalg.slogdet(torch.eye(n) + K * sites.precision)[1]
        assert torch.allclose(found.half_log_det, log_det / 2, rtol=1e-10)

    def test_without_weak_sites(self) -> None:
        self.check(0)

    def test_with_weak_sites(self) -> None:
        self.check(3)
        self.check(8)

    def test_weak_sites_need_their_own_columns(self) -> None:
        mean, K = prior(20)
        sites = make_sites(20, 3)
        root = sites.precision.sqrt()
        B = torch.eye(20) + root * K * root.unsqueeze(-1)
        plain = (1 - torch.linalg.inv(B).diagonal()) / sites.precision
        found = Marginals.by_inverse(mean, K, sites)
        assert found is not None
        assert (plain / found.variance - 1).abs().max() > 1e-8

    def test_declines_many_weak_negative_or_batched_sites(self) -> None:
        mean, K = prior(20)
        assert Marginals.by_inverse(mean, K, make_sites(20, 12)) is None
        negative = make_sites(20, 0)
        negative.precision[4] = -0.01
        assert Marginals.by_inverse(mean, K, negative) is None
        weak = make_sites(20, 1)
        batch = Sites(weak.precision.expand(2, -1), weak.location.expand(2, -1))
        assert (
            Marginals.by_inverse(mean.expand(2, -1), K.expand(2, -1, -1), batch) is None
        )

    def test_declines_after_the_inverse(self) -> None:
        # Of sites that would tell something about the prior, but not the posterior.
        mean, _ = prior(20)
        K = torch.ones(20, 20).double() + 1e-7 * torch.eye(20)
        sites = Sites(torch.full((20,), 1e-5).double(), torch.zeros(20).double())
        sites.precision[10:] = 1e6
        assert float((sites.precision * K.diagonal()).min()) > module.WEAK
        assert Marginals.by_inverse(mean, K, sites) is None


def test_compact_marginals_have_the_same_covariance() -> None:
    mean, K = prior(10)
    marginals = Marginals.of(mean, K, make_sites(10, 0))
    assert marginals.compact() is marginals  # nothing was computed yet
    covariance = marginals.covariance
    assert marginals.compact().covariance is covariance
