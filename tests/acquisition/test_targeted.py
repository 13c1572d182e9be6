r"""Tests of the information about the reference context."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from torch import Tensor

from botorch_binary_context import (
    BinaryGP,
    ContextSpace,
    PreferenceGP,
    ProbitLikelihood,
    suggest,
)
from botorch_binary_context.acquisition import (
    BernoulliMutualInformation,
    TargetedInformation,
)
from botorch_binary_context.models.latent_gp import LatentGP
from tests.helpers import double, uniform

SPACE = ContextSpace(double([[-1, 0, 0], [1, 1, 1]]), [0], [0.3])


def kernel() -> ScaleKernel:
    """What is best changes with the context."""
    contexts = RBFKernel(active_dims=(0,))
    parameters = RBFKernel(active_dims=(1, 2), ard_num_dims=2)
    product = ScaleKernel(contexts * parameters).double()
    product.outputscale = 4.0
    return product


def outcomes(**kwargs: Any) -> BinaryGP:
    X = uniform(12, 3, seed=1) * double([2, 1, 1]) - double([1, 0, 0])
    Y = (X[:, 1:2] > 0.4).double()
    return BinaryGP(X, Y, covar_module=kernel(), **kwargs).eval()


def duels() -> PreferenceGP:
    X = uniform(12, 2, 3, seed=2) * double([2, 1, 1]) - double([1, 0, 0])
    X[:, 1, 0] = X[:, 0, 0]
    Y = (X[:, 0, 1:2] > X[:, 1, 1:2]).double()
    return PreferenceGP(X, Y, covar_module=kernel(), context_dims=[0]).eval()


MODELS = [
    outcomes(),
    outcomes(likelihood=ProbitLikelihood(guess_rate=0.25, lapse_rate=0.05)),
    duels(),
]
every_model = pytest.mark.parametrize("model", MODELS, ids=["plain", "rates", "duels"])


def trials(model: LatentGP, n: int, seed: int = 3) -> tuple[Tensor, Tensor]:
    """The same parameters in some contexts, and in the reference context."""
    parameters = uniform(model.functional.num_rows, 2, seed=seed)
    contexts = torch.linspace(-1, 1, n, dtype=torch.double)[:, None, None]
    return SPACE.join(parameters, contexts), SPACE.at_reference(parameters)


def entropy(p: Tensor) -> Tensor:
    return -(torch.special.xlogy(p, p) + torch.special.xlogy(1 - p, 1 - p))


def by_quadrature(model: LatentGP, trial: Tensor, target: Tensor) -> float:
    """``H(c) - E_t H(c|t)`` on a grid of the joint posterior of both contrasts."""
    posterior: Any = model.posterior(torch.cat([trial, target]))
    q = len(trial)
    weights = torch.zeros(2, 2 * q, dtype=torch.double)
    weights[0, :q] = weights[1, q:] = double([1, -1][:q])
    mean = weights @ posterior.mean.squeeze(-1)
    covar = weights @ posterior.distribution.covariance_matrix @ weights.T
    z = torch.linspace(-8, 8, 401, dtype=torch.double)
    density = (-z.square() / 2).exp()
    density = density / density.sum()
    slope = covar[0, 1] / covar[1, 1]
    left = (covar[0, 0] - slope * covar[0, 1]).clamp_min(0).sqrt()
    centers = mean[0] + slope * covar[1, 1].sqrt() * z
    p = model.likelihood.probability(centers[:, None] + left * z) @ density
    return (entropy(p @ density) - entropy(p) @ density).item()


@every_model
def test_formula(model: LatentGP) -> None:
    X, target = trials(model, 5)
    found = TargetedInformation(model, target)(X).detach()
    expected = [by_quadrature(model, trial, target) for trial in X]
    torch.testing.assert_close(found, double(expected), rtol=1e-4, atol=1e-7)


@every_model
def test_the_target_itself(model: LatentGP) -> None:
    """There it is all information; elsewhere it is less."""
    X, target = trials(model, 9)
    acqf, all_of_it = (
        TargetedInformation(model, target),
        BernoulliMutualInformation(model),
    )
    torch.testing.assert_close(acqf(target[None]), all_of_it(target[None]))
    assert bool((acqf(X) <= all_of_it(X) + 1e-12).all())
    assert bool((acqf(X)[[0, -1]] < 0.9 * all_of_it(X)[[0, -1]]).all())


def test_batches() -> None:
    """A batch of models is as good as one after the other."""
    X = uniform(2, 6, 3, seed=4)
    Y = (uniform(2, 6, 1, seed=5) > 0.5).double()
    target = SPACE.at_reference(uniform(2, 1, 2, seed=6))
    candidates = uniform(4, 2, 1, 3, seed=7)
    together = TargetedInformation(BinaryGP(X, Y, covar_module=kernel()), target)
    found = together.evaluate(candidates)  # 4 x 2
    for b in range(2):
        alone = BinaryGP(X[b], Y[b], covar_module=kernel())
        expected = TargetedInformation(alone, target[b]).evaluate(candidates[:, b])
        torch.testing.assert_close(found[:, b], expected)


def test_gradient() -> None:
    X, target = trials(MODELS[0], 3)
    acqf = TargetedInformation(MODELS[0], target)
    torch.autograd.gradcheck(acqf.evaluate, X.requires_grad_(), atol=1e-6)


@pytest.mark.parametrize(
    ("model", "rule"), [(MODELS[0], "ucb-target"), (MODELS[2], "muc-target")]
)
def test_rule(model: LatentGP, rule: str) -> None:
    """The context of the rule is the best of a line of contexts."""
    chosen = suggest(model, SPACE, rule, seed=0).reshape(-1, 3)
    line = torch.linspace(-1, 1, 201, dtype=torch.double)[:, None, None]
    with torch.no_grad():
        acqf = TargetedInformation(model, SPACE.at_reference(chosen[..., 1:]))
        best = acqf(SPACE.join(chosen[..., 1:], line)).max()
        assert float(acqf(chosen[None])) > float(best) - 1e-6


def test_without_contexts() -> None:
    space = ContextSpace(double([[0, 0], [1, 1]]))
    model = BinaryGP(uniform(5, 2), double([[0], [1], [0], [1], [1]]))
    assert suggest(model, space, "ucb-target", seed=0).shape == (1, 2)
