r"""
The probability of success where it is a step of the normal distribution.

Pass/fail outcomes and ordered answers share it: ``p(success|f) = a + b Φ(f - t)``.
Everything about it has a closed form for Gaussian contrasts.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from statistics import NormalDist

from botorch.exceptions import InputDataError
from botorch.utils.probability.utils import log_phi
from torch import Tensor

from botorch_binary_context.likelihoods.base import LogDerivatives
from botorch_binary_context.likelihoods.rates import RatedLikelihood, rate_as_float
from botorch_binary_context.probability import normal_cdf, probit_mean, probit_moments

# A share of the rise that is closer to 0 or 1 than this counts as reaching it.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Step:
    r"""``a + b Φ(f - t)``.

    Attributes:
        lowest: ``a``, a number or ``batch_shape x 1``.
        rise: ``b``, a number or ``batch_shape x 1``.
        threshold: ``t``, ``batch_shape x 1``; None if it is zero.
    """

    lowest: float | Tensor = 0.0
    rise: float | Tensor = 1.0
    threshold: Tensor | None = None

    def shift(self, contrast: Tensor) -> Tensor:
        r"""``f - t``."""
        if self.threshold is None:
            return contrast
        return contrast - self.threshold.to(contrast)

    def rescale(self, share: Tensor) -> Tensor:
        r"""``a + b share``."""
        if isinstance(self.rise, Tensor) or (self.lowest, self.rise) != (0.0, 1.0):
            return self.lowest + self.rise * share
        return share


class StepLikelihood(RatedLikelihood):
    r"""A likelihood whose success probability is a step of the normal distribution."""

    @abstractmethod
    def _step(self) -> Step:
        """The step."""

    def probability(self, contrast: Tensor) -> Tensor:
        r"""The probability of success of trials with the given contrasts.

        Args:
            contrast: A ``... x n`` tensor of contrasts.

        Returns:
            A tensor of the same shape.
        """
        step = self._step()
        return step.rescale(normal_cdf(step.shift(contrast)))

    def contrast_at(self, probability: float) -> float:
        r"""The contrast at which tests are passed with a given probability.

        Args:
            probability: The success probability, between its values for a hopeless and
                for a trivial test.
        """
        step = self._step()
        lowest = rate_as_float(step.lowest, "lapse_rate")
        rise = rate_as_float(step.rise, "lapse_rate")
        share = (probability - lowest) / rise
        if not ROUNDING < share < 1.0 - ROUNDING:
            raise InputDataError(
                f"Expected ``probability`` to be between {lowest:g} and "
                f"{lowest + rise:g}, the success rates of a hopeless and of a trivial "
                f"test, but got {probability}."
            )
        contrast = NormalDist().inv_cdf(share)
        if step.threshold is None:
            return contrast
        return contrast + rate_as_float(step.threshold, "thresholds")

    def expected_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""The exact mean of the success probability for Gaussian contrasts.

        Args:
            mean: The mean of the contrasts.
            variance: Their variance, of the same shape.

        Returns:
            The mean of the success probability.
        """
        step = self._step()
        return step.rescale(probit_mean(step.shift(mean), variance))

    def probability_slope(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""``b φ(h) / sqrt(1 + σ²)`` with ``h = (μ - t) / sqrt(1 + σ²)``.

        Args:
            mean: The mean of the contrasts.
            variance: Their variance, of the same shape.

        Returns:
            The derivative of the expected success probability in the mean.
        """
        step = self._step()
        shrink = (1 + variance).rsqrt()
        return step.rise * log_phi(step.shift(mean) * shrink).exp() * shrink

    def probability_moments(
        self, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""The exact mean and variance of the success probability.

        Args:
            mean: The mean of the contrasts.
            variance: Their variance, of the same shape.

        Returns:
            The mean and the variance.
        """
        step = self._step()
        center, squares = probit_moments(step.shift(mean), variance)
        return step.rescale(center), step.rise**2 * squares

    def tilted_derivatives(
        self, mean: Tensor, variance: Tensor, targets: Tensor
    ) -> LogDerivatives:
        r"""``log E p(c|f)`` for Gaussian contrasts, and its derivatives in their mean.

        ``E Φ(f - t) = Φ((μ - t) / sqrt(1 + σ²))``: the likelihood itself, at shrunken
        contrasts and thresholds.

        Args:
            mean: The mean of the contrasts, ``... x n``.
            variance: Their variance, ``... x n``.
            targets: Labels, ``... x n``.

        Returns:
            The value and the derivatives, ``... x n`` each.
        """
        shrink = (1 + variance).rsqrt()
        at = self._shrunken_derivatives(mean * shrink, targets, shrink)
        squared = shrink.square()
        curvature = information = at.negative_hessian * squared
        if at.information is not at.negative_hessian:
            information = at.information * squared
        return LogDerivatives(
            at.gradient * shrink, curvature, information, lambda: at.value
        )

    @abstractmethod
    def _shrunken_derivatives(
        self, contrast: Tensor, targets: Tensor, scale: Tensor
    ) -> LogDerivatives:
        """``log p(c|f)`` and its derivatives, with thresholds that are scaled."""
