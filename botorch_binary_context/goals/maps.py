r"""
Maps of thresholds: the hardest test that can be passed at every setting of the
parameters, instead of an optimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_binary_context.bands import (
    NUM_SAMPLES,
    Band,
    exact_threshold_band,
    threshold_band,
)
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.goals.base import success_likelihood
from botorch_binary_context.models.latent_gp import LatentGP

NUM_STEPS = 201


@dataclass(frozen=True)
class ThresholdMap:
    r"""Learn where tests are passed with a given probability, at all parameters.

    It is a goal without an optimum: rules whose names begin with ``map-`` choose trials
    for it, and :func:`threshold_map` gives the result.

    Attributes:
        probability: The success probability, above the guess rate and below ``1 - λ``;
            by default halfway between them, 0.75 with two alternatives.

    Example:
        >>> trial = suggest(model, space, "map-mi", goal=ThresholdMap(0.75))
        >>> band = threshold_map(model, space, 0.75, parameters)
    """

    probability: float | None = None

    def __post_init__(self) -> None:
        if self.probability is not None and not 0.0 < self.probability < 1.0:
            raise InputDataError(
                "Expected ``probability`` to be between 0 and 1, but got "
                f"{self.probability}."
            )


def contrast_at_probability(model: LatentGP, probability: float | None) -> float:
    r"""The contrast at which tests are passed with a given probability.

    Args:
        model: A model of pass/fail outcomes, alone or together with others.
        probability: The success probability, or None for halfway between guesses and
            lapses.

    Returns:
        The contrast, on the scale of the latent function.
    """
    likelihood = success_likelihood(model)
    return 0.0 if probability is None else likelihood.contrast_at(probability)


def threshold_map(
    model: LatentGP,
    space: ContextSpace,
    probability: float | None = None,
    parameters: Tensor | None = None,
    credible: float = 0.9,
    num_samples: int | None = NUM_SAMPLES,
) -> Band:
    r"""The context at which tests are passed with a given probability, with intervals.

    If the latent function only rises, or only falls, along the context, the quantiles
    of the threshold are where the quantiles of the latent function cross its value at
    the threshold.

    Args:
        model: A model of pass/fail outcomes, alone or together with others, without
            batch dimensions.
        space: The box of the trials, with one context.
        probability: The success probability, by default halfway between guesses and
            lapses.
        parameters: The parameters at which to find the threshold, ``... x (d - m)``;
            not needed if the space has none.
        credible: The probability of each interval.
        num_samples: The number of draws from the true posterior; None for the intervals
            of the Gaussian approximation, which is faster.

    Returns:
        The medians and the bounds, ``...`` each, in units of the context. A threshold
        outside the box is plus or minus infinity.

    Example:
        >>> threshold, low, high = threshold_map(model, space, 0.75, grid)
    """
    if space.num_contexts != 1:
        raise InputDataError(
            "Expected ``space`` to have one context, along which the threshold is "
            f"sought, but got {space.num_contexts}."
        )
    if parameters is None:
        parameters = space.parameter_bounds[:1, :0].squeeze(0)
    if parameters.shape[-1] != len(space.parameter_dims):
        raise InputDataError(
            f"Expected ``parameters`` to have {len(space.parameter_dims)} columns, but "
            f"got shape {list(parameters.shape)}."
        )
    contrast = contrast_at_probability(model, probability)
    with torch.no_grad():
        line, upward = _line(model, space, parameters)
        if num_samples is None:
            width = NormalDist().inv_cdf((1 + credible) / 2)
            band = threshold_band(model, line, contrast, width)
        else:
            band = exact_threshold_band(model, line, contrast, credible, num_samples)
    center, *ends = (_to_context(space, position, upward) for position in band)
    return Band(center, torch.minimum(*ends), torch.maximum(*ends))


def _line(
    model: LatentGP, space: ContextSpace, parameters: Tensor
) -> tuple[Tensor, Tensor]:
    """Trials, easiest first, ``... x n x d``; whether larger contexts are harder."""
    low, high = space.context_bounds
    steps = torch.linspace(0, 1, NUM_STEPS, dtype=low.dtype, device=low.device)
    contexts = low + (high - low) * steps.unsqueeze(-1)
    line = space.join(parameters.to(low).unsqueeze(-2), contexts)
    ends = model.posterior_mean(line[..., [0, -1], :])
    upward = ends[..., 0] >= ends[..., 1]
    return torch.where(upward[..., None, None], line, line.flip(-2)), upward


def _to_context(space: ContextSpace, position: Tensor, upward: Tensor) -> Tensor:
    """Convert positions along the line to contexts."""
    low, high = space.context_bounds[:, 0]
    distance = (high - low) * position / (NUM_STEPS - 1)
    return torch.where(upward, low + distance, high - distance)
