r"""
Kernels of contexts times kernels of parameters: what is best may change with a context.

Contexts are in [-1, 1] and parameters in [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from gpytorch.priors import LogNormalPrior

from botorch_binary_context.models.defaults import (
    OUTPUTSCALE,
    SHORTEST_OF_FACTOR,
    scale_covar_module,
    widen,
)

# Medians of the priors of lengthscales, of contexts and of two parameters, and their
# standard deviation in the logarithm.
CONTEXT_LENGTHSCALE = 1.0
PARAMETER_LENGTHSCALE = 0.25
FACTOR_SPREAD = 0.5


def product_covar_module(
    contexts: Kernel, parameters: Kernel | None = None
) -> ScaleKernel:
    r"""``k₁(s,s') k₂(x,x')``, with an output scale.

    Args:
        contexts: ``k₁``, of unit variance.
        parameters: ``k₂``, of unit variance; None if there are no parameters.
    """
    kernel = contexts if parameters is None else contexts * parameters
    return scale_covar_module(kernel, OUTPUTSCALE)


def context_covar_module(columns: Sequence[int], batch_shape: torch.Size) -> RBFKernel:
    r"""The kernel of contexts, along which what is best changes slowly.

    Args:
        columns: The columns of the contexts.
        batch_shape: The batch shape of the model.
    """
    return _smooth(columns, CONTEXT_LENGTHSCALE, batch_shape)


def separate_covar_module(columns: Sequence[int], batch_shape: torch.Size) -> RBFKernel:
    r"""The kernel of parameters whose lengthscales have priors of their own.

    Args:
        columns: The columns of the parameters.
        batch_shape: The batch shape of the model.
    """
    lengthscale = widen(PARAMETER_LENGTHSCALE, max(len(columns), 2))
    return _smooth(columns, lengthscale, batch_shape)


def _smooth(
    columns: Sequence[int], lengthscale: float, batch_shape: torch.Size
) -> RBFKernel:
    """A squared exponential kernel of some columns, about as wide as given."""
    kernel = RBFKernel(
        active_dims=tuple(columns),
        ard_num_dims=len(columns),
        batch_shape=batch_shape,
        lengthscale_prior=LogNormalPrior(math.log(lengthscale), FACTOR_SPREAD),
        lengthscale_constraint=GreaterThan(SHORTEST_OF_FACTOR),
    )
    kernel.lengthscale = torch.full_like(kernel.lengthscale, lengthscale)
    return kernel
