r"""
Studies of the same functions under several conditions, called variants.

``goals``: the best parameters move with the condition in which a test is done. Which
are best in one condition, on average over five, and in the worst of them? Rules are
told the goal; some choose the difficulty and condition of a test, others do not.
``batches``: the functions of the study ``threshold``, with 60 trials one after the
other, and with 15 batches of four.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from benchmarks.studies import hyperparameters
from benchmarks.studies.cases import (
    THRESHOLD_SLOPE,
    Case,
    benchmark_case,
    threshold_kernel,
)
from benchmarks.studies.hyperparameters import Hyperparameters
from benchmarks.studies.moving_optimum import (
    CONDITIONS,
    REFERENCE_THRESHOLD,
    MovingOptimumProblem,
    best_score,
    moving_kernel,
)
from botorch_binary_context.goals import (
    AtReference,
    ContextAverage,
    Goal,
    WorstContext,
)
from botorch_binary_context.models import BinaryLaplaceGP
from botorch_binary_context.problems import ThresholdContextProblem, make_objective

_CONTEXTS = [[REFERENCE_THRESHOLD, s] for s in CONDITIONS]
#: The goals, by what they are for.
GOALS: dict[str, Goal] = {
    "reference": AtReference(),
    "average": ContextAverage(_CONTEXTS),
    "worst": WorstContext(_CONTEXTS),
}
#: The number of trials that are chosen at once.
BATCH_SIZES = {"one by one": 1, "batches of 4": 4}
SEPARATOR = ", "


def name_all(functions: Iterable[str], variants: Iterable[str]) -> tuple[str, ...]:
    r"""The names of all variants of functions.

    Args:
        functions: The names of the functions.
        variants: The names of the variants.

    Returns:
        A name for each pair.
    """
    kinds = list(variants)
    return tuple(f"{name}{SEPARATOR}{kind}" for name in functions for kind in kinds)


def split(name: str) -> tuple[str, str]:
    r"""The function and the variant of a name.

    Args:
        name: One of :func:`name_all`.

    Returns:
        Their names.
    """
    function, _, variant = name.rpartition(SEPARATOR)
    return function, variant


def load_hyperparameters(name: str) -> Hyperparameters:
    r"""The hyperparameters of the function of a variant.

    Args:
        name: The name of the variant.
    """
    return hyperparameters.load(split(name)[0])


def goal_case(name: str, fitted: Hyperparameters, seeds: int) -> Case:
    r"""A function whose best parameters move with the condition, and a goal.

    Args:
        name: The name of the variant.
        fitted: The hyperparameters of the function.
        seeds: Not used; all seeds have the same problem.
    """
    function, goal = split(name)
    return Case(
        MovingOptimumProblem(make_objective(function), goal),
        lambda X, Y: BinaryLaplaceGP(X, Y, covar_module=moving_kernel(fitted).to(X)),
        randomness=function,
        goal=GOALS[goal],
    )


def best_possible(name: str) -> float:
    r"""The highest score of a variant of the study ``goals``.

    Args:
        name: The name of the variant.
    """
    return best_score(*split(name))


def batch_case(name: str, fitted: Hyperparameters, seeds: int) -> Case:
    r"""A function of the study ``threshold``, with some trials at once.

    Args:
        name: The name of the variant.
        fitted: The hyperparameters of the function.
        seeds: The number of repetitions.
    """
    function, size = split(name)
    make = benchmark_case(
        lambda objective: ThresholdContextProblem(objective, slope=THRESHOLD_SLOPE),
        threshold_kernel,
    )
    return replace(make(function, fitted, seeds), batch_size=BATCH_SIZES[size])
