r"""
The sites of expectation propagation, and the search for them.

A sweep takes all sites out, one at a time, and puts back those that match the moments
of the true likelihood. It needs the posterior covariance of all trials, which is most
of its cost. So between two factorizations the sweeps go on with a posterior that is
linear in the change of the sites, accelerated by Anderson's method: near the end this
converges quadratically in the number of factorizations, as Newton's method does.
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
from botorch_binary_context.likelihoods.base import LogDerivatives
from botorch_binary_context.numerics.anderson import AndersonMixing

DAMPING = 0.8
LEAST_DAMPING = 0.2
# Errors, in posterior standard deviations, below which the posterior is nearly linear.
NEAR = 0.3
MAX_INNER_SWEEPS = 25
# Of likelihoods that are log-concave: the error after a step near the end is at most
# so many times the square of that before it.
CURVATURE = 1.0
# The share of a trial in what is known of its contrast, below which it is weak.
WEAK = 1e-6
# Sweeps, before Newton's method takes over.
PATIENCE = 20
SMALLEST_STEP = 1e-4


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

        Returns:
            The sites.
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
        r"""These sites for some elements of the batch, others elsewhere.

        Args:
            chosen: A boolean ``batch_shape`` tensor.
            other: The sites of the other elements.

        Returns:
            The sites.
        """
        chosen = chosen.unsqueeze(-1)
        return Sites(
            torch.where(chosen, self.precision, other.precision),
            torch.where(chosen, self.location, other.location),
        )


def _safe_root(x: Tensor) -> Tensor:
    """The root of what is positive; the root of zero has no slope."""
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

        Returns:
            The posterior.
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
    def without_weak_sites(
        cls, prior_mean: Tensor, K: Tensor, sites: Sites
    ) -> Marginals | None:
        r"""The same from the inverse of ``B``, for a third of the cost, if possible.

        ``Σ = W⁻½ (I - B⁻¹) W⁻½`` loses its digits where a site hardly tells anything.

        Args:
            prior_mean: ``m``, ``batch_shape x n``.
            K: The prior covariance, ``batch_shape x n x n``.
            sites: The sites.

        Returns:
            The posterior, without its log determinant; None if a site is too weak.
        """
        if not bool((sites.precision > 0).all()):
            return None
        root = sites.precision.sqrt()
        inverse = torch.cholesky_inverse(factorize(K, root))
        share = 1 - inverse.diagonal(dim1=-2, dim2=-1)
        if not bool((share > WEAK).all()):
            return None
        scale = root.reciprocal()
        covariance = inverse.neg_().mul_(scale.unsqueeze(-1)).mul_(scale.unsqueeze(-2))
        variance = share / sites.precision
        covariance.diagonal(dim1=-2, dim2=-1).copy_(variance)
        b = sites.location - sites.precision * prior_mean
        mean = prior_mean + matvec(covariance, b)
        proper = torch.ones_like(variance[..., 0], dtype=torch.bool)
        return cls(mean, variance, variance[..., 0], proper, lambda: covariance)

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

    def cavity(self, sites: Sites) -> Cavity:
        r"""The moments of every contrast without its own site.

        Args:
            sites: The sites.

        Returns:
            The cavities.
        """
        left = 1 - sites.precision * self.variance
        mean = (self.mean - self.variance * sites.location) / left
        return Cavity(mean, self.variance / left)


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
        return self.K - self.sign * (self.V.mT @ self.V)


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

    Returns:
        The sites.
    """
    tilted = likelihood.tilted_derivatives(cavity.mean, cavity.variance, targets)
    curvature = tilted.negative_hessian
    left = 1 - cavity.variance * curvature
    return Sites(curvature / left, (tilted.gradient + cavity.mean * curvature) / left)


