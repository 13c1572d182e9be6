r"""
What a study of rules is: which rules run on which functions, how often and how long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from botorch.exceptions import InputDataError

from benchmarks.studies.cases import Case
from botorch_binary_context.numerics.optim import SearchOptions
from botorch_binary_context.problems import BENCHMARKS, make_objective

INITIAL_TRIALS = 5


def optimum_of_benchmark(name: str) -> float:
    r"""The highest score of a benchmark function.

    Args:
        name: The name of the function.

    Returns:
        The maximum of the scaled function.
    """
    return make_objective(name).optimal_value


@dataclass(frozen=True)
class Study:
    r"""A table of experiments: every rule on every function.

    Attributes:
        name: The name.
        load: Reads the hyperparameters of a function.
        case: Makes the case of a function from its name, its hyperparameters and the
            number of seeds.
        rules: The rules.
        functions: The functions.
        seeds: The number of repetitions; they run as one batch.
        iterations: The number of trials after the random ones.
        paper: Rank and Borda score in the paper, of the rules in its table.
        beside: The study whose results on the same functions and seeds the report
            shows beside these.
        repeats: The study that this one repeats on other seeds.
        reinfers: The study that this one repeats by another inference.
        optimum: The highest score of a function.
        unit: What the score is, in words.
        searches: The effort of the search of some rules, if not the default.
        effort: The default effort of searches, including that for the best parameters.
        measure_every: The number of iterations after which the best parameters are
            inferred; iterations in between have the score of the next one.
    """

    name: str
    load: Callable[[str], Any]
    case: Callable[[str, Any, int], Case]
    rules: tuple[str, ...]
    functions: tuple[str, ...] = tuple(BENCHMARKS)
    seeds: int = 40
    iterations: int = 60
    paper: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    beside: str | None = None
    repeats: str | None = None
    reinfers: str | None = None
    optimum: Callable[[str], float] = optimum_of_benchmark
    unit: str = "in standard deviations of the function over its box"
    searches: Mapping[str, SearchOptions] = field(default_factory=dict)
    effort: SearchOptions = SearchOptions()  # noqa: RUF009
    measure_every: int = 1

    def subset(
        self,
        functions: Sequence[str] | None = None,
        rules: Sequence[str] | None = None,
        seeds: int | None = None,
        iterations: int | None = None,
    ) -> Study:
        r"""A part of the study.

        Args:
            functions: Some of the functions, by default all.
            rules: Some of the rules, by default all.
            seeds: The number of repetitions, by default the study's.
            iterations: The number of iterations, by default the study's.

        Returns:
            A copy of the study with only these parts.
        """
        return replace(
            self,
            functions=_choose("functions", functions, self.functions),
            rules=_choose("rules", rules, self.rules),
            seeds=_positive("seeds", seeds, self.seeds),
            iterations=_positive("iterations", iterations, self.iterations),
        )


def _choose(
    name: str, chosen: Sequence[str] | None, known: tuple[str, ...]
) -> tuple[str, ...]:
    if chosen is None:
        return known
    unknown = [value for value in chosen if value not in known]
    if unknown:
        raise InputDataError(
            f"Expected ``{name}`` to be among {list(known)}, but got {unknown}."
        )
    return tuple(value for value in known if value in chosen)


def _positive(name: str, value: int | None, default: int) -> int:
    if value is not None and value < 1:
        raise InputDataError(f"Expected ``{name}`` to be at least 1, but got {value}.")
    return default if value is None else value


# About how much slower than ``ucb-ald`` a rule is: the slowest tasks start first.
RELATIVE_COST = {"cbkg": 7.0, "kg": 15.0, "cjes": 5.0, "random": 0.5}


def estimate_cost(function: str, rule: str) -> float:
    r"""About how long a task takes, in arbitrary units.

    Args:
        function: The name of the function.
        rule: The name of the rule.
    """
    dim = BENCHMARKS[function].dim if function in BENCHMARKS else 2
    return RELATIVE_COST.get(rule, 1.0) * dim
