r"""
Draws of psychometric functions: slopes, intercepts and thresholds with intervals.

Where the latent function is a straight line along the context, ``f(s,x) = a(x) s +
b(x)``, two of its values determine it. They are drawn from the true posterior; the
threshold of each draw is a ratio, ``-b/a``, which is not Gaussian.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from botorch.exceptions import InputDataError
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_binary_context.bands import NUM_SAMPLES, Band
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.goals.maps import contrast_at_probability
from botorch_binary_context.models.latent_gp import LatentGP


@dataclass(frozen=True)
class PsychometricDraws:
    r"""Draws of ``f(s,x) = a(x) s + b(x)`` at some parameters.

    Attributes:
        slope: ``a``, ``num_samples x batch_shape``.
        intercept: ``b``, of the same shape.
        center: The middle of the contexts.
    """

    slope: Tensor
    intercept: Tensor
    center: float

    def threshold(self, contrast: float = 0.0) -> Tensor:
        r"""Where each draw crosses a latent value, ``(contrast - b) / a``.

        Args:
            contrast: The latent value.

        Returns:
            A ``num_samples x batch_shape`` tensor. If the slope of a draw has the
            opposite sign of most draws, it never crosses the value in the right
            direction, and its threshold is infinite: on the harder side if the draw is
            above the value in the middle of the contexts, else on the easier side.
        """
        sign = self.slope.median(dim=0).values.sign()
        crossing = (contrast - self.intercept) / self.slope
        passed = self.slope * self.center + self.intercept > contrast
        # With a positive sign, smaller contexts are harder.
        nowhere = torch.where(passed, -sign, sign) * torch.inf
        return torch.where(self.slope * sign > 0, crossing, nowhere)

    def threshold_band(self, contrast: float = 0.0, credible: float = 0.9) -> Band:
        r"""The median of the threshold and its credible interval.

        Args:
            contrast: The latent value.
            credible: The probability of the interval.

        Returns:
            The median and the ends of the interval, ``batch_shape`` each.
        """
        ordered = self.threshold(contrast).sort(dim=0).values
        last = len(ordered) - 1
        tails = (0.5, (1 - credible) / 2, (1 + credible) / 2)
        return Band(*[ordered[round(tail * last)] for tail in tails])


def draw_psychometric_functions(
    model: LatentGP,
    space: ContextSpace,
    parameters: Tensor | None = None,
    num_samples: int = NUM_SAMPLES,
    seed: int = 0,
) -> PsychometricDraws:
    r"""Draw slopes and intercepts from the true posterior.

    Args:
        model: A model whose latent function is linear in the context, as in models of
            :func:`psychometric_gp`, without batch dimensions.
        space: The box of the trials, with one context.
        parameters: The parameters at which to draw, ``... x (d - m)``; not needed if
            the space has none.
        num_samples: The number of draws.
        seed: The seed of the draws.

    Returns:
        The draws, in units of the context.

    Example:
        >>> draws = draw_psychometric_functions(model, space, best)
        >>> threshold, low, high = draws.threshold_band()
        >>> draws.slope.mean(dim=0)
    """
    if space.num_contexts != 1:
        raise InputDataError(
            "Expected ``space`` to have one context, along which slopes are, but got "
            f"{space.num_contexts}."
        )
    if parameters is None:
        parameters = space.parameter_bounds[:1, :0].squeeze(0)
    contrast_at_probability(model, None)  # raises unless outcomes are pass/fail
    ends = space.context_bounds  # 2 x 1
    with torch.no_grad():
        rows = space.join(parameters.to(ends).unsqueeze(-2), ends)
        posterior = model.exact_posterior(rows, num_samples, seed)
        with manual_seed(seed):
            noise = torch.randn_like(posterior.means)
        root = torch.linalg.cholesky(posterior.covariance)
        values = posterior.means + (root @ noise.unsqueeze(-1)).squeeze(-1)
    low, high = ends[:, 0]
    slope = (values[..., 1] - values[..., 0]) / (high - low)
    intercept = values[..., 0] - slope * low
    return PsychometricDraws(slope, intercept, center=float((low + high) / 2))
