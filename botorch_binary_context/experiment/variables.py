r"""
Named parameters and contexts, in the user's units.

A variable converts between values in these units and columns of the model's box: the
unit cube for parameters, [-1, 1] or a ratio for contexts. Values that the equipment
cannot show, such as a fraction of an integer or a letter between two sizes, are snapped
to ones that it can.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_binary_context.errors import quote
from botorch_binary_context.experiment.ranges import (
    MAX_SIZE,
    Range,
    check_grid,
    check_name,
    check_number,
    check_range,
    check_within,
    find_nearest,
    make_column,
    make_grid,
    pass_through,
)

#: What a variable can be: a number, a word, a switch.
Value = float | int | str | bool

MAX_WHOLE = 2**53


class Parameter(ABC):
    r"""A parameter of the system, which is optimized."""

    #: What it is called in a configuration file.
    type: ClassVar[str]
    name: str

    @property
    def num_columns(self) -> int:
        """The number of columns of the unit cube that it takes."""
        return 1

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return (self.name,)

    @property
    def is_continuous(self) -> bool:
        """Whether every point of its columns can be shown."""
        return self.choices is None

    @property
    @abstractmethod
    def choices(self) -> Sequence[Any] | None:
        """The values that can be shown; None if there are infinitely many."""

    @abstractmethod
    def encode(self, value: Value) -> Tensor:
        r"""The columns of a value.

        Args:
            value: The value, in the user's units.

        Returns:
            A tensor of ``num_columns`` numbers in [0, 1].
        """

    @abstractmethod
    def decode(self, U: Tensor) -> Value:
        r"""The value nearest to some columns.

        Args:
            U: A tensor of ``num_columns`` numbers in [0, 1].

        Returns:
            The value, in the user's units.
        """

    def snap(self, U: Tensor) -> Tensor:
        r"""The nearest columns that can be shown.

        Args:
            U: A ``... x num_columns`` tensor of numbers in [0, 1].

        Returns:
            A tensor of the same shape.
        """
        return U


@dataclass(frozen=True)
class Real(Parameter):
    r"""A real parameter: any number in an interval, or those that equipment can show.

    Give either the bounds, with a step if there is one, or the levels.

    Attributes:
        name: Its name.
        low: The lower bound, in the user's units.
        high: The upper bound.
        scale: "linear" or "log".
        step: The distance between values that can be shown, from the lower bound up; if
            None, any value can be shown.
        levels: The values that can be shown, at least two.

    Example:
        >>> Real("sphere", -6.0, 6.0, step=0.25)
        >>> Real("aperture", levels=[1.4, 2.0, 2.8, 4.0], scale="log")
    """

    type: ClassVar[str] = "real"
    name: str
    low: float | None = None
    high: float | None = None
    scale: str = "linear"
    step: float | None = None
    levels: Sequence[float] | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        check_grid(self)
        check_range(self.name, *self.bounds, self.scale)

    @cached_property
    def grid(self) -> tuple[float, ...] | None:
        """The values that can be shown; None if all of the interval can."""
        return make_grid(self)

    @property
    def bounds(self) -> tuple[Any, Any]:
        """The least and the largest value."""
        if self.grid is None:
            return self.low, self.high
        return self.grid[0], self.grid[-1]

    @property
    def choices(self) -> Sequence[Any] | None:
        """The values of the step or the levels; None without these."""
        return self.grid

    @property
    def _range(self) -> Range:
        low, high = self.bounds
        return Range(float(low), float(high), self.scale)

    def encode(self, value: Value) -> Tensor:
        r"""The column of a value, which need not be one of the levels."""
        number = check_within(self.name, value, *self.bounds)
        return self._range.to_unit(make_column(number))

    def decode(self, U: Tensor) -> float:
        r"""The value nearest to a column."""
        if self.grid is not None:
            return self.grid[int(find_nearest(self._range.columns(self.grid), U))]
        return self._range.round(float(self._range.from_unit(U)))

    def snap(self, U: Tensor) -> Tensor:
        r"""The column of the nearest value that can be shown."""
        if self.grid is None:
            return U
        columns = self._range.columns(self.grid)
        return pass_through(columns.to(U)[find_nearest(columns, U)], U)


@dataclass(frozen=True)
class Integer(Real):
    r"""An integer parameter.

    Attributes:
        name: Its name.
        low: The least value.
        high: The largest value.
        scale: "linear" or "log".
        step: The distance between values that can be shown; 1 if None.
        levels: The values that can be shown, at least two, instead of bounds.
    """

    type: ClassVar[str] = "integer"

    def __post_init__(self) -> None:
        super().__post_init__()
        for argument in ("low", "high", "step"):
            if getattr(self, argument) is not None:
                self._check_whole(argument, getattr(self, argument))
        for level in self.levels or ():
            self._check_whole("levels", level)

    @property
    def choices(self) -> Sequence[int]:
        """All whole numbers, or those of the step or the levels."""
        low, high = self.bounds
        values = range(int(low), int(high) + 1) if self.grid is None else self.grid
        return values if isinstance(values, range) else [int(v) for v in values]

    def _check_whole(self, argument: str, value: Any) -> int:
        number = check_number(self.name, argument, value)
        if not number.is_integer() or abs(number) > MAX_WHOLE:
            raise InputDataError(
                f"Expected ``{argument}`` of {self.name!r} to be a whole number of at "
                f"most {MAX_WHOLE}, but got {value}."
            )
        return int(number)

    def encode(self, value: Value) -> Tensor:
        r"""The column of a value."""
        return super().encode(self._check_whole("value", value))

    def decode(self, U: Tensor) -> int:
        r"""The whole number nearest to a column."""
        return round(super().decode(U))

    def snap(self, U: Tensor) -> Tensor:
        r"""The column of the nearest whole number that can be shown."""
        if self.grid is not None:
            return super().snap(U)
        return pass_through(self._range.to_unit(self._range.from_unit(U).round()), U)


def _is_category(value: Any) -> bool:
    if isinstance(value, float | int):
        return abs(value) <= MAX_SIZE
    return isinstance(value, str)


@dataclass(frozen=True)
class Categorical(Parameter):
    r"""A categorical parameter: one of several values without an order.

    It takes one column for each value; the largest of them says which value it is.

    Attributes:
        name: Its name.
        values: The values, at least two.
    """

    type: ClassVar[str] = "categorical"
    name: str
    values: Sequence[Value]

    def __post_init__(self) -> None:
        check_name(self.name)
        values = self.values
        distinct = (
            isinstance(values, list | tuple | range)
            and all(_is_category(v) for v in values)
            and len(set(values)) == len(values) >= 2
        )
        if not distinct:
            raise InputDataError(
                f"Expected ``values`` of {self.name!r} to be a list of at least two "
                f"different texts or finite numbers, but got {quote(values)}."
            )
        object.__setattr__(self, "values", tuple(values))

    @property
    def num_columns(self) -> int:
        """One for each value."""
        return len(self.values)

    @property
    def choices(self) -> Sequence[Value]:
        """All values."""
        return self.values

    @property
    def column_names(self) -> tuple[str, ...]:
        """The name and the value of each column."""
        return tuple(f"{self.name} = {value}" for value in self.values)

    def encode(self, value: Value) -> Tensor:
        r"""One in the column of the value, zero in the others."""
        if value not in self.values:
            raise InputDataError(
                f"Expected ``value`` of {self.name!r} to be one of "
                f"{', '.join(repr(v) for v in self.values)}, but got {quote(value)}."
            )
        columns = torch.zeros(len(self.values), dtype=torch.float64, device="cpu")
        columns[self.values.index(value)] = 1.0
        return columns

    def decode(self, U: Tensor) -> Value:
        r"""The value of the largest column."""
        return self.values[int(U.argmax())]

    def snap(self, U: Tensor) -> Tensor:
        r"""One in the largest column, zero in the others.

        Columns that are all equal stand for no value and stay as they are. This
        includes the two opposite corners of a box, which models transform like points.
        """
        snapped = torch.zeros_like(U).scatter(-1, U.argmax(dim=-1, keepdim=True), 1.0)
        undecided = (U[..., :1] == U).all(dim=-1, keepdim=True)
        # No gradient: "more" of a value means nothing.
        return torch.where(undecided, U, snapped).detach() + 0.0 * U


@dataclass(frozen=True)
class Context:
    r"""A context: what the experimenter chooses about a test, usually its difficulty.

    Give either the bounds, with a step if there is one, or the levels that the
    equipment can show.

    Attributes:
        name: Its name.
        reference: The value at which the system should be good, in the user's units; it
            need not be one of the levels.
        low: The lower bound.
        high: The upper bound.
        levels: The values that can be shown, at least two; any within the bounds if
            None.
        scale: "linear" or "log".
        harder: "up" if tests become harder as the value goes up, "down" if they become
            harder as it goes down, None to learn it.
        step: The distance between values that can be shown, from the lower bound up.

    Example:
        >>> Context("noise", reference=3.0, low=0.0, high=5.0, harder="up")
        >>> Context("letter size", reference=0.0, levels=[-0.2, 0.0, 0.5, 1.0])
    """

    name: str
    reference: float
    low: float | None = None
    high: float | None = None
    levels: Sequence[float] | None = None
    scale: str = "linear"
    harder: str | None = None
    step: float | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        check_grid(self)
        check_range(self.name, *self.bounds, self.scale)
        check_within(self.name, self.reference, *self.bounds, argument="reference")
        if self.harder not in (None, "up", "down"):
            raise InputDataError(
                f"Expected ``harder`` of {self.name!r} to be 'up' or 'down' or None, "
                f"but got {quote(self.harder)}."
            )

    @cached_property
    def grid(self) -> tuple[float, ...] | None:
        """The values that can be shown; None if all within the bounds can."""
        return make_grid(self)

    @property
    def choices(self) -> Sequence[float] | None:
        """The values of the step or the levels; None if there are infinitely many."""
        return self.grid

    @property
    def bounds(self) -> tuple[Any, Any]:
        """The least and the largest value."""
        if self.grid is None:
            return self.low, self.high
        return self.grid[0], self.grid[-1]

    @property
    def _range(self) -> Range:
        low, high = self.bounds
        return Range(float(low), float(high), self.scale)

    def encode(self, value: Value, centered: bool) -> Tensor:
        r"""The column of a value, which need not be one of the levels.

        Args:
            value: The value, in the user's units.
            centered: Whether the bounds are mapped to -1 and 1, the easier one to 1;
                otherwise zero stays zero.

        Returns:
            A tensor of one number in [-1, 1].
        """
        number = make_column(check_within(self.name, value, *self.bounds))
        return self._to_column(number, centered)

    def decode(self, U: Tensor, centered: bool) -> float:
        r"""The value that can be shown nearest to a column.

        Args:
            U: A tensor of one number in [-1, 1].
            centered: As in :meth:`encode`.

        Returns:
            The value, in the user's units.
        """
        if self.grid is not None:
            distance = (self._columns(self.grid, centered) - U).abs()
            return self.grid[int(distance.argmin())]
        if not centered:
            return self._range.round(float(U) * self._largest)
        unit = (1 + self._sign * U) / 2
        return self._range.round(float(self._range.from_unit(unit)))

    def at_difficulty(self, share: float) -> float:
        r"""The value part of the way from the easiest to the hardest, on the scale.

        Args:
            share: The fraction of the way, from 0 to 1.

        Returns:
            The value, in the user's units, which need not be one of the levels; minus
            or plus infinity if the share is not from 0 to 1.
        """
        if not 0.0 <= share <= 1.0:
            return math.copysign(math.inf, -self._sign * share)
        return self._range.round(float(self._by_difficulty(make_column(share))))

    def difficulties(self, num: int, centered: bool) -> Tensor:
        r"""The columns of values from the easiest to the hardest, evenly on the scale.

        Args:
            num: The number of values.
            centered: As in :meth:`encode`.

        Returns:
            A tensor of ``num`` numbers in [-1, 1].
        """
        shares = torch.linspace(0.0, 1.0, num, dtype=torch.float64, device="cpu")
        return self._to_column(self._by_difficulty(shares), centered)

    def _by_difficulty(self, share: Tensor) -> Tensor:
        return self._range.from_unit(share if self.harder == "up" else 1.0 - share)

    def snap(self, U: Tensor, centered: bool) -> Tensor:
        r"""The column of the nearest level, or of the reference if that is nearer.

        Args:
            U: A ``... x 1`` tensor of numbers in [-1, 1].
            centered: As in :meth:`encode`.

        Returns:
            A tensor of the same shape.
        """
        if self.grid is None:
            return U
        # Rules also use the reference context, whether or not it can be shown.
        columns = self._columns((*self.grid, self.reference), centered)
        return pass_through(
            columns[(U - columns).abs().argmin(dim=-1, keepdim=True)], U
        )

    @property
    def _sign(self) -> int:
        return -1 if self.harder == "up" else 1

    @property
    def _largest(self) -> float:
        return max(abs(bound) for bound in self.bounds)

    def _to_column(self, values: Tensor, centered: bool) -> Tensor:
        if centered:
            return self._sign * (2 * self._range.to_unit(values) - 1)
        return values / self._largest

    def _columns(self, values: Sequence[float], centered: bool) -> Tensor:
        numbers = torch.tensor(values, dtype=torch.float64, device="cpu")
        return self._to_column(numbers, centered)
