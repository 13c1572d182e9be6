r"""
The search for the sites of expectation propagation.

Between two factorizations, sweeps use a posterior that is linear in the change of the
sites, accelerated by Anderson's method: near the end this converges quadratically in
the number of factorizations, as Newton's method does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from botorch_binary_context.inference.gaussian import TiltedLikelihood, matvec
from botorch_binary_context.inference.local_posterior import (
    LocalPosterior,
    largest_change,
)
from botorch_binary_context.inference.sites import (
    Cavity,
    Marginals,
    Sites,
    match_cavity,
    site_jacobian,
)
from botorch_binary_context.likelihoods.base import LogDerivatives
from botorch_binary_context.numerics.anderson import AndersonMixing

DAMPING = 0.8
LEAST_DAMPING = 0.2
# The error, in posterior standard deviations, below which the posterior is nearly
# linear.
NEAR = 0.3
MAX_INNER_SWEEPS = 25
# For log-concave likelihoods, the error after a step near the end is at most this many
# times the square of the error before it.
CURVATURE = 1.0
# From this number of trials on, a posterior moves to other sites by an update of this
# rank, if its error is below the last number.
MOVING_SIZE = 300
RANK = 64
FAR = 0.1
# The number of sweeps of a whole batch, and of its unfinished elements before Newton's
# method takes over.
FIRST_SWEEPS = 10
PATIENCE = 20
SMALLEST_STEP = 1e-4


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
        r"""The derivatives of the likelihood, without negative curvatures.

        Args:
            mean: The mean of the contrasts, ``... x n``.
            variance: Their variance, ``... x n``.
            targets: Labels, ``... x n``.
        """
        tilted = self.likelihood.tilted_derivatives(mean, variance, targets)
        curvature = tilted.negative_hessian
        clamped = torch.where(
            self.chosen.unsqueeze(-1), curvature.clamp_min(0.0), curvature
        )
        return replace(tilted, negative_hessian=clamped)


@dataclass(frozen=True)
class SelectedLikelihood:
    r"""A likelihood for some elements of a batch alone.

    Attributes:
        likelihood: The likelihood of the trials of the whole batch.
        chosen: Which elements, ``batch_shape`` booleans.
    """

    likelihood: TiltedLikelihood
    chosen: Tensor

    def tilted_derivatives(
        self, mean: Tensor, variance: Tensor, targets: Tensor
    ) -> LogDerivatives:
        r"""The derivatives of the likelihood.

        Args:
            mean: The mean of the contrasts, ``m x n`` for ``m`` elements.
            variance: Their variance, ``m x n``.
            targets: Labels, ``m x n``.
        """
        # A rate may differ between elements, so that all of them are evaluated.
        tilted = self.likelihood.tilted_derivatives(
            self._fill(mean, 0.0), self._fill(variance, 1.0), self._fill(targets, 0.0)
        )
        return LogDerivatives(
            tilted.gradient[self.chosen],
            tilted.negative_hessian[self.chosen],
            tilted.information[self.chosen],
            lambda: tilted.value[self.chosen],
        )

    def _fill(self, selected: Tensor, value: float) -> Tensor:
        whole = selected.new_full((*self.chosen.shape, selected.shape[-1]), value)
        return whole.index_put(self.chosen.nonzero(as_tuple=True), selected)


@dataclass(frozen=True)
class SiteSearch:
    r"""The search for the sites of a batch of posteriors.

    Attributes:
        likelihood: The likelihood of the trials.
        prior_mean: ``m``, ``batch_shape x n``.
        K: The prior covariance, ``batch_shape x n x n``.
        targets: Labels, ``batch_shape x n``.
        tolerance: How far the moments may be from matching, in posterior standard
            deviations.
        curvature: The error after a step near the end is at most this many times the
            square of the error before it; infinite if no such bound is known.
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
            max_sweeps: The maximum number of factorizations.
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
            if begin is not None:
                sites, error, begin = self._approach(begin, sites)
                if bool((error <= self.tolerance).all()):
                    return sites, error, begin
            local = self._local(sites)
        is_batch = self.prior_mean[..., 0].numel() > 1
        patience = min(FIRST_SWEEPS if is_batch else PATIENCE, max_sweeps)
        sites, error, local = self._sweep(local, patience)
        missed = ~(error <= self.tolerance)
        if not bool(missed.any()):
            return sites, error, local
        if is_batch and not bool(missed.all()):
            return *self.rerun(missed, sites.stack(), sites, error, max_sweeps), None
        return *self._newton(sites, max_sweeps - patience), None

    def rerun(
        self,
        chosen: Tensor,
        start: Tensor,
        sites: Sites,
        error: Tensor,
        max_sweeps: int,
    ) -> tuple[Sites, Tensor]:
        r"""Search again for some elements of the batch; the others cost nothing.

        Args:
            chosen: Which elements, ``batch_shape`` booleans.
            start: The sites to start from, ``batch_shape x n x 2``.
            sites: The sites so far.
            error: Their errors.
            max_sweeps: The maximum number of factorizations.

        Returns:
            The better sites of the two, and their errors.
        """
        if not chosen.ndim:
            found, found_error, _ = self.run(start, max_sweeps)
        else:
            part = SiteSearch(
                SelectedLikelihood(self.likelihood, chosen),
                self.prior_mean[chosen],
                self.K[chosen],
                self.targets.expand_as(self.prior_mean)[chosen],
                self.tolerance,
                self.curvature,
            )
            some, some_error, _ = part.run(start[chosen], max_sweeps)
            where = chosen.nonzero(as_tuple=True)
            found = Sites(
                sites.precision.index_put(where, some.precision),
                sites.location.index_put(where, some.location),
            )
            found_error = error.index_put(where, some_error)
        better = found_error < error
        return found.where(better, sites), torch.where(better, found_error, error)

    def extend(self, former: LocalPosterior, known: Tensor) -> LocalPosterior:
        r"""The posterior of all trials, from the posterior of some of them.

        Every new trial is added by an update of rank one, with the site that matches
        its moments given the others.

        Args:
            former: The posterior of some trials near their sites.
            known: Which trials these are, ``n`` booleans.

        Returns:
            The posterior of all trials near these sites and the new ones.
        """
        old = known.nonzero().squeeze(-1)
        fresh = (~known).nonzero().squeeze(-1)
        mean, covariance = self._predict(former, old, fresh)
        precision = torch.zeros_like(mean)
        location = torch.zeros_like(mean)
        precision[..., old] = former.sites.precision
        location[..., old] = former.sites.location
        for index in fresh.tolist():
            variance = covariance[..., index, index].unsqueeze(-1)
            cavity = Cavity(mean, variance.expand_as(mean))
            matched = match_cavity(self.likelihood, cavity, self.targets)
            t = matched.precision[..., index : index + 1]
            v = matched.location[..., index : index + 1]
            mean = _add_site(t, v, index, mean, covariance)
            precision[..., index], location[..., index] = t[..., 0], v[..., 0]
        sites = Sites(precision, location)
        return LocalPosterior.of_moments(
            self.likelihood, self.targets, sites, mean, covariance
        )

    def _predict(
        self, former: LocalPosterior, old: Tensor, fresh: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The moments of all contrasts, given the sites of old trials alone."""
        before = former.marginals
        tau = former.sites.precision
        cross = self.K[..., fresh][..., old, :]
        mixed = cross - before.covariance @ (tau.unsqueeze(-1) * cross)
        new = self.K[..., fresh][..., fresh, :]
        new = new - cross.mT @ (tau.unsqueeze(-1) * mixed)
        covariance = torch.empty_like(self.K)
        if len(fresh) and int(fresh[0]) == len(old):  # the new trials are the last
            covariance[..., : len(old), : len(old)] = before.covariance
        else:
            covariance[..., old.unsqueeze(-1), old] = before.covariance
        covariance[..., old.unsqueeze(-1), fresh] = mixed
        covariance[..., fresh.unsqueeze(-1), old] = mixed.mT
        covariance[..., fresh.unsqueeze(-1), fresh] = new
        weights = former.sites.location - tau * before.mean
        mean = torch.empty_like(self.prior_mean)
        mean[..., old] = before.mean
        mean[..., fresh] = self.prior_mean[..., fresh] + matvec(cross.mT, weights)
        return mean, covariance

    def _approach(
        self, local: LocalPosterior, sites: Sites
    ) -> tuple[Sites, Tensor, LocalPosterior]:
        """Sites from a posterior near them, their expected error, the posterior."""
        is_new = (sites.precision == 0) & (sites.location == 0)
        sites = Sites(
            torch.where(is_new, local.sites.precision, sites.precision),
            torch.where(is_new, local.sites.location, sites.location),
        )
        sites, error = self._step(local, sites)
        if self._can_move(local, error):
            local = local.move(sites, RANK)
            sites, error = self._step(local, sites)
        return sites, error, local

    def _step(self, local: LocalPosterior, sites: Sites) -> tuple[Sites, Tensor]:
        """Move sites toward the match, by a posterior that is known near them."""
        position = local.position_of(sites)
        _, change = local.predict(position, torch.zeros_like(self.prior_mean))
        error = largest_change(change)
        begin = replace(local, position=position, change=change, error=error)
        moves = error < NEAR
        pace = _Pace(torch.full_like(error, DAMPING), moves)
        moved, left = self._advance(begin, moves, pace, local)
        expected = torch.minimum(left, error)
        expected = torch.maximum(expected, self.curvature * local.error.square())
        return moved.where(left < error, sites), expected

    def _can_move(self, local: LocalPosterior, error: Tensor) -> bool:
        """Whether a posterior is worth moving to other sites."""
        is_large = self.K.ndim == 2 and self.K.shape[-1] >= MOVING_SIZE
        if not is_large or self.curvature == torch.inf:
            return False
        return bool((error > self.tolerance) & (local.error < FAR))

    def _sweep(
        self, local: LocalPosterior, max_sweeps: int
    ) -> tuple[Sites, Tensor, LocalPosterior]:
        """Sweeps with factorizations, and between them with a linear posterior."""
        good = local.sites
        last = torch.full_like(local.error, torch.inf)
        pace = _Pace(torch.full_like(last, DAMPING), last < 0)
        for _ in range(max_sweeps):
            failed = ~local.error.isfinite()
            if bool(failed.any()):  # there is no such Gaussian: go most of the way back
                sites = _between(good, local.sites, 0.3).where(failed, local.sites)
                pace = pace.slower(failed)
                local = self._local(sites)
                continue
            good = local.sites
            pace = pace.next(local.error, last)
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
        """Newton's method, with halved steps if needed, where sweeps do not converge.

        Where many trials say the same, a sweep changes all of their sites at once and
        overshoots, however it is damped.
        """
        local = self._local(sites)
        size = torch.ones_like(local.error)
        step = self._newton_step(local)
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
            local = trial
            step = self._newton_step(trial)
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
        """The posterior near sites, and their change in one sweep."""
        prior = self.prior_mean, self.K
        if make is not None:
            marginals = make(*prior)
        else:
            marginals = Marginals.by_inverse(*prior, sites)
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

        Far from the end this is one damped sweep; near it, as many as needed until the
        error is of second order. The error is returned, too.
        """
        local = begin if local is None else local
        first = left = begin.error
        goal = (first.square() / 2).clamp_min(self.tolerance / 2)
        damping = torch.where(pace.is_near, DAMPING, pace.damping)[..., None, None]
        mixing = AndersonMixing()
        x = begin.position
        change = begin.change
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
            left = torch.where(moves, largest_change(change), left)
            moves = moves & (left > goal) & (left < 3 * first)
            if not bool(moves.any()):
                break
        return local.sites_at(x), left


@dataclass(frozen=True)
class _Pace:
    """How far each element of the batch may go in one step.

    Steps become shorter when a sweep did not help. Near the end, sweeps use a linear
    posterior, unless that did not help.
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


def _add_site(
    precision: Tensor, location: Tensor, index: int, mean: Tensor, covariance: Tensor
) -> Tensor:
    """The mean with one more site; the covariance is changed where it is."""
    column = covariance[..., index]
    shrink = 1 + precision * column[..., index : index + 1]
    push = location - precision * mean[..., index : index + 1]
    mean = mean + column * push / shrink
    scaled = (column * precision / shrink).unsqueeze(-1)
    row = column.unsqueeze(-2).clone()
    covariance.addcmul_(scaled, row, value=-1.0)
    return mean


def _between(first: Sites, second: Sites, weight: float) -> Sites:
    return Sites(
        torch.lerp(first.precision, second.precision, weight),
        torch.lerp(first.location, second.location, weight),
    )
