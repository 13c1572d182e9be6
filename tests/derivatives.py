r"""Derivatives by finite differences and by autograd, in one shape."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def finite_difference(
    func: Callable[[Tensor], Tensor], x: Tensor, step: float = 1e-3
) -> Tensor:
    """The Jacobian of ``func`` by central differences of sixth order.

    Args:
        func: Maps a tensor like ``x`` to a tensor.
        x: The point, double precision.
        step: The distance of the nearest points on the stencil.

    Returns:
        A tensor of shape ``func(x).shape + x.shape``.
    """
    columns = []
    for i in range(x.numel()):
        unit = torch.zeros_like(x).reshape(-1)
        unit[i] = step
        unit = unit.reshape(x.shape)
        with torch.no_grad():
            total = sum(
                weight * (func(x + k * unit) - func(x - k * unit))
                for k, weight in ((1, 45.0), (2, -9.0), (3, 1.0))
            )
        columns.append(torch.as_tensor(total) / (60 * step))
    return torch.stack(columns, dim=-1).reshape(columns[0].shape + x.shape)


def jacobian(func: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The Jacobian of ``func`` by autograd, in the shape of ``finite_difference``."""
    result = torch.autograd.functional.jacobian(func, x)
    assert isinstance(result, Tensor)
    return result
