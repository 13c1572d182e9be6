r"""
The space of an experiment in the user's units, and the box that models work in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from botorch.exceptions import InputDataError
from botorch.models.transforms.input import InputTransform
from torch import Tensor

from botorch_binary_context.context import ContextSpace
from botorch_binary_context.experiment.angles import Periodic
from botorch_binary_context.experiment.lens import AnyParameter, Lens, parts_of
from botorch_binary_context.experiment.variables import (
    Categorical,
    Context,
    Parameter,
    Value,
)
from botorch_binary_context.models.pooled import Columns

#: Values by the names of parameters or contexts.
Values = Mapping[str, Value]


@dataclass(frozen=True)
class NamedSpace:
    r"""The named parameters and contexts of an experiment.

    Attributes:
        parameters: What is optimized; without any, there is only a threshold to find,
            along a context.
        contexts: What the experimenter chooses about a test; there may be none.

    Example:
        >>> space = NamedSpace(
        ...     parameters=[Real("sphere", -4, 4), Real("gain", 0.1, 10, "log")],
        ...     contexts=[Context("letter size", reference=0.0, low=-0.3, high=1.0)],
        ... )
        >>> loudness = Context("level", low=-10, high=90, reference=20, harder="down")
        >>> threshold_only = NamedSpace([], [loudness])
    """

    parameters: Sequence[AnyParameter]
    contexts: Sequence[Context] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", tuple(self.parameters))
        object.__setattr__(self, "contexts", tuple(self.contexts))
        for argument, kind in (("parameters", AnyParameter), ("contexts", Context)):
            wrong = [v for v in getattr(self, argument) if not isinstance(v, kind)]
            if wrong:
                raise InputDataError(
                    f"Expected ``{argument}`` to be {argument} with names, but got "
                    f"{wrong[0]!r}."
                )
        if not self.parameters and not self.contexts:
            raise InputDataError(
                "Expected ``parameters`` or ``contexts`` to name at least one "
                "variable, but got none."
            )
        names = [variable.name for variable in (*self.parts, *self.contexts)]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise InputDataError(
                "Expected ``parameters`` and ``contexts`` to have different names, but "
                f"got {', '.join(repeated)} more than once."
            )

    @cached_property
    def parts(self) -> tuple[Parameter, ...]:
        """The parameters as they are shown: for a lens sphere, cylinder and axis."""
        return tuple(part for p in self.parameters for part in parts_of(p))

    def reference_context(self) -> dict[str, Value]:
        r"""The context in which the system should be good.

        Returns:
            The values of the contexts by their names.
        """
        return {context.name: context.reference for context in self.contexts}


def check_names(argument: str, given: Values, names: Sequence[str]) -> None:
    r"""Check that values are given for exactly the names there are.

    Args:
        argument: What to call the values in a message.
        given: The values by their names.
        names: The names.
    """
    if set(given) != set(names):
        raise InputDataError(
            f"Expected ``{argument}`` to give a value for each of {list(names)}, but "
            f"got {list(given)}."
        )


#: The number of answers that the box of trials with a time goes back.
LONG_AGO = 1e6


class Encoder:
    r"""Converts between values in the user's units and rows of the models' box.

    The columns of a row are the contexts and then the parameters: parameters in the
    unit cube, contexts in [-1, 1]. If performance drifts, one more column is the time,
    which is zero now.
    """

    def __init__(
        self, space: NamedSpace, centered: bool = True, timed: bool = False
    ) -> None:
        r"""
        Args:
            space: The named variables.
            centered: Whether the bounds of contexts are mapped to -1 and 1. Otherwise
                contexts are only scaled, so that zero, where a multiplicative context
                tells nothing, stays zero.
            timed: Whether there is a column of the time.
        """
        self.space = space
        self.centered = centered
        self.timed = timed
        self.num_contexts = len(space.contexts)
        self._sizes = [1] * self.num_contexts + [p.num_columns for p in space.parts]
        num_columns = sum(self._sizes) - self.num_contexts
        ends = [
            [c.encode(c.bounds[end], centered) for c in space.contexts]
            + [torch.full((num_columns,), end, dtype=torch.float64, device="cpu")]
            for end in (0, 1)
        ]
        corners = torch.stack([torch.cat(columns) for columns in ends])
        bounds = corners.sort(dim=0).values  # a context may run the other way
        contexts = list(range(self.num_contexts))
        if timed:
            contexts.append(bounds.shape[-1])
            bounds = torch.cat(
                [bounds, bounds.new_tensor([[-LONG_AGO], [0.0]])], dim=-1
            )
        reference = self.encode_context(space.reference_context())
        self.context_space = ContextSpace(bounds, contexts, reference)

    @property
    def is_continuous(self) -> bool:
        """Whether every point of the box can be shown."""
        grids = [context.grid for context in self.space.contexts]
        return all(p.is_continuous for p in self.space.parts) and not any(grids)

    @property
    def column_names(self) -> list[str]:
        """The names of the columns; the names of categories include the value."""
        names = [c.name for c in self.space.contexts]
        names += [name for p in self.space.parts for name in p.column_names]
        return [*names, "time"] if self.timed else names

    @property
    def columns(self) -> Columns:
        """The kinds of the columns of the parameters, counted from the first."""
        found: dict[str, list[Any]] = {"numbers": [], "circles": [], "categories": []}
        position = 0
        for p in self.space.parameters:
            size = sum(part.num_columns for part in parts_of(p))
            taken = tuple(range(position, position + size))
            position += size
            if isinstance(p, Categorical):
                found["categories"].append(taken)
            else:
                found["circles" if isinstance(p, Periodic) else "numbers"] += taken
        return Columns(**{kind: tuple(columns) for kind, columns in found.items()})

    def lens_columns(self) -> list[tuple[int, Lens]]:
        r"""The first column of each lens, counted from the column of the first context.

        Returns:
            The columns and the lenses.
        """
        found = []
        position = self.num_contexts
        for p in self.space.parameters:
            if isinstance(p, Lens):
                found.append((position, p))
            position += sum(part.num_columns for part in parts_of(p))
        return found

    def steps(self) -> Tensor | None:
        r"""The distances between values of the parameters that can be shown.

        Returns:
            A number for each column of the parameters, zero if the column is continuous
            or belongs to a category; None if all are zero.
        """
        found = []
        for part in self.space.parts:
            is_number = part.choices is not None and part.num_columns == 1
            closed = isinstance(part, Periodic)  # the first follows the last
            gaps = max(len(part.choices or ()) - (not closed), 1)
            found += [1.0 / gaps if is_number else 0.0] * part.num_columns
        steps = torch.tensor(found, dtype=torch.float64, device="cpu")
        return steps if bool(steps.any()) else None

    def circles(self) -> list[int]:
        r"""The periodic columns of the parameters.

        Returns:
            The columns, counted from the first parameter.
        """
        found = []
        position = 0
        for part in self.space.parts:
            if isinstance(part, Periodic):
                found.append(position)
            position += part.num_columns
        return found

    def encode_context(self, context: Values) -> Tensor:
        r"""The columns of a context.

        Args:
            context: The values of all contexts.

        Returns:
            A tensor with a number for each context, and the present time if there is a
            column for it.
        """
        contexts = self.space.contexts
        check_names("context", context, [c.name for c in contexts])
        columns = [c.encode(context[c.name], self.centered) for c in contexts]
        now = torch.zeros(int(self.timed), dtype=torch.float64, device="cpu")
        return torch.cat([*columns, now])

    def encode_parameters(self, parameters: Values) -> Tensor:
        r"""The columns of parameters.

        Args:
            parameters: The values of all parameters.

        Returns:
            A tensor of numbers in [0, 1].
        """
        variables = self.space.parts
        check_names("parameters", parameters, [p.name for p in variables])
        columns = [p.encode(parameters[p.name]) for p in variables]
        return torch.cat([torch.zeros(0, dtype=torch.float64, device="cpu"), *columns])

    def encode(self, context: Values, sides: Sequence[Values]) -> Tensor:
        r"""The rows of a trial.

        Args:
            context: The values of the contexts.
            sides: The parameters of the trial, or of the two sides of a duel.

        Returns:
            A ``q x d`` tensor.
        """
        parameters = torch.stack([self.encode_parameters(side) for side in sides])
        return self.context_space.join(parameters, self.encode_context(context))

    def encode_difficulties(
        self, context: Values, parameters: Values, name: str, num: int
    ) -> Tensor:
        r"""The rows of trials that become harder and harder.

        Args:
            context: The values of the contexts.
            parameters: The parameters of the trials.
            name: The name of the context that makes them harder.
            num: The number of trials.

        Returns:
            A ``num x d`` tensor, the easiest first.
        """
        position = [c.name for c in self.space.contexts].index(name)
        varied = self.space.contexts[position]
        X = self.encode(context, [parameters]).repeat(num, 1)
        X[:, position] = varied.difficulties(num, self.centered)
        return X

    def decode_parameters(self, U: Tensor) -> dict[str, Value]:
        r"""The parameters nearest to columns.

        Args:
            U: The columns of the parameters.
        """
        variables = self.space.parts
        parts = U.split(self._sizes[self.num_contexts :])
        return {p.name: p.decode(u) for p, u in zip(variables, parts, strict=True)}

    def decode(
        self, X: Tensor
    ) -> tuple[dict[str, Value], tuple[dict[str, Value], ...]]:
        r"""The trial nearest to rows.

        Args:
            X: A ``q x d`` tensor.

        Returns:
            The context, and the parameters of each row.
        """
        context: dict[str, Value] = {
            c.name: c.decode(X[0, i : i + 1], self.centered)
            for i, c in enumerate(self.space.contexts)
        }
        rows = X[:, self.num_contexts : sum(self._sizes)]
        return context, tuple(self.decode_parameters(row) for row in rows)

    def snap(self, X: Tensor) -> Tensor:
        r"""The nearest rows that can be shown.

        Args:
            X: A ``... x d`` tensor.

        Returns:
            A tensor of the same shape.
        """
        snapped = [
            c.snap(X[..., i : i + 1], self.centered)
            for i, c in enumerate(self.space.contexts)
        ]
        return torch.cat([*snapped, *self._snapped_parameters(X)], dim=-1)

    def snap_parameters(self, X: Tensor) -> Tensor:
        r"""The nearest rows whose parameters can be shown, in the same contexts.

        Args:
            X: A ``... x d`` tensor.

        Returns:
            A tensor of the same shape.
        """
        contexts = X[..., : self.num_contexts]
        return torch.cat([contexts, *self._snapped_parameters(X)], dim=-1)

    def _snapped_parameters(self, X: Tensor) -> list[Tensor]:
        """The columns behind the contexts: what can be shown, and the time."""
        first, last = self.num_contexts, sum(self._sizes)
        parts = X[..., first:last].split(self._sizes[first:], dim=-1)
        snapped = [p.snap(U) for p, U in zip(self.space.parts, parts, strict=True)]
        return [*snapped, X[..., last:]]


# By how much rounding may move a row that can be shown.
SNAP_TOLERANCE = 1e-9


class Snap(InputTransform):
    r"""Makes a model see every point as it would be shown.

    So the model is constant between two integers, two categories or two levels of a
    context, and a search over the box finds the best of what can be shown. Trials that
    showed something in between by mistake stay what they were.
    """

    transform_on_train: bool = True
    transform_on_eval: bool = True
    transform_on_fantasize: bool = True

    def __init__(self, encoder: Encoder, shown: Tensor | None = None) -> None:
        r"""
        Args:
            encoder: Knows what can be shown.
            shown: The rows of all trials so far, ``n x d``.
        """
        super().__init__()
        self.encoder = encoder
        self.kept = None if shown is None else self._find_between(shown)

    def _snap(self, X: Tensor) -> Tensor:
        """The nearest rows that the model knows."""
        return self.encoder.snap(X)

    def _find_between(self, X: Tensor) -> Tensor | None:
        """The rows that cannot be shown, if any."""
        moved = (self._snap(X) - X).abs().amax(dim=-1)
        is_between = moved > SNAP_TOLERANCE
        return X[is_between] if bool(is_between.any()) else None

    def transform(self, X: Tensor) -> Tensor:
        r"""Snap points.

        Args:
            X: A ``batch_shape x n x d`` tensor.

        Returns:
            A tensor of the same shape.
        """
        snapped = self._snap(X)
        if self.kept is None:
            return snapped
        is_kept = (X.unsqueeze(-2) == self.kept).all(dim=-1).any(dim=-1, keepdim=True)
        return torch.where(is_kept, X, snapped)

    def equals(self, other: InputTransform) -> bool:
        r"""Whether another transform snaps in the same way.

        Args:
            other: Another input transform.
        """
        if not isinstance(other, Snap) or type(other) is not type(self):
            return False
        mine = self.encoder
        theirs = other.encoder
        same = mine.space == theirs.space and mine.centered == theirs.centered
        same = same and mine.timed == theirs.timed
        if self.kept is None or other.kept is None:
            return same and self.kept is other.kept
        return same and torch.equal(self.kept, other.kept)


class SnapParameters(Snap):
    r"""Makes a model see parameters as they would be shown, in any context.

    So the model predicts for contexts between their levels.
    """

    def _snap(self, X: Tensor) -> Tensor:
        return self.encoder.snap_parameters(X)
