r"""
A performance whose offset drifts in the course of an experiment.

The last column of a trial is its time, in answers before now: zero now, and -1 for the
last answer. So all predictions of the model are about the present.
"""

from __future__ import annotations

from typing import Any

import torch
from botorch.exceptions import InputDataError, UnsupportedError
from torch import Tensor

from botorch_binary_context.errors import quote

MAX_DRIFT = 1e6


def check_drift(drift: Any, sees_offset: bool, goal: Any, combinations: Any) -> None:
    r"""Raise an error unless a drift makes sense in an experiment.

    Args:
        drift: Over how many answers the performance changes.
        sees_offset: Whether answers tell the offset of the performance.
        goal: What the parameters should be good at, if not at the reference.
        combinations: Combinations of parameters, if any.
    """
    is_number = isinstance(drift, int | float) and not isinstance(drift, bool)
    if not is_number or not 1 <= drift <= MAX_DRIFT:
        raise InputDataError(
            f"Expected ``drift`` to be a number of answers from 1 to {MAX_DRIFT:g}, "
            f"but got {quote(drift)}."
        )
    if not sees_offset:
        raise UnsupportedError(
            "Expected ``drift`` to be left out where sides are compared: it is one of "
            f"the offset, which cancels between them, but got {drift}."
        )
    for name, value in (("goal", goal), ("combinations", combinations)):
        if value is not None:
            raise UnsupportedError(
                f"Expected ``{name}`` to be left out with ``drift``, but got both."
            )


def date_answers(X: Tensor) -> Tensor:
    r"""Answered trials with their times.

    Args:
        X: Trials in the order of their answers, ``n x ... x d``.

    Returns:
        A copy whose last column is the time: -1 for the last answer, -2 for the one
        before, and so on.
    """
    n = len(X)
    times = torch.arange(-n, 0, dtype=X.dtype, device=X.device)
    X = X.clone()
    X[..., -1] = times.reshape(n, *[1] * (X.ndim - 2))
    return X
