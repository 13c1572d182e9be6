r"""Gradients of expectation propagation: against finite differences."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.settings import propagate_grads
from gpytorch.kernels import (
    MaternKernel,
    RBFKernel,
    ScaleKernel,
)
from gpytorch.means import ConstantMean
from torch import Tensor
from torch.func import functional_call

from botorch_binary_context import (
    ApproximateMarginalLogLikelihood,
    ProbitLikelihood,
)
from tests.derivatives import finite_difference, jacobian
from tests.inference.ep_cases import (
    DEFAULT,
    EXACT,
    RATES,
    Model,
    Prior,
    assert_near,
    every_rate,
    make_prior,
    moments,
    small_model,
)
from tests.tensors import double, uniform


class Loss(torch.nn.Module):
    """The marginal likelihood of the training data, as a function of parameters."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
        self.train()

    def forward(self) -> Tensor:
        model: Any = self.mll.model
        value: Any = self.mll(model(*model.train_inputs), model.train_targets)
        return value


def learned_model(kind: str) -> Model:
    """A model that learns its kernel, its mean and a lapse rate."""
    kernel = ScaleKernel(RBFKernel(ard_num_dims=2)) + ScaleKernel(MaternKernel(nu=2.5))
    model = small_model(
        kind,
        likelihood=ProbitLikelihood(0.5, 0.05, learn_lapse_rate=True),
        covar_module=kernel,
        mean_module=ConstantMean(),
    )
    for i, parameter in enumerate(model.parameters()):
        shift = uniform(*parameter.shape, seed=i) - 0.5
        parameter.data.add_(shift.reshape(parameter.shape))
    return model


@pytest.mark.parametrize("kind", ["outcomes", "duels", "both"])
def test_gradient_in_every_hyperparameter(kind: str) -> None:
    loss = Loss(learned_model(kind))
    names = dict(loss.named_parameters())
    assert len(names) == (5 if kind == "duels" else 6)
    found = torch.autograd.grad(loss(), list(names.values()))
    for (name, value), gradient in zip(names.items(), found, strict=True):

        def func(changed: Tensor, name: str = name) -> Tensor:
            return functional_call(loss, {name: changed}, (), tie_weights=False)

        expected = finite_difference(func, value.detach())
        assert_near(gradient, expected, atol=1e-11, rtol=1e-7)


def test_gradient_of_the_evidence_of_an_approximation() -> None:
    # Its sites carry no graph, so that it is stationary in them.
    for rates in RATES.values():
        prior = make_prior(5)
        likelihood = ProbitLikelihood(*rates)

        def evidence(mean: Tensor, prior: Prior = prior, likelihood=likelihood):
            changed = prior._replace(mean=mean)
            return EXACT.approximate(likelihood, *changed).log_evidence

        found = jacobian(evidence, prior.mean)
        assert_near(found, finite_difference(evidence, prior.mean), 1e-10)


@pytest.mark.parametrize(
    ("kind", "rates"),
    [
        ("outcomes", (0.0, 0.0)),
        ("outcomes", (0.5, 0.0)),
        ("outcomes", (0.1, 0.05)),
        ("duels", (0.0, 0.0)),
        ("both", (0.5, 0.0)),
    ],
)
class TestConditioning:
    @pytest.mark.parametrize("label", [0.0, 1.0])
    def test_is_differentiable_in_the_inputs(
        self, kind: str, rates: tuple[float, float], label: float
    ) -> None:
        model = small_model(kind, rates)
        shape = (2, 2, 2) if kind == "duels" else (2, 2)
        X = uniform(*shape, seed=6)
        Y = double([[label], [1 - label]])

        def func(X: Tensor) -> Tensor:
            conditioned = model.condition_on_observations(X, Y)
            return torch.stack(moments(conditioned, uniform(3, 2, seed=7)))

        found = jacobian(func, X)
        expected = finite_difference(func, X)
        assert expected.abs().max() > 0.1
        assert_near(found, expected, 1e-8)

    def test_default_tolerance_suffices(
        self, kind: str, rates: tuple[float, float]
    ) -> None:
        shape = (1, 2, 2) if kind == "duels" else (1, 2)
        X = uniform(*shape, seed=6)
        Y = double([[1.0]])
        gradients = []
        for inference in (EXACT, DEFAULT):
            model = small_model(kind, rates, inference)

            def func(X: Tensor, model: Model = model) -> Tensor:
                conditioned = model.condition_on_observations(X, Y)
                return torch.stack(moments(conditioned, uniform(3, 2, seed=7)))

            gradients.append(jacobian(func, X))
        assert_near(*gradients, atol=1e-4)


@every_rate
def test_approximation_is_differentiable_in_the_prior(
    rates: tuple[float, float],
) -> None:
    prior = make_prior(5)
    directions = uniform(2, 5, 5, seed=4) - 0.5
    directions = directions + directions.mT

    def func(inputs: Tensor) -> Tensor:
        """The posterior at the trials, as the prior moves."""
        K = prior.K + (0.1 * inputs[:2, None, None] * directions).sum(dim=0)
        moved = Prior(prior.mean + inputs[2:], K, prior.targets)
        found = moved.approximate(rates)
        mean = moved.mean + K @ found.weights
        return torch.cat([mean, K.diagonal() - found.explained_variance(K)])

    zero = torch.zeros(7, dtype=torch.double)
    assert_near(jacobian(func, zero), finite_difference(func, zero), 1e-8)


class Posterior(torch.nn.Module):
    """The posterior at some points, with a graph to the hyperparameters."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model.eval()

    def forward(self) -> Tensor:
        with propagate_grads(True):
            return torch.stack(moments(self.model, uniform(3, 2, seed=7)))


@pytest.mark.parametrize("kind", ["outcomes", "duels", "both"])
def test_posterior_is_differentiable_in_every_hyperparameter(kind: str) -> None:
    posterior = Posterior(learned_model(kind))
    for name, value in posterior.named_parameters():

        def func(changed: Tensor, name: str = name) -> Tensor:
            return functional_call(posterior, {name: changed}, (), tie_weights=False)

        start = value.detach().clone()
        assert_near(jacobian(func, start), finite_difference(func, start), 1e-9)
