r"""
The same problems with seeds that no default was tuned on, and by both inferences.

The defaults of rules, searches and priors were chosen on the seeds of the other
studies, so their results are a little too good. First trials, noise and patients of
these studies were drawn for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor

from benchmarks.studies import refraction
from benchmarks.studies.cases import Case
from botorch_binary_context.inference import Inference
from botorch_binary_context.models.latent_gp import LatentGP

#: The seed of the prescriptions of fresh patients.
PATIENTS = 20_261_118

#: With and without knowledge of lenses, and of there being one best.
SURROGATES = {
    "default": refraction.SURROGATES["default"],
    "default-peak": refraction.PatientModel(
        '`default`, expecting one best setting (`shape="peak"`)',
        refraction.with_a_peak_alone,
        True,
    ),
    "power": refraction.SURROGATES["power"],
    "peak": refraction.PatientModel(
        "`power`, expecting one best lens", refraction.with_a_peak, True
    ),
}

#: Power vectors by expectation propagation, with few alternatives to choose from.
ALTERNATIVES = {
    f"{number} alternatives{suffix}": refraction.PatientModel(
        f"{surrogate}, with {number} alternatives",
        make,
        True,
        num_alternatives=number,
    )
    for number in (2, 4, 10)
    for suffix, surrogate, make in (
        ("", "`power`", refraction.with_expectation_propagation),
        (", peak", "`peak`", refraction.with_a_peak),
    )
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
