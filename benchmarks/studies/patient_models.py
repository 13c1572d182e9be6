r"""
Models of a patient, of increasing care: from the paper's surrogate to what is known of
lenses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from gpytorch.kernels import RBFKernel
from torch import Tensor

from benchmarks.studies.paper_surrogate import PaperSurrogate
from botorch_binary_context.inference import (
    ExpectationPropagation,
    Inference,
    Laplace,
)
from botorch_binary_context.kernels import AdditiveContextKernel
from botorch_binary_context.models import (
    BinaryGP,
    BinaryLaplaceGP,
    psychometric_gp,
)
from botorch_binary_context.models.coordinates import center_contexts
from botorch_binary_context.models.defaults import (
    OFFSET_VARIANCE,
    SLOPES,
    offset_covar_module,
    psychometric_covar_module,
)
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.peaks import BLUR, PeakLaw
from botorch_binary_context.problems import POWER_VECTOR, RefractionProblem

# Models of increasing care, each as a function of the trials, their outcomes, the
# hyperparameters of the paper's surrogate and the patient.
ModelMaker = Callable[[Tensor, Tensor, PaperSurrogate, RefractionProblem], LatentGP]


def as_in_the_paper(
    X: Tensor, Y: Tensor, fitted: PaperSurrogate, problem: RefractionProblem
) -> BinaryLaplaceGP:
    r"""``θ s s' + k(x,x')``, fitted to a patient with the prescription (0, 0)."""
    return BinaryLaplaceGP(X, Y, covar_module=fitted.covar_module().to(X))


def with_an_offset(
    X: Tensor, Y: Tensor, fitted: PaperSurrogate, problem: RefractionProblem
) -> BinaryLaplaceGP:
    r"""A constant in the kernel: the offset of the performance is not known."""
    kernel = fitted.covar_module()
    offset = offset_covar_module(OFFSET_VARIANCE, torch.Size())
    kernel.base_kernel = kernel.base_kernel + offset
    return BinaryLaplaceGP(X, Y, covar_module=kernel.to(X))


def with_robust_scales(
    X: Tensor, Y: Tensor, fitted: PaperSurrogate, problem: RefractionProblem
) -> BinaryLaplaceGP:
    r"""The scales of the untuned default of the package; the slope has no sign."""
    kernel = _default_kernel(X, problem)
    base: Any = kernel.base_kernel
    scaled = base.kernels[0]
    matern = scaled.base_kernel
    smooth = RBFKernel(matern.ard_num_dims, batch_shape=matern.batch_shape)
    scaled.base_kernel = smooth.initialize(lengthscale=matern.lengthscale.detach())
    return _without_direction(X, Y, kernel, problem)


def with_a_rough_kernel(
    X: Tensor, Y: Tensor, fitted: PaperSurrogate, problem: RefractionProblem
) -> BinaryLaplaceGP:
    r"""The kernel of the package's default, which can bend to a sharp peak."""
    return _without_direction(X, Y, _default_kernel(X, problem), problem)


def _default_kernel(X: Tensor, problem: RefractionProblem) -> AdditiveContextKernel:
    kernel = psychometric_covar_module(problem.space.dim, [0], X.shape[:-2])
    kernel.context_variance = SLOPES.median**2
    return kernel


def _without_direction(
    X: Tensor, Y: Tensor, kernel: AdditiveContextKernel, problem: RefractionProblem
) -> BinaryLaplaceGP:
    transform = center_contexts(problem.space)
    return BinaryLaplaceGP(X, Y, covar_module=kernel.to(X), input_transform=transform)


def with_a_direction(
    X: Tensor, Y: Tensor, fitted: PaperSurrogate, problem: RefractionProblem
) -> BinaryGP:
    r"""Large letters are easier: the package's default, without guesses."""
    return psychometric_gp(X, Y, problem.space, inference=Laplace())


def with_guesses(
    X: Tensor, Y: Tensor, fitted: PaperSurrogate, problem: RefractionProblem
) -> BinaryGP:
    r"""The package's default, with the guess rate of the task."""
    guess_rate = float(problem.likelihood.guess_rate)
    return psychometric_gp(X, Y, problem.space, guess_rate, inference=Laplace())


def with_power_vectors(
    X: Tensor, Y: Tensor, fitted: PaperSurrogate, problem: RefractionProblem
) -> BinaryGP:
    r"""The same, with a lengthscale for each component of the power vector."""
    return _with_inference(X, Y, problem, Laplace())


def with_expectation_propagation(
    X: Tensor, Y: Tensor, fitted: PaperSurrogate, problem: RefractionProblem
) -> BinaryGP:
    r"""The same, with expectation propagation instead of Laplace's method."""
    return _with_inference(X, Y, problem, ExpectationPropagation())


def with_a_peak(
    X: Tensor, Y: Tensor, fitted: PaperSurrogate, problem: RefractionProblem
) -> BinaryGP:
    r"""The same, expecting that one lens is best."""
    return _with_inference(X, Y, problem, ExpectationPropagation(), "peak")


def with_the_law_of_blur(
    X: Tensor, Y: Tensor, fitted: PaperSurrogate, problem: RefractionProblem
) -> BinaryGP:
    r"""The same, knowing how blur raises thresholds."""
    law = PeakLaw(BLUR.rise, BLUR.width)
    return _with_inference(X, Y, problem, ExpectationPropagation(), law)


