r"""
Sets of contexts: a grid, or draws from a distribution.
"""

from __future__ import annotations

import torch
from botorch.exceptions import InputDataError
from botorch.utils.sampling import manual_seed
from torch import Tensor
from torch.distributions import Distribution

from botorch_binary_context.context import ContextSpace


def context_grid(space: ContextSpace, num_points: int) -> Tensor:
    r"""A regular grid over the box of the contexts.

    Args:
        space: The box of the trials.
        num_points: The number of points along each context column.

    Returns:
        A ``num_points^m x m`` tensor.

    Example:
        >>> goal = ContextAverage(context_grid(space, 5))
    """
    if num_points < 1 or space.num_contexts == 0:
        raise InputDataError(
            "Expected ``num_points`` to be positive and ``space`` to have contexts, "
            f"but got {num_points} and {space.num_contexts} contexts."
        )
    low, high = space.context_bounds
    unit = torch.linspace(0, 1, num_points, dtype=low.dtype, device=low.device)
    unit = unit if num_points > 1 else torch.full_like(unit, 0.5)
    sides = [a + (b - a) * unit for a, b in zip(low, high, strict=True)]
    return torch.cartesian_prod(*sides).reshape(-1, space.num_contexts)


def draw_contexts(distribution: Distribution, number: int, seed: int = 0) -> Tensor:
    r"""Contexts drawn from a distribution.

    Args:
        distribution: A distribution of one context column, or of ``m`` of them.
        number: The number of contexts.
        seed: The seed of the draw.

    Returns:
        A ``number x m`` tensor.

    Example:
        >>> contexts = draw_contexts(torch.distributions.Uniform(0.2, 0.8), 32)
    """
    with manual_seed(seed):
        contexts = distribution.sample(torch.Size([number]))
    return contexts.reshape(number, -1)
