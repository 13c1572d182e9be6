r"""
The sites of expectation propagation, and the posterior that they make of a prior.

A sweep takes all sites out, one at a time, and puts back sites that match the moments
of the true likelihood.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from botorch_binary_context.inference.gaussian import (
    TiltedLikelihood,
    factorize,
    matvec,
)

# A site is weak if its share in what is known of its contrast is below this.
WEAK = 1e-6
# The largest share of weak sites whose columns are worth computing separately.
MOST_WEAK = 0.4


@dataclass(frozen=True)
class Sites:
    r"""Gaussian factors ``exp(ν f - ½ τ f²)``, one for each trial.

    Attributes:
        precision: ``τ``, ``batch_shape x n``; negative where a trial widens the
            posterior.
        location: ``ν``, ``batch_shape x n``.
    """

    precision: Tensor
    location: Tensor

    @classmethod
    def unstack(cls, stacked: Tensor) -> Sites:
        r"""The inverse of :meth:`stack`.

        Args:
            stacked: A ``batch_shape x n x 2`` tensor.
        """
        return cls(*stacked.unbind(dim=-1))

    def stack(self) -> Tensor:
        r"""``τ`` and ``ν`` without a graph, ``batch_shape x n x 2``."""
        return torch.stack([self.precision, self.location], dim=-1).detach()

    @property
    def has_negative(self) -> bool:
        """Whether a site precision is negative."""
        return bool((self.precision < 0).any())

    def root(self) -> Tensor:
        """The roots of positive site precisions, zero for the others."""
        return _safe_root(self.precision)

    def negative_root(self) -> Tensor:
        """The roots of the negated negative site precisions, zero for the others."""
        return _safe_root(-self.precision)

    def where(self, chosen: Tensor, other: Sites) -> Sites:
        r"""These sites for some elements of the batch, and other sites elsewhere.

        Args:
            chosen: A boolean ``batch_shape`` tensor.
            other: The sites of the other elements.
        """
        chosen = chosen.unsqueeze(-1)
        return Sites(
            torch.where(chosen, self.precision, other.precision),
            torch.where(chosen, self.location, other.location),
        )


def _safe_root(x: Tensor) -> Tensor:
    """The root of positive values, zero elsewhere; the root of zero has no slope."""
    positive = x > 0
    return torch.where(positive, torch.where(positive, x, 1.0).sqrt(), 0.0)


@dataclass(frozen=True)
class Marginals:
    r"""The posterior of the contrasts that sites make of a prior.

    Attributes:
        mean: ``batch_shape x n``.
        variance: ``batch_shape x n``.
        half_log_det: ``½ log |I + K T|``, ``batch_shape``.
        is_proper: Whether there is a Gaussian with these sites, ``batch_shape``.
        _covariance: Computes the covariance.
    """

    mean: Tensor
    variance: Tensor
    half_log_det: Tensor
    is_proper: Tensor
    _covariance: Callable[[], Tensor]

    @classmethod
    def of(cls, prior_mean: Tensor, K: Tensor, sites: Sites) -> Marginals:
        r"""The posterior that sites make of a prior, differentiable.

        Args:
            prior_mean: ``m``, ``batch_shape x n``.
            K: The prior covariance, ``batch_shape x n x n``.
            sites: The sites.
        """
        root = sites.root()
        cholesky = factorize(K, root)
        V = torch.linalg.solve_triangular(cholesky, root.unsqueeze(-1) * K, upper=False)
        half_log_det = cholesky.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)
        narrow = _Reduction(K, V)
        if not sites.has_negative:
            is_proper = torch.ones_like(half_log_det, dtype=torch.bool)
            return cls._make(prior_mean, sites, narrow, half_log_det, is_proper)
        covariance = narrow.dense()
        wide = sites.negative_root().unsqueeze(-1)
        system = -wide * covariance * wide.mT
        system.diagonal(dim1=-2, dim2=-1).add_(1.0)
        factor, info = torch.linalg.cholesky_ex(system)
        W = torch.linalg.solve_triangular(factor, wide * covariance, upper=False)
        log_det = factor.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)
        widened = _Reduction(covariance, W, sign=-1.0)
        log_det = half_log_det + log_det
        return cls._make(prior_mean, sites, widened, log_det, info == 0)

    @classmethod
    def _make(
        cls,
        prior_mean: Tensor,
        sites: Sites,
        posterior: _Reduction,
        half_log_det: Tensor,
        is_proper: Tensor,
    ) -> Marginals:
        b = sites.location - sites.precision * prior_mean
        variance = posterior.diagonal().clamp_min(torch.finfo(b.dtype).tiny)
        mean = prior_mean + posterior.apply(b)
        return cls(mean, variance, half_log_det, is_proper, posterior.dense)

    @classmethod
    def by_inverse(
        cls, prior_mean: Tensor, K: Tensor, sites: Sites
    ) -> Marginals | None:
        r"""The same as :meth:`of`, from the inverse of ``B``, for a third of the cost.

        ``Σ = W⁻½ (I - B⁻¹) W⁻½`` loses digits where a site carries hardly any
        information. If few sites are so weak, their columns come from
        ``Σ = K - K W½ B⁻¹ W½ K``.

        Args:
            prior_mean: ``m``, ``batch_shape x n``.
            K: The prior covariance, ``batch_shape x n x n``.
            sites: The sites.

        Returns:
            The posterior; None if a site is negative or too many are weak.
        """
        if not bool((sites.precision > 0).all()):
            return None
        # A posterior variance is at most the prior variance.
        least = sites.precision * K.diagonal(dim1=-2, dim2=-1)
        if _are_too_many(least <= WEAK):
            return None
        root = sites.precision.sqrt()
        cholesky = factorize(K, root)
        inverse = torch.cholesky_inverse(cholesky)
        share = 1 - inverse.diagonal(dim1=-2, dim2=-1)
        weak = ~(share > WEAK)
        if _are_too_many(weak):
            return None
        scale = root.reciprocal()
        covariance = inverse.neg_().mul_(scale.unsqueeze(-1)).mul_(scale.unsqueeze(-2))
        covariance.diagonal(dim1=-2, dim2=-1).copy_(share / sites.precision)
        if bool(weak.any()):
            columns = _posterior_columns(K, root, cholesky, weak)
            covariance[:, weak] = columns
            covariance[weak, :] = columns.mT
        variance = covariance.diagonal(dim1=-2, dim2=-1)
        variance = variance.clamp_min(torch.finfo(variance.dtype).tiny)
        b = sites.location - sites.precision * prior_mean
        mean = prior_mean + matvec(covariance, b)
        half_log_det = cholesky.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)
        proper = torch.ones_like(half_log_det, dtype=torch.bool)
        return cls(mean, variance, half_log_det, proper, lambda: covariance)

    @classmethod
    def prior(cls, prior_mean: Tensor, K: Tensor) -> Marginals:
        r"""The prior, which is the posterior without sites.

        Args:
            prior_mean: ``m``, ``batch_shape x n``.
            K: The prior covariance, ``batch_shape x n x n``.

        Returns:
            The prior as a posterior.
        """
        variance = K.diagonal(dim1=-2, dim2=-1).clamp_min(torch.finfo(K.dtype).tiny)
        proper = torch.ones_like(variance[..., 0], dtype=torch.bool)
        zero = torch.zeros_like(variance[..., 0])
        return cls(prior_mean, variance, zero, proper, lambda: K)

    @cached_property
    def covariance(self) -> Tensor:
        """``Σ``, ``batch_shape x n x n``."""
        return self._covariance()

    def compact(self) -> Marginals:
        r"""A copy without what the covariance was computed from."""
        if "covariance" not in self.__dict__:
            return self
        covariance = self.covariance
        return replace(self, _covariance=lambda: covariance)

    def cavity(self, sites: Sites) -> Cavity:
        r"""The moments of every contrast without its own site.

        Args:
            sites: The sites.
        """
        left = 1 - sites.precision * self.variance
        mean = (self.mean - self.variance * sites.location) / left
        return Cavity(mean, self.variance / left)


def _are_too_many(weak: Tensor) -> bool:
    """Whether any element of a batch has too many weak sites to treat separately."""
    number = int(weak.sum())
    return number > (0 if weak.ndim > 1 else MOST_WEAK * weak.shape[-1])


def _posterior_columns(
    K: Tensor, root: Tensor, cholesky: Tensor, chosen: Tensor
) -> Tensor:
    """Some columns of ``Σ = K - K W½ B⁻¹ W½ K``."""
    part = K[:, chosen]
    root = root.unsqueeze(-1)
    return part - K @ (root * torch.cholesky_solve(root * part, cholesky))


@dataclass(frozen=True)
class _Reduction:
    """The covariance ``K - sign VᵀV``."""

    K: Tensor
    V: Tensor
    sign: float = 1.0

    def diagonal(self) -> Tensor:
        reduction = self.V.square().sum(dim=-2)
        return self.K.diagonal(dim1=-2, dim2=-1) - self.sign * reduction

    def apply(self, b: Tensor) -> Tensor:
        return matvec(self.K, b) - self.sign * matvec(self.V.mT, matvec(self.V, b))

    def dense(self) -> Tensor:
        return self.K.sub(self.V.mT @ self.V, alpha=self.sign)


@dataclass(frozen=True)
class Cavity:
    r"""Means and variances of the contrasts, each without its own site.

    Attributes:
        mean: ``batch_shape x n``.
        variance: ``batch_shape x n``.
    """

    mean: Tensor
    variance: Tensor


def match_cavity(
    likelihood: TiltedLikelihood, cavity: Cavity, targets: Tensor
) -> Sites:
    r"""The sites that match the moments of the likelihood in its cavities.

    Args:
        likelihood: The likelihood of the trials.
        cavity: The cavities.
        targets: Labels, ``batch_shape x n``.
    """
    tilted = likelihood.tilted_derivatives(cavity.mean, cavity.variance, targets)
    curvature = tilted.negative_hessian
    left = 1 - cavity.variance * curvature
    return Sites(curvature / left, (tilted.gradient + cavity.mean * curvature) / left)


def match_moments(
    likelihood: TiltedLikelihood, marginals: Marginals, sites: Sites, targets: Tensor
) -> Sites:
    r"""One sweep, which matches every site again, given the others.

    Args:
        likelihood: The likelihood of the trials.
        marginals: The posterior with the present sites.
        sites: The present sites.
        targets: Labels, ``batch_shape x n``.
    """
    return match_cavity(likelihood, marginals.cavity(sites), targets)


def site_jacobian(
    likelihood: TiltedLikelihood, marginals: Marginals, sites: Sites, targets: Tensor
) -> Tensor:
    r"""The derivative of a sweep in the sites that it starts from.

    A cavity does not depend on its own site, so the diagonals are zero.

    Args:
        likelihood: The likelihood of the trials.
        marginals: The posterior with the present sites.
        sites: The present sites.
        targets: Labels, ``batch_shape x n``.

    Returns:
        A ``batch_shape x 2n x 2n`` tensor for ``τ`` and then ``ν``.
    """
    covariance = marginals.covariance.clone()
    covariance.diagonal(dim1=-2, dim2=-1).zero_()
    left = (1 - sites.precision * marginals.variance).unsqueeze(-1)
    skew = sites.precision * marginals.mean - sites.location
    variance_tau = -(covariance / left).square()
    mean_nu = covariance / left
    mean_tau = -mean_nu * marginals.mean.unsqueeze(-2)
    mean_tau = mean_tau + variance_tau * skew.unsqueeze(-1)
    rows = []
    for by_mean, by_variance in _cavity_slopes(likelihood, marginals, sites, targets):
        by_tau = by_mean * mean_tau + by_variance * variance_tau
        rows.append(torch.cat([by_tau, by_mean * mean_nu], dim=-1))
    return torch.cat(rows, dim=-2)


def _cavity_slopes(
    likelihood: TiltedLikelihood, marginals: Marginals, sites: Sites, targets: Tensor
) -> list[tuple[Tensor, Tensor]]:
    """The derivatives of ``τ`` and of ``ν`` in the cavity's mean and variance."""
    cavity = marginals.cavity(sites)
    with torch.enable_grad():
        inputs = [t.detach().requires_grad_() for t in (cavity.mean, cavity.variance)]
        found = match_cavity(likelihood, Cavity(*inputs), targets)
        slopes = [
            torch.autograd.grad(value.sum(), inputs, retain_graph=True)
            for value in (found.precision, found.location)
        ]
    return [(a.detach().unsqueeze(-1), b.detach().unsqueeze(-1)) for a, b in slopes]
