r"""
Random features of products of kernels, as few as for a single kernel.

Using all pairs of the factors' features would multiply their numbers. A product of
stationary kernels has random frequencies that are the sums of its factors' frequencies;
a kernel of categories multiplies them by a random function of the category.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from gpytorch.kernels import (
    Kernel,
    MaternKernel,
    PeriodicKernel,
    RBFKernel,
    ScaleKernel,
)
from torch import Tensor

from botorch_binary_context.category_kernel import CategoryKernel
from botorch_binary_context.sampling.basis import ComputedFeatures, Features
from botorch_binary_context.sampling.fourier import FourierFeatures, fourier_features
from botorch_binary_context.sampling.periodic import draw_frequencies

STATIONARY = (RBFKernel, MaternKernel, PeriodicKernel)


def can_draw(factors: Sequence[Kernel]) -> bool:
    r"""Whether a product has random features that can be drawn.

    Args:
        factors: The kernels.

    Returns:
        Whether it has; frequencies need a stationary factor.
    """
    kinds = [type(_unscaled(factor)) for factor in factors]
    known = all(kind in (*STATIONARY, CategoryKernel) for kind in kinds)
    return known and any(kind in STATIONARY for kind in kinds)


def random_product_features(
    factors: Sequence[Any], dim: int, num_features: int
) -> Features:
    r"""Draw features of a product of kernels.

    Args:
        factors: The kernels; :func:`can_draw` must hold for them.
        dim: The number of columns.
        num_features: The number of features, two for each frequency.
    """
    frequencies = []
    signs = []
    variance = 1.0
    for factor in factors:
        columns = range(dim) if factor.active_dims is None else factor.active_dims
        if isinstance(factor, ScaleKernel):
            variance = variance * factor.outputscale.detach()[..., None, None]
        kernel: Any = _unscaled(factor)
        if isinstance(kernel, CategoryKernel):
            signs.append(_RandomSigns.draw(kernel, list(columns), num_features // 2))
        else:
            drawn = _frequencies(kernel, len(columns), num_features)
            placed = drawn.new_zeros(*drawn.shape[:-1], dim)
            placed[..., list(columns)] = drawn
            frequencies.append(placed)
    joint = FourierFeatures(reduce(torch.add, frequencies))

    def features(X: Tensor) -> Tensor:
        found = joint(X) * variance**0.5
        for sign in signs:
            weights = sign(X)
            found = found * torch.cat([weights, weights], dim=-1)  # cosine and sine
        return found

    return ComputedFeatures(features, joint.size)


def _unscaled(kernel: Kernel) -> Kernel:
    return kernel.base_kernel if isinstance(kernel, ScaleKernel) else kernel


def _frequencies(kernel: Any, dim: int, num_features: int) -> Tensor:
    if isinstance(kernel, PeriodicKernel):
        return draw_frequencies(kernel, num_features // 2)
    return fourier_features(kernel, dim, num_features).frequency


@dataclass(frozen=True)
class _RandomSigns:
    """Functions ``h`` of categories with ``E h(u) h(u') = Π (ρ + (1 - ρ) uᵀu')``.

    With the probability ``ρ`` a function has one sign for all values of a variable,
    else independent signs.

    Attributes:
        columns: The columns of the categories.
        parts: For each variable the common sign, ``batch_shape x 1 x m``, and the signs
            of its values, ``batch_shape x size x m``; one of the two is zero.
    """

    columns: list[int]
    parts: list[tuple[Tensor, Tensor]]

    @classmethod
    def draw(cls, kernel: CategoryKernel, columns: list[int], num: int) -> _RandomSigns:
        parts = []
        for size, rho in zip(
            kernel.sizes, kernel.correlation.detach().unbind(dim=-1), strict=True
        ):
            shape = (*rho.shape, size + 1, num)
            signs = torch.randint(2, shape, device=rho.device).to(rho) * 2.0 - 1.0
            draws = torch.rand((*rho.shape, 1, num), dtype=rho.dtype, device=rho.device)
            alike = draws < rho[..., None, None]
            common = signs[..., :1, :] * alike
            parts.append((common, signs[..., 1:, :] * ~alike))
        return cls(columns, parts)

    def __call__(self, X: Tensor) -> Tensor:
        """The values at ``batch_shape x q x d`` points, ``batch_shape x q x m``."""
        sizes = [signs.shape[-2] for _, signs in self.parts]
        one_hot = X[..., self.columns].split(sizes, dim=-1)
        values = (
            common + u @ signs
            for u, (common, signs) in zip(one_hot, self.parts, strict=True)
        )
        return reduce(torch.mul, values)
