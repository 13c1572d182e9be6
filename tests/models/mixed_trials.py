r"""Trials of two kinds and their models."""

from __future__ import annotations

from typing import Any

import torch
from gpytorch.kernels import ConstantKernel, Kernel
from torch import Tensor

from botorch_binary_context import (
    MixedGP,
    Observations,
    PreferenceLikelihood,
    ProbitLikelihood,
    SearchOptions,
)
from botorch_binary_context.inference import (
    ExpectationPropagation,
    Laplace,
)
from tests.small_models import simple_kernel
from tests.tensors import double, uniform

EXACT = ExpectationPropagation(tolerance=1e-10)


INFERENCES = [EXACT, Laplace()]


TEST_X = uniform(5, 2, seed=3)


QUICK = SearchOptions(num_restarts=2, raw_samples=16, max_evaluations=10)


UNIT = double([[0.0, 0.0], [1.0, 1.0]])


def outcomes(n: int = 6, *batch_shape: int, seed: int = 0) -> Observations:
    """Outcomes of two-alternative tests."""
    X = uniform(*batch_shape, n, 2, seed=seed)
    Y = (uniform(*batch_shape, n, 1, seed=seed + 1) > 0.4).double()
    return Observations(X, Y, ProbitLikelihood(0.5))


def duels(n: int = 5, *batch_shape: int, seed: int = 10) -> Observations:
    X = uniform(*batch_shape, n, 2, 2, seed=seed)
    Y = (uniform(*batch_shape, n, 1, seed=seed + 1) > 0.5).double()
    return Observations(X, Y, PreferenceLikelihood())


def mixed(*observations: Observations, **kwargs: Any) -> MixedGP:
    """A model with a kernel that needs no fit."""
    kinds = observations or (outcomes(), duels())
    kwargs = {"covar_module": offset_kernel(), "inference": EXACT, **kwargs}
    return MixedGP(list(kinds), **kwargs)


def offset_kernel(variance: float = 2.0) -> Kernel:
    """A smooth function plus an offset."""
    return simple_kernel() + constant_kernel(variance)


def constant_kernel(variance: float) -> ConstantKernel:
    return ConstantKernel().double().initialize(constant=double([variance]))


def moments(model: Any, X: Tensor = TEST_X) -> tuple[Tensor, Tensor]:
    posterior = model.posterior(X)
    return posterior.mean, posterior.distribution.covariance_matrix


def evidence(model: Any) -> Tensor:
    return model.eval().approximation.log_evidence


def assert_same(
    first: Any, second: Any, X: Tensor = TEST_X, atol: float = 1e-9
) -> None:
    """The posterior and the evidence of two models agree."""
    pairs = zip(
        (*moments(first, X), evidence(first)),
        (*moments(second, X), evidence(second)),
        strict=True,
    )
    for found, expected in pairs:
        torch.testing.assert_close(found, expected, rtol=0, atol=atol)
