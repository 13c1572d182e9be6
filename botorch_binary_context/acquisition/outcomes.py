r"""
Candidates together with their outcomes, in one row.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from botorch_binary_context.models.functional_values import FunctionalValues


def in_a_row(values: Tensor) -> Tensor:
    r"""Values of candidates for every outcome, in one row, from the highest label down.

    Args:
        values: A ``num_outcomes x batch_shape x T`` tensor, by label.

    Returns:
        A ``batch_shape x (num_outcomes T)`` tensor.
    """
    return values.flip(0).movedim(0, -2).flatten(-2)


def repeat(candidates: FunctionalValues) -> FunctionalValues:
    r"""Candidates, once for each outcome.

    Args:
        candidates: ``T`` values.

    Returns:
        ``num_outcomes T`` values: all candidates, repeated for each outcome in turn.
    """
    number = candidates.model.likelihood.num_outcomes
    rows = torch.cat([candidates.rows] * number, dim=-2)
    return replace(candidates, rows=rows)
