r"""
Ranges of numbers, and the numbers of a range that equipment can show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_binary_context.errors import quote

if TYPE_CHECKING:
    from botorch_binary_context.experiment.variables import Context, Real

SCALES = ("linear", "log")
# Values are rounded to this many digits, so that what is shown is what is stored.
DIGITS = 6
MAX_LEVELS = 10_000
# Beyond these, differences and ratios of numbers leave the range of floating point.
MAX_SIZE = 1e100
MIN_RELATIVE_WIDTH = 1e-10


@dataclass(frozen=True)
class Range:
    r"""A range of numbers on a linear or logarithmic scale, mapped to [0, 1].

    Attributes:
        low: The least number.
        high: The largest.
        scale: "linear" or "log".
    """

    low: float
    high: float
    scale: str

    def to_unit(self, value: Tensor) -> Tensor:
        r"""The positions of numbers on the scale.

        Args:
            value: Numbers of the range.

        Returns:
            Numbers in [0, 1].
        """
        if self.scale == "log":
            return (value / self.low).log() / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def from_unit(self, u: Tensor) -> Tensor:
        r"""The numbers at positions on the scale.

        Args:
            u: Numbers in [0, 1].

        Returns:
            Numbers of the range.
        """
        if self.scale == "log":
            return self.low * (u * math.log(self.high / self.low)).exp()
        return self.low + u * (self.high - self.low)

    def round(self, value: float) -> float:
        r"""Cut the digits that do not matter, and stay within the range.

        Args:
            value: A number.
        """
        size = abs(value) if self.scale == "log" else self.high - self.low
        value = round(value, DIGITS - 1 - math.floor(math.log10(size)))
        return min(max(value, self.low), self.high)

    def columns(self, levels: Sequence[float]) -> Tensor:
        r"""The positions of levels on the scale.

        Args:
            levels: Numbers of the range.

        Returns:
            A tensor of numbers in [0, 1], one for each level.
        """
        return self.to_unit(torch.tensor(levels, dtype=torch.float64, device="cpu"))


def make_column(value: float) -> Tensor:
    r"""A tensor of one number.

    Args:
        value: The number.

    Returns:
        The tensor, in double precision.
    """
    return torch.tensor([value], dtype=torch.float64, device="cpu")


def find_nearest(levels: Tensor, U: Tensor) -> Tensor:
    r"""The level nearest to each of some numbers.

    Args:
        levels: The levels, ascending.
        U: Numbers, of any shape.

    Returns:
        The indices of the levels, of the same shape.
    """
    middles = ((levels[1:] + levels[:-1]) / 2).to(U)
    return torch.bucketize(U.detach().contiguous(), middles)


def pass_through(snapped: Tensor, U: Tensor) -> Tensor:
    r"""Snapped values with the gradient of the free ones, so that a search can move.

    Args:
        snapped: The snapped values.
        U: The free values.

    Returns:
        The snapped values, whose derivative with respect to ``U`` is one.
    """
    return snapped.detach() + (U - U.detach())


def check_name(name: Any) -> None:
    r"""Raise an error unless something can be the name of a variable.

    Args:
        name: The name.
    """
    is_text = isinstance(name, str) and name.strip() and name.isprintable()
    if not is_text or "=" in name:
        raise InputDataError(
            "Expected ``name`` to be a text of one line without an equals sign, but "
            f"got {quote(name)}."
        )


def check_number(name: str, argument: str, value: Any) -> float:
    r"""Raise an error unless an argument is a finite number.

    Args:
        name: The name of the variable.
        argument: The name of the argument.
        value: The value to check.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) <= MAX_SIZE:
        raise InputDataError(
            f"Expected ``{argument}`` of {name!r} to be a finite number, but got "
            f"{quote(value)}; the largest is {MAX_SIZE:g}."
        )
    return float(value)


