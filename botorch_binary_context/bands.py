r"""
What a model says about trials, and how sure it is.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from botorch.posteriors import GPyTorchPosterior
from torch import Tensor

from botorch_binary_context.models.latent_gp import LatentGP


class Band(NamedTuple):
    r"""A quantity at many trials, between two bounds.

    Attributes:
        center: The mean, or the median.
        low: The lower bound.
        high: The upper bound.
    """

    center: Tensor
    low: Tensor
    high: Tensor


def latent_band(model: LatentGP, trials: Tensor, width: float) -> Band:
    r"""The posterior mean of the latent function, and standard deviations around it.

    Args:
        model: The model.
        trials: A ``... x d`` tensor.
        width: The number of standard deviations on each side.

    Returns:
        The band.
    """
    # Points of their own: the covariance between them is not needed.
    posterior = model.posterior(trials.unsqueeze(-2))
    assert isinstance(posterior, GPyTorchPosterior)
    mean, variance = posterior.mean[..., 0, 0], posterior.variance[..., 0, 0]
    spread = width * variance.sqrt()
    return Band(mean, mean - spread, mean + spread)


def probability_band(model: LatentGP, candidates: Tensor, width: float) -> Band:
    r"""The exact success probability, between quantiles of ``p(c=1|f)``.

    The link is monotone, so it takes quantiles of the latent contrast to those of the
    probability.

    Args:
        model: The model.
        candidates: A ``... x q x d`` tensor of trials or duels.
        width: The quantiles, as standard deviations from the mean of the contrast.

    Returns:
        The band.
    """
    mean, variance = model.moments(candidates)
    likelihood, spread = model.likelihood, width * variance.sqrt()
    return Band(
        likelihood.expected_probability(mean, variance),
        likelihood.probability(mean - spread),
        likelihood.probability(mean + spread),
    )


def threshold_band(model: LatentGP, line: Tensor, level: float, width: float) -> Band:
    r"""How far along a line of ever harder trials the latent function is above a level.

    If ``f`` only falls along the line, it falls to the level beyond a trial just if it
    is above the level there. So quantiles of where it does are where the quantiles of
    ``f`` do.

    Args:
        model: The model.
        line: A ``... x n x d`` tensor of trials, the easiest first.
        level: The level.
        width: The quantiles, as standard deviations from the mean of ``f``.

    Returns:
        The band, centred at the median, of positions between 0 and ``n - 1``; minus
        infinity if the first trial is below the level already, plus infinity if none
        is.
    """
    mean, low, high = latent_band(model, line, width)
    return Band(_fall(mean, level), _fall(low, level), _fall(high, level))


def _fall(curve: Tensor, level: float) -> Tensor:
    """Where curves first fall below a level, between their ``... x n`` points."""
    below = curve < level
    position = below.int().argmax(dim=-1, keepdim=True)  # the first of them
    after = position.clamp_min(1)
    left, right = curve.gather(-1, after - 1), curve.gather(-1, after)
    crossing = after - 1 + (left - level) / (left - right)
    crossing = torch.where(position > 0, crossing, -torch.inf)
    return torch.where(below.any(dim=-1, keepdim=True), crossing, torch.inf).squeeze(-1)
