from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from botorch.optim.utils import get_parameters_and_bounds
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import (
    Kernel,
    MaternKernel,
    PeriodicKernel,
    RBFKernel,
    ScaleKernel,
)
from gpytorch.means import ConstantMean
from gpytorch.priors import GammaPrior

from botorch_binary_context import (
    ApproximateMarginalLogLikelihood,
    BinaryGP,
    BinaryLaplaceGP,
    MultiplicativeContextKernel,
    PreferenceGP,
    PreferenceLaplaceGP,
)
from botorch_binary_context.models.defaults import (
    duel_covar_module,
    psychometric_covar_module,
    varying_slope_covar_module,
)
from botorch_binary_context.models.fitting import _Loss
from botorch_binary_context.models.priors import PooledLogNormalPrior
from tests.small_models import random_trials

NO_BATCH = torch.Size()


def pooled() -> Kernel:
    prior = PooledLogNormalPrior(math.log(0.5), common=0.5, own=0.3)
    return ScaleKernel(RBFKernel(ard_num_dims=2, lengthscale_prior=prior))


def columns() -> Kernel:
    """One lengthscale of one column, times another context, plus all columns."""
    one = ScaleKernel(MaternKernel(1.5, active_dims=(1,)))
    bounded = RBFKernel(lengthscale_constraint=GreaterThan(0.1))
    return one + MultiplicativeContextKernel(ScaleKernel(bounded), [0])


KERNELS = {
    "default": lambda: None,
    "duels": lambda: duel_covar_module(2, NO_BATCH),
    "psychometric": lambda: psychometric_covar_module(2, [0], NO_BATCH),
    "slopes": lambda: varying_slope_covar_module(2, [0], NO_BATCH),
    "pooled": pooled,
    "columns": columns,
}


def make_loss(model: Any) -> _Loss:
    mll = ApproximateMarginalLogLikelihood(model.likelihood, model).train()
    parameters, _ = get_parameters_and_bounds(mll, requires_grad=True)
    return _Loss(mll, parameters)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(
    "model_class", [BinaryGP, BinaryLaplaceGP, PreferenceGP, PreferenceLaplaceGP]
)
def test_agrees_with_the_graph(model_class: Any, name: str) -> None:
    torch.manual_seed(0)
    is_duel = model_class in (PreferenceGP, PreferenceLaplaceGP)
    kind = PreferenceLaplaceGP if is_duel else BinaryLaplaceGP
    X, Y = random_trials(kind, 12, dim=2)
    if is_duel:  # sides share their context
        X[:, 1, 0] = X[:, 0, 0]
    loss = make_loss(model_class(X, Y, covar_module=KERNELS[name]()).double())
    assert loss.small is not None
    begin = loss.read()
    for shift in (0.0, 0.3, -0.4):
        x = begin + shift * np.cos(np.arange(len(begin)))
        value, slope = loss(x)
        small, loss.small = loss.small, None
        expected, expected_slope = loss(x)
        loss.small = small
        # Priors keep their numbers in single precision.
        accuracy = 1e-8 if "Laplace" in model_class.__name__ else 1e-5
        assert value == pytest.approx(expected, abs=accuracy)
        np.testing.assert_allclose(slope, expected_slope, rtol=0, atol=accuracy)


def test_leaves_other_models_to_the_graph() -> None:
    X, Y = random_trials(BinaryLaplaceGP, 6, dim=2)
    prior = ScaleKernel(RBFKernel(lengthscale_prior=GammaPrior(3.0, 6.0)))
    cases: list[dict[str, Any]] = [
        {"covar_module": ScaleKernel(PeriodicKernel())},
        {"covar_module": prior},
        {"mean_module": ConstantMean()},
    ]
    for options in cases:
        assert make_loss(BinaryGP(X, Y, **options)).small is None
    batch = BinaryGP(X.expand(2, *X.shape), Y.expand(2, *Y.shape))
    assert make_loss(batch).small is None


def test_a_posterior_that_is_not_found_is_left_to_the_graph() -> None:
    X, Y = random_trials(BinaryLaplaceGP, 8, dim=2)
    loss = make_loss(BinaryGP(X, Y))
    assert loss.small is not None
    x = loss.read()
    expected = loss(x)[0]
    # Nothing can be found from such sites.
    loss.small.start = np.full((8, 2), np.nan)
    assert loss(x)[0] == pytest.approx(expected, abs=1e-6)
