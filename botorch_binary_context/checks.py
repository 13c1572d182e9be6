r"""
Checks of arguments, with errors that name the argument.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, TypeGuard

import torch
from torch import Tensor

from botorch_binary_context.errors import InputDataError, quote

#: The dtypes that models can compute with.
DTYPES = (torch.float32, torch.float64)
# The largest seed that torch accepts.
MAX_SEED = 2**63 - 1
MAX_COUNT = 10**6
#: Which way a context goes as tests become harder.
DIRECTIONS = ("up", "down")


def check_kind(name: str, value: Any, kind: type) -> None:
    r"""Check that an argument is an instance of a class.

    Args:
        name: The name of the argument.
        value: Its value.
        kind: The class.
    """
    if not isinstance(value, kind):
        raise InputDataError(
            f"Expected ``{name}`` to be a {kind.__name__}, but got {describe(value)}."
        )


def check_whole(name: str, value: Any) -> None:
    r"""Check that an argument is a whole number, of either sign.

    Args:
        name: The name of the argument.
        value: Its value.
    """
    check_count(name, value, least=-MAX_COUNT)


def check_count(name: str, value: Any, least: int = 1) -> None:
    r"""Check that an argument is a whole number that is large enough.

    Args:
        name: The name of the argument.
        value: Its value.
        least: The smallest value allowed.
    """
    number = _whole(value)
    if number is None or not least <= number <= MAX_COUNT:
        raise InputDataError(
            f"Expected ``{name}`` to be a whole number from {least} to {MAX_COUNT}, "
            f"but got {describe(value)}."
        )


def check_number(name: str, value: Any) -> None:
    r"""Check that an argument is one finite number.

    Args:
        name: The name of the argument.
        value: Its value.
    """
    if not math.isfinite(to_float(value)):
        raise InputDataError(
            f"Expected ``{name}`` to be a finite number, but got {describe(value)}."
        )


def to_float(value: Any) -> float:
    r"""A number of any library as a Python float.

    Args:
        value: Any value.

    Returns:
        The number; NaN if the value is not a number.
    """
    try:
        return math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return math.nan


def check_seed(seed: Any) -> None:
    r"""Check a random seed.

    Args:
        seed: The seed.
    """
    number = _whole(seed)
    if number is None or not -MAX_SEED <= number <= MAX_SEED:
        raise InputDataError(
            f"Expected ``seed`` to be a whole number of at most {MAX_SEED}, but got "
            f"{describe(seed)}."
        )


def _whole(value: Any) -> int | None:
    """A whole number of any library as an int; None if it is not whole."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def is_direction(value: Any) -> TypeGuard[str]:
    r"""Whether a value is "up" or "down".

    Args:
        value: Any value.
    """
    return isinstance(value, str) and value in DIRECTIONS


def to_directions(harder: Any, num_contexts: int) -> tuple[str, ...]:
    r"""Which way tests become harder, for each context.

    Args:
        harder: "up" or "down" for all contexts, or a sequence with one of them for
            each.
        num_contexts: The number of contexts.

    Returns:
        "up" or "down" for each context.
    """
    if is_direction(harder):
        return (harder,) * num_contexts
    is_list = isinstance(harder, Sequence) and not isinstance(harder, str)
    if is_list and len(harder) == num_contexts and all(map(is_direction, harder)):
        return tuple(harder)
    lists = f", or a list with one of them for each of the {num_contexts} contexts"
    raise InputDataError(
        f"Expected ``harder`` to be 'up' or 'down'{lists if num_contexts > 1 else ''}, "
        f"but got {describe(harder)}."
    )


def check_tensor(name: str, value: Any) -> None:
    r"""Check that an argument is a tensor of finite numbers.

    Args:
        name: The name of the argument.
        value: Its value.
    """
    check_kind(name, value, Tensor)
    wrong = ~value.isfinite()
    if bool(wrong.any()):
        index = wrong.nonzero()[0].tolist()
        raise InputDataError(
            f"Expected ``{name}`` to hold finite numbers, but got "
            f"{value[tuple(index)].item()} at index {index}."
        )


def to_tensor(name: str, value: Any) -> Tensor:
    r"""Finite numbers as a tensor.

    Args:
        name: The name of the argument.
        value: A tensor, or numbers in lists.

    Returns:
        The given tensor, or a new one in double precision.
    """
    if not isinstance(value, Tensor):
        try:
            value = torch.tensor(value, dtype=torch.double, device="cpu")
        except (TypeError, ValueError, RuntimeError, OverflowError):
            raise InputDataError(
                f"Expected ``{name}`` to be numbers, but got {describe(value)}."
            ) from None
    check_tensor(name, value)
    return value


def check_precision(name: str, value: Tensor) -> None:
    r"""Check that a tensor is of single or double precision.

    Args:
        name: The name of the argument.
        value: The tensor.
    """
    if value.dtype not in DTYPES:
        raise InputDataError(
            f"Expected ``{name}`` to be of single or double precision, but got "
            f"{value.dtype}."
        )


def describe(value: Any) -> str:
    r"""A short description of a value for messages; the shape of a tensor.

    Args:
        value: Any value.

    Returns:
        The shape of a tensor of several numbers, otherwise the ``repr`` of the value.
    """
    if isinstance(value, Tensor) and value.numel() != 1:
        return f"a tensor of shape {list(value.shape)}"
    return quote(value)
