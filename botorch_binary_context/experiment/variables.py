r"""
Named parameters and contexts, in the units of the person who runs the experiment.

A variable knows how to go between a value in these units and columns of the box that
models work in: the unit cube for parameters, [-1, 1] or a ratio for contexts. What the
equipment cannot show, a fraction of an integer or a letter between two sizes, is
snapped to what it can.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_binary_context.errors import quote

#: What a variable can be: a number, a word, a switch.
Value = float | int | str | bool

SCALES = ("linear", "log")
# Values are rounded to so many digits: what is shown is what is stored.
DIGITS = 6
# Beyond these, differences and ratios of numbers leave the range of floating point.
MAX_SIZE = 1e100
MIN_RELATIVE_WIDTH = 1e-10
MAX_WHOLE = 2**53


@dataclass(frozen=True)
class _Range:
    """A range of numbers on a linear or logarithmic scale, mapped to [0, 1]."""

    low: float
    high: float
    scale: str

    def to_unit(self, value: Tensor) -> Tensor:
        if self.scale == "log":
            return (value / self.low).log() / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def from_unit(self, u: Tensor) -> Tensor:
        if self.scale == "log":
            return self.low * (u * math.log(self.high / self.low)).exp()
        return self.low + u * (self.high - self.low)

    def round(self, value: float) -> float:
        """Cut the digits that do not matter, and stay within the range."""
        size = abs(value) if self.scale == "log" else self.high - self.low
        value = round(value, DIGITS - 1 - math.floor(math.log10(size)))
        return min(max(value, self.low), self.high)


def _column(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float64, device="cpu")


def _through(snapped: Tensor, U: Tensor) -> Tensor:
    """The snapped values, with the gradient of the free ones: climbers can move."""
    return snapped.detach() + (U - U.detach())


def _check_name(name: Any) -> None:
    is_text = isinstance(name, str) and name.strip() and name.isprintable()
    if not is_text or "=" in name:
        raise InputDataError(
            "Expected ``name`` to be a text of one line without an equals sign, but "
            f"got {quote(name)}."
        )


def _check_number(name: str, argument: str, value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) <= MAX_SIZE:
        raise InputDataError(
            f"Expected ``{argument}`` of {name!r} to be a finite number, but got "
            f"{quote(value)}; the largest is {MAX_SIZE:g}."
        )
    return float(value)


def _check_range(name: str, low: Any, high: Any, scale: Any) -> None:
    low, high = _check_number(name, "low", low), _check_number(name, "high", high)
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


def _check_within(
    name: str, value: Any, low: float, high: float, argument: str = "value"
) -> float:
    number = _check_number(name, argument, value)
    if not low <= number <= high:
        raise InputDataError(
            f"Expected ``{argument}`` of {name!r} to be from {low} to {high}, but got "
            f"{value}."
        )
    return number


class Parameter(ABC):
    r"""A parameter of the system that is to be optimised."""

    #: What it is called in a configuration file.
    type: ClassVar[str]
    name: str

    @property
    def num_columns(self) -> int:
        """How many columns of the unit cube it takes."""
        return 1

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
        r"""Columns that can be shown, nearest to any.

        Args:
            U: A ``... x num_columns`` tensor of numbers in [0, 1].

        Returns:
            A tensor of the same shape.
        """
        return U


@dataclass(frozen=True)
class Real(Parameter):
    r"""A parameter that takes any number of an interval.

    Attributes:
        name: Its name.
        low: The lower bound, in the user's units.
        high: The upper bound.
        scale: "linear" or "log".
    """

    type: ClassVar[str] = "real"
    name: str
    low: float
    high: float
    scale: str = "linear"

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_range(self.name, self.low, self.high, self.scale)

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest value."""
        return self.low, self.high

    @property
    def _range(self) -> _Range:
        return _Range(float(self.low), float(self.high), self.scale)

    def encode(self, value: Value) -> Tensor:
        r"""The column of a value."""
        number = _check_within(self.name, value, *self.bounds)
        return self._range.to_unit(_column(number))

    def decode(self, U: Tensor) -> float:
        r"""The value of a column."""
        return self._range.round(float(self._range.from_unit(U)))


@dataclass(frozen=True)
class Integer(Real):
    r"""A parameter that takes the whole numbers of an interval.

    Attributes:
        name: Its name.
        low: The least value.
        high: The largest value.
        scale: "linear" or "log".
    """

    type: ClassVar[str] = "integer"

    def __post_init__(self) -> None:
        super().__post_init__()
        for argument in ("low", "high"):
            self._check_whole(argument, getattr(self, argument))

    def _check_whole(self, argument: str, value: Any) -> int:
        number = _check_number(self.name, argument, value)
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
        return round(float(self._range.from_unit(U)))

    def snap(self, U: Tensor) -> Tensor:
        r"""The column of the nearest whole number."""
        return _through(self._range.to_unit(self._range.from_unit(U).round()), U)


def _is_category(value: Any) -> bool:
    if isinstance(value, float | int):
        return abs(value) <= MAX_SIZE
    return isinstance(value, str)


