r"""
Default kernels, with priors that few trials cannot overrule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from botorch.models.utils.gpytorch_modules import (
    get_covar_module_with_dim_scaled_prior,
)
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import AdditiveKernel, ConstantKernel, MaternKernel, ScaleKernel
from gpytorch.priors import GammaPrior, LogNormalPrior

from botorch_binary_context.kernels import AdditiveContextKernel

# Of psychometric functions, with parameters in [0, 1] and contexts in [-1, 1].
CONTEXT_VARIANCE = 4.0
OUTPUTSCALE, OUTPUTSCALE_SPREAD = 9.0, 0.7
LENGTHSCALE, LENGTHSCALE_SPREAD = 0.4, 0.4
SHORTEST = 0.02
LEVEL_VARIANCE = 25.0
# Of any pass/fail outcomes: passes may be common or rare.
BINARY_LEVEL_VARIANCE = 4.0


def default_covar_module(dim: int, batch_shape: torch.Size) -> ScaleKernel:
    r"""A squared exponential kernel with priors that ten trials cannot overrule.

    Lengthscales have BoTorch's dimension-scaled prior, for inputs in the unit cube. The
    output scale, which says how sure the outcomes get at the best and worst points, has
    a Gamma(2, 0.5) prior: latent standard deviations of one to three.

    Args:
        dim: The number of columns of a trial.
        batch_shape: The batch shape of the model.

    Returns:
        The kernel, with a set of hyperparameters for each element of the batch.
    """
    kernel = ScaleKernel(
        get_covar_module_with_dim_scaled_prior(dim, batch_shape),
        batch_shape=batch_shape,
        outputscale_prior=GammaPrior(2.0, 0.5),
    )
    kernel.outputscale = 2.0
    return kernel


def binary_covar_module(dim: int, batch_shape: torch.Size) -> AdditiveKernel:
    r"""The same and a level: passes may be rare, or failures, wherever one looks.

    Args:
        dim: The number of columns of a trial.
        batch_shape: The batch shape of the model.

    Returns:
        The kernel, with a set of hyperparameters for each element of the batch.
    """
    level = level_covar_module(BINARY_LEVEL_VARIANCE, batch_shape)
    return AdditiveKernel(default_covar_module(dim, batch_shape), level)


def psychometric_covar_module(
    dim: int, context_dims: Sequence[int], batch_shape: torch.Size
) -> AdditiveContextKernel:
    r"""``θ s s' + k(x,x') + constant``, with priors for psychometric functions.

    For parameters in the unit cube and contexts in [-1, 1]. A Matérn kernel bends to
    the sharp peak of a performance that is flat far from it, where a squared
    exponential would have to be short everywhere.

    Args:
        dim: The number of columns of a trial.
        context_dims: The columns that are context.
        batch_shape: The batch shape of the model.

    Returns:
        The kernel, with a set of hyperparameters for each element of the batch.
    """
    num_parameters = dim - len(context_dims)
    lengthscale = LENGTHSCALE * math.sqrt(num_parameters / 2)
    smooth = ScaleKernel(
        MaternKernel(
            nu=2.5,
            ard_num_dims=num_parameters,
            batch_shape=batch_shape,
            lengthscale_prior=LogNormalPrior(math.log(lengthscale), LENGTHSCALE_SPREAD),
            lengthscale_constraint=GreaterThan(SHORTEST),
        ),
        batch_shape=batch_shape,
        outputscale_prior=LogNormalPrior(math.log(OUTPUTSCALE), OUTPUTSCALE_SPREAD),
    )
    smooth.base_kernel.initialize(lengthscale=lengthscale)
    smooth.outputscale = OUTPUTSCALE
    kernel = AdditiveContextKernel(
        smooth + level_covar_module(LEVEL_VARIANCE, batch_shape), context_dims
    )
    kernel.context_variance = CONTEXT_VARIANCE
    kernel.raw_context_variance.requires_grad_(False)
    return kernel


def level_covar_module(variance: float, batch_shape: torch.Size) -> ConstantKernel:
    r"""The level of the performance, which may be anywhere; it is not learned.

    Args:
        variance: How far from zero it may be.
        batch_shape: The batch shape of the model.

    Returns:
        The kernel.
    """
    level = ConstantKernel(batch_shape=batch_shape)
    level.constant = variance * torch.ones_like(level.constant)
    return level.requires_grad_(False)