def match_moments(
    likelihood: TiltedLikelihood, marginals: Marginals, sites: Sites, targets: Tensor
) -> Sites:
    r"""One sweep: every site anew, given the others.

    Args:
        likelihood: The likelihood of the trials.
        marginals: The posterior with the present sites.
        sites: The present sites.
        targets: Labels, ``batch_shape x n``.

    Returns:
        The new sites.
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


@dataclass(frozen=True)
class ClampedLikelihood:
    r"""A likelihood whose sites are not negative for some elements of a batch.

    Attributes:
        likelihood: The likelihood of the trials.
        chosen: For which elements, ``batch_shape`` booleans.
    """

    likelihood: TiltedLikelihood
    chosen: Tensor

    def tilted_derivatives(
        self, mean: Tensor, variance: Tensor, targets: Tensor
    ) -> LogDerivatives:
        r"""As those of the likelihood, without negative curvatures.

        Args:
            mean: The mean of the contrasts, ``... x n``.
            variance: Their variance, ``... x n``.
            targets: Labels, ``... x n``.

        Returns:
            The value and the derivatives.
        """
        tilted = self.likelihood.tilted_derivatives(mean, variance, targets)
        curvature = tilted.negative_hessian
        clamped = torch.where(
            self.chosen.unsqueeze(-1), curvature.clamp_min(0.0), curvature
        )
        return replace(tilted, negative_hessian=clamped)


@dataclass(frozen=True)
class SiteSearch:
    r"""The search for the sites of a batch of posteriors.

    Attributes:
        likelihood: The likelihood of the trials.
        prior_mean: ``m``, ``batch_shape x n``.
        K: The prior covariance, ``batch_shape x n x n``.
        targets: Labels, ``batch_shape x n``.
        tolerance: How far the moments may be from their match, in posterior standard
            deviations.
        curvature: The error after a step near the end is at most so many times the
            square of that before it; infinite if that is not known.
    """

    likelihood: TiltedLikelihood
    prior_mean: Tensor
    K: Tensor
    targets: Tensor
    tolerance: float
    curvature: float = CURVATURE

    def run(
        self,
        start: Tensor | None,
        max_sweeps: int,
        begin: LocalPosterior | None = None,
    ) -> tuple[Sites, Tensor, LocalPosterior | None]:
        r"""Sweep until the moments match.

        Args:
            start: Sites to start from, stacked; by default none.
            max_sweeps: The most factorizations.
            begin: A posterior near these sites, if it is known.

        Returns:
            The sites, their error, ``batch_shape``, and the posterior that was last
            computed, if there is one.
        """
        zeros = torch.zeros_like(self.prior_mean)
        if zeros.shape[-1] == 0:
            return Sites(zeros, zeros), zeros.sum(dim=-1), None
        if start is None:
            local = self._local(Sites(zeros, zeros), Marginals.prior)
        else:
            sites = Sites.unstack(start)
            local = self._local(sites if begin is None else self._step(begin, sites))
        sites, error, local = self._sweep(local, min(PATIENCE, max_sweeps))
        if bool((error <= self.tolerance).all()):
            return sites, error, local
        return *self._newton(sites, max_sweeps - PATIENCE), None

    def extend(self, former: LocalPosterior, known: Tensor) -> LocalPosterior:
        r"""The posterior of all trials, from that of some of them.

        Every new trial is added by an update of rank one, with the site that matches
        its moments given the others.

        Args:
            former: The posterior of some trials near their sites.
            known: Which trials these are, ``n`` booleans.

        Returns:
            The posterior of all trials near these sites and the new ones.
        """
        tau, nu = former.sites.precision, former.sites.location
        cross = self.K[..., known, :][..., ~known]
        mixed = cross - former.marginals.covariance @ (tau.unsqueeze(-1) * cross)
        new = self.K[..., ~known, :][..., ~known]
        new = new - cross.mT @ (tau.unsqueeze(-1) * mixed)
        weights = nu - tau * former.marginals.mean
        covariance, mean = torch.empty_like(self.K), torch.empty_like(self.prior_mean)
        old, fresh = known.nonzero().squeeze(-1), (~known).nonzero().squeeze(-1)
        covariance[..., old.unsqueeze(-1), old] = former.marginals.covariance
        covariance[..., old.unsqueeze(-1), fresh] = mixed
        covariance[..., fresh.unsqueeze(-1), old] = mixed.mT
        covariance[..., fresh.unsqueeze(-1), fresh] = new
        mean[..., old] = former.marginals.mean
        mean[..., fresh] = self.prior_mean[..., fresh] + matvec(cross.mT, weights)
        precision, location = torch.zeros_like(mean), torch.zeros_like(mean)
        precision[..., old], location[..., old] = tau, nu
        for index in fresh.tolist():
            column = covariance[..., index]
            cavity = Cavity(mean, column[..., index : index + 1].expand_as(mean))
            site = match_cavity(self.likelihood, cavity, self.targets)
            t, v = (
                part[..., index : index + 1] for part in (site.precision, site.location)
            )
            shrink = 1 + t * column[..., index : index + 1]
            mean = mean + column * (v - t * mean[..., index : index + 1]) / shrink
            scaled = (column * t / shrink).unsqueeze(-1)
            covariance = covariance - scaled * column.unsqueeze(-2)
            precision[..., index], location[..., index] = t[..., 0], v[..., 0]
        return self._assemble(Sites(precision, location), mean, covariance)

    def _assemble(
        self, sites: Sites, mean: Tensor, covariance: Tensor
    ) -> LocalPosterior:
        variance = covariance.diagonal(dim1=-2, dim2=-1)
        variance = variance.clamp_min(torch.finfo(mean.dtype).tiny)
        proper = torch.ones_like(variance[..., 0], dtype=torch.bool)
        marginals = Marginals(
            mean, variance, variance[..., 0], proper, lambda: covariance
        )
        return LocalPosterior.at(self.likelihood, self.targets, sites, marginals)

    def _step(self, local: LocalPosterior, sites: Sites) -> Sites:
        """From sites towards the match, by a posterior that is known near them."""
        is_new = (sites.precision == 0) & (sites.location == 0)
        sites = Sites(
            torch.where(is_new, local.sites.precision, sites.precision),
            torch.where(is_new, local.sites.location, sites.location),
        )
        position = local.position_of(sites)
        _, change = local.predict(position, torch.zeros_like(self.prior_mean))
        error = _largest(change)
        begin = replace(local, position=position, change=change, error=error)
        moves = error < NEAR
        pace = _Pace(torch.full_like(error, DAMPING), moves)
        moved, left = self._advance(begin, moves, pace, local)
        return moved.where(left < error, sites)

    def _sweep(
        self, local: LocalPosterior, max_sweeps: int
    ) -> tuple[Sites, Tensor, LocalPosterior]:
        """Sweeps with factorizations, and between them with a linear posterior."""
        good, last = local.sites, torch.full_like(local.error, torch.inf)
        pace = _Pace(torch.full_like(last, DAMPING), last < 0)
        for _ in range(max_sweeps):
            failed = ~local.error.isfinite()
            if bool(failed.any()):  # there is no such Gaussian: go most of the way back
                sites = _between(good, local.sites, 0.3).where(failed, local.sites)
                pace = pace.slower(failed)
                local = self._local(sites)
                continue
            good, pace = local.sites, pace.next(local.error, last)
            moves = local.error > self.tolerance
            if not bool(moves.any()):
                break
            last = local.error
            sites, left = self._advance(local, moves, pace)
            expected = torch.maximum(left, self.curvature * last.square())
            error = torch.where(moves & pace.is_near, expected, last)
            if bool((error <= self.tolerance).all()):
                return sites, error, local
            local = self._local(sites)
        return good, last.minimum(local.error), local

    def _newton(self, sites: Sites, max_sweeps: int) -> tuple[Sites, Tensor]:
        """Newton's method for sites that sweeps do not find, each step halved at need.

        Where many trials say the same, a sweep changes all of their sites at once and
        overshoots, however it is damped.
        """
        local = self._local(sites)
        size, step = torch.ones_like(local.error), self._newton_step(local)
        for _ in range(max_sweeps):
            moves = ~(local.error <= self.tolerance) & (size > SMALLEST_STEP)
            if not bool(moves.any()):
                break
            x = local.position + size[..., None, None] * step
            trial = self._local(local.sites_at(x).where(moves, local.sites))
            better = moves & (trial.error < (1 - 1e-3 * size) * local.error)
            size = torch.where(better, (4 * size).clamp_max(1.0), size / 2)
            if not bool(better.any()):
                continue
            if not bool(better.all()):
                trial = self._local(trial.sites.where(better, local.sites))
            local, step = trial, self._newton_step(trial)
        return local.sites, local.error

    def _newton_step(self, local: LocalPosterior) -> Tensor:
        """The change of the scaled sites that Newton's method makes."""
        system = -site_jacobian(
            self.likelihood, local.marginals, local.sites, self.targets
        )
        system.diagonal(dim1=-2, dim2=-1).add_(1.0)
        target = local.sites_at(local.position + local.change)
        step = torch.cat(
            [
                target.precision - local.sites.precision,
                target.location - local.sites.location,
            ],
            dim=-1,
        )
        step = torch.linalg.solve_ex(system, step.unsqueeze(-1)).result.squeeze(-1)
        precision, location = step.nan_to_num().chunk(2, dim=-1)
        location = location - precision * local.marginals.mean
        return torch.stack([precision, location], dim=-2) * local.scale

    def _local(
        self,
        sites: Sites,
        make: Callable[..., Marginals] | None = None,
    ) -> LocalPosterior:
        """The posterior near sites, and what a sweep would change of them."""
        prior = self.prior_mean, self.K
        if make is not None:
            marginals = make(*prior)
        else:
            marginals = Marginals.without_weak_sites(*prior, sites)
        if marginals is None:
            marginals = Marginals.of(*prior, sites)
        return LocalPosterior.at(self.likelihood, self.targets, sites, marginals)

    def _advance(
        self,
        begin: LocalPosterior,
        moves: Tensor,
        pace: _Pace,
        local: LocalPosterior | None = None,
    ) -> tuple[Sites, Tensor]:
        """Sweep with a posterior that is linear in the sites.

        Far from the end one damped sweep. Near it as many as it takes until what is
        left is of the second order. Also returns that.
        """
        local = begin if local is None else local
        first = left = begin.error
        goal = (first.square() / 2).clamp_min(self.tolerance / 2)
        damping = torch.where(pace.is_near, DAMPING, pace.damping)[..., None, None]
        mixing, x, change = AndersonMixing(), begin.position, begin.change
        shift = torch.zeros_like(self.prior_mean)
        for _ in range(MAX_INNER_SWEEPS):
            step = damping * change
            if moves.ndim:
                step = torch.where(moves[..., None, None], step, 0.0)
            x = mixing.advance(x.flatten(-2)[..., None], step.flatten(-2)[..., None])
            x = x.squeeze(-1).unflatten(-1, change.shape[-2:])
            moves = moves & pace.is_near
            if not bool(moves.any()):
                break
            shift, change = local.predict(x, shift)
            left = torch.where(moves, _largest(change), left)
            moves = moves & (left > goal) & (left < 3 * first)
            if not bool(moves.any()):
                break
        return local.sites_at(x), left


