r"""
Probabilities of intervals of a normal variable, in logarithms, with derivatives.

The ordered categories of an ordinal likelihood are intervals: the probability of one is
``Φ(u) - Φ(l)`` with its upper and lower edge. Both lie in the left tail after a
reflection, where the logarithm of the difference keeps its digits for any edge.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.special import log_ndtr

from botorch_binary_context.probability import inverse_mills_ratio, normal_cdf


@dataclass(frozen=True)
class Intervals:
    r"""Intervals of a standard normal variable, reflected into the left tail.

    Attributes:
        upper: The upper edge, or the negated lower one; finite.
        width: The length; ignored where the interval has only one edge.
        is_open: Whether the interval has one edge only.
        sign: -1 where it is reflected.
    """

    upper: Tensor
    width: Tensor
    is_open: Tensor
    sign: Tensor

    @classmethod
    def between(
        cls, lower: Tensor, upper: Tensor, no_lower: Tensor, no_upper: Tensor
    ) -> Intervals:
        r"""The intervals between edges.

        Args:
            lower: The lower edges.
            upper: The upper edges, of the same shape.
            no_lower: Where the lower edge is ``-∞``, whatever ``lower`` is.
            no_upper: Where the upper edge is ``+∞``, whatever ``upper`` is.
        """
        reflected = no_upper | (~no_lower & (lower + upper > 0))
        return cls(
            upper=torch.where(reflected, -lower, upper),
            width=torch.where(no_lower | no_upper, 1.0, upper - lower),
            is_open=no_lower | no_upper,
            sign=torch.where(reflected, -1.0, 1.0).to(upper),
        )

    @property
    def _lower(self) -> Tensor:
        return self.upper - self.width

    def probability(self) -> Tensor:
        """``Φ(u) - Φ(l)``."""
        rest = torch.where(self.is_open, 0.0, normal_cdf(self._lower))
        return normal_cdf(self.upper) - rest

    def log_probability(self) -> Tensor:
        """``log(Φ(u) - Φ(l))``."""
        top = log_ndtr(self.upper)
        share = -torch.expm1(log_ndtr(self._lower) - top)
        return top + torch.where(self.is_open, 1.0, share).log()

    def slope(self) -> Tensor:
        """``φ(u) - φ(l)``, the derivative of the probability in a shift of both."""
        rest = torch.where(self.is_open, 0.0, _density(self._lower))
        return self.sign * (_density(self.upper) - rest)

    def log_slopes(self) -> tuple[Tensor, Tensor]:
        r"""The derivatives of the log-probability in a shift of both edges.

        With ``r = φ/Φ`` at the edges, ``e = Φ(l)/Φ(u)`` and ``w = u - l`` these are
        ``g = (r_u - e r_l) / (1 - e)`` and ``-g (g + u) - w e r_l / (1 - e)``.

        Returns:
            The first derivative and the negated second one.
        """
        lower = self._lower
        log_share = log_ndtr(lower) - log_ndtr(self.upper)
        share = torch.where(self.is_open, 0.0, log_share.exp())
        left = torch.where(self.is_open, 1.0, -torch.expm1(log_share))
        rest = share * inverse_mills_ratio(lower)
        gradient = (inverse_mills_ratio(self.upper) - rest) / left
        curvature = gradient * (gradient + self.upper) + self.width * rest / left
        # In (0, 1); rounding must not take it out of there.
        return self.sign * gradient, curvature.clamp(0.0, 1.0)


def _density(z: Tensor) -> Tensor:
    return (-z.square() / 2).exp() * (2 * torch.pi) ** -0.5
