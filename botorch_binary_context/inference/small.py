r"""
Posteriors of few trials, in NumPy.

With a few dozen trials, function calls cost more than the algebra, and calls of NumPy
and LAPACK cost a fraction of PyTorch's. This finds what the general searches find, the
mode of Laplace's method and the sites of expectation propagation, in the simplest way:
full steps, in double precision. If that fails, it finds nothing, and the general search
takes over.

Every array begins with the ``b`` models that are searched together: one, or a few of a
batch that still fit into the caches of a processor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Protocol, Self

import numpy as np
import torch
from scipy.linalg.lapack import dpotrf, dpotrs  # pyright: ignore
from torch import Tensor

from botorch_binary_context.inference.slopes import Slopes
from botorch_binary_context.likelihoods.probit_terms import Array, ProbitTerms

# The maximum number of trials; with more, the algebra costs more than the calls.
SMALL = 128
MAX_STEPS = 20
MAX_SWEEPS = 40
# The error that rounding allows in the weights at a mode, and in the contrasts.
TOLERANCE = 1e3 * float(np.finfo(float).eps)
CONTRAST_TOLERANCE = 32 * TOLERANCE
# If the share of a trial in what is known of its contrast is below this, digits are
# lost.
WEAK = 1e-6


class AnsweredTrials(Protocol):
    r"""A likelihood of all trials that may have their answers in NumPy."""

    def probit_terms(self, targets: Tensor) -> ProbitTerms | None:
        """The answers in NumPy, if all have a probit link and fixed rates."""
        ...


class SmallPosterior(Protocol):
    r"""The result of a search over few trials."""

    @property
    def is_found(self) -> Array:
        """Which models were found, ``b``."""
        ...

    @property
    def log_evidence(self) -> Array:
        """The approximate ``log p(c)``, ``b``."""
        ...

    @property
    def start(self) -> Array:
        """Numbers for each trial to start a similar search from, ``b x n x k``."""
        ...

    def slopes(self) -> tuple[Array, Array]:
        """The slopes of the log evidence in the prior, ``b x n`` and ``b x n x n``."""
        ...


def is_small(values: Tensor) -> bool:
    r"""Whether posteriors of these trials are searched for here.

    Args:
        values: A number for each trial, ``... x n``.

    Returns:
        Whether there are few trials, in double precision on the CPU.
    """
    is_plain = values.dtype == torch.double and values.device.type == "cpu"
    return is_plain and 0 < values.shape[-1] <= SMALL


@dataclass(frozen=True)
class SmallProblem:
    r"""Priors of contrasts and the answers to their trials.

    Attributes:
        mean: The prior mean ``m``, ``b x n``.
        K: The prior covariance, ``b x n x n``.
        terms: How the trials were answered, ``b x n``.
    """

    mean: Array
    K: Array
    terms: ProbitTerms

    @classmethod
    def of(
        cls, likelihood: AnsweredTrials, prior_mean: Tensor, K: Tensor, targets: Tensor
    ) -> Self | None:
        r"""A problem of one model in NumPy, if it can be solved here.

        Args:
            likelihood: The likelihood of the trials.
            prior_mean: The prior mean ``m``, ``batch_shape x n``.
            K: The prior covariance, ``batch_shape x n x n``.
            targets: Labels, ``batch_shape x n``.

        Returns:
            The problem; None if it is a batch, large, not in double precision on the
            CPU, or has answers that are not supported here.
        """
        if K.ndim != 2 or targets.ndim != 1 or not is_small(K):
            return None
        terms = likelihood.probit_terms(targets.unsqueeze(0))
        if terms is None:
            return None
        return cls(prior_mean.detach().numpy()[None], K.detach().numpy()[None], terms)

    def select(self, models: Array | list[int]) -> SmallProblem:
        r"""The problem of some of the models.

        Args:
            models: Their indices.
        """
        answers = self.terms.select(models)
        return SmallProblem(self.mean[models], self.K[models], answers)

    @np.errstate(all="ignore")  # not finite means not found
    def find_mode(self, weights: Array | None = None) -> SmallMode | None:
        r"""Newton's method for the mode, in the weights of ``f = m + K a``.

        Args:
            weights: Where to start, ``b x n``; by default at the prior mean.

        Returns:
            The mode, not found where a step did not come closer to it; None if the
            log-likelihood is not concave.
        """
        if self.terms.floor is not None:
            return None
        found = self._at(np.zeros_like(self.mean) if weights is None else weights)
        is_there = [False] * len(self.mean)
        last = [math.inf] * len(self.mean)
        for _ in range(MAX_STEPS):
            gap = self.terms.sign * found.ratio - found.weights
            K_gap = multiply(self.K, gap)
            error = _largest(gap).tolist()
            is_there = [e <= TOLERANCE for e in error]
            if any(is_there):
                is_close = (_largest(K_gap) <= CONTRAST_TOLERANCE).tolist()
                is_there = [a and b for a, b in zip(is_there, is_close, strict=True)]
            # A model that does not come closer stays where it is, and so is left out.
            moving = [
                i
                for i, factored in enumerate(found.is_found.tolist())
                if factored and not is_there[i] and error[i] < last[i]
            ]
            if not moving:
                break
            last = error
            step = gap - found.root * _solve(found.cholesky, found.root * K_gap)
            if len(moving) == len(error):
                found = self._at(found.weights + step)
            else:
                weights = found.weights[moving] + step[moving]
                _put(found, moving, self.select(moving)._at(weights))
        found.is_found[:] &= is_there
        return found

    def _at(self, weights: Array) -> SmallMode:
        """What would be the mode if these were its weights."""
        residual = multiply(self.K, weights)
        z = self.terms.sign * (self.mean + residual)
        ratio = self.terms.ratio(z)
        # In (0, 1); rounding must not take it out of there.
        information = np.minimum(np.maximum(ratio * (z + ratio), 0.0), 1.0)
        root = np.sqrt(information)
        cholesky, is_factored = _factorize(self.K, root)
        return SmallMode(self, is_factored, weights, residual, z, ratio, root, cholesky)

    @np.errstate(all="ignore")
    def find_sites(
        self, start: Array | None, tolerance: float, max_sweeps: int = MAX_SWEEPS
    ) -> SmallSites:
        r"""Sweeps of expectation propagation, all sites at once.

        Args:
            start: Precisions ``τ`` and locations ``ν`` to start from, ``b x n x 2``;
                zeros where nothing is known of a trial.
            tolerance: The most that one more sweep may change the moments of any trial,
                in posterior standard deviations.
            max_sweeps: The maximum number of sweeps.

        Returns:
            The sites, not found where one would have to be negative.
        """
        found = self._with_sites(*self._begin(start))
        is_there = np.zeros(len(self.mean), dtype=bool)
        for _ in range(min(max_sweeps, MAX_SWEEPS)):
            matched, weights = found.match()
            error = np.maximum(
                _largest((matched - found.precision) * found.variance),
                _largest((weights - found.weights) * np.sqrt(found.variance)),
            )
            is_there = error <= tolerance
            moving = np.flatnonzero(found.is_found & ~is_there)
            if not len(moving):
                break
            location = weights + matched * found.mean
            if len(moving) == len(is_there):
                found = self._with_sites(matched, location)
            else:
                sites = matched[moving], location[moving]
                _put(found, moving, self.select(moving)._with_sites(*sites))
        found.is_found[:] &= is_there
        return found

    def _begin(self, start: Array | None) -> tuple[Array, Array]:
        """Sites to start from; new trials have the sites that match in their prior."""
        variance = self.K.diagonal(axis1=-2, axis2=-1)
        _, gradient, curvature = self.terms.tilt(self.mean, variance)
        left = 1 - variance * curvature
        tau = curvature / left
        nu = (gradient + self.mean * curvature) / left
        if start is None:
            return tau, nu
        is_known = start.any(axis=-1)
        tau = np.where(is_known, start[..., 0], tau)
        return tau, np.where(is_known, start[..., 1], nu)

    def _with_sites(self, tau: Array, nu: Array) -> SmallSites:
        """The posterior with sites, which must be positive."""
        root = np.sqrt(tau)
        cholesky, is_factored = _factorize(self.K, root)
        inverse = _invert(cholesky)
        left = inverse.diagonal(axis1=-2, axis2=-1)
        is_found = is_factored & (tau > 0).all(axis=-1)
        is_found &= (left < 1 - WEAK).all(axis=-1)
        b = (nu - tau * self.mean) / root
        mean = self.mean + (b - multiply(inverse, b)) / root
        variance = (1 - left) / tau
        cavity = variance / left
        return SmallSites(
            self, is_found, tau, nu, mean, variance, cavity, root, cholesky, inverse
        )


@dataclass(frozen=True)
class SmallMode:
    r"""The modes of small posteriors.

    Attributes:
        problem: The problem.
        is_found: Which of the modes were found, ``b``.
        weights: ``a``, ``b x n``.
        residual: ``f̂ - m = K a``, ``b x n``.
        z: The contrasts, positive where they support the label, ``b x n``.
        ratio: The slopes of ``log p(c|f)`` in ``z``, ``b x n``.
        root: ``W½``, ``b x n``.
        cholesky: The factor of ``B = I + W½ K W½``, ``b x n x n``.
    """

    problem: SmallProblem
    is_found: Array
    weights: Array
    residual: Array
    z: Array
    ratio: Array
    root: Array
    cholesky: Array

    @property
    def start(self) -> Array:
        """The weights, ``b x n x 1``."""
        return self.weights[..., None]

    @property
    def log_likelihood(self) -> Array:
        r"""``Σ log p(c|f̂)``, ``b``."""
        return self.problem.terms.log_prob(self.z).sum(axis=-1)

    @property
    def log_evidence(self) -> Array:
        r"""As in :class:`~.laplace.LaplaceApproximation`, ``b``."""
        fit = (self.weights * self.residual).sum(axis=-1) / 2
        return self.log_likelihood - fit - _half_log_det(self.cholesky)

    def slopes(self) -> tuple[Array, Array]:
        r"""As in :func:`~.laplace.evidence_slopes`.

        Returns:
            The slopes of the log evidence in the prior mean and covariance.
        """
        inverse = _invert(self.cholesky)
        share = 1 - inverse.diagonal(axis1=-2, axis2=-1)  # ``W Σ``
        # ``∂ log W / ∂f̂``, with ``W = r (z + r)``; zero where a trial says nothing.
        distance = self.z + self.ratio
        information = np.square(self.root)
        slope = self.ratio * (1 - information) - information * distance
        change = np.divide(
            slope, information, out=np.zeros_like(slope), where=information > 0
        )
        s = -0.5 * share * self.problem.terms.sign * change
        by_covariance = _scale_by_half(inverse, self.root)
        u = s + 2 * multiply(by_covariance, multiply(self.problem.K, s))
        by_covariance += (u + self.weights / 2)[..., None] * self.weights[..., None, :]
        return self.weights + u, by_covariance


@dataclass(frozen=True)
class SmallSites:
    r"""Posteriors with positive sites.

    Attributes:
        problem: The problem.
        is_found: Where the moments match, ``b``.
        precision: ``τ``, ``b x n``.
        location: ``ν``, ``b x n``.
        mean: The posterior mean, ``b x n``.
        variance: The posterior variance, ``b x n``.
        cavity_variance: The variance of each contrast without its own site, ``b x n``.
        root: ``W½``, the roots of the precisions, ``b x n``.
        cholesky: The factor of ``B = I + W½ K W½``, ``b x n x n``.
        inverse: The inverse of ``B``, ``b x n x n``.
    """

    problem: SmallProblem
    is_found: Array
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
        """The site parameters, ``b x n x 2``."""
        return np.stack([self.precision, self.location], axis=-1)

    @property
    def weights(self) -> Array:
        """``a = ν - τ μ``, ``b x n``."""
        return self.location - self.precision * self.mean

    @property
    def offset(self) -> Array:
        """The means of the cavities minus the means of the posterior, ``b x n``."""
        return -self.cavity_variance * self.weights

    def match(self) -> tuple[Array, Array]:
        r"""The sites that match the moments in these cavities.

        Returns:
            Their precisions and the weights ``ν - τ μ``, ``b x n``.
        """
        _, gradient, curvature = self.problem.terms.tilt(
            self.mean + self.offset, self.cavity_variance
        )
        left = 1 - self.cavity_variance * curvature
        return curvature / left, (gradient + self.offset * curvature) / left

    @property
    def log_evidence(self) -> Array:
        r"""As in :func:`~.expectation_propagation.log_evidence`, ``b``."""
        tau = self.precision
        nu = self.location
        m = self.problem.mean
        c = self.cavity_variance
        mu = self.mean + self.offset
        z, _, _ = self.problem.terms.tilt(mu, c)
        narrowing = 1 + tau * c
        site = mu * (nu - tau * mu / 2) + np.square(nu - tau * mu) * c / narrowing / 2
        scale = self.problem.terms.log_prob(z) - site + np.log(narrowing) / 2
        prior = m * (nu - tau * m / 2) + (nu - tau * m) * (self.mean - m) / 2
        return (prior + scale).sum(axis=-1) - _half_log_det(self.cholesky)

    def slopes(self) -> tuple[Array, Array]:
        r"""``a`` and ``½ (a aᵀ - P)``, the slopes at fixed sites.

        Returns:
            The slopes of the log evidence in the prior mean and covariance.
        """
        weights = self.weights
        by_covariance = _scale_by_half(self.inverse.copy(), self.root)
        by_covariance += (0.5 * weights)[..., None] * weights[..., None, :]
        return weights, by_covariance


def multiply(matrix: Array, vector: Array) -> Array:
    r"""The products of matrices and vectors.

    Args:
        matrix: ``b x n x m``.
        vector: ``b x m``.

    Returns:
        A ``b x n`` array.
    """
    return np.matmul(matrix, vector[..., None])[..., 0]


def _put(whole: Any, models: Array | list[int], part: Any) -> None:
    """Replace the results of some models."""
    for field in fields(whole):
        value = getattr(whole, field.name)
        if isinstance(value, Array):
            value[models] = getattr(part, field.name)


def _largest(x: Array) -> Array:
    return np.abs(x).max(axis=-1)


def _scale(matrix: Array, root: Array) -> Array:
    scaled = matrix * root[..., None]
    scaled *= root[..., None, :]
    return scaled


def _scale_by_half(inverse: Array, root: Array) -> Array:
    """``-½ W½ B⁻¹ W½``, overwriting the inverse of ``B``."""
    inverse *= (-0.5 * root)[..., None]
    inverse *= root[..., None, :]
    return inverse


def _factorize(K: Array, root: Array) -> tuple[Array, Array]:
    """The factors of ``B = I + W½ K W½``, by columns, and which of them exist."""
    B = _scale(K, root)
    size = B.shape[-1]
    B.reshape(-1, size * size)[:, :: size + 1] += 1.0
    cholesky = B.swapaxes(-2, -1)
    failures = [
        dpotrf(matrix, lower=1, clean=1, overwrite_a=1)[1] for matrix in cholesky
    ]
    return cholesky, np.array(failures) == 0


def _solve(cholesky: Array, vectors: Array) -> Array:
    """``B⁻¹ v`` of each model, overwriting the vectors."""
    for factor, vector in zip(cholesky, vectors, strict=True):
        dpotrs(factor, vector, lower=1, overwrite_b=1)
    return vectors


def _invert(cholesky: Array) -> Array:
    """The inverses of the factored matrices."""
    number, size, _ = cholesky.shape
    inverse = np.zeros((number, size, size))
    inverse.reshape(number, -1)[:, :: size + 1] = 1.0
    # LAPACK's own inverse uses several threads, which costs more than it gains here.
    for factor, columns in zip(cholesky, inverse, strict=True):
        dpotrs(factor, columns.T, lower=1, overwrite_b=1)
    return inverse


def _half_log_det(cholesky: Array) -> Array:
    return np.log(cholesky.diagonal(axis1=-2, axis2=-1)).sum(axis=-1)


def to_slopes(found: SmallPosterior) -> Slopes:
    r"""The slopes of the log evidence of one small problem, for PyTorch.

    Args:
        found: The result for one model.
    """
    by_mean, by_covariance = found.slopes()
    return Slopes(torch.from_numpy(by_mean[0]), torch.from_numpy(by_covariance[0]))
