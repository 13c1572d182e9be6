r"""
The case of a task: a problem, and the model that is made of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from gpytorch.kernels import ConstantKernel, Kernel
from torch import Tensor

from benchmarks.studies import hyperparameters
from benchmarks.studies.hyperparameters import Hyperparameters
from botorch_binary_context.functionals import DIFFERENCE, VALUE
from botorch_binary_context.goals import Goal
from botorch_binary_context.kernels import (
    AdditiveContextKernel,
    MultiplicativeContextKernel,
)
from botorch_binary_context.models import BinaryLaplaceGP, PreferenceLaplaceGP
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.problems import (
    ContextProblem,
    ScaledObjective,
    make_objective,
)

THRESHOLD_SLOPE = 3.0


# The model for each functional that a trial observes.
MODELS = {VALUE: BinaryLaplaceGP, DIFFERENCE: PreferenceLaplaceGP}


def no_errors(problem: Any, best: Tensor) -> dict[str, Tensor]:
    r"""Nothing besides the score.

    Args:
        problem: Not used.
        best: Not used.
    """
    return {}


@dataclass(frozen=True)
class Case:
    r"""A problem and the model that an experiment makes of it.

    Attributes:
        problem: The problem; its seeds may be a batch of problems.
        model: Makes a model of trials and their outcomes.
        randomness: The purpose for which the first trials and the noise of a seed are
            drawn; equal for cases that are to be compared.
        refits: The numbers of trials at which the hyperparameters are learned.
        goal: What the parameters should be good at, by default in the reference
            context.
        batch_size: How many trials are chosen at once.
        errors: The errors of inferred parameters, ``seeds x 1 x (d - m)``, in a
            problem, by the name of their column in the results; ``seeds`` each.
    """

    problem: ContextProblem
    model: Callable[[Tensor, Tensor], LatentGP]
    randomness: str
    refits: frozenset[int] = frozenset()
    goal: Goal | None = None
    batch_size: int = 1
    errors: Callable[[Any, Tensor], dict[str, Tensor]] = no_errors


def multiplicative_kernel(fitted: Hyperparameters) -> Kernel:
    r"""``s s' k(x,x')``.

    Args:
        fitted: The hyperparameters of the function.
    """
    return MultiplicativeContextKernel(fitted.covar_module(), [0])


def threshold_kernel(fitted: Hyperparameters) -> Kernel:
    r"""``θ t t' + k(x,x') + constant``, for ``f(t,x) = a (g(x) - t)``.

    Args:
        fitted: The hyperparameters of the function ``g``.

    Returns:
        The kernel; ``θ`` and the constant are ``a²``, and ``k`` is scaled by it.
    """
    constant = ConstantKernel().double()
    constant.constant = torch.tensor([THRESHOLD_SLOPE**2], dtype=torch.double)
    smooth = fitted.covar_module()
    smooth.outputscale = THRESHOLD_SLOPE**2 * fitted.outputscale
    kernel = AdditiveContextKernel(smooth + constant, [0])
    kernel.context_variance = THRESHOLD_SLOPE**2
    return kernel


def load_hyperparameters(name: str) -> Hyperparameters:
    r"""The stored hyperparameters of a benchmark function.

    Args:
        name: The name of the function.
    """
    return hyperparameters.load(name)


def benchmark_case(
    problem: Callable[[ScaledObjective], ContextProblem],
    kernel: Callable[[Hyperparameters], Kernel],
) -> Callable[[str, Hyperparameters, int], Case]:
    r"""A function that makes the cases of a study of the benchmark functions.

    Args:
        problem: Makes the problem of an objective.
        kernel: Makes the kernel from the hyperparameters of a function.

    Returns:
        The ``case`` of a study.
    """

    def make(name: str, fitted: Hyperparameters, seeds: int) -> Case:
        seen = problem(make_objective(name))
        model_class = MODELS[seen.functional]
        return Case(
            seen,
            lambda X, Y: model_class(X, Y, covar_module=kernel(fitted).to(X)),
            randomness=name,
        )

    return make