def with_an_expected_acuity(
    X: Tensor, Y: Tensor, fitted: PaperSurrogate, problem: RefractionProblem
) -> BinaryGP:
    r"""The same, knowing what acuity to expect with the best lens."""
    return _with_inference(X, Y, problem, ExpectationPropagation(), BLUR)


def with_a_peak_alone(
    X: Tensor, Y: Tensor, fitted: PaperSurrogate, problem: RefractionProblem
) -> BinaryGP:
    r"""The package's default, expecting that one setting is best."""
    guess_rate = float(problem.likelihood.guess_rate)
    return psychometric_gp(X, Y, problem.space, guess_rate, shape="peak")


def _with_inference(
    X: Tensor,
    Y: Tensor,
    problem: RefractionProblem,
    inference: Inference,
    shape: str | PeakLaw = "any",
) -> BinaryGP:
    return psychometric_gp(
        X,
        Y,
        problem.space,
        float(problem.likelihood.guess_rate),
        combinations=POWER_VECTOR,
        inference=inference,
        shape=shape,
    )


@dataclass(frozen=True)
class PatientModel:
    r"""A way to model a patient.

    Attributes:
        adds: What it has that the surrogate before it in the table does not have.
        make: Makes the model.
        learns: Whether hyperparameters are learned during the experiment.
        reference_size: The letter size of the reference context, in logMAR.
        num_alternatives: The number of letters to choose from.
    """

    adds: str
    make: ModelMaker
    learns: bool = False
    reference_size: float = 0.5
    num_alternatives: int = 26


# The paper does not say at which size; this one was chosen for its surrogate.
PAPER_SIZE = 1.0
#: From the paper's surrogate to the package's default of power vectors, in steps.
SURROGATES = {
    "paper": PatientModel(
        "the paper's, fitted to a patient with the prescription (0, 0)",
        as_in_the_paper,
        reference_size=PAPER_SIZE,
    ),
    "level": PatientModel(
        "a constant in the kernel, for the offset of the performance",
        with_an_offset,
        reference_size=PAPER_SIZE,
    ),
    "size": PatientModel(
        "a reference letter of 0.5 logMAR instead of 1; `ts-ald` does not depend on it",
        with_an_offset,
    ),
    "robust": PatientModel(
        "the lengthscales and scales of an untuned `psychometric_gp`",
        with_robust_scales,
    ),
    "rough": PatientModel(
        "the Matérn kernel of `psychometric_gp` instead of a squared exponential",
        with_a_rough_kernel,
    ),
    "direction": PatientModel(
        "a prior mean that knows that large letters are easier", with_a_direction
    ),
    "learned": PatientModel(
        "hyperparameters that are learned as trials come in", with_a_direction, True
    ),
    "default": PatientModel(
        "the guess rate of the task; this is `psychometric_gp`", with_guesses, True
    ),
    "power": PatientModel(
        "lengthscales along the power vector of a lens", with_power_vectors, True
    ),
}
#: The same model with two ways of inference, for two tasks.
INFERENCES = {
    "laplace": PatientModel("`power`, by Laplace's method", with_power_vectors, True),
    "ep": PatientModel(
        "`power`, by expectation propagation", with_expectation_propagation, True
    ),
    "laplace-2": PatientModel(
        "`laplace`, with two alternatives instead of 26 letters",
        with_power_vectors,
        True,
        num_alternatives=2,
    ),
    "ep-2": PatientModel(
        "`ep`, with two alternatives",
        with_expectation_propagation,
        True,
        num_alternatives=2,
    ),
}
#: With and without knowledge of lenses, and of there being one best.
PEAKS = {
    "default": SURROGATES["default"],
    "default-peak": PatientModel(
        '`default`, expecting one best setting (`shape="peak"`)',
        with_a_peak_alone,
        True,
    ),
    "power": SURROGATES["power"],
    "peak": PatientModel("`power`, expecting one best lens", with_a_peak, True),
    "blur": PatientModel(
        "`peak`, knowing how blur raises thresholds (`shape=PeakLaw(1, 1)`)",
        with_the_law_of_blur,
        True,
    ),
    "acuity": PatientModel(
        "`blur`, knowing what acuity to expect with the best lens (`shape=BLUR`)",
        with_an_expected_acuity,
        True,
    ),
}
#: Power vectors by expectation propagation, with few alternatives to choose from.
ALTERNATIVES = {
    f"{number} alternatives{suffix}": PatientModel(
        f"{surrogate}, with {number} alternatives",
        make,
        True,
        num_alternatives=number,
    )
    for number in (2, 4, 10)
    for suffix, surrogate, make in (
        ("", "`power`", with_expectation_propagation),
        (", peak", "`peak`", with_a_peak),
        (", blur", "`blur`", with_the_law_of_blur),
        (", acuity", "`acuity`", with_an_expected_acuity),
    )
}
#: Those of them that expect one best lens.
ALTERNATIVES_WITH_A_PEAK = [
    f"{number} alternatives, {shape}"
    for number in (2, 4, 10)
    for shape in ("peak", "blur", "acuity")
]
TABLES = (PEAKS, ALTERNATIVES, INFERENCES, SURROGATES)
#: What readers see instead of the names of finished results.
SHOWN = {"level": "offset"}
#: All models by their names; a name that two tables have is the same model in both.
MODELS = {name: model for table in TABLES for name, model in table.items()}
