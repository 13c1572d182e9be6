r"""
Random Fourier features of stationary kernels, where a box would take too many others.

.. [Rahimi2007random]
    A. Rahimi, B. Recht. Random features for large-scale kernel machines. NeurIPS 2007.
"""

from __future__ import annotations

import math

import torch
from gpytorch.kernels import MaternKernel, RBFKernel
from torch import Tensor
from torch.distributions import Gamma

from botorch_binary_context.sampling.basis import (
    Features,
    Function,
    has_own_points,
    weighted_sum,
)


class FourierFeatures(Features):
    r"""Features ``φ(x)`` with ``E φ(x)ᵀφ(x') = k(x,x')`` [Rahimi2007random]_."""

    def __init__(self, frequency: Tensor) -> None:
        r"""
        Args:
            frequency: Draws from the spectral density, ``batch_shape x m/2 x d``.
        """
        self.frequency = frequency

    @property
    def size(self) -> int:  # noqa: D102
        return 2 * self.frequency.shape[-2]

    def __call__(self, X: Tensor) -> Tensor:  # noqa: D102
        phase = X @ self.frequency.mT
        pairs = torch.cat([phase.cos(), phase.sin()], dim=-1)
        return pairs / math.sqrt(self.frequency.shape[-2])

    def weigh(self, weights: Tensor) -> Function:  # noqa: D102
        plain = super().weigh(weights)
        # a cos φ + b sin φ = r cos(φ - ψ): one cosine instead of two functions.
        a, b = weights.chunk(2, dim=-1)
        amplitude = torch.hypot(a, b) / math.sqrt(self.frequency.shape[-2])
        phase = torch.atan2(b, a).unsqueeze(-2)

        def waves(X: Tensor) -> Tensor:
            return weighted_sum((X @ self.frequency.mT - phase).cos(), amplitude)

        shape = weights.shape[:-1]
        return lambda X: (waves if has_own_points(X, shape) else plain)(X)


def fourier_features(
    kernel: RBFKernel | MaternKernel, dim: int, num_features: int
) -> FourierFeatures:
    r"""Draw random features of a kernel.

    Args:
        kernel: A squared exponential or Matérn kernel.
        dim: The number of columns.
        num_features: The number of features, two for each frequency.
    """
    lengthscale = kernel.lengthscale.detach()
    shape = (*kernel.batch_shape, num_features // 2, dim)
    frequency = torch.randn(shape, dtype=lengthscale.dtype, device=lengthscale.device)
    if isinstance(kernel, MaternKernel):
        # The spectral density of a Matérn kernel is a multivariate t distribution.
        nu = lengthscale.new_tensor(kernel.nu)
        frequency = frequency * Gamma(nu, nu).sample((*shape[:-1], 1)).rsqrt()
    return FourierFeatures(frequency / lengthscale)
