r"""
Periodic parameters, such as the axis of a lens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_binary_context.experiment.ranges import (
    Range,
    check_name,
    check_range,
    check_within,
    make_column,
    make_levels,
    pass_through,
)
from botorch_binary_context.experiment.variables import Parameter, Value


@dataclass(frozen=True)
class Periodic(Parameter):
    r"""A periodic parameter: its lower and upper bound are the same value.

    Attributes:
        name: Its name.
        low: The lower bound, which is shown in place of the upper one.
        high: The upper bound; the period is the difference.
        step: The step between values that can be shown, which divides the period; None
            if any value can be shown.

    Example:
        >>> Periodic("axis", 0, 180, step=5)
        >>> Periodic("phase", -180, 180)
    """

    type: ClassVar[str] = "periodic"
    name: str
    low: float
    high: float
    step: float | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        check_range(self.name, self.low, self.high, "linear")
        if self.step is None:
            return
        levels = make_levels(self.name, self.low, self.high, self.step)
        if len(levels) < 3 or abs(levels[-1] - self.high) > 1e-9 * self.step:
            raise InputDataError(
                f"Expected ``step`` of {self.name!r} to divide the period from "
                f"{self.low} to {self.high} into at least two parts, but got "
                f"{self.step}."
            )

    @property
    def bounds(self) -> tuple[float, float]:
        """The lower and the upper bound, which are the same value."""
        return self.low, self.high

    @property
    def scale(self) -> str:
        """Always linear."""
        return "linear"

    @property
    def period(self) -> float:
        """The period."""
        return float(self.high) - float(self.low)

    @cached_property
    def choices(self) -> tuple[float, ...] | None:
        """The values of the step, without the upper bound; None without a step."""
        if self.step is None:
            return None
        return make_levels(self.name, self.low, self.high, self.step)[:-1]

    @property
    def _range(self) -> Range:
        return Range(float(self.low), float(self.high), "linear")

    def encode(self, value: Value) -> Tensor:
        r"""The column of a value; both bounds have the same column."""
        number = check_within(self.name, value, *self.bounds)
        return self._range.to_unit(make_column(number)) % 1.0

    def decode(self, U: Tensor) -> float:
        r"""The value nearest to a column, less than the upper bound."""
        if self.choices is not None:
            number = len(self.choices)
            return self.choices[round(float(U) * number) % number]
        value = self._range.round(float(self._range.from_unit(U % 1.0)))
        return float(self.low) if value == self.high else value

    def snap(self, U: Tensor) -> Tensor:
        r"""The column of the nearest value that can be shown."""
        if self.choices is None:
            return U
        number = len(self.choices)
        return pass_through(torch.round(U * number) / number, U)
