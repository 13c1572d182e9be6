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
from gpytorch.kernels import ConstantKernel, RBFKernel, ScaleKernel
from gpytorch.priors import GammaPrior, LogNormalPrior

from botorch_binary_context.kernels import AdditiveContextKernel


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


def psychometric_covar_module(
    dim: int, context_dims: Sequence[int], batch_shape: torch.Size
) -> AdditiveContextKernel:
    r"""``θ s s' + k(x,x') + constant``, with priors for psychometric functions.

    For parameters in the unit cube and contexts in [-1, 1], where ``f(s,x) = a s +
    b(x)``: the slope ``a`` of a test that goes from too hard to too easy is about 5,
    the performance ``b`` varies by about 3 around a level that may be anywhere in the
    range of the contexts, and its peak may be as narrow as a quarter of the box.

    Args:
        dim: The number of columns of a trial.
        context_dims: The columns that are context.
        batch_shape: The batch shape of the model.

    Returns:
        The kernel, with a set of hyperparameters for each element of the batch.
    """
    num_parameters = dim - len(context_dims)
    location = math.log(0.25) + 0.5 * math.log(num_parameters / 2)
    lengthscale_prior = LogNormalPrior(location, 0.4)
    smooth = ScaleKernel(
        RBFKernel(
            ard_num_dims=num_parameters,
            batch_shape=batch_shape,
            lengthscale_prior=lengthscale_prior,
            lengthscale_constraint=GreaterThan(0.025),
        ),
        batch_shape=batch_shape,
        outputscale_prior=LogNormalPrior(math.log(9.0), 0.7),
    )
    smooth.base_kernel.lengthscale = math.exp(location)
    smooth.outputscale = 9.0
    level = ConstantKernel(batch_shape=batch_shape)
    level.constant = torch.full((*batch_shape, 1), 25.0)
    level.raw_constant.requires_grad_(False)
    kernel = AdditiveContextKernel(
        smooth + level, context_dims, LogNormalPrior(math.log(50.0), 0.7)
    )
    kernel.context_variance = 50.0
    return kernel
