r"""
Predictions of a model for trials, with their uncertainty.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from botorch.posteriors import GPyTorchPosterior
from torch import Tensor

from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.posteriors import ExactPosterior

# Draws from the true posterior; their error is about 1/50 of a standard deviation.
NUM_SAMPLES = 2048


class ExactModel(Protocol):
    r"""A model that can be sampled without approximation, or an average of such."""

    def exact_posterior(
        self, X: Tensor, num_samples: int, seed: int = 0
    ) -> ExactPosterior:
        r"""The true posterior of the latent function, by sampling.

        Args:
            X: A ``batch_shape x q x d`` tensor.
            num_samples: The number of draws.
            seed: The seed of the draws.
        """
        ...


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
    """
    # Separate points: the covariance between them is not needed.
    posterior = model.posterior(trials.unsqueeze(-2))
    assert isinstance(posterior, GPyTorchPosterior)
    mean, variance = posterior.mean[..., 0, 0], posterior.variance[..., 0, 0]
    half_width = width * variance.sqrt()
    return Band(mean, mean - half_width, mean + half_width)


def probability_band(model: LatentGP, candidates: Tensor, width: float) -> Band:
    r"""The exact success probability, between quantiles of ``p(c=1|f)``.

    The link is monotone, so it maps quantiles of the latent contrast to quantiles of
    the probability.

    Args:
        model: The model.
        candidates: A ``... x q x d`` tensor of trials or duels.
        width: The quantiles, as standard deviations from the mean of the contrast.
    """
    mean, variance = model.moments(candidates)
    likelihood = model.likelihood
    half_width = width * variance.sqrt()
    return Band(
        likelihood.expected_probability(mean, variance),
        likelihood.probability(mean - half_width),
        likelihood.probability(mean + half_width),
    )


def threshold_band(
    model: LatentGP, line: Tensor, contrast: float, width: float
) -> Band:
    r"""How far along a line of ever harder trials the latent function stays above a
    contrast.

    If ``f`` only falls along the line, its quantiles cross the contrast at the
    quantiles of the crossing point.

    Args:
        model: The model.
        line: A ``... x n x d`` tensor of trials, the easiest first.
        contrast: The value of ``f`` at the threshold.
        width: The quantiles, as standard deviations from the mean of ``f``.

    Returns:
        Positions on the line, between 0 and ``n - 1``, with the median as the center. A
        position is minus infinity if the first trial is already below the contrast, and
        plus infinity if no trial is.
    """
    mean, low, high = latent_band(model, line, width)
    return Band(
        first_fall(mean, contrast),
        first_fall(low, contrast),
        first_fall(high, contrast),
    )


def exact_latent_band(
    model: ExactModel,
    trials: Tensor,
    credible: float,
    num_samples: int = NUM_SAMPLES,
    seed: int = 0,
) -> Band:
    r"""The median of the latent function and its credible interval, by sampling.

    Args:
        model: The model.
        trials: A ``... x d`` tensor.
        credible: The probability of the interval.
        num_samples: The number of draws from the true posterior.
        seed: The seed of the draws.

    Returns:
        The posterior median and the ends of the interval.
    """
    posterior = model.exact_posterior(trials.unsqueeze(-2), num_samples, seed)
    quantiles = posterior.quantile(_tails(trials, credible))[..., 0, 0]
    return Band(*quantiles.unbind())


def exact_probability_band(
    model: ExactModel,
    candidates: Tensor,
    credible: float,
    num_samples: int = NUM_SAMPLES,
    seed: int = 0,
) -> Band:
    r"""The success probability and its credible interval, by sampling.

    Args:
        model: The model.
        candidates: A ``... x q x d`` tensor of trials or duels.
        credible: The probability of the interval.
        num_samples: The number of draws from the true posterior.
        seed: The seed of the draws.

    Returns:
        The posterior mean of the probability and the ends of the interval.
    """
    posterior = model.exact_posterior(candidates, num_samples, seed)
    tails = _tails(candidates, credible)[1:]
    low, high = posterior.probability_quantile(tails)[..., 0, 0].unbind()
    return Band(posterior.probability[..., 0, 0], low, high)


def exact_threshold_band(
    model: ExactModel,
    line: Tensor,
    contrast: float,
    credible: float,
    num_samples: int = NUM_SAMPLES,
    seed: int = 0,
) -> Band:
    r""":func:`threshold_band` of the true posterior.

    The ``p``-quantile of ``f`` is below the contrast exactly where ``f`` is below it
    with a probability of more than ``p``, so no search for quantiles is needed.

    Args:
        model: The model.
        line: A ``... x n x d`` tensor of trials, the easiest first.
        contrast: The value of ``f`` at the threshold.
        credible: The probability of the interval.
        num_samples: The number of draws from the true posterior.
        seed: The seed of the draws.

    Returns:
        Positions on the line, as :func:`threshold_band` gives them.
    """
    posterior = model.exact_posterior(line.unsqueeze(-2), num_samples, seed)
    below = posterior.cdf(contrast)[..., 0, 0]
    margin = torch.finfo(below.dtype).eps
    # Interpolate in standard deviations, in which these curves are nearly straight.
    curve = -torch.special.ndtri(below.clamp(margin, 1 - margin))
    tails = torch.special.ndtri(_tails(line, credible)).tolist()
    return Band(*[first_fall(curve, -tail) for tail in tails])


def _tails(like: Tensor, credible: float) -> Tensor:
    """The probabilities of the median and of the ends of an interval."""
    return like.new_tensor([0.5, (1 - credible) / 2, (1 + credible) / 2])


def first_fall(curve: Tensor, bound: float) -> Tensor:
    r"""Where curves first fall below a bound, between their points.

    Args:
        curve: A ``... x n`` tensor.
        bound: The bound.

    Returns:
        Positions between 0 and ``n - 1``; minus infinity if the first point is already
        below the bound, plus infinity if no point is.
    """
    below = curve < bound
    position = below.int().argmax(dim=-1, keepdim=True)  # the first of them
    after = position.clamp_min(1)
    left = curve.gather(-1, after - 1)
    right = curve.gather(-1, after)
    crossing = after - 1 + (left - bound) / (left - right)
    crossing = torch.where(position > 0, crossing, -torch.inf)
    return torch.where(below.any(dim=-1, keepdim=True), crossing, torch.inf).squeeze(-1)
