r"""
Features of the periodic kernel: its Fourier series.

``exp(-2 sin²(π r / p) / λ) = Σ_j c_j cos(2π j r / p)`` with
``c_0 = e^(-κ) I_0(κ)``, ``c_j = 2 e^(-κ) I_j(κ)`` and ``κ = 1 / λ``, where ``I_j`` are
the modified Bessel functions. The coefficients are positive and sum to one: as the
squares of weights they make features, as probabilities they draw random frequencies.
"""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import torch
from gpytorch.kernels import PeriodicKernel
from scipy.special import ive
from torch import Tensor

from botorch_binary_context.sampling.basis import (
    ComputedFeatures,
    Features,
    outer,
)

# The part of the variance that omitted terms may have.
MISSING_MASS = 1e-6


def series_coefficients(kernel: PeriodicKernel) -> Tensor:
    r"""The coefficients ``c_j`` of each column, as many as matter.

    Args:
        kernel: The kernel.

    Returns:
        A ``batch_shape x d x (J + 1)`` tensor that sums to one along its last
        dimension.
    """
    lengthscale = kernel.lengthscale.detach().squeeze(-2)  # batch_shape x d
    kappa = (1.0 / lengthscale).cpu().numpy()[..., None]
    count = 8
    while True:
        values = ive(np.arange(count), kappa)
        values[..., 1:] *= 2.0
        if 1.0 - values.sum(axis=-1).min() < MISSING_MASS or count > 4096:
            break
        count *= 2
    found = torch.from_numpy(values).to(lengthscale)
    return found / found.sum(dim=-1, keepdim=True)


def periodic_features(kernel: PeriodicKernel) -> Features:
    r"""Features of the kernel: the products of the features of its columns.

    Args:
        kernel: The kernel.
    """
    roots = series_coefficients(kernel).sqrt().unsqueeze(-3)  # batch_shape x 1 x d x J
    rates = _angular_rates(kernel)
    numbers = torch.arange(roots.shape[-1], dtype=roots.dtype, device=roots.device)

    def features(X: Tensor) -> Tensor:
        angles = (X * rates).unsqueeze(-1) * numbers
        cosines = roots * angles.cos()
        sines = roots * angles.sin()
        columns = torch.cat([cosines, sines[..., 1:]], dim=-1).unbind(dim=-2)
        return reduce(outer, columns)

    dim, count = roots.shape[-2:]
    return ComputedFeatures(features, (2 * count - 1) ** dim)


def draw_frequencies(kernel: PeriodicKernel, num: int) -> Tensor:
    r"""Random frequencies whose cosines have the kernel as their mean.

    Args:
        kernel: The kernel.
        num: The number of frequencies.

    Returns:
        A ``batch_shape x num x d`` tensor.
    """
    probabilities = series_coefficients(kernel)  # batch_shape x d x J
    flat = probabilities.reshape(-1, probabilities.shape[-1])
    drawn = torch.multinomial(flat, num, replacement=True)
    numbers = drawn.reshape(*probabilities.shape[:-1], num).mT.to(probabilities)
    return numbers * _angular_rates(kernel)


def _angular_rates(kernel: PeriodicKernel) -> Tensor:
    """``2 π / p``, ``batch_shape x 1 x d``."""
    return 2 * math.pi / kernel.period_length.detach()