def check_range(name: str, low: Any, high: Any, scale: Any) -> None:
    r"""Raise an error unless bounds and scale make a range.

    Args:
        name: The name of the variable.
        low: The lower bound.
        high: The upper bound.
        scale: The scale.
    """
    low = check_number(name, "low", low)
    high = check_number(name, "high", high)
    if not low < high:
        raise InputDataError(
            f"Expected ``low`` of {name!r} to be less than ``high``, but got {low} and "
            f"{high}."
        )
    if high - low < max(MIN_RELATIVE_WIDTH * max(abs(low), abs(high)), 1 / MAX_SIZE):
        raise InputDataError(
            f"Expected ``low`` and ``high`` of {name!r} to be further apart than "
            f"rounding errors, but got {low} and {high}."
        )
    if scale not in SCALES:
        raise InputDataError(
            f"Expected ``scale`` of {name!r} to be one of {', '.join(SCALES)}, but got "
            f"{quote(scale)}."
        )
    if scale == "log" and low < 1 / MAX_SIZE:
        raise InputDataError(
            f"Expected ``low`` of {name!r} to be positive on a log scale, at least "
            f"{1 / MAX_SIZE:g}, but got {low}."
        )


def check_within(
    name: str, value: Any, low: float, high: float, argument: str = "value"
) -> float:
    r"""Raise an error unless a value lies within bounds.

    Args:
        name: The name of the variable.
        value: The value.
        low: The lower bound.
        high: The upper bound.
        argument: The name of the argument.
    """
    number = check_number(name, argument, value)
    if not low <= number <= high:
        raise InputDataError(
            f"Expected ``{argument}`` of {name!r} to be from {low} to {high}, but got "
            f"{value}."
        )
    return number


def check_levels(name: str, levels: Any) -> tuple[float, ...]:
    r"""Raise an error unless levels are at least two different numbers.

    Args:
        name: The name of the variable.
        levels: The levels.

    Returns:
        The different levels in ascending order.
    """
    numbers = set()
    if isinstance(levels, list | tuple | range):
        numbers = {check_number(name, "levels", level) for level in levels}
    if len(numbers) < 2:
        raise InputDataError(
            f"Expected ``levels`` of {name!r} to be a list of at least two different "
            f"numbers, but got {quote(levels)}."
        )
    return tuple(sorted(numbers))


def make_levels(name: str, low: Any, high: Any, step: Any) -> tuple[float, ...]:
    r"""The numbers from ``low`` in steps, up to ``high`` at most.

    They are exact decimals, as a person would write them.

    Args:
        name: The name of the variable.
        low: The first number.
        high: The upper limit.
        step: The step.
    """
    check_range(name, low, high, "linear")
    size = check_number(name, "step", step)
    number = 0 if size <= 0.0 else math.floor((high - low) / size * (1.0 + 1e-12))
    if not 1 <= number < MAX_LEVELS:
        raise InputDataError(
            f"Expected ``step`` of {name!r} to make 2 to {MAX_LEVELS} values from "
            f"{low} to {high}, but got {step}."
        )
    first = Decimal(str(low))
    by = Decimal(str(step))
    return tuple(float(first + i * by) for i in range(number + 1))


def check_grid(variable: Real | Context) -> None:
    r"""Check that a variable has either bounds or levels.

    Args:
        variable: The variable; its levels are made a sorted tuple.
    """
    name = variable.name
    bounded = variable.low is not None or variable.high is not None
    if bounded == (variable.levels is not None):
        raise InputDataError(
            f"Expected either ``low`` and ``high`` or ``levels`` of {name!r}, but got "
            f"{quote(variable.low)}, {quote(variable.high)} and "
            f"{quote(variable.levels)}."
        )
    if variable.levels is not None:
        object.__setattr__(variable, "levels", check_levels(name, variable.levels))
    if variable.step is None:
        return
    if variable.levels is not None or variable.scale != "linear":
        raise InputDataError(
            f"Expected ``step`` of {name!r} to come with bounds on a linear scale, but "
            f"got {variable.step}: give ``levels`` alone."
        )
    make_levels(name, variable.low, variable.high, variable.step)  # checks the step


def make_grid(variable: Real | Context) -> tuple[float, ...] | None:
    r"""The values of a variable that can be shown.

    Args:
        variable: The variable.

    Returns:
        The values, or None if all between the bounds can be shown.
    """
    if variable.step is not None:
        return make_levels(variable.name, variable.low, variable.high, variable.step)
    return None if variable.levels is None else tuple(variable.levels)
