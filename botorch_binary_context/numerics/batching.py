r"""
Folding the batch dimensions that only a test point has into its rows.

A model with batch shape ``B`` is evaluated at ``t x B x q x d`` points. Its training
data do not depend on ``t``, so the ``t q`` rows of an element make one matrix, and one
product with the training data serves them all.
"""

from __future__ import annotations

import torch
from torch import Tensor


def expand_batch(X: Tensor, batch_shape: torch.Size) -> Tensor:
    r"""Broadcast the batch dimensions of points with the model's.

    Args:
        X: A ``t x batch_shape x q x d`` tensor, or one that broadcasts to it.
        batch_shape: The batch shape of the model.

    Returns:
        A ``t x batch_shape x q x d`` tensor.
    """
    if X.shape[max(X.ndim - 2 - len(batch_shape), 0) : -2] == batch_shape:
        return X
    batch = torch.broadcast_shapes(X.shape[:-2], batch_shape)
    return X.expand(batch + X.shape[-2:])


def fold(X: Tensor, num_batch: int) -> Tensor:
    r"""``t x batch_shape x q x d`` to ``batch_shape x (t q) x d``.

    Args:
        X: The points.
        num_batch: The number of dimensions of ``batch_shape``.

    Returns:
        A ``batch_shape x (t q) x d`` tensor.
    """
    extra = X.ndim - 2 - num_batch
    if extra and num_batch:
        X = X.movedim(tuple(range(extra)), tuple(range(num_batch, num_batch + extra)))
    return X.flatten(num_batch, -2)


def unfold(Z: Tensor, batch: torch.Size, q: int, num_batch: int) -> Tensor:
    r"""``batch_shape x (t q) x m`` to ``t x batch_shape x q x m``.

    Args:
        Z: Values computed from folded points.
        batch: ``t x batch_shape``.
        q: The number of rows of a point.
        num_batch: The number of dimensions of ``batch_shape``.

    Returns:
        A ``t x batch_shape x q x m`` tensor.
    """
    extra = len(batch) - num_batch
    Z = Z.unflatten(num_batch, (*batch[:extra], q))
    if not (extra and num_batch):
        return Z
    return Z.movedim(tuple(range(num_batch, num_batch + extra)), tuple(range(extra)))
