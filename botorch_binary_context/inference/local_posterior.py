r"""
A posterior near given sites, linear in their change.

A sweep of expectation propagation needs the posterior covariance of all trials, which
is most of its cost. So sweeps between two factorizations use this instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from botorch_binary_context.inference.gaussian import TiltedLikelihood, matvec
from botorch_binary_context.inference.sites import Marginals, Sites


@dataclass(frozen=True)
class LocalPosterior:
    r"""The posterior near given sites, to first order in their change.

    Sites near these have a *position*, ``batch_shape x 2 x n``: their precision and
    their location relative to the posterior mean, in units of their effect on the
    posterior.

    Attributes:
        likelihood: The likelihood of the trials.
        targets: Labels, ``batch_shape x n``.
        sites: The sites.
        marginals: The posterior with these sites.
        scale: The units of positions.
        position: The position of the sites themselves.
        change: The change of the position in one sweep.
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
        """
        tau = sites.precision
        variance = marginals.variance
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
        error = torch.where(is_proper, largest_change(change), torch.inf)
        error = error.nan_to_num(nan=torch.inf, posinf=torch.inf)
        return cls(
            likelihood, targets, sites, marginals, scale, position, change, error
        )

    @classmethod
    def of_moments(
        cls,
        likelihood: TiltedLikelihood,
        targets: Tensor,
        sites: Sites,
        mean: Tensor,
        covariance: Tensor,
    ) -> LocalPosterior:
        r"""The posterior near sites, given its moments there.

        Args:
            likelihood: The likelihood of the trials.
            targets: Labels, ``batch_shape x n``.
            sites: The sites.
            mean: The posterior mean, ``batch_shape x n``.
            covariance: The posterior covariance, ``batch_shape x n x n``.
        """
        variance = covariance.diagonal(dim1=-2, dim2=-1)
        variance = variance.clamp_min(torch.finfo(mean.dtype).tiny)
        proper = torch.ones_like(variance[..., 0], dtype=torch.bool)
        marginals = Marginals(
            mean, variance, variance[..., 0], proper, lambda: covariance
        )
        return cls.at(likelihood, targets, sites, marginals)

    def move(self, sites: Sites, rank: int) -> LocalPosterior:
        r"""The posterior near other sites, in ``O(n²)``; not for batches.

        Its sites have all the new weights, but the new precisions only where these
        changed most.

        Args:
            sites: The other sites.
            rank: How many precisions change.
        """
        old = self.sites.precision
        more = sites.precision - old
        chosen = (more.abs() * self.marginals.variance).topk(rank).indices
        few = more[chosen].unsqueeze(-1)
        columns = self.marginals.covariance[:, chosen]  # n x rank
        system = few * columns[chosen]
        system.diagonal().add_(1.0)
        right = torch.linalg.solve(system, few * columns.mT)
        covariance = torch.addmm(self.marginals.covariance, columns, right, alpha=-1)
        precision = old.index_copy(0, chosen, sites.precision[chosen])
        mean = self.marginals.mean
        location = sites.location - (sites.precision - precision) * mean
        push = location - self.sites.location - (precision - old) * mean
        mean = mean + matvec(covariance, push)
        moved = Sites(precision, location)
        known = self.likelihood, self.targets, moved, mean, covariance
        return LocalPosterior.of_moments(*known)

    @cached_property
    def _squares(self) -> Tensor:
        return self.marginals.covariance.square()

    @cached_property
    def _constants(self) -> tuple[Tensor, ...]:
        """The terms that all predictions share."""
        variance = self.marginals.variance
        left = 1 - self.sites.precision * variance
        unit = self.scale.reciprocal()
        relative = -(variance * left).reciprocal()
        return unit, self.position * unit, variance.square(), relative, variance / left

    def predict(self, position: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        r"""The change of other sites in one sweep.

        Args:
            position: The position of the other sites.
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

    def compact(self) -> LocalPosterior:
        r"""A copy to keep, without matrices that can be computed again."""
        return replace(self, marginals=self.marginals.compact())

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


def largest_change(change: Tensor) -> Tensor:
    r"""The largest change of any site of each element of a batch.

    Args:
        change: ``batch_shape x 2 x n``.

    Returns:
        A ``batch_shape`` tensor of absolute changes.
    """
    return change.abs().amax(dim=(-2, -1))
