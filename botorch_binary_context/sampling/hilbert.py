r"""
Hilbert-space features of stationary kernels on a box.

The eigenfunctions of the Laplace operator on ``[-L, L]^d``, products of sines, weighted
by the kernel's spectral density at their frequencies, approximate the kernel inside the
box [Solin2020hilbert]_. Unlike random features they are deterministic, and a few dozen
per dimension leave an error far below what a sample shows.

.. [Solin2020hilbert]
    A. Solin, S. Särkkä. Hilbert space methods for reduced-rank Gaussian process
    regression. Statistics and Computing 30, 2020.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from gpytorch.kernels import MaternKernel, RBFKernel
from torch import Tensor

from botorch_binary_context.sampling.basis import (
    Features,
    Function,
    has_own_points,
)

# The boundary lies this many lengthscales outside the box: the mirror images of a point
# that the boundary condition brings in are then correlated by less than 1e-3.
MARGIN = {0.5: 3.5, 1.5: 2.7, 2.5: 2.5, math.inf: 1.9}
# A thousandth of the variance lies beyond these frequencies (times lengthscale).
CUTOFF = {0.5: 640.0, 1.5: 13.0, 2.5: 6.9, math.inf: 3.3}
MISSING_MASS = 2e-3
MAX_CANDIDATES = 200_000
# How many times the features the combinations of all their frequencies may be.
MOST_OF_GRID = 4


class HilbertFeatures(Features):
    r"""Features ``φ(x)`` with ``φ(x)ᵀφ(x') ≈ k(x,x')`` on a box.

    Example:
        >>> features = hilbert_features(RBFKernel(ard_num_dims=2), bounds, 1024)
        >>> features(X)  # ... x m
    """

    def __init__(self, center: Tensor, L: Tensor, index: Tensor, scale: Tensor) -> None:
        r"""
        Args:
            center: The center of the box, ``d``.
            L: The half-widths of the domain, ``d``.
            index: The frequency numbers of the features, ``m x d``, from 1.
            scale: The roots of the spectral densities, ``batch_shape x 1 x m``.
        """
        self.center = center
        self.L = L
        self.index = index
        self.scale = scale
        self.counts: list[int] = index.amax(dim=0).tolist()

    @property
    def size(self) -> int:  # noqa: D102
        return len(self.index)

    def __call__(self, X: Tensor) -> Tensor:  # noqa: D102
        product = self.scale
        for column, sines in zip(self.index.T, self.sines(X), strict=True):
            product = product * sines.index_select(-1, column - 1)
        return product

    def sines(self, X: Tensor) -> list[Tensor]:
        r"""The sines that features are products of, for each column.

        Args:
            X: A ``batch_shape x q x d`` tensor.

        Returns:
            A ``batch_shape x q x c`` tensor for each column of ``c`` frequencies.
        """
        position = (X - self.center + self.L) * (math.pi / (2 * self.L))
        numbers = torch.arange(1, max(self.counts) + 1, device=X.device).to(X)
        return [
            torch.sin(angle.unsqueeze(-1) * numbers[:count])
            for angle, count in zip(position.unbind(dim=-1), self.counts, strict=True)
        ]

    def weigh(self, weights: Tensor) -> Function:  # noqa: D102
        plain = super().weigh(weights)
        if math.prod(self.counts) > MOST_OF_GRID * self.size:
            return plain
        series = SineSeries.of(self, weights)
        return lambda X: (series if has_own_points(X, series.shape) else plain)(X)


@dataclass(frozen=True)
class SineSeries:
    r"""Sums of products of sines, each function at points of its own.

    The weights of all frequencies are summed over one column after the other, so that
    the products need not be computed for every point.

    Attributes:
        features: The features.
        grid: The weights of all combinations of frequencies, ``functions x c₁ x ... x
            c_d``.
        shape: The shape of the set of functions.
    """

    features: HilbertFeatures
    grid: Tensor
    shape: torch.Size

    @classmethod
    def of(cls, features: HilbertFeatures, weights: Tensor) -> SineSeries:
        r"""The sums with given weights.

        Args:
            features: The features.
            weights: A ``... x m`` tensor.
        """
        scaled = features.scale.squeeze(-2) * weights
        shape = scaled.shape[:-1]
        grid = scaled.new_zeros(shape.numel(), *features.counts)
        index = (features.index - 1).unbind(dim=-1)
        grid[:, *index] = scaled.reshape(-1, features.size)
        return cls(features, grid, shape)

    def __call__(self, X: Tensor) -> Tensor:
        r"""Evaluate the sums.

        Args:
            X: A ``r x shape x q x d`` tensor.

        Returns:
            A ``r x shape x q`` tensor.
        """
        q, d = X.shape[-2:]
        points = X.reshape(-1, len(self.grid), q, d).movedim(0, 1)
        first, *others = [
            sines.flatten(1, 2).mT for sines in self.features.sines(points)
        ]  # functions x c x (r q)
        values = self.grid
        if others:
            values = values.flatten(1, -2) @ others.pop()
            for sines in reversed(others):
                values = values.unflatten(1, (-1, sines.shape[-2]))
                values = (values * sines.unsqueeze(1)).sum(dim=-2)
        else:
            values = values.unsqueeze(-1)
        values = (values * first).sum(dim=1)  # functions x (r q)
        values = values.unflatten(-1, (-1, q)).movedim(1, 0)
        return values.reshape(X.shape[:-1])


def hilbert_features(
    kernel: RBFKernel | MaternKernel, bounds: Tensor, max_features: int
) -> HilbertFeatures | None:
    r"""The features of a kernel, if few enough suffice.

    Args:
        kernel: A squared exponential or Matérn kernel.
        bounds: The ``2 x d`` box in which the features are used.
        max_features: The maximum number of features.

    Returns:
        The features, or None if the box takes more than ``max_features`` of them.
    """
    nu = kernel.nu if isinstance(kernel, MaternKernel) else math.inf
    d = bounds.shape[-1]
    lengthscale = kernel.lengthscale.detach().expand(*kernel.batch_shape, 1, d)
    flat = lengthscale.reshape(-1, d)
    if not flat.numel():  # an empty batch
        return None
    L = (bounds[1] - bounds[0]) / 2 + MARGIN[nu] * flat.amax(dim=0)
    counts = (2 * L * CUTOFF[nu] / (math.pi * flat.amin(dim=0))).ceil().long().tolist()
    if math.prod(counts) > MAX_CANDIDATES:
        return None
    numbers = [torch.arange(1, count + 1, device=L.device) for count in counts]
    index = torch.cartesian_prod(*numbers).reshape(-1, d)
    frequency = index.to(L) * math.pi / (2 * L)
    # φ_j = sqrt(S(ω_j)) Π sin(...) / sqrt(L): the densities include the volume.
    density = spectral_density(lengthscale, nu, frequency) / L.prod()
    mass, order = density.reshape(-1, index.shape[0]).amax(dim=0).sort(descending=True)
    enough = mass.cumsum(0) >= (1 - MISSING_MASS) * mass.sum()
    count = int((~enough).sum()) + 1
    if count > max_features:
        return None
    chosen = order[:count]
    center = bounds.mean(dim=0)
    return HilbertFeatures(center, L, index[chosen], density[..., chosen].sqrt())


def spectral_density(lengthscale: Tensor, nu: float, frequency: Tensor) -> Tensor:
    r"""The spectral density of a kernel of unit variance.

    Args:
        lengthscale: ``batch_shape x 1 x d``.
        nu: The smoothness of a Matérn kernel; infinite for the squared exponential.
        frequency: ``m x d``.

    Returns:
        A ``batch_shape x 1 x m`` tensor.
    """
    d = frequency.shape[-1]
    squared = (lengthscale * frequency).square().sum(dim=-1).unsqueeze(-2)
    volume = lengthscale.prod(dim=-1, keepdim=True)
    if nu == math.inf:
        return volume * (2 * math.pi) ** (d / 2) * (-squared / 2).exp()
    log_constant = (
        d * math.log(2 * math.sqrt(math.pi))
        + math.lgamma(nu + d / 2)
        - math.lgamma(nu)
        + nu * math.log(2 * nu)
    )
    decay = (2 * nu + squared).log() * (nu + d / 2)
    return volume * (log_constant - decay).exp()
