r"""
The same problems with seeds that no default was chosen on, and by both inferences.

The defaults of rules, searches and priors were chosen on the seeds of the other
studies, so their results are a little too good. First trials, noise and patients of
these studies were drawn for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor

from benchmarks.studies import patient_models, refraction
from benchmarks.studies.cases import Case
from benchmarks.studies.study import Study
from benchmarks.studies.tuned import (
    PAPER_TABLE_3,
    SYNTHETIC_DUEL_RULES,
    SYNTHETIC_RULES,
    TEN_FUNCTIONS,
    TUNED,
)
from botorch_binary_context.inference import (
    ExpectationPropagation,
    Inference,
    Laplace,
)
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.optim import SearchOptions

#: The seed of the prescriptions of fresh patients.
PATIENTS = 20_261_118
# About half of the time of the default.
SEARCH = SearchOptions(
    num_restarts=5, raw_samples=256, max_evaluations=30, relative_gain=1e-5
)
LAPLACE = Laplace()
EP = ExpectationPropagation()
RULES = {
    "binary": (*SYNTHETIC_RULES, "ucb99-ald", "mkg"),
    "duels": (*SYNTHETIC_DUEL_RULES, "eubo-ald", "mkg"),
    "threshold": (*SYNTHETIC_RULES, "ucb99-ald", "mkg"),
    "refraction": (*PAPER_TABLE_3, "ucb99-ald", "cjes", "mkg"),
}
# By expectation propagation: the rules that lead by Laplace's method or depend on the
# whole posterior, and a baseline. ``cbkg`` is by Laplace's method whatever the model's.
EP_RULES = {
    "binary": ("ucb-ald", "ts-ald", "ucb99-ald", "cjes", "bald", "mkg", "random"),
    "duels": ("muc-ald", "kss-ald", "eubo-ald", "cjes", "bald", "mkg", "random"),
    "threshold": ("ucb-ald", "ts-ald", "ucb99-ald", "cjes", "bald", "mkg", "random"),
    "refraction": ("ucb-ald", "ts-ald", "ucb99-ald", "bald", "mkg", "random"),
}

MakeCase = Callable[[str, Any, int], Case]


def fresh(make: MakeCase, inference: Inference) -> MakeCase:
    r"""A function that makes the cases of a study with fresh seeds.

    Args:
        make: Makes the cases of the study.
        inference: How posteriors are approximated.

    Returns:
        The ``case`` of a study.
    """

    def case(name: str, fitted: Any, seeds: int) -> Case:
        found = make(name, fitted, seeds)

        def model(X: Tensor, Y: Tensor) -> LatentGP:
            return found.model(X, Y).with_inference(inference)

        randomness = f"fresh, {found.randomness}"
        return replace(found, model=model, randomness=randomness)

    return case


def _repeat(name: str) -> Study:
    """A study by Laplace's method on fresh seeds."""
    study = TUNED[name]
    return replace(
        study,
        name=f"fresh-{name}",
        case=fresh(study.case, LAPLACE),
        rules=RULES[name],
        repeats=name,
        searches={},
        effort=SEARCH,
        measure_every=5,
    )


def _reinfer(study: Study, tuned: str) -> Study:
    """A study on fresh seeds, by expectation propagation; of 34 functions only ten."""
    return replace(
        study,
        name=f"{study.name}-ep",
        case=fresh(TUNED[tuned].case, EP),
        rules=EP_RULES[tuned],
        functions=study.functions if tuned == "refraction" else TEN_FUNCTIONS,
        seeds=20,
        paper={},
        repeats=None,
        reinfers=study.name,
    )


def _examine(
    name: str,
    functions: Sequence[str],
    inference: Inference = EP,
    randomness: str = "refraction-anywhere",
) -> Study:
    """Patients with prescriptions of their own that no other study has."""
    anywhere = partial(
        refraction.anywhere_case, patients=PATIENTS, randomness=randomness
    )
    return replace(
        TUNED["refraction-anywhere"],
        name=name,
        case=fresh(anywhere, inference),
        rules=("ucb99-ald", "mkg", "cjes", "gradient"),
        functions=tuple(functions),
        seeds=100,
        searches={},
        effort=SEARCH,
        measure_every=5,
    )


_REPEATED = {name: _repeat(name) for name in RULES}
_BY_LAPLACE = _examine(
    "fresh-refraction-anywhere", refraction.name_cases([5], ["power"]), LAPLACE
)
_BY_EP = _examine(
    "fresh-refraction-anywhere-ep",
    (
        *refraction.name_cases((2, 5, 8), ("power", "peak", "blur", "acuity")),
        *refraction.name_cases([5], ("default", "default-peak")),
    ),
)
_ALTERNATIVES = _examine(
    "fresh-alternatives",
    refraction.name_cases(
        [5], ["2 alternatives", *patient_models.ALTERNATIVES_WITH_A_PEAK]
    ),
    randomness="refraction-inference",
)
#: The studies by their names.
FRESH = {
    study.name: study
    for study in (
        *_REPEATED.values(),
        *(_reinfer(study, name) for name, study in _REPEATED.items()),
        _BY_LAPLACE,
        replace(_BY_EP, reinfers=_BY_LAPLACE.name),
        _ALTERNATIVES,
    )
}
