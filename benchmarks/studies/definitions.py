r"""
The studies: which rules run on which functions, how often, and with what kernel.

``binary`` and ``duels`` are the two synthetic studies of section 4 of
[Fauvel2022contextual]_, with further rules in addition to the paper's. ``threshold`` is
the harder family, where the informative context depends on the parameters. ``duels-kg``
adds the knowledge gradient, which is slow, to the duels of some functions and seeds.
``goals`` and ``batches`` are those of :mod:`benchmarks.studies.variants`.
``refraction``, ``refraction-anywhere``, ``refraction-steps`` and
``refraction-inference`` are those of :mod:`benchmarks.studies.refraction`. The studies
``fresh-*`` repeat some on the seeds of :mod:`benchmarks.studies.fresh`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from botorch.exceptions import InputDataError

from benchmarks.studies import fresh, refraction, variants
from benchmarks.studies.cases import (
    THRESHOLD_SLOPE,
    Case,
    benchmark_case,
    load_hyperparameters,
    multiplicative_kernel,
    threshold_kernel,
)
from botorch_binary_context.inference import ExpectationPropagation, Laplace
from botorch_binary_context.numerics.optim import SearchOptions
from botorch_binary_context.problems import (
    BENCHMARKS,
    BinaryContextProblem,
    DuelContextProblem,
    ThresholdContextProblem,
    make_objective,
)

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
            The smaller study.
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


PAPER_TABLE_1 = {
    "ucb-ald": (1, 144),
    "ts-ald": (2, 83),
    "cbkg": (3, 59),
    "ucb-random": (4, 46),
    "bald": (5, 35),
    "ts-random": (6, 19),
    "random": (7, 10),
}
# The paper describes ``muc-random``, too, but its table does not include it.
PAPER_TABLE_2 = {
    "muc-ald": (1, 99),
    "kss-ald": (2, 37),
    "kss-random": (3, 22),
    "bald": (4, 9),
    "random": (5, 5),
}
PAPER_TABLE_3 = {
    "ucb-ald": (1, 35),
    "ts-ald": (2, 26),
    "ucb-random": (3, 15),
    "bald": (4, 8),
    "ts-random": (5, 3),
    "random": (6, 0),
}
# ``ucb99-ald`` is for patients with prescriptions anywhere, who need more exploration.
SYNTHETIC_RULES = (
    "ucb-ald",
    "ts-ald",
    "lucb-ald",
    "ucb-random",
    "ts-random",
    "ucb-fixed",
    "ts-fixed",
    "cbkg",
    "cjes",
    "bald",
    "random",
)
# The knowledge gradient of duels is slow: it has a study of its own.
SYNTHETIC_DUEL_RULES = (
    "muc-ald",
    "kss-ald",
    "muc-random",
    "kss-random",
    "cjes",
    "bald",
    "random",
)
GOAL_RULES = ("ucb-ald", "ucb-random", "ucb-fixed")
BATCH_RULES = ("ucb-ald", "ts-ald")
REFRACTION_RULES = (*PAPER_TABLE_3, "lucb-ald", "cbkg", "cjes")
# A trial of three variables needs fewer starts than the default, and ``cbkg`` is slow.
REFRACTION_SEARCHES = {"cbkg": SearchOptions(num_restarts=3)}
# Many tasks: the last digits of a maximum do not decide them.
QUICK_SEARCH = SearchOptions(
    num_restarts=3, raw_samples=128, max_evaluations=15, relative_gain=1e-4
)
# About half of the time of the default.
FRESH_SEARCH = SearchOptions(
    num_restarts=5, raw_samples=256, max_evaluations=30, relative_gain=1e-5
)
# From one to six variables, and all three kernels of the paper.
KG_FUNCTIONS = (
    "Ackley",
    "Cross-in-Tray",
    "Forrester et al (2008)",
    "Goldstein-Price",
    "Gramacy and Lee (2012)",
    "Hartmann 3-D",
    "Hartmann 6D",
    "Levy",
    "Shekel",
    "Three-Hump Camel",
)

_ALL = (
    Study(
        "binary",
        load_hyperparameters,
        benchmark_case(BinaryContextProblem, multiplicative_kernel),
        rules=SYNTHETIC_RULES,
        paper=PAPER_TABLE_1,
    ),
    Study(
        "duels",
        load_hyperparameters,
        benchmark_case(DuelContextProblem, multiplicative_kernel),
        rules=SYNTHETIC_DUEL_RULES,
        paper=PAPER_TABLE_2,
    ),
    Study(
        "duels-kg",
        load_hyperparameters,
        benchmark_case(DuelContextProblem, multiplicative_kernel),
        rules=("kg",),
        functions=KG_FUNCTIONS,
        seeds=20,
        beside="duels",
    ),
    Study(
        "threshold",
        load_hyperparameters,
        benchmark_case(
            lambda objective: ThresholdContextProblem(objective, slope=THRESHOLD_SLOPE),
            threshold_kernel,
        ),
        rules=SYNTHETIC_RULES,
        seeds=20,
    ),
    Study(
        "goals",
        variants.load_hyperparameters,
        variants.goal_case,
        rules=GOAL_RULES,
        functions=variants.name_all(KG_FUNCTIONS, variants.GOALS),
        seeds=20,
        optimum=variants.best_possible,
        effort=QUICK_SEARCH,
        measure_every=10,
    ),
    Study(
        "batches",
        variants.load_hyperparameters,
        variants.batch_case,
        rules=BATCH_RULES,
        functions=variants.name_all(KG_FUNCTIONS, variants.BATCH_SIZES),
        seeds=20,
        optimum=lambda name: optimum_of_benchmark(variants.split(name)[0]),
        effort=QUICK_SEARCH,
        measure_every=12,
    ),
    Study(
        "refraction",
        refraction.load,
        refraction.centered_case,
        rules=REFRACTION_RULES,
        functions=tuple(map(refraction.name_case, refraction.SLOPES)),
        seeds=20,
        iterations=260,
        paper=PAPER_TABLE_3,
        optimum=lambda _: 0.0,
        unit=refraction.UNIT,
        searches=REFRACTION_SEARCHES,
    ),
    Study(
        "refraction-anywhere",
        refraction.load,
        refraction.anywhere_case,
        rules=("ucb99-ald", *SYNTHETIC_RULES),
        functions=refraction.name_cases((2, 5, 8), ("paper", "power")),
        iterations=150,
        optimum=lambda _: 0.0,
        unit=refraction.UNIT,
        searches=REFRACTION_SEARCHES,
    ),
    Study(
        "refraction-steps",
        refraction.load,
        refraction.anywhere_case,
        rules=("ucb-ald", "ucb99-ald", "ts-ald", "cjes"),
        functions=refraction.name_cases([5], refraction.SURROGATES),
        iterations=150,
        optimum=lambda _: 0.0,
        unit=refraction.UNIT,
    ),
    Study(
        "refraction-inference",
        refraction.load,
        refraction.inference_case,
        rules=("mkg", "ucb99-ald", "ts-ald"),
        functions=refraction.name_cases([5], refraction.INFERENCES),
        iterations=100,
        optimum=lambda _: 0.0,
        unit=refraction.UNIT,
    ),
)
_TUNED = {study.name: study for study in _ALL}
_FRESH_RULES = {
    "binary": (*SYNTHETIC_RULES, "ucb99-ald", "mkg"),
    "duels": (*SYNTHETIC_DUEL_RULES, "eubo-ald", "mkg"),
    "threshold": (*SYNTHETIC_RULES, "ucb99-ald", "mkg"),
}
# By expectation propagation: the rules that lead by Laplace's method or depend on the
# whole posterior, and a baseline. ``cbkg`` is by Laplace's method whatever the model's.
_EP_RULES = {
    "binary": ("ucb-ald", "ts-ald", "ucb99-ald", "cjes", "bald", "mkg", "random"),
    "duels": ("muc-ald", "kss-ald", "eubo-ald", "cjes", "bald", "mkg", "random"),
    "threshold": ("ucb-ald", "ts-ald", "ucb99-ald", "cjes", "bald", "mkg", "random"),
}
_LAPLACE = Laplace()
_EP = ExpectationPropagation()
_FRESH_BENCHMARKS = tuple(
    replace(
        _TUNED[name],
        name=f"fresh-{name}",
        case=fresh.fresh(_TUNED[name].case, _LAPLACE),
        rules=rules,
        repeats=name,
        effort=FRESH_SEARCH,
        measure_every=5,
    )
    for name, rules in _FRESH_RULES.items()
)
_FRESH = (
    *_FRESH_BENCHMARKS,
    *(
        replace(
            study,
            name=f"{study.name}-ep",
            case=fresh.fresh(_TUNED[name].case, _EP),
            rules=_EP_RULES[name],
            seeds=20,
            paper={},
            repeats=None,
            reinfers=study.name,
        )
        for name, study in zip(_FRESH_RULES, _FRESH_BENCHMARKS, strict=True)
    ),
    *(
        replace(
            _TUNED["refraction-anywhere"],
            name=name,
            case=fresh.fresh(
                partial(
                    refraction.anywhere_case,
                    surrogates=fresh.SURROGATES,
                    patients=fresh.PATIENTS,
                ),
                inference,
            ),
            rules=("ucb99-ald", "ts-ald", "mkg"),
            functions=functions,
            seeds=100,
            searches={},
            reinfers=other,
            effort=FRESH_SEARCH,
            measure_every=5,
        )
        for name, inference, other, functions in (
            (
                "fresh-refraction-anywhere",
                _LAPLACE,
                None,
                refraction.name_cases([5], ("power",)),
            ),
            (
                "fresh-refraction-anywhere-ep",
                _EP,
                "fresh-refraction-anywhere",
                (
                    *refraction.name_cases((2, 5, 8), ("power", "peak")),
                    *refraction.name_cases([5], ("default", "default-peak")),
                ),
            ),
        )
    ),
    replace(
        _TUNED["refraction-inference"],
        name="fresh-alternatives",
        case=fresh.fresh(
            partial(
                refraction.inference_case,
                surrogates=fresh.ALTERNATIVES,
                patients=fresh.PATIENTS,
            ),
            _EP,
        ),
        rules=("ucb99-ald", "ts-ald", "mkg"),
        functions=refraction.name_cases([5], fresh.ALTERNATIVES),
        seeds=100,
        iterations=150,
        effort=FRESH_SEARCH,
        measure_every=5,
    ),
)
#: The studies by their names.
STUDIES = {study.name: study for study in (*_ALL, *_FRESH)}

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
