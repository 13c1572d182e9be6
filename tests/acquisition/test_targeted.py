r"""Tests of the information about the reference context."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.utils.sampling import draw_sobol_normal_samples
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
from botorch_binary_context.goals import AtContext, ContextAverage, Goal, WorstContext
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.optim import SearchOptions
from botorch_binary_context.rules.base import Selection
from botorch_binary_context.rules.contexts import most_targeted
from tests.tensors import double, uniform

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
    return information_by_quadrature(model, mean, covar)


def information_by_quadrature(model: LatentGP, mean: Tensor, covar: Tensor) -> float:
    """Of the outcome of a contrast, the first, about another latent value."""
    z = torch.linspace(-8, 8, 401, dtype=torch.double)
    density = (-z.square() / 2).exp()
    density = density / density.sum()
    slope = covar[0, 1] / covar[1, 1]
    left = (covar[0, 0] - slope * covar[0, 1]).clamp_min(0).sqrt()
    centers = mean[0] + slope * covar[1, 1].sqrt() * z
    p = model.likelihood.probability(centers[:, None] + left * z) @ density
    return (entropy(p @ density) - entropy(p) @ density).item()


@every_model
def test_information_equals_quadrature(model: LatentGP) -> None:
    X, target = trials(model, 5)
    found = TargetedInformation(model, target)(X).detach()
    expected = [by_quadrature(model, trial, target) for trial in X]
    torch.testing.assert_close(found, double(expected), rtol=1e-4, atol=1e-7)


@every_model
def test_the_target_itself(model: LatentGP) -> None:
    """There it is all information; elsewhere it is less."""
    X, target = trials(model, 9)
    acqf = TargetedInformation(model, target)
    all_of_it = BernoulliMutualInformation(model)
    torch.testing.assert_close(acqf(target[None]), all_of_it(target[None]))
    assert bool((acqf(X) <= all_of_it(X) + 1e-12).all())
    assert bool((acqf(X)[[0, -1]] < 0.9 * all_of_it(X)[[0, -1]]).all())


def test_batch_of_models_equals_one_after_the_other() -> None:
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


def test_gradient_of_the_information_equals_finite_differences() -> None:
    X, target = trials(MODELS[0], 3)
    acqf = TargetedInformation(MODELS[0], target)
    torch.autograd.gradcheck(acqf.evaluate, X.requires_grad_(), atol=1e-6)


@pytest.mark.parametrize(
    ("model", "rule"), [(MODELS[0], "ucb-target"), (MODELS[2], "muc-target")]
)
def test_rule_chooses_the_best_of_a_line_of_contexts(
    model: LatentGP, rule: str
) -> None:
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


CONTEXTS = double([[-0.8], [0.1], [0.9]])


@pytest.mark.parametrize("model", [MODELS[0], MODELS[2]], ids=["plain", "duels"])
def test_an_average_is_a_target(model: LatentGP) -> None:
    """By quadrature: the sum of all rows is one more contrast."""
    X, _ = trials(model, 4)
    sides = double(model.functional.weights)
    rows = SPACE.join(X[0, :, None, 1:], CONTEXTS)  # q x 3 x 3
    weights = (sides[:, None] * double([0.2, 0.5, 0.3])).flatten()
    acqf = TargetedInformation(model, rows.flatten(0, 1), weights=weights)
    found = acqf(X).detach()
    q = len(sides)
    for value, trial in zip(found, X, strict=True):
        posterior: Any = model.posterior(torch.cat([trial, rows.flatten(0, 1)]))
        both = torch.zeros(2, q + len(weights), dtype=torch.double)
        both[0, :q], both[1, q:] = sides, weights
        mean = both @ posterior.mean.squeeze(-1)
        covar = both @ posterior.distribution.covariance_matrix @ both.T
        expected = information_by_quadrature(model, mean, covar)
        assert abs(float(value) - expected) < 1e-4 * expected + 1e-7


@pytest.mark.parametrize("model", [MODELS[0], MODELS[2]], ids=["plain", "duels"])
@pytest.mark.parametrize("goal", [ContextAverage(CONTEXTS), WorstContext(CONTEXTS)])
def test_rule_with_several_contexts(model: LatentGP, goal: Goal) -> None:
    """By joint draws: the context whose latent value says most about the goal."""
    rule = {1: "ucb-target", 2: "muc-target"}[model.functional.num_rows]
    chosen = suggest(model, SPACE, rule, seed=0, goal=goal).reshape(-1, 3)
    x = chosen[:, 1:]
    line = torch.linspace(-1, 1, 21, dtype=torch.double)[:, None, None]
    candidates = torch.cat([chosen[None], SPACE.join(x, line)])  # 22 x q x 3
    rows = torch.cat([candidates.flatten(0, 1), goal.rows(SPACE, x).flatten(0, 1)])
    with torch.no_grad():
        posterior: Any = model.posterior(rows)
        values, vectors = torch.linalg.eigh(posterior.distribution.covariance_matrix)
        root = vectors * values.clamp_min(0).sqrt()
        points = draw_sobol_normal_samples(len(rows), 2**14, seed=1)
        draws = posterior.mean.squeeze(-1) + points.double() @ root.T
        ours, theirs = draws.split([22 * len(x), 3 * len(x)], dim=-1)
        sides = double(model.functional.weights)
        contrasts = ours.unflatten(-1, (22, -1)) @ sides
        target = goal.combine(theirs.unflatten(-1, (-1, 3)), model) @ sides
        joint = torch.cat([contrasts, target[:, None]], dim=-1).T
        mean = joint.mean(dim=-1)
        covar = joint.cov()
        if isinstance(goal, WorstContext):  # the linear part of what counts
            rho = covar[:-1, -1] / covar[-1, -1].sqrt()
            score = [_probit(model, mean[i], covar[i, i], rho[i]) for i in range(22)]
            assert score[0] > max(score[1:]) - 0.02 * max(score)
        else:
            pick = [
                information_by_quadrature(
                    model, mean[[i, -1]], covar[[i, -1]][:, [i, -1]]
                )
                for i in range(22)
            ]
            assert pick[0] > max(pick[1:]) - 0.01 * max(pick)


def _probit(model: LatentGP, mean: Tensor, variance: Tensor, rho: Tensor) -> float:
    """Information of a trial about what it covaries with."""
    explained = torch.minimum(rho.square(), variance)
    noise = 1 + variance - explained
    information = model.likelihood.mutual_information
    return float(information(mean / noise.sqrt(), explained / noise))  # pyright: ignore


def test_each_element_of_a_batch_has_a_context_to_be_good_in() -> None:
    """Two duels, each with a context of its own, as one after the other."""
    X = uniform(2, 8, 2, 3, seed=8) * double([2, 1, 1]) - double([1, 0, 0])
    X[..., 0] = X[..., :1, 0]
    Y = (X[..., 0, 1:2] > X[..., 1, 1:2]).double()
    contexts = double([[-0.7], [0.8]])
    parameters = uniform(2, 2, 2, seed=9)

    def select(X: Tensor, Y: Tensor, context: Tensor) -> Selection:
        model = PreferenceGP(X, Y, covar_module=kernel(), context_dims=[0]).eval()
        return Selection(model, SPACE, SearchOptions(), goal=AtContext(context))

    found = most_targeted(select(X, Y, contexts), parameters)
    for b in range(2):
        alone = select(X[b], Y[b], contexts[b])
        expected = most_targeted(alone, parameters[b])
        torch.testing.assert_close(found[b], expected, rtol=0, atol=1e-3)