@dataclass(frozen=True)
class Categorical(Parameter):
    r"""A parameter that takes one of some values without an order.

    It takes one column for each value; the largest of them says which value it is.

    Attributes:
        name: Its name.
        values: The values, at least two.
    """

    type: ClassVar[str] = "categorical"
    name: str
    values: Sequence[Value]

    def __post_init__(self) -> None:
        _check_name(self.name)
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

        Columns that are all the same name no value and stay as they are: so do the
        two opposite corners of a box, which models transform like points.
        """
        snapped = torch.zeros_like(U).scatter(-1, U.argmax(dim=-1, keepdim=True), 1.0)
        undecided = (U[..., :1] == U).all(dim=-1, keepdim=True)
        # No gradient: climbing towards "more" of a value means nothing.
        return torch.where(undecided, U, snapped).detach() + 0.0 * U


@dataclass(frozen=True)
class Context:
    r"""What the experimenter chooses about a test, most often its difficulty.

    Give either the bounds, or the levels that the equipment can show.

    Attributes:
        name: Its name.
        reference: The value at which the system is to be good, in the user's units; it
            need not be one of the levels.
        low: The lower bound.
        high: The upper bound.
        levels: The values that can be shown, at least two; any within the bounds if
            None.
        scale: "linear" or "log".
        harder: "up" if tests become harder as the value goes up, "down" if they become
            harder as it goes down, None if that is to be learned.

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

    def __post_init__(self) -> None:
        _check_name(self.name)
        if (self.levels is None) == (self.low is None and self.high is None):
            raise InputDataError(
                f"Expected either ``low`` and ``high`` or ``levels`` of {self.name!r}, "
                f"but got {quote(self.low)}, {quote(self.high)} and "
                f"{quote(self.levels)}."
            )
        if self.levels is not None:
            object.__setattr__(self, "levels", self._check_levels(self.levels))
        _check_range(self.name, *self.bounds, self.scale)
        _check_within(self.name, self.reference, *self.bounds, argument="reference")
        if self.harder not in (None, "up", "down"):
            raise InputDataError(
                f"Expected ``harder`` of {self.name!r} to be 'up' or 'down' or None, "
                f"but got {quote(self.harder)}."
            )

    def _check_levels(self, levels: Any) -> tuple[float, ...]:
        numbers = set()
        if isinstance(levels, list | tuple | range):
            numbers = {_check_number(self.name, "levels", level) for level in levels}
        if len(numbers) < 2:
            raise InputDataError(
                f"Expected ``levels`` of {self.name!r} to be a list of at least two "
                f"different numbers, but got {quote(levels)}."
            )
        return tuple(sorted(numbers))

    @property
    def bounds(self) -> tuple[Any, Any]:
        """The least and the largest value."""
        if self.levels is not None:
            return self.levels[0], self.levels[-1]
        return self.low, self.high

    @property
    def _range(self) -> _Range:
        low, high = self.bounds
        return _Range(float(low), float(high), self.scale)

    def encode(self, value: Value, centred: bool) -> Tensor:
        r"""The column of a value, which need not be one of the levels.

        Args:
            value: The value, in the user's units.
            centred: Whether the bounds go to -1 and 1, the easier to 1, or zero stays
                zero.

        Returns:
            A tensor of one number in [-1, 1].
        """
        number = _column(_check_within(self.name, value, *self.bounds))
        return self._to_column(number, centred)

    def decode(self, U: Tensor, centred: bool) -> float:
        r"""The value nearest to a column that can be shown.

        Args:
            U: A tensor of one number in [-1, 1].
            centred: As in :meth:`encode`.

        Returns:
            The value, in the user's units.
        """
        if self.levels is not None:
            distance = (self._columns(self.levels, centred) - U).abs()
            return self.levels[int(distance.argmin())]
        if not centred:
            return self._range.round(float(U) * self._largest)
        unit = (1 + self._sign * U) / 2
        return self._range.round(float(self._range.from_unit(unit)))

    def at_difficulty(self, share: float) -> float:
        r"""The value that is some way from the easiest to the hardest, on the scale.

        Args:
            share: How far, from 0 to 1.

        Returns:
            The value, in the user's units, not only one of the levels; minus or plus
            infinity if the share is not from 0 to 1.
        """
        if not 0.0 <= share <= 1.0:
            return math.copysign(math.inf, -self._sign * share)
        return self._range.round(float(self._by_difficulty(_column(share))))

    def difficulties(self, num: int, centred: bool) -> Tensor:
        r"""The columns of values from the easiest to the hardest, evenly on the scale.

        Args:
            num: How many.
            centred: As in :meth:`encode`.

        Returns:
            A tensor of ``num`` numbers in [-1, 1].
        """
        shares = torch.linspace(0.0, 1.0, num, dtype=torch.float64, device="cpu")
        return self._to_column(self._by_difficulty(shares), centred)

    def _by_difficulty(self, share: Tensor) -> Tensor:
        return self._range.from_unit(share if self.harder == "up" else 1.0 - share)

    def snap(self, U: Tensor, centred: bool) -> Tensor:
        r"""The column of the nearest level, or of the reference if that is nearer.

        Args:
            U: A ``... x 1`` tensor of numbers in [-1, 1].
            centred: As in :meth:`encode`.

        Returns:
            A tensor of the same shape.
        """
        if self.levels is None:
            return U
        # Rules look at the reference context, too, whether it can be shown or not.
        columns = self._columns((*self.levels, self.reference), centred)
        return _through(columns[(U - columns).abs().argmin(dim=-1, keepdim=True)], U)

    @property
    def _sign(self) -> int:
        return -1 if self.harder == "up" else 1

    @property
    def _largest(self) -> float:
        return max(abs(bound) for bound in self.bounds)

    def _to_column(self, values: Tensor, centred: bool) -> Tensor:
        if centred:
            return self._sign * (2 * self._range.to_unit(values) - 1)
        return values / self._largest

    def _columns(self, values: Sequence[float], centred: bool) -> Tensor:
        numbers = torch.tensor(values, dtype=torch.float64, device="cpu")
        return self._to_column(numbers, centred)
