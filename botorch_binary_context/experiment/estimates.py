r"""
Numbers with their intervals, in the user's units.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from botorch_binary_context.experiment.angles import Periodic
from botorch_binary_context.experiment.space import Encoder
from botorch_binary_context.experiment.variables import Categorical, Value

CREDIBLE = 0.9
# The number of sets of hyperparameters that intervals allow for: more with fewer
# answers.
LEAST_SETS, MOST_SETS = 16, 64
ANSWERS_AND_SETS = 4096
# As a fraction of a circle. One in 500 sets of 128 uniform draws leaves a wider gap.
LEAST_GAP = 1 / 12

#: For each parameter an interval, or the share of each category.
Uncertainty = dict[str, tuple[float, float] | dict[Value, float]]


class Estimate(NamedTuple):
    r"""A probability and its credible interval.

    Attributes:
        mean: The mean.
        low: The lower end of the interval.
        high: The upper end.
    """

    mean: float
    low: float
    high: float


class Threshold(NamedTuple):
    r"""The value of a context up to which tests are passed, and its credible interval.

    Values outside of the bounds of the context are minus or plus infinity.

    Attributes:
        median: The median.
        low: The lower end of the interval.
        high: The upper end.
    """

    median: float
    low: float
    high: float


class Loss(NamedTuple):
    r"""How much better the best parameters may be than the recommended ones.

    Attributes:
        mean: The expected loss.
        high: The loss that is not exceeded with the given probability.
        unit: The name of the context whose units these are; "success probability" if
            the goal is one; None for units of the latent function.
    """

    mean: float
    high: float
    unit: str | None


def interval(values: Sequence[float], credible: float) -> tuple[float, float]:
    r"""The ends of an interval that contains a new draw with a given probability.

    Args:
        values: Independent draws.
        credible: The probability.
    """
    tails = [(1 - credible) / 2, (1 + credible) / 2]
    low, high = np.quantile(values, tails, method="weibull").tolist()
    return low, high


def circular_interval(
    values: Sequence[float], credible: float, variable: Periodic
) -> tuple[float, float]:
    r""":func:`interval` on a circle that is cut where the draws leave the widest gap.

    Args:
        values: Independent draws.
        credible: The probability.
        variable: The variable whose values they are.

    Returns:
        The ends: the interval goes upwards from the first, if need be past the upper
        bound, to the second. The ends are the bounds of the variable if the draws lie
        all around the circle, so that no place to cut it is better than another.
    """
    period = variable.period
    ordered = np.sort((np.asarray(values) - variable.low) % period)
    gaps = np.diff(ordered, append=ordered[0] + period)
    if gaps.max() <= max(LEAST_GAP * period, (variable.step or 0.0) * (1 + 1e-9)):
        return variable.bounds
    first = (int(gaps.argmax()) + 1) % len(ordered)
    unrolled = np.concatenate([ordered[first:], ordered[:first] + period])
    ends = interval(unrolled.tolist(), credible)
    low, high = (variable.low + end % period for end in ends)
    return low, high


def uncertainty_of(encoder: Encoder, points: Tensor) -> Uncertainty:
    r"""Where points lie: intervals of numbers, shares of categories.

    Args:
        encoder: The conversion to the user's units.
        points: An ``n x k`` tensor of parameters.

    Returns:
        For each parameter an interval that holds nine tenths of the points, or the
        share of each category.
    """
    shown = [encoder.decode_parameters(point) for point in points]
    uncertainty: dict[str, Any] = {}
    for parameter in encoder.space.parts:
        found: list[Any] = [point[parameter.name] for point in shown]
        if isinstance(parameter, Categorical):
            uncertainty[parameter.name] = {
                value: found.count(value) / len(found) for value in parameter.values
            }
        elif isinstance(parameter, Periodic):
            uncertainty[parameter.name] = circular_interval(found, CREDIBLE, parameter)
        else:
            uncertainty[parameter.name] = interval(found, CREDIBLE)
    return uncertainty


def num_sets(num_answers: int) -> int:
    r"""The number of sets of hyperparameters to average a recommendation over.

    Args:
        num_answers: The number of answers.

    Returns:
        The number, which is larger for fewer answers, since these say less about
        hyperparameters. So intervals depend little on the seed of the draws after few
        answers, and take no longer after many.
    """
    wanted = ANSWERS_AND_SETS // max(num_answers, 1)
    return min(max(wanted, LEAST_SETS), MOST_SETS)
