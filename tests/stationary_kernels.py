r"""Stationary kernels and their matrices."""

from __future__ import annotations

import math

from gpytorch.kernels import Kernel, MaternKernel, RBFKernel
from linear_operator import to_dense
from torch import Tensor


def stationary_kernel(nu: float, lengthscale: Tensor) -> RBFKernel | MaternKernel:
    """A kernel of smoothness ``nu`` with ``batch_shape x 1 x d`` lengthscales."""
    batch_shape, dim = lengthscale.shape[:-2], lengthscale.shape[-1]
    if nu == math.inf:
        kernel: RBFKernel | MaternKernel = RBFKernel(dim, batch_shape=batch_shape)
    else:
        kernel = MaternKernel(nu, ard_num_dims=dim, batch_shape=batch_shape)
    kernel = kernel.to(lengthscale)
    kernel.lengthscale = lengthscale
    return kernel


def matrix_of(kernel: Kernel, X: Tensor) -> Tensor:
    """GPyTorch's covariance matrix of the values at points."""
    return to_dense(kernel(X, X)).detach()
