r"""
Default kernels, with priors that few trials cannot overrule.
"""

from __future__ import annotations

import torch
from botorch.models.utils.gpytorch_modules import (
    get_covar_module_with_dim_scaled_prior,
)
from gpytorch.kernels import ScaleKernel
from gpytorch.priors import GammaPrior


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
