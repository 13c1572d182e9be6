r"""
Draws from the true posterior of the contrasts, without a Gaussian approximation.

Many chains of Hamiltonian Monte Carlo [Neal2011mcmc]_ run side by side. Each gives one
draw, so draws are independent, and their Monte Carlo error is the error of a mean of
independent numbers. The chains start at draws from an approximation by sites. Their
dynamics are split [Shahbaba2014split]_: the Gaussian part, which is that approximation,
is followed exactly, and only the ratio of the likelihood to its sites needs small
steps. Where the approximation is good, a quarter of a turn gives an independent draw,
and a few of them suffice. A likelihood only needs to provide its log density and the
slope of the log density.

.. [Neal2011mcmc]
    R. M. Neal. MCMC using Hamiltonian dynamics. Handbook of Markov Chain Monte Carlo,
    2011.
.. [Shahbaba2014split]
    B. Shahbaba, S. Lan, W. O. Johnson, R. M. Neal. Split Hamiltonian Monte Carlo.
    Statistics and Computing 24, 2014.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_binary_context.inference.gaussian import TrialLikelihood
from botorch_binary_context.inference.sites import Sites
from botorch_binary_context.likelihoods.base import LogDerivatives

# A little wider than the approximation, so that chains reach the tails.
WIDENING = 0.8
COLD_TURNS = 6
WARM_TURNS = 3
# Of a turn: how many steps it takes at first, and at most.
STEPS = 4
MAX_STEPS = 64
LEAST_ACCEPTANCE = 0.65
# The variance, relative to the largest, of directions in which contrasts hardly vary.
NEGLIGIBLE = 1e-13


@dataclass(frozen=True)
class ContrastSamples:
    r"""Draws from the true posterior of the training contrasts.

    Attributes:
        values: The contrasts, ``num_samples x batch_shape x n``.
        prior_mean: ``m``, ``batch_shape x n``.
        K: The prior covariance, ``batch_shape x n x n``.
    """

    values: Tensor
    prior_mean: Tensor
    K: Tensor

    @cached_property
    def basis(self) -> Basis:
        """Independent coordinates of the contrasts."""
        return Basis.of(self.K)

    @cached_property
    def coordinates(self) -> Tensor:
        """The draws in these coordinates, ``num_samples x batch_shape x n``."""
        return _apply(self.basis.inverse.mT, self.values - self.prior_mean)


@dataclass(frozen=True)
class Basis:
    r"""Coordinates ``u`` of contrasts ``g = m + R u``, standard normal a priori.

    Trials that repeat others make the covariance singular; their directions have no
    weight in either matrix.

    Attributes:
        root: ``R``, ``batch_shape x n x n``.
        inverse: The transpose of its pseudoinverse, so that ``u`` is its transpose
            times ``g - m``.
    """

    root: Tensor
    inverse: Tensor

    @classmethod
    def of(cls, K: Tensor) -> Basis:
        r"""The coordinates of contrasts with a prior covariance.

        Args:
            K: ``batch_shape x n x n``.
        """
        values, vectors = torch.linalg.eigh(K)
        largest = values[..., -1:] if values.shape[-1] else values
        counts = values > max(NEGLIGIBLE, torch.finfo(K.dtype).eps) * largest * max(
            values.shape[-1], 1
        )
        root = torch.where(counts, values, 0.0).sqrt()
        inverse = torch.where(counts, values, 1.0).rsqrt() * counts
        return cls(vectors * root.unsqueeze(-2), vectors * inverse.unsqueeze(-2))


def sample_contrasts(
    likelihood: TrialLikelihood,
    prior_mean: Tensor,
    K: Tensor,
    targets: Tensor,
    sites: Tensor,
    num_samples: int,
    seed: int | None = None,
) -> ContrastSamples:
    r"""Draw from the true posterior of the contrasts.

    Args:
        likelihood: The likelihood of the trials.
        prior_mean: ``m``, ``batch_shape x n``.
        K: The prior covariance, ``batch_shape x n x n``.
        targets: Labels, ``batch_shape x n``.
        sites: ``τ`` and ``ν`` of an approximation, ``batch_shape x n x 2``.
        num_samples: The number of draws.
        seed: The seed of the draw.
    """
    with torch.no_grad(), manual_seed(seed):
        chains = _Chains.of(likelihood, prior_mean, K, targets, sites)
        shape = num_samples, *prior_mean.shape
        z = torch.randn(shape, dtype=K.dtype, device=K.device)
        z = chains.choose(z)
        return ContrastSamples(chains.run(z, COLD_TURNS), prior_mean, K)


def extend_samples(
    likelihood: TrialLikelihood,
    prior_mean: Tensor,
    K: Tensor,
    targets: Tensor,
    sites: Tensor,
    known: Tensor,
    values: Tensor,
    seed: int | None = None,
) -> ContrastSamples:
    r"""Draw from the true posterior, given draws from the posterior of some trials.

    The contrasts of new trials are drawn given the contrasts of the old ones; the draws
    are then resampled in proportion to the likelihood of the new labels, and a few
    steps of their chains make them differ again.

    Args:
        likelihood: The likelihood of the trials.
        prior_mean: ``m``, ``batch_shape x n``.
        K: The prior covariance, ``batch_shape x n x n``.
        targets: Labels, ``batch_shape x n``.
        sites: ``τ`` and ``ν`` of an approximation, ``batch_shape x n x 2``.
        known: Which of the trials the draws include, ``n`` booleans.
        values: The draws of their contrasts, ``num_samples x batch_shape x n'``.
        seed: The seed of the draw.
    """
    with torch.no_grad(), manual_seed(seed):
        g = _draw_unknown(prior_mean, K, known, values)
        evidence = likelihood.log_prob(g, targets.expand_as(g))[..., ~known]
        evidence = evidence.sum(dim=-1)
        g = resample(g, evidence, torch.rand_like(evidence[:1]))
        chains = _Chains.of(likelihood, prior_mean, K, targets, sites)
        z = chains.coordinates(g)
        return ContrastSamples(chains.run(z, WARM_TURNS), prior_mean, K)


def _draw_unknown(
    prior_mean: Tensor, K: Tensor, known: Tensor, values: Tensor
) -> Tensor:
    """Contrasts of all trials, with the unknown ones drawn given the others."""
    old = ContrastSamples(values, prior_mean[..., known], K[..., known, :][..., known])
    cross = old.basis.inverse.mT @ K[..., known, :][..., ~known]  # n' x (n - n')
    mean = prior_mean[..., ~known] + _apply(cross.mT, old.coordinates)
    left = K[..., ~known, :][..., ~known] - cross.mT @ cross
    root = Basis.of(left).root
    g = values.new_empty(*values.shape[:-1], known.shape[0])
    g[..., known] = values
    g[..., ~known] = mean + _apply(root, torch.randn_like(mean))
    return g


def resample(g: Tensor, log_weights: Tensor, offset: Tensor) -> Tensor:
    r"""Resample draws by their weights, with as little randomness as possible.

    Args:
        g: The draws, ``num_draws x batch_shape x n``.
        log_weights: The logarithms of their weights, ``num_draws x batch_shape``.
        offset: The position of the first mark, in steps from 0 to 1,
            ``1 x batch_shape``.

    Returns:
        A tensor of the shape of the draws.
    """
    weights = log_weights.softmax(dim=0)
    number = weights.shape[0]
    marks = torch.arange(number, dtype=g.dtype, device=g.device)
    marks = (marks.view(-1, *[1] * (weights.ndim - 1)) + offset) / number
    cumulative = weights.cumsum(dim=0).movedim(0, -1).contiguous()
    index = torch.searchsorted(cumulative, marks.movedim(0, -1).contiguous())
    index = index.clamp_max(number - 1).movedim(-1, 0)
    return g.gather(0, index.unsqueeze(-1).expand_as(g))


@dataclass(frozen=True)
class _State:
    """Where chains are, and what is known there."""

    z: Tensor
    slope: Tensor  # of the likelihood relative to the sites, in coordinates
    log_ratio: Tensor  # of the two

    def where(self, chosen: Tensor, other: _State) -> _State:
        """The state of these chains where chosen, and of the others elsewhere."""
        rows = chosen.unsqueeze(-1)
        return _State(
            torch.where(rows, self.z, other.z),
            torch.where(rows, self.slope, other.slope),
            torch.where(chosen, self.log_ratio, other.log_ratio),
        )


@dataclass(frozen=True)
class _Chains:
    """Chains in coordinates ``z`` that are standard normal under the base measure.

    The base measure is the prior times widened sites; the target is the base measure
    times the ratio of the likelihood to these sites.
    """

    likelihood: TrialLikelihood
    targets: Tensor
    sites: Sites
    center: Tensor  # the mean of the contrasts under the base measure
    root: Tensor  # a root of their covariance
    to_coordinates: Tensor  # its pseudoinverse

    @classmethod
    def of(
        cls,
        likelihood: TrialLikelihood,
        prior_mean: Tensor,
        K: Tensor,
        targets: Tensor,
        stacked: Tensor,
    ) -> _Chains:
        sites = Sites.unstack(WIDENING * stacked)
        basis = Basis.of(K)
        R = basis.root
        precision = R.mT @ (sites.precision.unsqueeze(-1) * R)
        precision.diagonal(dim1=-2, dim2=-1).add_(1.0)
        factor = torch.linalg.cholesky(precision)
        b = (sites.location - sites.precision * prior_mean).unsqueeze(-1)
        mean = R @ torch.cholesky_solve(R.mT @ b, factor)
        root = torch.linalg.solve_triangular(factor, R.mT, upper=False).mT
        back = factor.mT @ basis.inverse.mT
        center = prior_mean + mean.squeeze(-1)
        return cls(likelihood, targets, sites, center, root, back)

    def coordinates(self, g: Tensor) -> Tensor:
        return _apply(self.to_coordinates, g - self.center)

    def choose(self, z: Tensor) -> Tensor:
        """Draws of the base measure, resampled in proportion to the target.

        A chain that started where the likelihood is almost zero would be stuck there,
        and few chains move from one mode to another.
        """
        if not z.numel():
            return z
        ratio = self._log_ratio(*self._evaluate(z))
        return resample(z, ratio, torch.rand_like(ratio[:1]))

    def _site(self, g: Tensor) -> Tensor:
        return g * (self.sites.location - self.sites.precision * g / 2)

    def run(self, z: Tensor, num_turns: int) -> Tensor:
        """The contrasts of chains after some turns."""
        g, at = self._evaluate(z)
        state = _State(z, self._slope(g, at), self._log_ratio(g, at))
        steps = STEPS
        for _ in range(num_turns):
            state, acceptance = self._turn(state, steps)
            while acceptance < LEAST_ACCEPTANCE and steps < MAX_STEPS:
                steps = 2 * steps
                state, acceptance = self._turn(state, steps)
        return self.center + _apply(self.root, state.z)

    def _turn(self, begin: _State, steps: int) -> tuple[_State, float]:
        """A quarter of a turn of every chain, and the share that was accepted."""
        x = begin.z
        slope = begin.slope
        p = torch.randn_like(x)
        before = begin.log_ratio - _energy(x, p)
        # Turns differ in length, so that no chain comes back to where it started.
        length = (0.5 + torch.rand_like(x[..., :1])) * math.pi / 2 / steps
        cos = length.cos()
        sin = length.sin()
        for _ in range(steps):
            p = torch.addcmul(p, length, slope, value=0.5)
            x, p = cos * x + sin * p, cos * p - sin * x
            g, at = self._evaluate(x)
            slope = self._slope(g, at)
            p = torch.addcmul(p, length, slope, value=0.5)
        end = _State(x, slope, self._log_ratio(g, at))
        gain = end.log_ratio - _energy(x, p) - before
        accepted = torch.rand_like(gain).log() < gain
        share = float(accepted.to(x).mean()) if accepted.numel() else 1.0
        return end.where(accepted, begin), share

    def _evaluate(self, z: Tensor) -> tuple[Tensor, LogDerivatives]:
        """The contrasts, and their likelihood."""
        g = self.center + _apply(self.root, z)
        return g, self.likelihood.log_derivatives(g, self.targets.expand_as(g))

    def _slope(self, g: Tensor, at: LogDerivatives) -> Tensor:
        """The slope of the likelihood relative to the sites, in coordinates."""
        relative = at.gradient - self.sites.location + self.sites.precision * g
        return _apply(self.root.mT, relative)

    def _log_ratio(self, g: Tensor, at: LogDerivatives) -> Tensor:
        """The log ratio of the likelihood to the sites."""
        return (at.value - self._site(g)).sum(dim=-1)


def _energy(z: Tensor, p: Tensor) -> Tensor:
    """The energy of coordinates and momenta under the base measure."""
    return (z.square() + p.square()).sum(dim=-1) / 2


def _apply(matrix: Tensor, vectors: Tensor) -> Tensor:
    """Products of ``batch_shape x n x m`` matrices with ``... x batch_shape x m``."""
    return torch.einsum("...nm,s...m->s...n", matrix, vectors)
