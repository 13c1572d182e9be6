r"""
How far each of the recommended parameters may be moved.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from botorch_binary_context.experiment.angles import Periodic
from botorch_binary_context.experiment.space import Encoder, Values
from botorch_binary_context.experiment.variables import (
    Categorical,
    Parameter,
    Value,
)
from botorch_binary_context.feasibility import Feasibility
from botorch_binary_context.goals import Goal
from botorch_binary_context.models.averaged_gp import AveragedGP

# Curves are interpolated between this many values of a parameter.
NUM_VALUES = 101

#: For each parameter an interval, or the values of a category.
Region = dict[str, tuple[float, float] | list[Value]]


def find_region(
    model: AveragedGP,
    encoder: Encoder,
    parameters: Values,
    tolerance: float,
    goal: Goal,
    feasibility: Feasibility | None = None,
) -> Region:
    r"""Values of each parameter on its own that are only a little worse on average.

    Args:
        model: The model of the answers.
        encoder: The conversion to the user's units.
        parameters: The recommended parameters.
        tolerance: The most by which the posterior mean of the goal may fall.
        goal: What the parameters should be good at.
        feasibility: The restriction to feasible parameters, if not all are feasible.

    Returns:
        For each number an interval around its value (of a periodic one from the first
        end upwards to the second, which may be smaller), for each category the values.
    """
    region: Region = {}
    for part in encoder.space.parts:
        values = _values_of(part, parameters[part.name])
        shown = [{**parameters, part.name: value} for value in values]
        drops = _drops(model, encoder, [parameters, *shown], goal)
        is_allowed = _are_feasible(feasibility, encoder, shown, goal)
        good = zip(drops, is_allowed, strict=True)
        is_good = [allowed and drop <= tolerance for drop, allowed in good]
        if isinstance(part, Categorical):
            fitting = zip(values, is_good, strict=True)
            region[part.name] = [value for value, fits in fitting if fits]
        elif isinstance(part, Periodic) and all(is_good):
            region[part.name] = part.bounds
        else:
            position = values.index(parameters[part.name])
            wraps = isinstance(part, Periodic)
            region[part.name] = _interval_around(position, values, is_good, wraps)
    return region


def _values_of(part: Parameter, recommended: Value) -> list[Value]:
    """Values of a parameter in order, the recommended among them."""
    values = part.choices
    if values is None:
        columns = torch.linspace(0, 1, NUM_VALUES, dtype=torch.float64, device="cpu")
        values = [part.decode(column.reshape(1)) for column in columns]
    if isinstance(part, Categorical):
        return list(values)
    return sorted({*values, recommended})


def _are_feasible(
    feasibility: Feasibility | None,
    encoder: Encoder,
    shown: Sequence[Values],
    goal: Goal,
) -> list[bool]:
    """Whether each of the parameters is feasible."""
    if feasibility is None:
        return [True] * len(shown)
    rows = torch.stack([encoder.encode_parameters(side) for side in shown])
    with torch.no_grad():
        slack = feasibility.slack_of_goal(goal, encoder.context_space, rows)
    return (slack >= 0).tolist()


def _drops(
    model: AveragedGP, encoder: Encoder, shown: Sequence[Values], goal: Goal
) -> list[float]:
    """The fall of the posterior mean from the first parameters to each of them."""
    rows = torch.stack([encoder.encode_parameters(side) for side in shown])
    rows = rows.unsqueeze(1).expand(-1, model.num_draws, -1)  # n x draws x (d - m)
    with torch.no_grad():
        mean = goal.mean(model.draws, encoder.context_space, rows).mean(dim=1)
    return (mean[0] - mean[1:]).tolist()


def _interval_around(
    position: int, values: list[Value], is_good: list[bool], wraps: bool
) -> tuple[float, float]:
    number = len(values)
    first, last = (position - number + 1, position) if wraps else (0, number - 1)
    low = high = position
    while low > first and is_good[(low - 1) % number]:
        low -= 1
    last = low + number - 1 if wraps else last
    while high < last and is_good[(high + 1) % number]:
        high += 1
    return float(values[low % number]), float(values[high % number])
