r"""Tests of the information about the gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import LinearKernel, RBFKernel, ScaleKernel
from torch import Tensor

from botorch_binary_context import (
    AtContext,
    BinaryGP,
    ContextAverage,
    ContextSpace,
    GradientInformation,
    PreferenceGP,
    ProbitLikelihood,
    WorstContext,
    recommend,
    suggest,
)
from botorch_binary_context.goals import Goal
from botorch_binary_context.models.latent_gp import LatentGP
from tests.devices import RequireDevice
from tests.tensors import double, uniform

SPACE = ContextSpace(double([[-1, 0, 0], [1, 1, 1]]), [0], [0.3])


def kernel() -> ScaleKernel:
    """What is best changes with the context."""
    contexts = RBFKernel(active_dims=(0,))
    parameters = RBFKernel(active_dims=(1, 2), ard_num_dims=2)
    product = ScaleKernel(contexts * parameters).double()
    product.outputscale = 4.0
    return product


def passed(X: Tensor) -> Tensor:
    """Best in the middle."""
    return ((X[..., 1:] - 0.5).square().sum(dim=-1, keepdim=True) < 0.1).double()


def outcomes(*batch: int, seed: int = 1, **kwargs: Any) -> BinaryGP:
    X = uniform(*batch, 15, 3, seed=seed) * double([2, 1, 1]) - double([1, 0, 0])
    return BinaryGP(X, passed(X), covar_module=kernel(), **kwargs).eval()


def duels() -> PreferenceGP:
    X = uniform(15, 2, 3, seed=2) * double([2, 1, 1]) - double([1, 0, 0])
    X[:, 1, 0] = X[:, 0, 0]
    distance = (X[..., 1:] - 0.5).square().sum(dim=-1)
    Y = (distance[:, :1] < distance[:, 1:]).double()
    return PreferenceGP(X, Y, covar_module=kernel(), context_dims=[0]).eval()


MODELS = [
    outcomes(),
    outcomes(likelihood=ProbitLikelihood(guess_rate=0.25, lapse_rate=0.05)),
    duels(),
]
every_model = pytest.mark.parametrize("model", MODELS, ids=["plain", "rates", "duels"])


def candidates(model: LatentGP, number: int, *batch: int) -> Tensor:
    """Trials; the sides of a duel have one context."""
    sides = model.functional.num_rows
    X = uniform(number, *batch, sides, 3, seed=3) * double([2, 1, 1])
    X = X - double([1, 0, 0])
    X[..., 0] = X[..., :1, 0]
    return X


def entropy(p: Tensor) -> Tensor:
    return -(torch.special.xlogy(p, p) + torch.special.xlogy(1 - p, 1 - p))


def around(model: LatentGP, step: float, goal: Goal | None = None) -> Tensor:
    """Parameters a step up from the best and down from it, in turn."""
    best = recommend(model, SPACE, goal=goal)
    steps = step * torch.eye(2, dtype=torch.double)
    return torch.stack([best + steps, best - steps], dim=1).flatten(0, 1).clamp(0, 1)


def by_quadrature(model: LatentGP, trial: Tensor, rows: Tensor, K: int = 1) -> float:
    """``H(c) - E_g H(c|g)`` on a grid of the joint posterior of the gradient.

    Each entry of the gradient is the difference of two means of ``K`` rows.
    """
    posterior: Any = model.posterior(torch.cat([trial, rows]))
    q = len(trial)
    weights = torch.zeros(3, q + 4 * K, dtype=torch.double)
    weights[0, :q] = double([1, -1][:q])
    for i in (0, 1):
        first = q + 2 * K * i
        weights[1 + i, first : first + K] = 1 / K
        weights[1 + i, first + K : first + 2 * K] = -1 / K
    mean = (weights @ posterior.mean.squeeze(-1))[0]
    covar = weights @ posterior.distribution.covariance_matrix @ weights.T
    z = torch.linspace(-8, 8, 301, dtype=torch.double)
    density = (-z.square() / 2).exp()
    density = density / density.sum()
    # In coordinates in which the gradient is a standard normal, one grid for each.
    loading = torch.linalg.solve(torch.linalg.cholesky(covar[1:, 1:]), covar[1:, 0])
    left = (covar[0, 0] - loading.square().sum()).clamp_min(0).sqrt()
    total = torch.zeros((), dtype=torch.double)
    overall = torch.zeros((), dtype=torch.double)
    for weight, u in zip(density, z, strict=True):
        centers = mean + loading[0] * u + loading[1] * z
        p = model.likelihood.probability(centers[:, None] + left * z) @ density
        total += weight * (entropy(p) @ density)
        overall += weight * (p @ density)
    return (entropy(overall) - total).item()


@every_model
def test_information_equals_quadrature(model: LatentGP) -> None:
    X = candidates(model, 4)
    rows = SPACE.at_reference(around(model, 0.1))
    found = GradientInformation(model, SPACE, step=0.1)(X).detach()
    expected = [by_quadrature(model, trial, rows) for trial in X]
    torch.testing.assert_close(found, double(expected), rtol=1e-3, atol=1e-7)


def test_of_an_average_over_contexts() -> None:
    model = MODELS[0]
    goal = ContextAverage([-0.5, 0.1, 0.8])
    rows = goal.rows(SPACE, around(model, 0.1, goal)).flatten(0, 1)
    X = candidates(model, 3)
    found = GradientInformation(model, SPACE, step=0.1, goal=goal)(X).detach()
    expected = [by_quadrature(model, trial, rows, K=3) for trial in X]
    torch.testing.assert_close(found, double(expected), rtol=1e-3, atol=1e-7)


def test_of_the_worst_case_equals_that_of_its_only_context() -> None:
    model = MODELS[0]
    X = candidates(model, 5)
    found = [
        GradientInformation(model, SPACE, goal=goal)(X)
        for goal in (WorstContext([0.4]), AtContext(0.4))
    ]
    torch.testing.assert_close(found[0], found[1], rtol=1e-3, atol=1e-7)


def test_of_a_linear_function_is_of_its_slopes() -> None:
    """Then it does not depend on the step, nor on where the best parameters are."""
    X = uniform(10, 3) * double([2, 1, 1]) - double([1, 0, 0])
    linear = LinearKernel(active_dims=(1, 2)).double()
    model = BinaryGP(X, passed(X), covar_module=linear).eval()
    trials = candidates(model, 6)
    found = [GradientInformation(model, SPACE, step=s)(trials) for s in (0.01, 0.2)]
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-8)
    # The slopes determine the function.
    everything = model.likelihood.mutual_information(*model.moments(trials))
    torch.testing.assert_close(found[0], everything, rtol=1e-4, atol=1e-7)


def test_batch_is_as_single_models() -> None:
    batch = outcomes(2)
    contexts = double([[-0.6], [0.7]])
    X = candidates(batch, 4, 2)
    acqf = GradientInformation(batch, SPACE, goal=AtContext(contexts))
    found = acqf.evaluate(X)  # 4 x 2
    for b in range(2):
        train = batch.train_inputs[0][b]
        alone = BinaryGP(train, passed(train), covar_module=kernel())
        single = GradientInformation(alone, SPACE, goal=AtContext(contexts[b]))
        expected = single.evaluate(X[:, b])
        torch.testing.assert_close(found[:, b], expected, rtol=1e-4, atol=1e-8)


def test_slopes_equal_finite_differences() -> None:
    X = candidates(MODELS[0], 3)
    acqf = GradientInformation(MODELS[0], SPACE)
    torch.autograd.gradcheck(acqf.evaluate, X.requires_grad_(), atol=1e-6)


def test_at_a_corner_differences_have_one_side() -> None:
    """Where passing gets likelier toward a corner, the steps stay in the box."""
    X = uniform(30, 3, seed=5) * double([2, 1, 1]) - double([1, 0, 0])
    Y = (X[:, 1:].sum(dim=-1, keepdim=True) > 1.2).double()
    model = BinaryGP(X, Y, covar_module=kernel()).eval()
    best = recommend(model, SPACE)
    assert (best > 1 - 1e-6).any()
    rows = SPACE.at_reference(around(model, 0.1))
    trials = candidates(model, 3)
    found = GradientInformation(model, SPACE, step=0.1)(trials).detach()
    expected = [by_quadrature(model, trial, rows) for trial in trials]
    torch.testing.assert_close(found, double(expected), rtol=1e-3, atol=1e-7)


def test_rule_suggests_the_best_of_many_trials() -> None:
    model = MODELS[0]
    trial = suggest(model, SPACE, "gradient", seed=0)
    acqf = GradientInformation(model, SPACE)
    X = SPACE.draw_quasi_random(2000, seed=0).unsqueeze(-2)
    with torch.no_grad():
        assert acqf(trial[None]) > acqf(X).max() - 1e-6


def test_rule_tests_the_flanks_of_a_known_peak() -> None:
    """Not the best parameters themselves, at which the gradient hardly shows."""
    model = outcomes()
    trial = suggest(model, SPACE, "gradient", seed=0)
    best = recommend(model, SPACE)
    assert (trial[0, 1:] - best).norm() > 0.1


def test_makes_nothing_on_the_default_device() -> None:
    with RequireDevice():
        acqf = GradientInformation(outcomes(), SPACE)
        found = acqf(candidates(MODELS[0], 2))
    assert found.shape == (2,)


@pytest.mark.filterwarnings("ignore:The model inputs are of type torch.float32")
def test_single_precision() -> None:
    X = uniform(12, 3).float()
    model = BinaryGP(X, passed(X).float(), covar_module=kernel().float()).eval()
    found = GradientInformation(model, SPACE)(candidates(model, 4).float())
    assert found.dtype == torch.float32
    assert found.isfinite().all()


@pytest.mark.parametrize("step", [0.0, -0.1, 0.6])
def test_refuses_steps_out_of_the_box(step: float) -> None:
    with pytest.raises(InputDataError, match="``step`` to be above 0"):
        GradientInformation(MODELS[0], SPACE, step=step)


def test_needs_parameters() -> None:
    space = ContextSpace(double([[-1.0], [1.0]]), [0], [0.0])
    model = BinaryGP(uniform(3, 1), double([[0.0], [1.0], [1.0]]))
    with pytest.raises(InputDataError, match="``space`` to have parameters"):
        GradientInformation(model, space)


def test_rule_without_parameters_is_informative_about_the_threshold() -> None:
    space = ContextSpace(double([[-1.0], [1.0]]), [0], [0.0])
    model = BinaryGP(uniform(3, 1), double([[0.0], [1.0], [1.0]]))
    trials = [suggest(model, space, rule, seed=0) for rule in ("gradient", "bald")]
    torch.testing.assert_close(*trials)
