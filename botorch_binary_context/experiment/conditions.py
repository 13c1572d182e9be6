r"""
Conditions on a question: given contexts and limits, before the rule chooses the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from botorch.exceptions import InputDataError

from botorch_binary_context.constraints import Constraints
from botorch_binary_context.errors import quote
from botorch_binary_context.experiment.rows import read_given
from botorch_binary_context.experiment.settings import Settings
from botorch_binary_context.experiment.space import Encoder, Values
from botorch_binary_context.experiment.variables import Context

#: The least and the largest value; None where that is the bound of the context.
Limits = Mapping[str, Sequence[float | None]]


@dataclass(frozen=True)
class Conditions:
    r"""Conditions on a question.

    Attributes:
        context: The values of contexts that are given.
        limits: The least and the largest value of contexts that cannot be shown over
            their whole range.
    """

    context: Values = field(default_factory=dict)
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def confine(self, context: Values, contexts: Sequence[Context]) -> Values:
        r"""The nearest context that meets the limits.

        Args:
            context: The values of all contexts.
            contexts: The contexts.

        Returns:
            The values; those that are given stay as they are.
        """
        return {c.name: self._confine(c, context[c.name]) for c in contexts}

    def _confine(self, variable: Context, value: Any) -> Any:
        if variable.name in self.context:
            return self.context[variable.name]
        if variable.name not in self.limits:
            return value
        choices = self.choices(variable)
        if choices is not None:
            return min(choices, key=lambda choice: abs(choice - value))
        low, high = self.limits[variable.name]
        return min(max(value, low), high)

    def choices(self, variable: Context) -> Sequence[Any] | None:
        r"""The values of a context that can be shown.

        Args:
            variable: The context.

        Returns:
            The values; None if there are infinitely many.
        """
        if variable.name in self.context:
            return [self.context[variable.name]]
        if variable.choices is None or variable.name not in self.limits:
            return variable.choices
        low, high = self.limits[variable.name]
        return [value for value in variable.choices if low <= value <= high]

    def bounds(self, encoder: Encoder) -> torch.Tensor:
        r"""The bounds of the columns of the contexts.

        Args:
            encoder: The conversion between the user's units and the models' box.

        Returns:
            A ``2 x m`` tensor.
        """
        bounds = encoder.context_space.context_bounds.clone()
        for i, variable in enumerate(encoder.space.contexts):
            if variable.name in self.limits:
                bounds[:, i] = self._columns(variable, encoder)
        return bounds

    def _columns(self, variable: Context, encoder: Encoder) -> torch.Tensor:
        ends = self.limits[variable.name]
        columns = torch.cat([variable.encode(end, encoder.centered) for end in ends])
        return columns.sort().values  # a context may run the other way

    def constraints(self, encoder: Encoder) -> Constraints | None:
        r"""The constraints on the rows of a trial.

        Args:
            encoder: The conversion between the user's units and the models' box.

        Returns:
            The constraints, or None if nothing is given.
        """
        if not self.context and not self.limits and not encoder.timed:
            return None
        # New trials take place now.
        fixed = {encoder.context_space.dim - 1: 0.0} if encoder.timed else {}
        discrete: dict[int, list[float]] = {}
        half_spaces: list[Any] = []
        for i, variable in enumerate(encoder.space.contexts):
            choices = self.choices(variable)
            if variable.name in self.context:
                given = self.context[variable.name]
                fixed[i] = float(variable.encode(given, encoder.centered))
            elif variable.name in self.limits and choices is not None:
                columns = [variable.encode(v, encoder.centered) for v in choices]
                discrete[i] = [float(column) for column in columns]
            elif variable.name in self.limits:
                low, high = self._columns(variable, encoder).tolist()
                half_spaces += [_at_least(i, 1.0, low), _at_least(i, -1.0, -high)]
        return Constraints(half_spaces, fixed, discrete)


def _at_least(column: int, sign: float, rhs: float) -> tuple[Any, Any, float]:
    return torch.tensor([column]), torch.tensor([sign], dtype=torch.float64), rhs


def read_conditions(settings: Settings, context: Any, limits: Any) -> Conditions:
    r"""Check and convert conditions.

    Args:
        settings: The settings of the experiment.
        context: Values by the names of contexts, or None for none.
        limits: The least and the largest value by the names of contexts, or None for
            none. None instead of a value means the bound of the context.

    Returns:
        The conditions; limits that exclude nothing are left out.
    """
    given = read_given(settings, context)
    contexts = {c.name: c for c in settings.space.contexts}
    if limits is None:
        return Conditions(given)
    if not isinstance(limits, Mapping) or not set(limits) <= set(contexts):
        got = list(limits) if isinstance(limits, Mapping) else quote(limits)
        raise InputDataError(
            f"Expected ``limits`` to be about contexts among {list(contexts)}, but got "
            f"{got}."
        )
    found = {name: _read_pair(contexts[name], pair) for name, pair in limits.items()}
    for name in given:
        low, high = found.get(name, (-math.inf, math.inf))
        if not low <= given[name] <= high:  # type: ignore[operator]
            raise InputDataError(
                f"Expected ``context`` to meet ``limits``, {name!r} from {low:g} to "
                f"{high:g}, but got {quote(given[name])}."
            )
    narrow = {n: pair for n, pair in found.items() if pair != contexts[n].bounds}
    return Conditions(given, narrow)


def _read_pair(variable: Context, pair: Any) -> tuple[float, float]:
    """The limits within the bounds, if they leave anything to show."""
    is_pair = isinstance(pair, Sequence) and not isinstance(pair, str)
    if not is_pair or len(pair) != 2 or not all(_is_number(end) for end in pair):
        raise InputDataError(
            f"Expected ``limits`` of {variable.name!r} to be the least and the largest "
            f"value, each a number or None, but got {quote(pair)}."
        )
    low, high = (float(end) for end in variable.bounds)
    ends = (low if pair[0] is None else pair[0], high if pair[1] is None else pair[1])
    least = max(low, float(ends[0]))
    largest = min(high, float(ends[1]))
    grid = variable.choices or (least,)
    if least > largest or not any(least <= value <= largest for value in grid):
        raise InputDataError(
            f"Expected ``limits`` of {variable.name!r} to leave values from {low:g} to "
            f"{high:g} that can be shown, but got {quote(pair)}."
        )
    return least, largest


def _is_number(end: Any) -> bool:
    is_number = isinstance(end, int | float) and not isinstance(end, bool)
    return end is None or (is_number and not math.isnan(end))
