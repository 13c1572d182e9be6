r"""Models and goals that goals are tried on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from torch import Tensor

from botorch_binary_context import (
    AtContext,
    AtReference,
    AverageSuccess,
    BinaryGP,
    BinaryLaplaceGP,
    ContextAverage,
    ContextCVaR,
    ContextQuantile,
    ContextSpace,
    Goal,
    MixedGP,
    Observations,
    PreferenceGP,
    PreferenceLaplaceGP,
    PreferenceLikelihood,
    ProbitLikelihood,
    WorstContext,
)
from botorch_binary_context.models.latent_gp import LatentGP
from tests.small_models import random_trials
from tests.tensors import double

# A context between two parameters, so that none can pass for another.
SPACE = ContextSpace(double([[0.0] * 3, [1.0] * 3]), [1], [0.9])
CONTEXTS = [0.1, 0.35, 0.8]
WEIGHTS = (0.5, 0.2, 0.3)
GUESS, LAPSE = 0.25, 0.05

LINEAR: list[Goal] = [
    AtReference(),
    AtContext([0.3]),
    ContextAverage(CONTEXTS, [5, 2, 3]),
]
SAMPLED: list[Goal] = [
    WorstContext(CONTEXTS),
    ContextQuantile(CONTEXTS, 0.3),
    ContextCVaR(CONTEXTS, 0.5),
]
SUCCESS = AverageSuccess(CONTEXTS, WEIGHTS)
KINDS = ["outcomes", "duels", "mixed"]
every_kind = pytest.mark.parametrize("kind", KINDS)
every_goal = pytest.mark.parametrize("goal", [*LINEAR, *SAMPLED, SUCCESS], ids=repr)


def make_kernel() -> ScaleKernel:
    """What is best depends on the context."""
    context = RBFKernel(active_dims=(1,))
    parameters = RBFKernel(active_dims=(0, 2), ard_num_dims=2)
    context.lengthscale = double([[0.5]])
    parameters.lengthscale = double([[0.3, 0.6]])
    kernel = ScaleKernel(context * parameters).double()
    kernel.outputscale = 3.0
    return kernel


def make_model(kind: str, batch_shape: Sequence[int] = (), n: int = 12) -> LatentGP:
    """A model of random trials; elements of a batch differ in their data."""
    X, Y = random_trials(BinaryLaplaceGP, n, 3, batch_shape)
    pairs, winners = random_trials(PreferenceLaplaceGP, n, 3, batch_shape, seed=1)
    pairs[..., 1, 1] = pairs[..., 0, 1]
    likelihood = ProbitLikelihood(GUESS, LAPSE)
    if kind == "outcomes":
        return BinaryGP(X, Y, likelihood, covar_module=make_kernel())
    if kind == "duels":
        return PreferenceGP(pairs, winners, covar_module=make_kernel())
    data = [
        Observations(X, Y, likelihood),
        Observations(pairs, winners, PreferenceLikelihood()),
    ]
    return MixedGP(data, covar_module=make_kernel())


def single(model: LatentGP, index: tuple[int, ...]) -> MixedGP:
    """One element of a batch, on its own."""
    kinds = zip(model.trials_by_kind(), model.kinds, strict=True)
    parts = [
        Observations(trials[index], targets[index].unsqueeze(-1), likelihood)
        for (_, trials, targets), likelihood in kinds
    ]
    return MixedGP(parts, covar_module=make_kernel())


def is_for(goal: Goal, kind: str) -> bool:
    """Success is something that only pass/fail outcomes have."""
    return not (isinstance(goal, AverageSuccess) and kind == "duels")


def joint_draws(model: LatentGP, X: Tensor, number: int = 100_000) -> Tensor:
    """Draws of the latent function at ``K x d`` rows, by an eigendecomposition."""
    posterior = model.posterior(X)
    mean = posterior.mean.squeeze(-1).detach()
    covar: Tensor = posterior.distribution.covariance_matrix.detach()  # pyright: ignore
    values, vectors = torch.linalg.eigh(covar)
    root = vectors * values.clamp_min(0.0).sqrt()
    generator = torch.Generator().manual_seed(3)
    noise = torch.randn(number, len(X), generator=generator, dtype=torch.double)
    return mean + noise @ root.T


def by_hand(goal: Goal, f: Tensor) -> Tensor:
    """The goal of ``S x K`` values of the latent function, spelled out."""
    p = GUESS + (1 - GUESS - LAPSE) * torch.special.ndtr(f)
    ordered = f.sort(dim=-1).values
    match goal:
        case AtReference() | AtContext():
            return f[:, 0]
        case ContextAverage():
            return 0.5 * f[:, 0] + 0.2 * f[:, 1] + 0.3 * f[:, 2]
        case WorstContext():
            return torch.minimum(torch.minimum(f[:, 0], f[:, 1]), f[:, 2])
        case ContextQuantile():  # at 0.3, six tenths of the way to the median
            return 0.4 * ordered[:, 0] + 0.6 * ordered[:, 1]
        case ContextCVaR():  # half of three: the worst, and half of the next
            return (ordered[:, 0] + 0.5 * ordered[:, 1]) / 1.5
        case AverageSuccess():
            return 0.5 * p[:, 0] + 0.2 * p[:, 1] + 0.3 * p[:, 2]
    raise AssertionError(goal)


def rows_by_hand(goal: Goal, x: Tensor) -> Tensor:
    """The trials of two parameters in the contexts of a goal."""
    contexts = CONTEXTS
    if isinstance(goal, AtReference):
        contexts = [0.9]
    if isinstance(goal, AtContext):
        contexts = [0.3]
    return double([[float(x[0]), s, float(x[1])] for s in contexts])
