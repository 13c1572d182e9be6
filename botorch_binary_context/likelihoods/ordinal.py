r"""
Likelihoods of ordered answers, with a probit link.

An answer of ``k`` ordered categories says between which of ``k - 1`` thresholds the
contrast lies, up to normal noise: ``p(c ≥ j|f) = Φ(f - t_j)`` [McCullagh1980]_.
Pass/fail outcomes are the case of one threshold. Guesses and lapses turn one category
into another, with a matrix of rates.

.. [McCullagh1980]
    P. McCullagh. Regression models for ordinal data. Journal of the Royal Statistical
    Society B 42, 1980.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from botorch.utils.probability.utils import log_phi
from torch import Tensor

from botorch_binary_context.bivariate import bivariate_normal_cdf
from botorch_binary_context.likelihoods.base import LogDerivatives
from botorch_binary_context.likelihoods.intervals import Intervals
from botorch_binary_context.likelihoods.success import Step, StepLikelihood
from botorch_binary_context.probability import (
    entropy,
    legendre,
    normal_cdf,
)

# The number of quadrature nodes over the interval that matters.
NUM_NODES = 64
REACH = 9.0


class OrdinalLikelihood(StepLikelihood):
    r"""Answers of ``k`` ordered categories.

    ``p(c|f) = Σ_m A_cm q_m(f)`` with the ordered probit ``q_m(f) = Φ(f - t_m) - Φ(f -
    t_{m+1})``, ``t_0 = -∞``, ``t_k = +∞``, and the probability ``A_cm`` of answering
    ``c`` when ``m`` is meant, the identity without guesses and lapses. A success is an
    answer of at least :attr:`passing`.

    A subclass gives the thresholds and, with rates, the matrix.
    """

    @property
    @abstractmethod
    def thresholds(self) -> Tensor:
        """``t``, ascending, ``batch_shape x (num_outcomes - 1)``."""

    def confusion(self) -> Tensor | None:
        r"""``A``, ``batch_shape x k x k``; None if it is the identity."""
        return None

    @property
    def is_log_concave(self) -> bool:
        """Whether ``log p(c|f)`` is concave: only without guesses and lapses."""
        return self.confusion() is None

    def _settings(self) -> tuple[Any, ...]:
        return self.num_outcomes, self.passing, super()._settings()

    def _intervals(self, contrast: Tensor, scale: Tensor | None = None) -> Intervals:
        """The intervals of all categories, ``k x ... x n``; may scale thresholds."""
        t = self._thresholds_first(contrast)
        edges = contrast - (t if scale is None else t * scale)
        upper = torch.cat([edges[:1], edges])
        lower = torch.cat([edges, edges[-1:]])
        number = torch.arange(len(upper), device=contrast.device)
        number = number.reshape(-1, *[1] * (upper.ndim - 1)).expand_as(upper)
        return Intervals.between(
            lower, upper, no_lower=number == len(upper) - 1, no_upper=number == 0
        )

    def _thresholds_first(self, like: Tensor) -> Tensor:
        """The thresholds to be compared with contrasts, ``(k - 1) x ... x 1``."""
        t = self.thresholds.to(like).movedim(-1, 0).unsqueeze(-1)
        return t.reshape(len(t), *[1] * (like.ndim + 1 - t.ndim), *t.shape[1:])

    def _confuse(self, parts: Tensor) -> Tensor:
        """For every answer, ``k x ... x n`` values summed over what was meant."""
        matrix = self.confusion()
        if matrix is None:
            return parts
        matrix = matrix.to(parts).movedim((-2, -1), (0, 1)).unsqueeze(-1)
        shape = matrix.shape
        missing = parts.ndim + 1 - len(shape)
        matrix = matrix.reshape(*shape[:2], *[1] * missing, *shape[2:])
        return (matrix * parts).sum(dim=1)

    def probabilities(self, contrast: Tensor) -> Tensor:
        r"""``p(c|f)`` of every answer.

        Args:
            contrast: A ``... x n`` tensor of contrasts.

        Returns:
            A ``num_outcomes x ... x n`` tensor.
        """
        return self._confuse(self._intervals(contrast).probability())

    def expected_probabilities(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""The exact mean of ``p(c|f)`` of every answer, for Gaussian contrasts.

        Args:
            mean: The mean of the contrasts, ``... x n``.
            variance: Their variance, of the same shape.

        Returns:
            A ``num_outcomes x ... x n`` tensor.
        """
        shrink = (1 + variance).rsqrt()
        return self._confuse(self._intervals(mean * shrink, shrink).probability())

    def probability_slopes(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""The derivatives of the expected probabilities in the mean of the contrasts.

        Args:
            mean: The mean of the contrasts, ``... x n``.
            variance: Their variance, of the same shape.

        Returns:
            A ``num_outcomes x ... x n`` tensor.
        """
        shrink = (1 + variance).rsqrt()
        return self._confuse(self._intervals(mean * shrink, shrink).slope()) * shrink

    def _step(self) -> Step:
        threshold = self.thresholds[..., self.passing - 1].unsqueeze(-1)
        matrix = self.confusion()
        if matrix is None:
            return Step(threshold=threshold)
        # The same for all fails and for all passes, except for the rates.
        passes = matrix[..., self.passing :, :].sum(dim=-2)
        lowest, highest = passes[..., :1], passes[..., -1:]
        return Step(lowest, highest - lowest, threshold)

    def mutual_information(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""The information, in nats, of an answer about its Gaussian contrast.

        Args:
            mean: The mean of the contrasts.
            variance: Their variance, of the same shape.

        Returns:
            A non-negative tensor of the same shape.
        """
        return self.targeted_information(mean, variance, torch.zeros_like(mean))

    def targeted_information(
        self, mean: Tensor, variance: Tensor, noise: Tensor
    ) -> Tensor:
        r"""The information, in nats, of an answer about a part of its contrast.

        As a function of the contrast, the entropy of an answer is a bump, plus a step
        if there are lapses. The expectation of the step has a closed form. The
        expectation of the bump is computed by Gauss-Legendre quadrature, over the range
        where neither the bump nor the Gaussian is negligible.

        Args:
            mean: The mean of the contrasts.
            variance: The variance of the part, of the same shape.
            noise: The variance of the rest, of the same shape.

        Returns:
            A non-negative tensor of the same shape.
        """
        mean, variance, noise = torch.broadcast_tensors(mean, variance, noise)
        shrink = (1 + noise).rsqrt()
        low, high = self._end_entropies(mean)

        def step(z: Tensor) -> Tensor:
            return low * normal_cdf(-z) + high * normal_cdf(z)

        def bump(f: Tensor) -> Tensor:
            known = self.expected_probabilities(f, noise.expand_as(f))
            return entropy(known) - step(f * shrink)

        total = variance + noise
        predicted = entropy(self.expected_probabilities(mean, total))
        known = step(mean * (1 + total).rsqrt())
        known = known + self._integrate(bump, mean, variance, shrink)
        return (predicted - known).clamp_min(0.0)

    def _end_entropies(self, like: Tensor) -> tuple[float | Tensor, float | Tensor]:
        """The entropies of answers to impossible and to trivial trials."""
        matrix = self.confusion()
        if matrix is None:
            return 0.0, 0.0
        ends = entropy(matrix.to(like).movedim(-2, 0))  # batch_shape x k
        return ends[..., :1], ends[..., -1:]

    def _integrate(
        self, bump: Any, mean: Tensor, variance: Tensor, shrink: Tensor
    ) -> Tensor:
        """The expectation of a function that vanishes far from the thresholds."""
        t = self.thresholds.to(mean)
        # The tiny term keeps the gradient of the square root finite.
        deviation = (variance + torch.finfo(variance.dtype).eps).sqrt()
        reach = REACH / shrink
        begin = torch.maximum(mean - REACH * deviation, t[..., :1] - reach)
        end = torch.minimum(mean + REACH * deviation, t[..., -1:] + reach)
        length = (end - begin).clamp_min(0.0)
        nodes, weights = legendre(mean.dtype, mean.device, NUM_NODES)
        f = begin + length * nodes.reshape(-1, *[1] * mean.ndim)
        density = log_phi((f - mean) / deviation).exp() / deviation
        return torch.tensordot(weights, bump(f) * density, dims=1) * length

    def probabilities_below(
        self, mean: Tensor, variance: Tensor, below: Tensor, covariance: Tensor
    ) -> Tensor:
        r"""The joint probability of each answer and of another variable being low.

        Args:
            mean: The mean of the contrasts, ``... x n``.
            variance: Their variance, of the same shape.
            below: The bound that a standard normal variable is below, of the same
                shape.
            covariance: The covariance of this variable with the contrasts, of the same
                shape.

        Returns:
            A ``num_outcomes x ... x n`` tensor.
        """
        shrink = (1 + variance).rsqrt()
        rho = (covariance * shrink).clamp(-1.0, 1.0)
        t = self._thresholds_first(mean)
        above = bivariate_normal_cdf((mean - t) * shrink, below, -rho)
        low = normal_cdf(below).unsqueeze(0)
        above = torch.cat([low, above, torch.zeros_like(low)])
        return self._confuse(above[:-1] - above[1:])

    def log_prob(self, contrast: Tensor, targets: Tensor) -> Tensor:
        r"""``log p(c|f)``, finite for any finite contrast.

        Args:
            contrast: A ``... x n`` tensor of contrasts.
            targets: A ``... x n`` tensor of labels.

        Returns:
            A ``... x n`` tensor.
        """
        return self._shrunken_derivatives(contrast, targets).value

    def log_derivatives(self, contrast: Tensor, targets: Tensor) -> LogDerivatives:
        r"""``log p(c|f)`` and its first and second derivatives in ``f``.

        Args:
            contrast: A ``... x n`` tensor of contrasts.
            targets: A ``... x n`` tensor of labels.

        Returns:
            The value, the gradient and the curvatures, ``... x n`` each.
        """
        return self._shrunken_derivatives(contrast, targets)

    def _shrunken_derivatives(
        self, contrast: Tensor, targets: Tensor, scale: Tensor | None = None
    ) -> LogDerivatives:
        """``log p(c|f)`` and its derivatives, with thresholds that may be scaled."""
        matrix = self.confusion()
        if matrix is not None:
            intervals = self._intervals(contrast, scale)
            return _mix(intervals, matrix.to(contrast), targets)
        intervals = self._answered(contrast, targets, scale)
        gradient, curvature = intervals.log_slopes()
        return LogDerivatives(gradient, curvature, curvature, intervals.log_probability)

    def _answered(
        self, contrast: Tensor, targets: Tensor, scale: Tensor | None
    ) -> Intervals:
        """The intervals of the answers that were given, ``... x n``."""
        contrast, targets = torch.broadcast_tensors(contrast, targets)
        t = self.thresholds.to(contrast)
        label = targets.long()
        t = torch.cat([t[..., :1], t, t[..., -1:]], dim=-1)  # ends are not used
        t = t.expand(*label.shape[:-1], t.shape[-1])
        upper = t.gather(-1, label)
        lower = t.gather(-1, label + 1)
        if scale is not None:
            upper = upper * scale
            lower = lower * scale
        highest = self.num_outcomes - 1
        return Intervals.between(
            contrast - lower,
            contrast - upper,
            no_lower=label == highest,
            no_upper=label == 0,
        )


def _mix(intervals: Intervals, matrix: Tensor, targets: Tensor) -> LogDerivatives:
    """Derivatives of a mixture over what was meant, given what was answered."""
    slopes, curvatures = (part.movedim(0, -1) for part in intervals.log_slopes())
    logs = intervals.log_probability().movedim(0, -1)  # ... x n x k
    # The logarithm of zero has no slope.
    possible = matrix > 0
    weights = torch.where(
        possible, torch.where(possible, matrix, 1.0).log(), -torch.inf
    )
    joint = weights.unsqueeze(-3) + logs.unsqueeze(-2)  # ... x n x k x k
    values = joint.logsumexp(dim=-1)  # of every answer
    shares = (joint - values.unsqueeze(-1)).exp()
    gradients = (shares * slopes.unsqueeze(-2)).sum(dim=-1)
    information = (values.exp() * gradients.square()).sum(dim=-1)
    label = targets.expand(values.shape[:-1]).long().unsqueeze(-1)
    gradient = gradients.gather(-1, label).squeeze(-1)
    share = shares.gather(
        -2, label.unsqueeze(-1).expand(*label.shape, shares.shape[-1])
    )
    bend = (share.squeeze(-2) * (curvatures - slopes.square())).sum(dim=-1)
    value = values.gather(-1, label).squeeze(-1)
    return LogDerivatives(
        gradient, bend + gradient.square(), information, lambda: value
    )
