r"""
Restrictions of trials: constraints and safety.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.exceptions.errors import BotorchError
from torch import Tensor

from botorch_binary_context.context import ContextSpace, normalize_context_dims
from botorch_binary_context.functionals import VALUE
from botorch_binary_context.goals import Goal
from botorch_binary_context.models.latent_gp import LatentGP

PROJECTIONS = 100
TOLERANCE = 1e-6


class NoTrialLeftError(BotorchError):
    r"""No trial in the box meets the restrictions."""


@dataclass(frozen=True)
class Constraints:
    r"""Linear constraints, fixed columns and discrete choices, as in ``optimize_acqf``.

    They hold for every row of a trial, in the units of the box.

    Attributes:
        inequality_constraints: Triples of column indices, coefficients and a right-hand
            side: ``Σ coefficient X[index] >= rhs``.
        fixed_features: The value of each column that is fixed.
        discrete_choices: The values that a column can have.

    Example:
        >>> # x_1 + x_2 at most 1, the third column 0, 0.5 or 1.
        >>> total = (torch.tensor([1, 2]), torch.tensor([-1.0, -1.0]), -1.0)
        >>> constraints = Constraints([total], discrete_choices={3: [0.0, 0.5, 1.0]})
        >>> suggest(model, space, constraints=constraints)
    """

    inequality_constraints: Sequence[tuple[Tensor, Tensor, float]] = ()
    fixed_features: Mapping[int, float] = field(default_factory=dict)
    discrete_choices: Mapping[int, Sequence[float]] = field(default_factory=dict)

    def check(self, space: ContextSpace) -> None:
        r"""Raise an error unless the constraints refer to columns of a space.

        Args:
            space: The box of the trials.
        """
        low, high = space.bounds
        held = {i: [v] for i, v in self.fixed_features.items()}
        named = [int(i) for part in self.inequality_constraints for i in part[0]]
        for column in (*held, *self.discrete_choices, *named):
            if not 0 <= column < space.dim:
                raise InputDataError(
                    f"Expected ``constraints`` to name columns from 0 to "
                    f"{space.dim - 1}, but got {column}."
                )
        for column, values in {**held, **self.discrete_choices}.items():
            inside = [v for v in values if low[column] <= v <= high[column]]
            if not values or len(inside) < len(values):
                raise InputDataError(
                    f"Expected ``constraints`` to give column {column} values from "
                    f"{float(low[column]):g} to {float(high[column]):g}, but got "
                    f"{list(values)}."
                )

    def apply(self, space: ContextSpace, X: Tensor) -> Tensor:
        r"""Rows near the given ones that meet the constraints, if there are any.

        Discrete columns take the nearest choice; the free ones are then moved onto the
        half-spaces of the inequalities in turn. Differentiable in the free columns.

        Args:
            space: The box of the trials.
            X: A ``... x d`` tensor of rows.

        Returns:
            A ``... x d`` tensor.
        """
        columns = list(X.unbind(dim=-1))
        for column, value in self.fixed_features.items():
            columns[column] = torch.full_like(columns[column], value)
        for column, choices in self.discrete_choices.items():
            values = X.new_tensor(list(choices))
            distance = (columns[column].detach().unsqueeze(-1) - values).abs()
            columns[column] = values[distance.argmin(dim=-1)]
        return self._project(space, torch.stack(columns, dim=-1))

    def _project(self, space: ContextSpace, X: Tensor) -> Tensor:
        """Project rows onto the half-spaces and the box, in turn."""
        if not self.inequality_constraints:
            return X
        free = X.new_ones(X.shape[-1])
        free[[*self.fixed_features, *self.discrete_choices]] = 0.0
        planes = [self._plane(part, X) for part in self.inequality_constraints]
        low, high = space.bounds.to(X)
        for _ in range(PROJECTIONS):
            for normal, offset in planes:
                direction = normal * free
                length = direction.square().sum().clamp_min(torch.finfo(X.dtype).tiny)
                lack = (offset - X @ normal).clamp_min(0.0)
                X = X + (lack / length).unsqueeze(-1) * direction
            X = torch.where(free > 0, X.clamp(low, high), X)
            if bool((self.slack(X) >= -TOLERANCE / 10).all()):
                break
        return X

    def slack(self, X: Tensor) -> Tensor:
        r"""The slack of the tightest inequality, for each row.

        Args:
            X: A ``... x d`` tensor of rows.

        Returns:
            A ``...`` tensor; negative where an inequality is not met.
        """
        slack = X.new_full(X.shape[:-1], torch.inf)
        for part in self.inequality_constraints:
            normal, offset = self._plane(part, X)
            slack = torch.minimum(slack, X @ normal - offset)
        return slack

    def _plane(self, part: Any, X: Tensor) -> tuple[Tensor, float]:
        indices, coefficients, rhs = part
        normal = X.new_zeros(X.shape[-1])
        indices = torch.as_tensor(indices, device=X.device)
        normal[indices] = torch.as_tensor(coefficients, device=X.device).to(X)
        return normal, float(rhs)

    def restrict(self, goal: Goal, space: ContextSpace) -> Goal:
        r"""The same goal, evaluated only at parameters that meet the constraints.

        Args:
            goal: The goal.
            space: The box of the trials.

        Returns:
            A copy of the goal.
        """
        restricted: Any = copy.copy(goal)

        def rows(space_: ContextSpace, parameters: Tensor) -> Tensor:
            row = self.apply(space, space.at_reference(parameters))
            return goal.rows(space_, space.parameters(row))

        restricted.rows = rows
        return restricted


@dataclass(frozen=True)
class Safety:
    r"""A restriction to trials that are likely to be passed.

    People should not fail ten times in a row: a trial is safe if its success
    probability is at least ``probability`` with the given confidence.

    Attributes:
        probability: The least success probability.
        confidence: The posterior probability that it is reached.

    Example:
        >>> suggest(model, space, safe=Safety(probability=0.6, confidence=0.9))
    """

    probability: float
    confidence: float = 0.9

    def __post_init__(self) -> None:
        for name in ("probability", "confidence"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise InputDataError(
                    f"Expected ``{name}`` to be between 0 and 1, but got "
                    f"{getattr(self, name)}."
                )

    def slack(self, model: LatentGP, X: Tensor) -> Tensor:
        r"""The margin by which trials are safe, in units of the latent function.

        Args:
            model: A model of pass/fail outcomes.
            X: ``t x batch_shape x 1 x d`` trials.

        Returns:
            A ``t x batch_shape`` tensor; negative where they are not safe.
        """
        if model.functional != VALUE:
            raise UnsupportedError(
                "Expected ``safe`` to be None for duels, which have no fails, but got "
                f"{self}."
            )
        mean, variance = model.moments(X)
        lowest = mean - NormalDist().inv_cdf(self.confidence) * variance.sqrt()
        return lowest - model.likelihood.contrast_at(self.probability)


def hold_column(
    space: ContextSpace, column: int, value: float
) -> tuple[ContextSpace, Constraints]:
    r"""Hold one column of the trials at a value: one subject, or the present.

    The column becomes a context that is not chosen: recommendations use the value as
    its reference, and a constraint holds it there in suggestions.

    Args:
        space: The box of the trials; the column may be a context or a parameter.
        column: The column; a negative one counts from the end.
        value: Its value: the number of the subject, or of the trial.

    Returns:
        The box, and the constraint.

    Example:
        >>> now, held = hold_column(space, -1, 57)
        >>> trial = suggest(model, now, constraints=held)
        >>> best = recommend(model, now)
    """
    (held,) = normalize_context_dims([column], space.dim)
    bounds = space.bounds.clone()
    bounds[0, held] = bounds[0, held].clamp_max(value)
    bounds[1, held] = bounds[1, held].clamp_min(value)
    reference = dict(
        zip(space.context_dims, space.reference_context.tolist(), strict=True)
    )
    reference[held] = float(value)
    columns = sorted(reference)
    moved = ContextSpace(bounds, columns, [reference[i] for i in columns])
    return moved, Constraints(fixed_features={held: float(value)})
