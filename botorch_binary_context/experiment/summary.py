r"""
The recommendation of an experiment as plain data, for JSON.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from botorch_binary_context.experiment.estimates import Threshold
from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.experiment.recommendation import Recommendation
from botorch_binary_context.experiment.space import Values
from botorch_binary_context.experiment.stopping import Progress
from botorch_binary_context.experiment.variables import Parameter, Value

# The default number of points of a map.
MAX_PLACES = 9


def summarize(
    experiment: Experiment,
    best: Recommendation,
    context: Values,
    at: Values | None = None,
) -> dict[str, Any]:
    r"""Summarize the recommended parameters, or the map of thresholds.

    Args:
        experiment: The experiment.
        best: Its recommendation.
        context: The context in which to predict success, where it differs from the
            reference.
        at: The parameters to predict for, where they differ from the recommended ones;
            for a map, the parameters to hold fixed.

    Returns:
        Plain data; infinite numbers are None, since JSON has no infinity. The "map" of
        thresholds is a list of places; it is None if parameters are recommended.
    """
    settings = experiment.settings
    at = {} if at is None else dict(at)
    context = {**settings.space.reference_context(), **context}
    sees_offset = settings.feedback.functional.sees_offset
    is_map = settings.measures and bool(settings.space.parameters)
    shown = {**best.parameters, **at}
    estimate = None
    if sees_offset and not is_map:
        estimate = best.success_probability(context, parameters=shown)._asdict()
    return {
        "parameters": dict(best.parameters),
        "uncertainty": best.uncertainty,
        "local_uncertainty": best.local_uncertainty,
        "expected_loss": best.expected_loss()._asdict() if best.is_graded else None,
        "num_answers": best.num_answers,
        "context": context,
        "at": at,
        "success_probability": estimate,
        "thresholds": {} if is_map else _thresholds(experiment, best, context, shown),
        "map": [
            {
                "parameters": place,
                "thresholds": _thresholds(experiment, best, context, place),
            }
            for place in _grid(settings.space.parts, at)
        ]
        if is_map
        else None,
        "progress": [end_to_json(end) for end in experiment.progress(best)],
    }


def _thresholds(
    experiment: Experiment, best: Recommendation, context: Values, shown: Values
) -> dict[str, dict[str, float | None]]:
    """The threshold of each context that says which way is harder."""
    settings = experiment.settings
    sees_offset = settings.feedback.functional.sees_offset
    return {
        c.name: threshold_to_json(
            best.threshold(c.name, context=context, parameters=shown)
        )
        for c in (settings.space.contexts if sees_offset else ())
        if c.harder
    }


def _grid(parts: Sequence[Parameter], at: Values) -> list[dict[str, Value]]:
    """Parameters all over their ranges, except for those that are given."""
    free = [part for part in parts if part.name not in at]
    number = max(2, int(MAX_PLACES ** (1 / len(free)) + 1e-9)) if free else 1
    sides = [
        [at[part.name]] if part.name in at else _values_of(part, number)
        for part in parts
    ]
    rows = itertools.islice(itertools.product(*sides), MAX_PLACES)
    names = [part.name for part in parts]
    return [dict(zip(names, row, strict=True)) for row in rows]


def _values_of(part: Parameter, number: int) -> list[Value]:
    """Some values of a parameter, in their order."""
    choices = part.choices
    if choices is None:
        columns = torch.linspace(0, 1, number, dtype=torch.float64, device="cpu")
        return [part.decode(column.reshape(1)) for column in columns]
    if len(choices) <= number:
        return list(choices)
    gap = (len(choices) - 1) / (number - 1)
    return [choices[round(i * gap)] for i in range(number)]


def threshold_to_json(threshold: Threshold) -> dict[str, float | None]:
    r"""A threshold as plain data.

    Args:
        threshold: The threshold.

    Returns:
        Its fields; None for those that are out of range.
    """
    items = threshold._asdict().items()
    return {name: value if math.isfinite(value) else None for name, value in items}


def end_to_json(end: Progress) -> Mapping[str, Any]:
    r"""The progress toward a stopping criterion, as plain data.

    Args:
        end: The progress.

    Returns:
        Its fields; None for those that are not known.
    """
    data = end._asdict()
    return data if math.isfinite(end.now) else {**data, "now": None}
