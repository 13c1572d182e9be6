r"""
The maximum of a goal's posterior mean: what an experiment would recommend now.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from botorch_binary_context.context import ContextSpace
from botorch_binary_context.goals import AtReference, Goal
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.optim import SearchOptions, maximize


def maximize_posterior_mean(
    model: LatentGP,
    space: ContextSpace,
    options: SearchOptions = SearchOptions(),  # noqa: B008
    seed: int = 0,
    goal: Goal = AtReference(),  # noqa: B008
) -> tuple[Tensor, Tensor]:
    r"""The maximum of the posterior mean of a goal.

    Args:
        model: A model of pass/fail outcomes or duels.
        space: The box of the trials.
        options: The effort of the search.
        seed: The seed of the search.
        goal: What the parameters should be good at.

    Returns:
        The maximizers, ``batch_shape x (d - m)`` parameters, and the maxima,
        ``batch_shape``.
    """

    def mean_at(parameters: Tensor) -> Tensor:
        return goal.mean(model, space, parameters)

    low, high = space.parameter_bounds
    train = space.parameters(model.original_datapoints).clamp(low, high)
    starts = _best_rows(mean_at, train)
    return maximize(
        mean_at, space.parameter_bounds, model.batch_shape, options, starts, seed
    )


def _best_rows(function: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor | None:
    """The best of ``batch_shape x m x k`` rows, as one start."""
    if rows.shape[-2] == 0:
        return None
    with torch.no_grad():
        values = function(rows.movedim(-2, 0))
    index = values.argmax(dim=0)[..., None, None].expand(
        *rows.shape[:-2], 1, rows.shape[-1]
    )
    return rows.gather(-2, index).movedim(-2, 0).detach()
