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
from dataclasses import dataclass, replace

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
from botorch_binary_context.problems import (
    BENCHMARKS,
    ThresholdContextProblem,
    make_objective,
)

_CONTEXTS = [[REFERENCE_THRESHOLD, s] for s in CONDITIONS]
#: The goals, by what they are for.
GOALS: dict[str, Goal] = {
    "reference": AtReference(),
    "average": ContextAverage(_CONTEXTS),
    "worst": WorstContext(_CONTEXTS),
}
#: The number of trials that are chosen at once.
BATCH_SIZES = {"one by one": 1, "batches of 4": 4}


@dataclass(frozen=True)
class Variant:
    r"""A function under a condition.

    Attributes:
        function: The name of the function.
        kind: The name of a goal or of a number of trials at once.
    """

    function: str
    kind: str

    @property
    def name(self) -> str:
        """Such as ``Levy, worst``."""
        return f"{self.function}, {self.kind}"


#: All variants by their names.
VARIANTS = {
    variant.name: variant
    for function in BENCHMARKS
    for variant in (Variant(function, kind) for kind in (*GOALS, *BATCH_SIZES))
}


def name_all(functions: Iterable[str], kinds: Iterable[str]) -> tuple[str, ...]:
    r"""The names of all variants of functions.

    Args:
        functions: The names of the functions.
        kinds: The names of the conditions.

    Returns:
        A name for each pair.
    """
    names = list(kinds)
    return tuple(Variant(name, kind).name for name in functions for kind in names)


def load_hyperparameters(name: str) -> Hyperparameters:
    r"""The hyperparameters of the function of a variant.

    Args:
        name: The name of the variant.
    """
    return hyperparameters.load(VARIANTS[name].function)


def goal_case(name: str, fitted: Hyperparameters, seeds: int) -> Case:
    r"""A function whose best parameters move with the condition, and a goal.

    Args:
        name: The name of the variant.
        fitted: The hyperparameters of the function.
        seeds: Not used; all seeds have the same problem.
    """
    variant = VARIANTS[name]
    return Case(
        MovingOptimumProblem(make_objective(variant.function), variant.kind),
        lambda X, Y: BinaryLaplaceGP(X, Y, covar_module=moving_kernel(fitted).to(X)),
        randomness=variant.function,
        goal=GOALS[variant.kind],
    )


def best_possible(name: str) -> float:
    r"""The highest score of a variant of the study ``goals``.

    Args:
        name: The name of the variant.
    """
    variant = VARIANTS[name]
    return best_score(variant.function, variant.kind)


def batch_case(name: str, fitted: Hyperparameters, seeds: int) -> Case:
    r"""A function of the study ``threshold``, with some trials at once.

    Args:
        name: The name of the variant.
        fitted: The hyperparameters of the function.
        seeds: The number of repetitions.
    """
    variant = VARIANTS[name]
    make = benchmark_case(
        lambda objective: ThresholdContextProblem(objective, slope=THRESHOLD_SLOPE),
        threshold_kernel,
    )
    case = make(variant.function, fitted, seeds)
    return replace(case, batch_size=BATCH_SIZES[variant.kind])
