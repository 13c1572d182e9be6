r"""
The studies of refraction: a simulated patient, and surrogates of increasing care.

``refraction`` is section 5 of [Fauvel2022contextual]_: the prescription is the center
of the box, and the surrogate, ``θ s s' + k(x,x')``, has the hyperparameters that
maximize the likelihood of 1000 simulated responses of the same patient.

``refraction-anywhere`` draws a prescription for every seed, and compares the paper's
surrogate, fitted to a patient with the prescription (0, 0), with the default of the
package for psychometric functions, untuned, of power vectors.
``refraction-steps`` goes from the one to the other in steps.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import RBFKernel, ScaleKernel
from torch import Tensor
from tqdm import tqdm

from benchmarks.studies.cases import Case
from botorch_binary_context.inference import (
    ExpectationPropagation,
    Inference,
    Laplace,
)
from botorch_binary_context.kernels import AdditiveContextKernel
from botorch_binary_context.models import (
    BinaryGP,
    BinaryLaplaceGP,
    LaplaceMarginalLogLikelihood,
    psychometric_gp,
    should_learn,
)
from botorch_binary_context.models.coordinates import center_contexts
from botorch_binary_context.models.defaults import (
    OFFSET_VARIANCE,
    offset_covar_module,
    psychometric_covar_module,
)
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.models.psychometric import SLOPE_MEDIAN
from botorch_binary_context.problems import POWER_VECTOR, RefractionProblem

SLOPES = tuple(range(1, 9))
PATH = Path(__file__).with_suffix(".json")
NUM_RESPONSES = 1000
SEED = 0
OTHER_SEED = 1
UNIT = "the visual acuity in logMAR, negated"


@dataclass(frozen=True)
class PaperSurrogate:
    r"""The hyperparameters of ``θ s s' + k(x,x')``, in logMAR and diopters.

    Attributes:
        context_variance: ``θ``.
        outputscale: The variance of ``k``.
        lengthscales: The lengthscales of ``k``, a squared exponential.
    """

    context_variance: float
    outputscale: float
    lengthscales: tuple[float, float]

    def covar_module(self) -> AdditiveContextKernel:
        r"""The kernel.

        Returns:
            A kernel of ``(s, S, C)`` trials.
        """
        base = ScaleKernel(RBFKernel(ard_num_dims=2))
        kernel = AdditiveContextKernel(base, context_dims=[0]).double()
        lengthscale = torch.tensor([self.lengthscales], dtype=torch.double)
        base.base_kernel.initialize(lengthscale=lengthscale)
        base.outputscale = self.outputscale
        kernel.context_variance = self.context_variance
        return kernel


def fit_surrogate(problem: RefractionProblem) -> PaperSurrogate:
    r"""The surrogate that maximizes the likelihood of simulated responses.

    Args:
        problem: The patient.
    """
    kernel = PaperSurrogate(25.0, 9.0, (2.0, 2.0)).covar_module()
    model = BinaryLaplaceGP(*draw_responses(problem), covar_module=kernel)
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    smooth: Any = kernel.base_kernel
    sphere, cylinder = smooth.base_kernel.lengthscale.flatten().tolist()
    return PaperSurrogate(
        kernel.context_variance.item(), smooth.outputscale.item(), (sphere, cylinder)
    )


def draw_responses(problem: RefractionProblem) -> tuple[Tensor, Tensor]:
    r"""The simulated responses that the paper's surrogate is fitted to.

    Args:
        problem: The patient.

    Returns:
        Trials, ``1000 x 3``, and outcomes, ``1000 x 1``.
    """
    generator = torch.Generator().manual_seed(SEED)
    low, high = problem.space.bounds
    unit = torch.rand(
        NUM_RESPONSES, 3, dtype=torch.double, generator=generator, device="cpu"
    )
    X = low + (high - low) * unit
    return X, problem.observe(X, generator)


def load(case: str) -> PaperSurrogate:
    r"""The surrogate of the paper, fitted to a patient with the prescription (0, 0).

    Args:
        case: The name of a case, which begins with the slope.
    """
    slope = parse_slope(case)
    fitted = json.loads(PATH.read_text(encoding="utf-8"))[str(slope)]
    lengthscales = tuple(fitted.pop("lengthscales"))
    return PaperSurrogate(**fitted, lengthscales=lengthscales)


def name_case(slope: int, surrogate: str | None = None) -> str:
    r"""The name of a case.

    Args:
        slope: The slope of the psychometric function.
        surrogate: The name of the surrogate.

    Returns:
        Such as ``slope 5`` or ``slope 5, paper``.
    """
    return f"slope {slope}" + (f", {surrogate}" if surrogate else "")


def name_cases(slopes: Iterable[int], surrogates: Iterable[str]) -> tuple[str, ...]:
    r"""The cases of patients with prescriptions of their own.

    Args:
        slopes: The slopes.
        surrogates: The names of surrogates.

    Returns:
        The names of the cases.
    """
    return tuple(name_case(*case) for case in itertools.product(slopes, surrogates))


def parse_slope(case: str) -> int:
    r"""The slope in the name of a case.

    Args:
        case: The name.
    """
    return int(case.split(",")[0].removeprefix("slope "))


def parse_surrogate(case: str) -> str:
    r"""The surrogate in the name of a case.

    Args:
        case: The name.

    Returns:
        The name of the surrogate; empty if there is none.
    """
    return case.partition(", ")[2]


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
    r"""A constant in the kernel: the overall level of performance is not known."""
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
    kernel.context_variance = SLOPE_MEDIAN**2
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
    shape: str = "any",
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
LEARN_AT = frozenset(filter(should_learn, range(151)))
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
    problem = RefractionProblem(parse_slope(name), reference_size=PAPER_SIZE)
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
    surrogates: Mapping[str, PatientModel] = SURROGATES,
    patients: int = SEED,
) -> Case:
    r"""Patients with prescriptions of their own, and one of the surrogates.

    Args:
        name: The name of the case.
        fitted: The hyperparameters of the paper's surrogate.
        seeds: The number of patients.
        surrogates: The table that the surrogate is named in.
        patients: The seed of their prescriptions.
    """
    surrogate = surrogates[parse_surrogate(name)]
    problem = RefractionProblem(
        parse_slope(name),
        prescription=draw_prescriptions(seeds, patients),
        reference_size=surrogate.reference_size,
    )
    return Case(
        problem,
        lambda X, Y: surrogate.make(X, Y, fitted, problem),
        randomness=f"refraction-anywhere, {parse_slope(name)}",
        refits=LEARN_AT if surrogate.learns else frozenset(),
        errors=lens_errors,
    )


def inference_case(
    name: str,
    fitted: PaperSurrogate,
    seeds: int,
    surrogates: Mapping[str, PatientModel] = INFERENCES,
    patients: int = OTHER_SEED,
) -> Case:
    r"""Other patients than those of the other studies, and one way of inference.

    Args:
        name: The name of the case.
        fitted: Not used.
        seeds: The number of patients.
        surrogates: The table in which the surrogate is named.
        patients: The seed of their prescriptions.
    """
    surrogate = surrogates[parse_surrogate(name)]
    problem = RefractionProblem(
        parse_slope(name),
        num_alternatives=surrogate.num_alternatives,
        prescription=draw_prescriptions(seeds, patients),
        reference_size=surrogate.reference_size,
    )
    return Case(
        problem,
        lambda X, Y: surrogate.make(X, Y, fitted, problem),
        randomness=f"refraction-inference, {parse_slope(name)}",
        refits=LEARN_AT,
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


def add_command(commands: Any) -> None:
    r"""Add ``refraction-hyperparameters`` to the command line.

    Args:
        commands: The result of ``add_subparsers``.
    """
    parser = commands.add_parser(
        "refraction-hyperparameters", help="fit the paper's surrogate of a patient"
    )
    parser.add_argument("--output", type=Path, default=PATH, help="the data file")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    r"""Fit the surrogate for every slope and write the data file.

    Args:
        arguments: The parsed command line.
    """
    torch.set_num_threads(1)
    fitted = {
        str(slope): asdict(fit_surrogate(RefractionProblem(slope)))
        for slope in tqdm(SLOPES, desc="refraction", unit="slope")
    }
    text = json.dumps(fitted, indent=2) + "\n"
    arguments.output.write_text(text, encoding="utf-8")
    print(f"Hyperparameters: {arguments.output.resolve()}")
