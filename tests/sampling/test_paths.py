r"""Tests of sample paths."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.acquisition.thompson_sampling import PathwiseThompsonSampling
from botorch.models.transforms import Normalize
from botorch.optim import optimize_acqf
from botorch.sampling.pathwise import draw_matheron_paths
from botorch.sampling.pathwise.posterior_samplers import get_matheron_path_model
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean, Mean
from torch import Tensor

from botorch_binary_context import (
    AdditiveContextKernel,
    BinaryLaplaceGP,
    MultiplicativeContextKernel,
    PreferenceLaplaceGP,
    draw_sample_paths,
    draw_weight_space_paths,
)
from botorch_binary_context.sampling import LaplaceSamplePaths
from tests.helpers import (
    LARGEST_Z,
    MODEL_CLASSES,
    AnyModel,
    ModelClass,
    RequireDevice,
    double,
    finite_difference,
    jacobian,
    join_rows,
    largest_z,
    latent,
    latent_covariance,
    random_model,
    random_trials,
    simple_kernel,
    uniform,
)

UNIT = double([[0.0, 0.0], [1.0, 1.0]])
NUM_PATHS = 20_000
# The error of the features' covariance, relative to the prior variance in the box.
FEATURE_ERROR = 5e-3

both_models = pytest.mark.parametrize("model_class", MODEL_CLASSES)
Draw = Callable[..., LaplaceSamplePaths]
both_kinds = pytest.mark.parametrize(
    "draw", [draw_sample_paths, draw_weight_space_paths]
)


class Slope(Mean):
    """A prior mean that rises along the first column."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def forward(self, x: Tensor) -> Tensor:
        return self.slope * x[..., 0]


def multiplicative_kernel() -> Kernel:
    return MultiplicativeContextKernel(simple_kernel(dim=1), context_dims=[0])


def additive_kernel() -> Kernel:
    kernel = AdditiveContextKernel(simple_kernel(dim=1), context_dims=[1])
    kernel.context_variance = 2.0
    return kernel


def product_kernel() -> Kernel:
    kernel = RBFKernel(active_dims=[1]) * simple_kernel(1)
    kernel.kernels[1].active_dims = torch.tensor([0])
    return kernel.double()


KERNELS: dict[str, Callable[[], Kernel]] = {
    "no context": simple_kernel,
    "multiplicative": multiplicative_kernel,
    "additive": additive_kernel,
}


def corner_model(
    model_class: ModelClass, n: int, kernel: Kernel, **kwargs: Any
) -> AnyModel:
    """All trials in the lower left quarter of the unit square."""
    X, Y = random_trials(model_class, n, seed=n)
    if model_class is PreferenceLaplaceGP:
        X[..., 1, 0] = X[..., 0, 0]
        X[..., 1, 1] = X[..., 0, 1].where(double(isinstance(kernel, AdditiveContextKernel)) > 0, X[..., 1, 1])
    return model_class(X / 2, Y, covar_module=kernel, **kwargs)
