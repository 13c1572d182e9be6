r"""
One posterior of few trials, in NumPy.

With a few dozen trials, function calls cost more than the algebra, and those of NumPy
and LAPACK cost a fraction of PyTorch's. This finds what the general searches find, the
mode of Laplace's method and the sites of expectation propagation, in the simplest way:
full steps, in double precision. If that fails, it finds nothing, and the general search
takes over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import torch
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs  # pyright: ignore
from torch import Tensor

from botorch_binary_context.inference.slopes import Slopes
from botorch_binary_context.likelihoods.probit_terms import Array, ProbitTerms

# The most trials: from here on the algebra costs more than the calls.
SMALL = 128
MAX_STEPS = 20
MAX_SWEEPS = 40
# What rounding allows of the weights at a mode, and of the contrasts.
TOLERANCE = 1e3 * float(np.finfo(float).eps)
CONTRAST_TOLERANCE = 32 * TOLERANCE
# The share of a trial in what is known of its contrast, below which digits are lost.
WEAK = 1e-6


class AnsweredTrials(Protocol):
    r"""A likelihood of all trials that may know them in NumPy."""

    def probit_terms(self, targets: Tensor) -> ProbitTerms | None:
        """The answers in NumPy, if all have a probit link and fixed rates."""
        ...


class SmallPosterior(Protocol):
    r"""What a search over few trials finds."""

    @property
    def log_evidence(self) -> float:
        """The approximate ``log p(c)``."""
        ...

    @property
    def start(self) -> Array:
        """Numbers of each trial to start a similar search from, ``n x k``."""
        ...

    def slopes(self) -> tuple[Array, Array]:
        """Those of the log evidence in the prior mean and covariance."""
        ...


@dataclass(frozen=True)
class SmallProblem:
    r"""A prior of contrasts and the answers to their trials.

    Attributes:
        mean: The prior mean ``m``, ``n``.
        K: The prior covariance, ``n x n``.
        terms: How the trials were answered.
    """

    mean: Array
    K: Array
    terms: ProbitTerms

    @classmethod
    def of(
        cls, likelihood: AnsweredTrials, prior_mean: Tensor, K: Tensor, targets: Tensor
    ) -> Self | None:
        r"""A problem in NumPy, if it is one that can be solved here.

        Args:
            likelihood: The likelihood of the trials.
            prior_mean: The prior mean ``m``, ``batch_shape x n``.
            K: The prior covariance, ``batch_shape x n x n``.
            targets: Labels, ``batch_shape x n``.

        Returns:
            The problem; None if it is a batch, large, not in double precision on the
            CPU, or with answers that are not known here.
        """
        if K.ndim != 2 or targets.ndim != 1 or not 0 < K.shape[-1] <= SMALL:
            return None
        if K.dtype != torch.double or K.device.type != "cpu":
            return None
        terms = likelihood.probit_terms(targets)
        if terms is None:
            return None
        return cls(prior_mean.detach().numpy(), K.detach().numpy(), terms)

    @np.errstate(all="ignore")  # what is not finite is not found
    def find_mode(self, weights: Array | None = None) -> SmallMode | None:
        r"""Newton's method for the mode, in the weights of ``f = m + K a``.

        Args:
            weights: Where to start, ``n``; by default at the prior mean.

        Returns:
            The mode; None if a step did not come closer to it, or if the log-likelihood
            is not concave.
        """
        if self.terms.floor is not None:
            return None
        begin = np.zeros_like(self.mean) if weights is None else weights
        return self._climb(begin)

    def _climb(self, weights: Array) -> SmallMode | None:
        """Full Newton steps, as long as each comes closer."""
        last = math.inf
        for _ in range(MAX_STEPS):
            found = self._at(weights)
            if found is None:
                return None
            gap = self.terms.sign * found.ratio - weights
            error = _largest(gap)
            K_gap = self.K @ gap
            if error <= TOLERANCE and _largest(K_gap) <= CONTRAST_TOLERANCE:
                return found
            if not error < last:
                return None
            last = error
            root = found.root
            solution, _ = dpotrs(found.cholesky, root * K_gap, lower=1)
            weights = weights + gap - root * solution
        return None

    def _at(self, weights: Array) -> SmallMode | None:
        """What would be the mode if these were its weights."""
        residual = self.K @ weights
        z = self.terms.sign * (self.mean + residual)
        ratio = self.terms.ratio(z)
        # In (0, 1); rounding must not take it out of there.
        root = np.sqrt(np.clip(ratio * (z + ratio), 0.0, 1.0))
        cholesky = _factorize(self.K, root)
        if cholesky is None:
            return None
        return SmallMode(self, weights, residual, z, ratio, root, cholesky)

    @np.errstate(all="ignore")
    def find_sites(
        self, start: Array | None, tolerance: float, max_sweeps: int = MAX_SWEEPS
    ) -> SmallSites | None:
        r"""Sweeps of expectation propagation, all sites at once.

        Args:
            start: Precisions ``τ`` and locations ``ν`` to start from, ``n x 2``; zeros
                where nothing is known of a trial.
            tolerance: By how much, in posterior standard deviations, one more sweep may
                change the moments of any trial.
            max_sweeps: The most sweeps.

        Returns:
            The sites; None if they were not found, or if one would have to be negative.
        """
        tau, nu = self._begin(start)
        for _ in range(min(max_sweeps, MAX_SWEEPS)):
            found = self._with_sites(tau, nu)
            if found is None:
                return None
            _, gradient, curvature = self.terms.tilt(
                found.mean + found.offset, found.cavity_variance
            )
            left = 1 - found.cavity_variance * curvature
            matched = curvature / left
            weights = (gradient + found.offset * curvature) / left
            error = max(
                _largest((matched - tau) * found.variance),
                _largest((weights - found.weights) * np.sqrt(found.variance)),
            )
            if error <= tolerance:
                return found
            tau = matched
            nu = weights + tau * found.mean
        return None

    def _begin(self, start: Array | None) -> tuple[Array, Array]:
        """Sites to start from; new trials have those that match in their prior."""
        variance = self.K.diagonal()
        _, gradient, curvature = self.terms.tilt(self.mean, variance)
        left = 1 - variance * curvature
        tau = curvature / left
        nu = (gradient + self.mean * curvature) / left
        if start is None:
            return tau, nu
        is_known = start.any(axis=-1)
        return np.where(is_known, start[:, 0], tau), np.where(is_known, start[:, 1], nu)

    def _with_sites(self, tau: Array, nu: Array) -> SmallSites | None:
        """The posterior with sites, which must be positive."""
        if not (tau > 0).all():
            return None
        root = np.sqrt(tau)
        cholesky = _factorize(self.K, root)
        if cholesky is None:
            return None
        inverse = _invert(cholesky)
        left = inverse.diagonal()
        if not (left < 1 - WEAK).all():
            return None
        b = (nu - tau * self.mean) / root
        mean = self.mean + (b - inverse @ b) / root
        variance = (1 - left) / tau
        return SmallSites(
            self, tau, nu, mean, variance, variance / left, root, cholesky, inverse
        )


@dataclass(frozen=True)
class SmallMode:
    r"""The mode of a small posterior.

    Attributes:
        problem: The problem.
        weights: ``a``, ``n``.
        residual: ``f̂ - m = K a``, ``n``.
        z: The contrasts, positive where they speak for the label, ``n``.
        ratio: The slopes of ``log p(c|f)`` in ``z``, ``n``.
        root: ``W½``, ``n``.
        cholesky: The factor of ``B = I + W½ K W½``, ``n x n``.
    """

    problem: SmallProblem
    weights: Array
    residual: Array
    z: Array
    ratio: Array
    root: Array
    cholesky: Array

    @property
    def start(self) -> Array:
        """The weights, ``n x 1``."""
        return self.weights[:, None]

    @property
    def log_likelihood(self) -> float:
        r"""``Σ log p(c|f̂)``."""
        return float(self.problem.terms.log_prob(self.z).sum())

    @property
    def log_evidence(self) -> float:
        r"""As in :class:`~.laplace.LaplaceApproximation`."""
        fit = float(self.weights @ self.residual) / 2
        return self.log_likelihood - fit - _half_log_det(self.cholesky)

    def slopes(self) -> tuple[Array, Array]:
        r"""As in :func:`~.laplace.evidence_slopes`.

        Returns:
            The slopes of the log evidence in the prior mean and covariance.
        """
        inverse = _invert(self.cholesky)
        share = 1 - inverse.diagonal()  # ``W Σ``
        P = _scale(inverse, self.root)
        # ``∂ log W / ∂f̂``, with ``W = r (z + r)``; zero where a trial says nothing.
        distance = self.z + self.ratio
        information = np.square(self.root)
        slope = self.ratio * (1 - information) - information * distance
        change = np.divide(
            slope, information, out=np.zeros_like(slope), where=information > 0
        )
        s = -0.5 * share * self.problem.terms.sign * change
        u = s - P @ (self.problem.K @ s)
        by_covariance = np.outer(u + self.weights / 2, self.weights)
        by_covariance -= 0.5 * P
        return self.weights + u, by_covariance


@dataclass(frozen=True)
class SmallSites:
    r"""The posterior with positive sites.

    Attributes:
        problem: The problem.
        precision: ``τ``, ``n``.
        location: ``ν``, ``n``.
        mean: The posterior mean, ``n``.
        variance: The posterior variance, ``n``.
        cavity_variance: That of each contrast without its own site, ``n``.
        root: ``W½``, the roots of the precisions, ``n``.
        cholesky: The factor of ``B = I + W½ K W½``, ``n x n``.
        inverse: The inverse of ``B``, ``n x n``.
    """

    problem: SmallProblem
    precision: Array
    location: Array
    mean: Array
    variance: Array
    cavity_variance: Array
    root: Array
    cholesky: Array
    inverse: Array

    @property
    def start(self) -> Array:
        """The site parameters, ``n x 2``."""
        return np.stack([self.precision, self.location], axis=-1)

    @property
    def weights(self) -> Array:
        """``a = ν - τ μ``, ``n``."""
        return self.location - self.precision * self.mean

    @property
    def offset(self) -> Array:
        """The means of the cavities, less those of the posterior, ``n``."""
        return -self.cavity_variance * self.weights

    @property
    def log_evidence(self) -> float:
        r"""As in :func:`~.expectation_propagation.log_evidence`."""
        tau = self.precision
        nu = self.location
        m = self.problem.mean
        c = self.cavity_variance
        mu = self.mean + self.offset
        z, _, _ = self.problem.terms.tilt(mu, c)
        spread = 1 + tau * c
        site = mu * (nu - tau * mu / 2) + np.square(nu - tau * mu) * c / spread / 2
        scale = self.problem.terms.log_prob(z) - site + np.log(spread) / 2
        prior = m * (nu - tau * m / 2) + (nu - tau * m) * (self.mean - m) / 2
        return float((prior + scale).sum()) - _half_log_det(self.cholesky)

    def slopes(self) -> tuple[Array, Array]:
        r"""``a`` and ``½ (a aᵀ - P)``, those at fixed sites.

        Returns:
            The slopes of the log evidence in the prior mean and covariance.
        """
        weights = self.weights
        by_covariance = np.outer(weights, weights)
        by_covariance -= _scale(self.inverse, self.root)
        return weights, 0.5 * by_covariance


def _largest(x: Array) -> float:
    return float(np.abs(x).max())


def _scale(matrix: Array, root: Array) -> Array:
    return matrix * root * root[:, None]


def _factorize(K: Array, root: Array) -> Array | None:
    """The factor of ``B = I + W½ K W½``, by columns; None if there is none."""
    B = _scale(K, root)
    B.flat[:: len(B) + 1] += 1.0
    cholesky, info = dpotrf(B.T, lower=1, clean=1, overwrite_a=1)
    return cholesky if info == 0 else None


def _invert(cholesky: Array) -> Array:
    """The inverse of what was factored."""
    half, _ = dpotri(cholesky, lower=1)  # zeros above its diagonal
    inverse = half + half.T
    inverse.flat[:: len(half) + 1] *= 0.5
    return inverse


def _half_log_det(cholesky: Array) -> float:
    return float(np.log(cholesky.diagonal()).sum())


def to_slopes(found: SmallPosterior) -> Slopes:
    r"""The slopes of the log evidence of a small problem, for PyTorch.

    Args:
        found: What was found.
    """
    by_mean, by_covariance = found.slopes()
    return Slopes(torch.from_numpy(by_mean), torch.from_numpy(by_covariance))