@dataclass(frozen=True)
class _Pace:
    """How far each element of the batch may go in one step.

    The damping of a sweep falls when a sweep did not help. Near the end the sweeps go
    on with a linear posterior, unless that did not help.
    """

    damping: Tensor
    is_near: Tensor

    def next(self, error: Tensor, last: Tensor) -> _Pace:
        is_worse = error > last
        failed = is_worse & self.is_near
        return _Pace(self._shrink(is_worse & ~self.is_near), (error < NEAR) & ~failed)

    def slower(self, failed: Tensor) -> _Pace:
        return _Pace(self._shrink(failed), self.is_near & ~failed)

    def _shrink(self, chosen: Tensor) -> Tensor:
        smaller = (0.7 * self.damping).clamp_min(LEAST_DAMPING)
        return torch.where(chosen, smaller, self.damping)


@dataclass(frozen=True)
class LocalPosterior:
    r"""The posterior near given sites, to first order in what changes of them.

    Sites near these have a *position*, ``batch_shape x 2 x n``: their precision and
    their location relative to the posterior mean, in units of what they do to the
    posterior.

    Attributes:
        likelihood: The likelihood of the trials.
        targets: Labels, ``batch_shape x n``.
        sites: The sites.
        marginals: The posterior with these sites.
        scale: The units of positions.
        position: That of the sites themselves.
        change: What a sweep would change of it.
        error: The largest change; infinite if there is no posterior.
    """

    likelihood: TiltedLikelihood
    targets: Tensor
    sites: Sites
    marginals: Marginals
    scale: Tensor
    position: Tensor
    change: Tensor
    error: Tensor

    @classmethod
    def at(
        cls,
        likelihood: TiltedLikelihood,
        targets: Tensor,
        sites: Sites,
        marginals: Marginals,
    ) -> LocalPosterior:
        r"""The posterior near sites.

        Args:
            likelihood: The likelihood of the trials.
            targets: Labels, ``batch_shape x n``.
            sites: The sites.
            marginals: The posterior with these sites.

        Returns:
            The posterior.
        """
        tau, variance = sites.precision, marginals.variance
        weight = sites.location - tau * marginals.mean  # relative to the mean
        scale = torch.stack([variance, variance.sqrt()], dim=-2)
        position = torch.stack([tau, weight], dim=-2) * scale
        left = 1 - tau * variance
        cavity_variance = variance / left
        offset = -cavity_variance * weight
        moved = _position(
            likelihood, targets, marginals.mean, offset, cavity_variance, scale
        )
        change = moved - position
        is_proper = marginals.is_proper & (left > 0).all(dim=-1)
        error = torch.where(is_proper, _largest(change), torch.inf)
        error = error.nan_to_num(nan=torch.inf, posinf=torch.inf)
        return cls(
            likelihood, targets, sites, marginals, scale, position, change, error
        )

    @cached_property
    def _squares(self) -> Tensor:
        return self.marginals.covariance.square()

    @cached_property
    def _constants(self) -> tuple[Tensor, ...]:
        """What all predictions share."""
        variance = self.marginals.variance
        left = 1 - self.sites.precision * variance
        unit = self.scale.reciprocal()
        relative = -(variance * left).reciprocal()
        return unit, self.position * unit, variance.square(), relative, variance / left

    def predict(self, position: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        r"""What a sweep would change of other sites.

        Args:
            position: That of the other sites.
            shift: The change of the posterior mean for sites close to them,
                ``batch_shape x n``.

        Returns:
            The change of the posterior mean for these sites, and of their position.
        """
        unit, origin, squares, relative, cavity_variance = self._constants
        values = position * unit
        tau, weight = values.unbind(dim=-2)
        more, push = (values - origin).unbind(dim=-2)
        push = torch.addcmul(push, more, shift, value=-1)
        shift = matvec(self.marginals.covariance, push)
        growth = torch.addcmul(matvec(self._squares, more), squares, more, value=-1)
        # To first order, and positive whatever the change.
        variance = cavity_variance * (growth * relative).exp()
        offset = torch.addcmul(shift, variance, tau * shift - weight)
        mean = self.marginals.mean
        moved = _position(
            self.likelihood, self.targets, mean, offset, variance, self.scale
        )
        return shift, moved - position

    def position_of(self, sites: Sites) -> Tensor:
        r"""The position of sites.

        Args:
            sites: The sites.

        Returns:
            A ``batch_shape x 2 x n`` tensor.
        """
        weight = sites.location - sites.precision * self.marginals.mean
        return torch.stack([sites.precision, weight], dim=-2) * self.scale

    def sites_at(self, position: Tensor) -> Sites:
        r"""The sites of a position.

        Args:
            position: A ``batch_shape x 2 x n`` tensor.

        Returns:
            The sites.
        """
        precision, weight = (position / self.scale).unbind(dim=-2)
        return Sites(precision, weight + precision * self.marginals.mean)


def _position(
    likelihood: TiltedLikelihood,
    targets: Tensor,
    mean: Tensor,
    offset: Tensor,
    variance: Tensor,
    scale: Tensor,
) -> Tensor:
    """The position of the sites that match cavities at an offset from the mean."""
    tilted = likelihood.tilted_derivatives(mean + offset, variance, targets)
    curvature = tilted.negative_hessian
    weight = torch.addcmul(tilted.gradient, offset, curvature)
    matched = torch.stack([curvature, weight], dim=-2)
    return matched * (scale / (1 - variance * curvature).unsqueeze(-2))


def _between(first: Sites, second: Sites, weight: float) -> Sites:
    return Sites(
        torch.lerp(first.precision, second.precision, weight),
        torch.lerp(first.location, second.location, weight),
    )


def _largest(change: Tensor) -> Tensor:
    return change.abs().amax(dim=(-2, -1))
