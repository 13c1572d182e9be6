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
from botorch_binary_context.models import small_objective
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
    # A batch that shares its hyperparameters.
    shared = ScaleKernel(RBFKernel())
    batch = X.expand(2, *X.shape), Y.expand(2, *Y.shape)
    assert make_loss(BinaryGP(*batch, covar_module=shared)).small is None
    assert make_loss(BinaryGP(*batch)).small is not None


@pytest.mark.parametrize("model_class", [BinaryGP, PreferenceLaplaceGP])
def test_models_of_a_batch_are_those_alone(
    model_class: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    kind = BinaryLaplaceGP if model_class is BinaryGP else PreferenceLaplaceGP
    X, Y = random_trials(kind, 9, dim=2, batch_shape=(2, 3))
    loss = make_loss(model_class(X, Y))
    small = loss.small
    assert small is not None
    assert small.number == 6
    vector = loss.read()
    vector = vector + 0.3 * np.cos(np.arange(len(vector)))
    x = small.to_rows(vector)
    np.testing.assert_array_equal(small.to_vector(x), vector)
    values, slopes = small(x, np.arange(6))
    for model, (own_X, own_Y) in enumerate(
        zip(X.flatten(0, 1), Y.flatten(0, 1), strict=True)
    ):
        value, slope = make_loss(model_class(own_X, own_Y))(x[model])
        assert values[model] == pytest.approx(-value, abs=1e-8)
        np.testing.assert_allclose(slopes[model], -slope, rtol=0, atol=1e-6)
    # Some of them, one at a time.
    monkeypatch.setattr(small_objective, "CELLS_AT_ONCE", 1)
    some = np.array([4, 1])
    found = small(x[some], some)
    np.testing.assert_allclose(found[0], values[some], rtol=0, atol=1e-8)
    np.testing.assert_allclose(found[1], slopes[some], rtol=0, atol=1e-6)
    # The objective of a joint search is their sum.
    small.start = None
    value, slope = loss(vector)
    loss.small = None
    expected, expected_slope = loss(vector)
    assert value == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(slope, expected_slope, rtol=0, atol=1e-5)


def test_batches_of_too_many_squares_are_left_to_the_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, Y = random_trials(BinaryLaplaceGP, 6, dim=2, batch_shape=(3,))
    monkeypatch.setattr(small_objective, "MAX_CELLS", 3 * 2 * 36 - 1)
    assert make_loss(BinaryGP(X, Y)).small is None
    monkeypatch.setattr(small_objective, "MAX_CELLS", 3 * 2 * 36)
    assert make_loss(BinaryGP(X, Y)).small is not None


def test_a_posterior_that_is_not_found_is_left_to_the_graph() -> None:
    X, Y = random_trials(BinaryLaplaceGP, 8, dim=2)
    loss = make_loss(BinaryGP(X, Y))
    assert loss.small is not None
    x = loss.read()
    expected = loss(x)[0]
    # Nothing can be found from such sites.
    loss.small.start = np.full((1, 8, 2), np.nan)
    assert loss(x)[0] == pytest.approx(expected, abs=1e-6)
