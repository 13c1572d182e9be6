r"""
Squared distances between points, and their slopes in lengthscales.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch
from torch import Tensor

# From this dimension on, a matrix product is faster than summing over coordinates, and
# most points are far apart, so that its cancellation does not matter.
EXPANSION_DIM = 12
# Up to this size, all coordinate differences at once are faster than one by one.
MAX_DIFFERENCES = 10_000


def squared_distance(X1: Tensor, X2: Tensor) -> Tensor:
    r"""Squared Euclidean distances between two sets of points.

    Args:
        X1: A ``batch_shape x n x d`` tensor.
        X2: A ``batch_shape x m x d`` tensor.

    Returns:
        A ``batch_shape x n x m`` tensor.
    """
    if X1.shape[-1] >= EXPANSION_DIM:
        norms = X1.square().sum(-1, keepdim=True) + X2.square().sum(-1).unsqueeze(-2)
        return (norms - 2 * X1 @ X2.mT).clamp_min(0.0)
    return summed_squares(X1, X2)


def summed_squares(X1: Tensor, X2: Tensor) -> Tensor:
    r"""Squared distances from exact differences: zero between equal points.

    Args:
        X1: A ``batch_shape x n x d`` tensor.
        X2: A ``batch_shape x m x d`` tensor.

    Returns:
        A ``batch_shape x n x m`` tensor.
    """
    if X1.numel() * X2.shape[-2] <= MAX_DIFFERENCES:
        return (X1.unsqueeze(-2) - X2.unsqueeze(-3)).square().sum(dim=-1)
    columns1 = X1.unsqueeze(-2).unbind(-1)
    columns2 = X2.unsqueeze(-3).unbind(-1)
    squares = ((a - b).square() for a, b in zip(columns1, columns2, strict=True))
    return reduce(torch.add, squares)


def scaled_squared_distance(X1: Tensor, X2: Tensor, lengthscale: Tensor) -> Tensor:
    r"""Squared distances of fixed points, each coordinate in units of a lengthscale.

    The slopes in the lengthscales take one product of matrices, and no graph leads
    through the coordinates.

    Args:
        X1: A ``batch_shape x n x d`` tensor without a graph.
        X2: A ``batch_shape x m x d`` tensor without a graph.
        lengthscale: The lengthscales, ``batch_shape x 1 x d`` or ``batch_shape x 1 x
            1``.

    Returns:
        A ``batch_shape x n x m`` tensor.
    """
    return _ScaledDistance.apply(X1, X2, lengthscale)  # pyright: ignore


class _ScaledDistance(torch.autograd.Function):
    """Squared distances of scaled points, with ``∂ / ∂ℓ = -2 (x - x')² / ℓ³``."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, X1: Tensor, X2: Tensor, lengthscale: Tensor
    ) -> Tensor:
        ctx.save_for_backward(X1, X2, lengthscale)
        return squared_distance(X1 / lengthscale, X2 / lengthscale)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        X1, X2, lengthscale = ctx.saved_tensors
        (grad,) = grad_outputs
        center = X2.mean(dim=-2, keepdim=True)  # far from zero, digits would be lost
        A = X1 - center
        B = X2 - center
        # ``Σ g (a - b)² = Σ a (a Σ g - 2 g b) + Σ b² Σ g``, for every column.
        by_row = A * (A * grad.sum(dim=-1, keepdim=True) - 2 * (grad @ B))
        by_column = B.square() * grad.sum(dim=-2).unsqueeze(-1)
        total = by_row.sum(dim=-2, keepdim=True) + by_column.sum(dim=-2, keepdim=True)
        slope = -2 * total / lengthscale.pow(3)
        return None, None, slope.sum_to_size(lengthscale.shape)
