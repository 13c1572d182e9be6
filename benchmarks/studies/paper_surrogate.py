r"""
The paper's surrogate of a patient: ``θ s s' + k(x,x')``, fitted to simulated responses.

``python -m benchmarks refraction-hyperparameters`` maximizes the likelihood of 1000
responses of a patient with the prescription (0, 0), as in section 5 of
[Fauvel2022contextual]_, and stores the hyperparameters.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import RBFKernel, ScaleKernel
from torch import Tensor
from tqdm import tqdm

from botorch_binary_context.kernels import AdditiveContextKernel
from botorch_binary_context.models import (
    BinaryLaplaceGP,
    LaplaceMarginalLogLikelihood,
)
from botorch_binary_context.problems import RefractionProblem

SLOPES = tuple(range(1, 9))
PATH = Path(__file__).with_suffix(".json")
NUM_RESPONSES = 1000
SEED = 0


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


def load(slope: int) -> PaperSurrogate:
    r"""The stored surrogate of a patient with the prescription (0, 0).

    Args:
        slope: The slope of the patient's psychometric function.
    """
    fitted = json.loads(PATH.read_text(encoding="utf-8"))[str(slope)]
    lengthscales = tuple(fitted.pop("lengthscales"))
    return PaperSurrogate(**fitted, lengthscales=lengthscales)


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
