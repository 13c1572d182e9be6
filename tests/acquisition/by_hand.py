r"""A Laplace posterior written by hand, to compare with.

It follows supplement 1 of the paper in numpy: plain Newton steps from the prior mean,
dense solves, kernels as formulas. It shares no code with the package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr

Array = np.ndarray
ArrayKernel = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class LaplaceByHand:
    """The Laplace posterior of a latent function, by plain Newton.

    Attributes:
        kernel: Maps ``n x d`` and ``m x d`` rows to their ``n x m`` covariance.
        trials: ``n x q x d``, with ``q = 1`` for outcomes and ``q = 2`` for duels.
        labels: ``n`` of them, 0 or 1.
        constant: The prior mean of the latent function.
        guess_rate: The success probability at ``f = -∞``.
    """

    kernel: ArrayKernel
    trials: Array
    labels: Array
    constant: float = 0.0
    guess_rate: float = 0.0

    def prior(self, first: Array, second: Array) -> Array:
        """The prior covariance of what trials observe; points are ``m x 1 x d``."""
        blocks = [
            sign1 * sign2 * self.kernel(first[:, i], second[:, j])
            for i, sign1 in enumerate((1, -1)[: first.shape[1]])
            for j, sign2 in enumerate((1, -1)[: second.shape[1]])
        ]
        return np.sum(blocks, axis=0)

    def prior_mean(self, trials: Array) -> Array:
        return np.full(len(trials), self.constant if trials.shape[1] == 1 else 0.0)

    def derivatives(self, f: Array) -> tuple[Array, Array]:
        """Of the log-likelihood: the gradient, and the information ``W``."""
        success = self.guess_rate + (1 - self.guess_rate) * ndtr(f)
        slope = (1 - self.guess_rate) * np.exp(-(f**2) / 2) / np.sqrt(2 * np.pi)
        sign = 2 * self.labels - 1
        probability = np.where(sign > 0, success, (1 - self.guess_rate) * ndtr(-f))
        gradient = sign * slope / probability
        if self.guess_rate:
            return gradient, slope**2 / (success * (1 - success))
        return gradient, gradient**2 + f * gradient

    @cached_property
    def gradient_and_information(self) -> tuple[Array, Array]:
        """At the mode."""
        K = self.prior(self.trials, self.trials)
        mean = self.prior_mean(self.trials)
        f = mean
        for _ in range(300 if self.guess_rate else 30):
            gradient, W = self.derivatives(f)
            system = np.eye(len(f)) + W[:, None] * K
            f = mean + K @ np.linalg.solve(system, W * (f - mean) + gradient)
        gradient, W = self.derivatives(f)
        assert np.abs(f - mean - K @ gradient).max(initial=0) < 1e-12 * (
            1 + np.abs(K).max(initial=0)
        )
        return gradient, W

    def mean(self, trials: Array) -> Array:
        """Of what trials observe, or of the latent values at ``m x 1 x d`` points."""
        gradient, _ = self.gradient_and_information
        return self.prior_mean(trials) + self.prior(trials, self.trials) @ gradient

    def covariance(self, first: Array, second: Array) -> Array:
        """The posterior covariance of what trials observe."""
        _, W = self.gradient_and_information
        K = self.prior(self.trials, self.trials)
        left = self.prior(first, self.trials)
        right = self.prior(self.trials, second)
        solved = np.linalg.solve(np.eye(len(W)) + W[:, None] * K, W[:, None] * right)
        return self.prior(first, second) - left @ solved

    def variance(self, trials: Array) -> Array:
        """The posterior variance of what trials observe."""
        return np.diag(self.covariance(trials, trials)).copy()

    def probability(self, mean: Array, variance: Array) -> Array:
        """``E p(c=1|f)`` of trials that observe Gaussian contrasts."""
        return self.guess_rate + (1 - self.guess_rate) * ndtr(
            mean / np.sqrt(1 + variance)
        )

    def success(self, trials: Array) -> Array:
        """The predicted probability that trials succeed."""
        return self.probability(self.mean(trials), self.variance(trials))

    def given(self, trial: Array, label: float) -> LaplaceByHand:
        """The posterior after one more trial, ``q x d``, from scratch."""
        trials = np.concatenate([self.trials, trial[None]])
        return replace(self, trials=trials, labels=np.append(self.labels, label))


def squared_exponential(first: Array, second: Array, lengthscale: Any) -> Array:
    difference = (first[:, None] - second[None]) / lengthscale
    return np.exp(-0.5 * np.sum(difference**2, axis=-1))


def grid_maximum(
    function: Callable[[Array], Array], bounds: Array
) -> tuple[Array, float]:
    """The maximizer and the maximum on a box: a dense grid, then ever finer ones."""
    low, high = bounds
    for step in range(8):
        size = 21 if step else (401 if len(low) == 1 else 61)
        axes = np.linspace(low, high, size).T
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
        points = grid.reshape(-1, len(low))
        values = function(points)
        best = points[values.argmax()]
        reach = 1.5 * (high - low) / (size - 1)
        low, high = np.clip([best - reach, best + reach], *bounds)
    return best, values.max()
