r"""
Dense covariance matrices of GPyTorch kernels, evaluated directly.

At the sizes of an experiment with binary outcomes (tens to a thousand trials)
GPyTorch's lazily evaluated kernels cost more than the linear algebra that follows.
Common kernels are therefore evaluated here directly: as a plain tensor, from exact
coordinate differences (no cancellation between near points), twice differentiable in
the inputs and in the hyperparameters. Any other kernel goes through GPyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from gpytorch import settings
from gpytorch.kernels import (
    AdditiveKernel,
    ConstantKernel,
    Kernel,
    MaternKernel,
    ProductKernel,
    RBFKernel,
    ScaleKernel,
)
from linear_operator import to_dense
from torch import Tensor

from botorch_binary_context.numerics.distances import (
    scaled_squared_distance,
    squared_distance,
    summed_squares,
)

# Added to squared distances before a square root. The slope of the root then stays
# finite, and multiplied by the zero difference of equal points it gives an exactly zero
# gradient. This is for kernels with a kink; smooth ones add the rounding unit, which
# leaves half the digits of the slope, and so the second derivative at equal points.
ROOT_GUARD = 1e-36

MatrixRule = Callable[[Any, Tensor, Tensor], Tensor]
DiagonalRule = Callable[[Any, Tensor], Tensor]
_RULES: dict[type[Kernel], tuple[MatrixRule, DiagonalRule]] = {}


def register_evaluation(
    kernel_type: type[Kernel], matrix: MatrixRule, diagonal: DiagonalRule
) -> None:
    r"""Evaluate kernels of exactly this type by the given functions.

    Args:
        kernel_type: The class of kernels; subclasses are not included, since they may
            compute something else.
        matrix: Maps the kernel, ``... x n x d`` and ``... x m x d`` inputs to the
            ``... x n x m`` covariance. Columns are already those of ``active_dims``.
        diagonal: Maps the kernel and ``... x n x d`` inputs to the ``... x n``
            variance.
    """
    _RULES[kernel_type] = (matrix, diagonal)


def covariance(kernel: Kernel, X1: Tensor, X2: Tensor) -> Tensor:
    r"""The prior covariance of the latent values at two sets of points.

    Args:
        kernel: A GPyTorch kernel.
        X1: A ``batch_shape x n x d`` tensor.
        X2: A ``batch_shape x m x d`` tensor.

    Returns:
        A ``batch_shape x n x m`` tensor.
    """
    if type(kernel) not in _RULES:
        return to_dense(kernel(X1, X2))
    return _matrix(kernel, _active(kernel, X1), _active(kernel, X2))


def variance(kernel: Kernel, X: Tensor) -> Tensor:
    r"""The prior variance of the latent values at points.

    Args:
        kernel: A GPyTorch kernel.
        X: A ``batch_shape x n x d`` tensor.

    Returns:
        A ``batch_shape x n`` tensor.
    """
    if type(kernel) not in _RULES:
        return to_dense(kernel(X, diag=True))
    return _diagonal(kernel, _active(kernel, X))


def clamp_variance(variance: Tensor) -> Tensor:
    r"""Clamp variances to the smallest value that GPyTorch allows.

    Args:
        variance: A tensor of any shape.

    Returns:
        A tensor of the same shape.
    """
    lowest: Any = settings.min_variance.value(variance.dtype)
    return variance.clamp_min(lowest)


def raise_variance(covar: Tensor) -> Tensor:
    r"""Raise variances that rounding took below what GPyTorch allows.

    Args:
        covar: A ``batch_shape x n x n`` covariance.

    Returns:
        A tensor of the same shape.
    """
    diagonal = covar.diagonal(dim1=-2, dim2=-1)
    lowest: Any = settings.min_variance.value(covar.dtype)
    # Exactly the lowest value (a sum could round to below it), with the gradient kept.
    lifted = lowest + (diagonal - diagonal.detach())
    diagonal = torch.where(diagonal < lowest, lifted, diagonal)
    return covar.diagonal_scatter(diagonal, dim1=-2, dim2=-1)


def _active(kernel: Kernel, X: Tensor) -> Tensor:
    active_dims: Any = kernel.active_dims
    return X if active_dims is None else X.index_select(-1, active_dims)


def _matrix(kernel: Kernel, X1: Tensor, X2: Tensor) -> Tensor:
    """The covariance, given the active columns."""
    rule = _RULES.get(type(kernel))
    return rule[0](kernel, X1, X2) if rule else to_dense(kernel.forward(X1, X2))


def _diagonal(kernel: Kernel, X: Tensor) -> Tensor:
    """The variance, given the active columns."""
    rule = _RULES.get(type(kernel))
    return rule[1](kernel, X) if rule else to_dense(kernel.forward(X, X, diag=True))


def _per_matrix(value: Tensor) -> Tensor:
    """A hyperparameter of shape ``batch_shape``, broadcast over a matrix."""
    return value[..., None, None] if value.ndim else value


def _per_vector(value: Tensor) -> Tensor:
    return value[..., None] if value.ndim else value


def _scaled_squared_distance(
    kernel: RBFKernel | MaternKernel, X1: Tensor, X2: Tensor
) -> Tensor:
    lengthscale = kernel.lengthscale
    is_fixed = not (X1.requires_grad or X2.requires_grad)
    if is_fixed and lengthscale.requires_grad and torch.is_grad_enabled():
        return scaled_squared_distance(X1, X2, lengthscale)
    return squared_distance(X1 / lengthscale, X2 / lengthscale)


def _rbf(kernel: RBFKernel, X1: Tensor, X2: Tensor) -> Tensor:
    return (-0.5 * _scaled_squared_distance(kernel, X1, X2)).exp()


def _matern(kernel: MaternKernel, X1: Tensor, X2: Tensor) -> Tensor:
    if kernel.nu == 0.5:  # with a kink: distances must be exact
        lengthscale = kernel.lengthscale
        squared = summed_squares(X1 / lengthscale, X2 / lengthscale)
        return (-(squared + ROOT_GUARD).sqrt()).exp()
    squared = 2 * kernel.nu * _scaled_squared_distance(kernel, X1, X2)
    r = (squared + torch.finfo(squared.dtype).eps).sqrt()
    if kernel.nu == 1.5:
        return (1 + r) * (-r).exp()
    return (1 + r + squared / 3) * (-r).exp()


def _one(kernel: RBFKernel | MaternKernel, X: Tensor) -> Tensor:
    # Made a function of X, so that the gradient exists (and is zero).
    ones = 0.0 * X.sum(dim=-1) + 1.0
    if not kernel.batch_shape:
        return ones
    return ones.expand(torch.broadcast_shapes(ones.shape, (*kernel.batch_shape, 1)))


def _scale(kernel: ScaleKernel, X1: Tensor, X2: Tensor) -> Tensor:
    # A ``ScaleKernel`` takes over the active columns of its base kernel.
    return _per_matrix(kernel.outputscale) * _matrix(kernel.base_kernel, X1, X2)


def _scale_diagonal(kernel: ScaleKernel, X: Tensor) -> Tensor:
    return _per_vector(kernel.outputscale) * _diagonal(kernel.base_kernel, X)


def _parts(kernel: AdditiveKernel | ProductKernel) -> list[Any]:
    return list(kernel.kernels)


def _sum(kernel: AdditiveKernel, X1: Tensor, X2: Tensor) -> Tensor:
    return reduce(torch.add, (covariance(k, X1, X2) for k in _parts(kernel)))


def _sum_diagonal(kernel: AdditiveKernel, X: Tensor) -> Tensor:
    return reduce(torch.add, (variance(k, X) for k in _parts(kernel)))


def _product(kernel: ProductKernel, X1: Tensor, X2: Tensor) -> Tensor:
    return reduce(torch.mul, (covariance(k, X1, X2) for k in _parts(kernel)))


def _product_diagonal(kernel: ProductKernel, X: Tensor) -> Tensor:
    return reduce(torch.mul, (variance(k, X) for k in _parts(kernel)))


def _constant(kernel: ConstantKernel, X1: Tensor, X2: Tensor) -> Tensor:
    if kernel.batch_shape or X1.ndim > 2 or X2.ndim > 2:
        return kernel.forward(X1, X2)
    # Without the arithmetic of batch shapes, which takes longer than the rest.
    return kernel.constant.to(X1).expand(X1.shape[-2], X2.shape[-2])


def _constant_diagonal(kernel: ConstantKernel, X: Tensor) -> Tensor:
    if kernel.batch_shape:
        return kernel.forward(X, X, diag=True)
    return kernel.constant.to(X).expand(X.shape[:-1])


register_evaluation(RBFKernel, _rbf, _one)
register_evaluation(MaternKernel, _matern, _one)
register_evaluation(ScaleKernel, _scale, _scale_diagonal)
register_evaluation(AdditiveKernel, _sum, _sum_diagonal)
register_evaluation(ProductKernel, _product, _product_diagonal)
register_evaluation(ConstantKernel, _constant, _constant_diagonal)
