r"""
Random points of a part of a box, however small the part is.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# The number of points tried at once along a line, and how often the line is shortened
# around its start if none of them is within.
NUM_TRIED = 32
NUM_SHORTENED = 4

Membership = Callable[[Tensor], Tensor]


def walk(
    is_within: Membership, starts: Tensor, bounds: Tensor, num_steps: int
) -> Tensor:
    r"""Walk at random within a part of a box, by hit-and-run.

    Each step goes to a random point of the part along a line of random direction. After
    enough steps, the end of a walk is about uniform within the part.

    Args:
        is_within: Maps ``r x batch_shape x k`` points of the box to whether they are
            within the part, ``r x batch_shape``.
        starts: Where the walks begin, ``batch_shape x k``. A walk that begins outside
            the part may stay where it is.
        bounds: The ``2 x k`` bounds of the box.
        num_steps: The number of steps.

    Returns:
        Where the walks end, ``batch_shape x k``.
    """
    low, high = bounds
    width = high - low
    unit = (starts - low) / width
    for _ in range(num_steps):
        unit = _step(lambda u: is_within((low + width * u).clamp(low, high)), unit)
    return (low + width * unit).clamp(low, high)


def _step(is_within: Membership, unit: Tensor) -> Tensor:
    """One step in the unit cube."""
    direction = torch.randn_like(unit)
    direction = direction / direction.norm(dim=-1, keepdim=True)
    ends = torch.stack([-unit / direction, (1 - unit) / direction])
    first = ends.amin(dim=0).amax(dim=-1)  # the part of the line in the cube
    last = ends.amax(dim=0).amin(dim=-1)
    chosen = torch.zeros_like(first)
    moved = torch.zeros_like(first, dtype=torch.bool)
    for _ in range(NUM_SHORTENED):
        share = torch.rand(NUM_TRIED, *first.shape).to(first)
        tried = first + (last - first) * share  # NUM_TRIED x batch_shape
        within = is_within(unit + tried.unsqueeze(-1) * direction)
        index = within.to(torch.int8).argmax(dim=0, keepdim=True)
        hit = within.any(dim=0) & ~moved
        chosen = torch.where(hit, tried.gather(0, index)[0], chosen)
        moved = moved | hit
        if bool(moved.all()):
            break
        first = tried.masked_fill(tried > 0, -torch.inf).amax(dim=0).maximum(first)
        last = tried.masked_fill(tried < 0, torch.inf).amin(dim=0).minimum(last)
    return unit + chosen.unsqueeze(-1) * direction
