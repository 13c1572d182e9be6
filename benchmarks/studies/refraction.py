r"""
The studies of refraction: simulated patients, and models of increasing care.

``refraction`` is section 5 of [Fauvel2022contextual]_: the prescription is the center
of the box, and the surrogate that of :mod:`benchmarks.studies.paper_surrogate`.

``refraction-anywhere`` draws a prescription for every seed, and compares the paper's
surrogate, fitted to a patient with the prescription (0, 0), with the default of the
package for psychometric functions, untuned, of power vectors.
``refraction-steps`` goes from the one to the other in steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.studies import paper_surrogate
from benchmarks.studies.cases import Case
from benchmarks.studies.learning import LEARN_AT
from benchmarks.studies.paper_surrogate import SLOPES, PaperSurrogate
from benchmarks.studies.patient_models import (
    MODELS,
    PAPER_SIZE,
    SHOWN,
    as_in_the_paper,
)
from botorch_binary_context.problems import RefractionProblem

SEED = 0
OTHER_SEED = 1  # of the patients of ``refraction-inference``
UNIT = "the visual acuity in logMAR, negated"


@dataclass(frozen=True)
class PatientCase:
    r"""What a case of a study is about.

    Attributes:
        slope: The slope of the psychometric function.
        surrogate: The name of the surrogate; empty in studies of the paper's alone.
    """

    slope: int
    surrogate: str = ""

    @property
    def name(self) -> str:
        """Such as ``slope 5`` or ``slope 5, paper``."""
        return self._name(self.surrogate)

    @property
    def shown_surrogate(self) -> str:
        """The name of the surrogate as readers see it."""
        return SHOWN.get(self.surrogate, self.surrogate)

    @property
    def shown_name(self) -> str:
        """The name as readers see it."""
        return self._name(self.shown_surrogate)

    def _name(self, surrogate: str) -> str:
        slope = f"slope {self.slope}"
        return f"{slope}, {surrogate}" if surrogate else slope


#: All cases by their names.
CASES = {
    case.name: case
    for slope in SLOPES
    for case in (PatientCase(slope, surrogate) for surrogate in ("", *MODELS))
}


def show(name: str) -> str:
    r"""A name as readers see it.

    Args:
        name: The name of a case, or any other name, which stays as it is.
    """
    return CASES[name].shown_name if name in CASES else name


def name_cases(
    slopes: Iterable[int], surrogates: Iterable[str] = ("",)
) -> tuple[str, ...]:
    r"""The names of all cases of some slopes and surrogates.

    Args:
        slopes: The slopes.
        surrogates: The names of surrogates.
    """
    names = tuple(surrogates)
    return tuple(PatientCase(slope, name).name for slope in slopes for name in names)


def load(name: str) -> PaperSurrogate:
    r"""The surrogate of the paper for the slope of a case.

    Args:
        name: The name of the case.
    """
    return paper_surrogate.load(CASES[name].slope)


MOST_POWER = 3.0  # of the prescriptions that are drawn


def lens_errors(problem: RefractionProblem, best: Tensor) -> dict[str, Tensor]:
    r"""The errors of inferred prescriptions, in diopters.

    Args:
        problem: The patients.
        best: The inferred lenses, ``seeds x 1 x 2``.

    Returns:
        Those of the sphere and of the cylinder, ``seeds`` each.
    """
    sphere, cylinder = problem.error(best).squeeze(-2).unbind(dim=-1)
    return {"sphere": sphere, "cylinder": cylinder}


def centered_case(name: str, fitted: PaperSurrogate, seeds: int) -> Case:
    r"""A patient with the prescription (0, 0) and the paper's surrogate.

    Args:
        name: The name of the case.
        fitted: The hyperparameters of the surrogate.
        seeds: Not used; all seeds have the same prescription.
    """
    problem = RefractionProblem(CASES[name].slope, reference_size=PAPER_SIZE)
    return Case(
        problem,
        lambda X, Y: as_in_the_paper(X, Y, fitted, problem),
        randomness=f"refraction, {name}",
        errors=lens_errors,
    )


def anywhere_case(
    name: str,
    fitted: PaperSurrogate,
    seeds: int,
    patients: int = SEED,
    randomness: str = "refraction-anywhere",
) -> Case:
    r"""Patients with prescriptions of their own, and one of the models.

    Args:
        name: The name of the case.
        fitted: The hyperparameters of the paper's surrogate.
        seeds: The number of patients.
        patients: The seed of their prescriptions.
        randomness: The purpose for which first trials and noise are drawn.
    """
    slope = CASES[name].slope
    surrogate = MODELS[CASES[name].surrogate]
    problem = RefractionProblem(
        slope,
        num_alternatives=surrogate.num_alternatives,
        prescription=draw_prescriptions(seeds, patients),
        reference_size=surrogate.reference_size,
    )
    return Case(
        problem,
        lambda X, Y: surrogate.make(X, Y, fitted, problem),
        randomness=f"{randomness}, {slope}",
        refits=LEARN_AT if surrogate.learns else frozenset(),
        errors=lens_errors,
    )


def draw_prescriptions(seeds: int, seed: int = SEED) -> Tensor:
    r"""A prescription for every seed, whatever the number of seeds.

    Args:
        seeds: The number of seeds.
        seed: The seed of the draw.

    Returns:
        A ``seeds x 2`` tensor of sphere and cylinder in diopters.
    """
    generator = torch.Generator().manual_seed(seed)
    unit = torch.rand(seeds, 2, dtype=torch.double, generator=generator, device="cpu")
    return MOST_POWER * (2 * unit - 1)
