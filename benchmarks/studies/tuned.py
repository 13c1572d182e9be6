r"""
The studies whose seeds the defaults of rules, searches and priors were chosen on.

``binary`` and ``duels`` are the two synthetic studies of section 4 of
[Fauvel2022contextual]_, with further rules in addition to the paper's. ``threshold`` is
the harder family, where the informative context depends on the parameters. ``duels-kg``
adds the knowledge gradient, which is slow, to the duels of some functions and seeds.
``goals`` and ``batches`` are those of :mod:`benchmarks.studies.variants`.
``refraction``, ``refraction-anywhere``, ``refraction-steps`` and
``refraction-inference`` are those of :mod:`benchmarks.studies.refraction`.
"""

from __future__ import annotations

from functools import partial

from benchmarks.studies import patient_models, refraction, variants
from benchmarks.studies.cases import (
    THRESHOLD_SLOPE,
    benchmark_case,
    load_hyperparameters,
    multiplicative_kernel,
    threshold_kernel,
)
from benchmarks.studies.study import Study, optimum_of_benchmark
from botorch_binary_context.numerics.optim import SearchOptions
from botorch_binary_context.problems import (
    BinaryContextProblem,
    DuelContextProblem,
    ThresholdContextProblem,
)

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
# From one to six variables, and all three kernels of the paper.
TEN_FUNCTIONS = (
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
        functions=TEN_FUNCTIONS,
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
        functions=variants.name_all(TEN_FUNCTIONS, variants.GOALS),
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
        functions=variants.name_all(TEN_FUNCTIONS, variants.BATCH_SIZES),
        seeds=20,
        optimum=lambda name: optimum_of_benchmark(variants.VARIANTS[name].function),
        effort=QUICK_SEARCH,
        measure_every=12,
    ),
    Study(
        "refraction",
        refraction.load,
        refraction.centered_case,
        rules=REFRACTION_RULES,
        functions=refraction.name_cases(refraction.SLOPES),
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
        functions=refraction.name_cases([5], patient_models.SURROGATES),
        iterations=150,
        optimum=lambda _: 0.0,
        unit=refraction.UNIT,
    ),
    Study(
        "refraction-inference",
        refraction.load,
        partial(
            refraction.anywhere_case,
            patients=refraction.OTHER_SEED,
            randomness="refraction-inference",
        ),
        rules=("mkg", "ucb99-ald", "ts-ald"),
        functions=refraction.name_cases([5], patient_models.INFERENCES),
        iterations=100,
        optimum=lambda _: 0.0,
        unit=refraction.UNIT,
    ),
)
#: The studies by their names.
TUNED = {study.name: study for study in _ALL}
