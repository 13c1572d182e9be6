r"""
Answers with a probit link as NumPy arrays, for searches over few trials.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, log_ndtr

Array = np.ndarray

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class ProbitTerms:
    r"""Labels with ``p(c|f) = floor + span Φ(z)``, ``z = sign f``, ``... x n``.

    Attributes:
        sign: 1 for a pass and -1 for a fail.
        floor: The probability of the label when the contrast is fully against it; None
            if all are zero.
        span: The part of the probability that the contrast decides.
    """

    sign: Array
    floor: Array | None = None
    span: Array | None = None

    @classmethod
    def join(cls, parts: Sequence[ProbitTerms]) -> ProbitTerms:
        r"""The answers of several kinds of trials, which follow one another.

        Args:
            parts: The answers of each kind.

        Returns:
            The answers of all kinds.
        """
        sign = np.concatenate([part.sign for part in parts], axis=-1)
        if all(part.floor is None for part in parts):
            return cls(sign)
        floors, spans = [], []
        for part in parts:
            none = np.zeros_like(part.sign)
            floors.append(none if part.floor is None else part.floor)
            spans.append(none + 1 if part.span is None else part.span)
        return cls(
            sign, np.concatenate(floors, axis=-1), np.concatenate(spans, axis=-1)
        )

    def select(self, rows: Array | list[int]) -> ProbitTerms:
        r"""The answers of some models of a batch.

        Args:
            rows: The indices of the models.
        """
        floor = None if self.floor is None else self.floor[rows]
        span = None if self.span is None else self.span[rows]
        return ProbitTerms(self.sign[rows], floor, span)

    def log_prob(self, z: Array) -> Array:
        r"""``log p(c|f)``.

        Args:
            z: The contrasts, positive where they support the label.

        Returns:
            An array of the same shape.
        """
        if self.floor is None or self.span is None:
            return log_ndtr(z)
        with np.errstate(divide="ignore"):  # the logarithm of a floor of zero
            return np.logaddexp(np.log(self.floor), log_ndtr(z) + np.log(self.span))

    def ratio(self, z: Array) -> Array:
        r"""``span φ(z) / p(c|f)``, the slope of ``log p(c|f)`` in ``z``.

        Args:
            z: The contrasts, positive where they support the label.

        Returns:
            An array of the same shape.
        """
        if self.floor is None or self.span is None:
            return math.sqrt(2.0 / math.pi) / erfcx(-math.sqrt(0.5) * z)
        log_phi = -0.5 * np.square(z) - HALF_LOG_TWO_PI
        return np.exp(log_phi + np.log(self.span) - self.log_prob(z))

    def tilt(self, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        r"""Derivatives of ``log E p(c|f) = log Φ(z)`` of Gaussian contrasts.

        Args:
            mean: Their means.
            variance: Their variances.

        Returns:
            ``z``, and the first and the negated second derivative of the logarithm in
            the mean.
        """
        shrink = 1 / np.sqrt(1 + variance)
        z = self.sign * mean * shrink
        ratio = self.ratio(z)
        return z, self.sign * ratio * shrink, ratio * (z + ratio) * np.square(shrink)
