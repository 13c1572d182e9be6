r"""
Finite features of kernels, ``k(z,z') ≈ φ(z)ᵀφ(z')``, for drawing functions from a
prior.

The features of a composed kernel follow from the features of its parts: a context
multiplies the features of the parameters, a sum joins features, a product multiplies
all pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from botorch.exceptions import UnsupportedError
from gpytorch.kernels import (
    AdditiveKernel,
    ConstantKernel,
    Kernel,
    MaternKernel,
    PeriodicKernel,
    ProductKernel,
    RBFKernel,
    ScaleKernel,
)
from torch import Tensor

from botorch_binary_context.category_kernel import CategoryKernel
from botorch_binary_context.column_kernels import (
    ColumnKernel,
    DriftKernel,
    SameKernel,
    SubjectKernel,
)
from botorch_binary_context.kernels import (
    AdditiveContextKernel,
    MultiplicativeContextKernel,
)
from botorch_binary_context.peaks import PeakKernel
from botorch_binary_context.sampling.basis import (
    ComputedFeatures,
    Features,
    JoinedFeatures,
    MultipliedFeatures,
    ScaledFeatures,
    SelectedFeatures,
    concatenate,
    outer,
)
from botorch_binary_context.sampling.fourier import fourier_features
from botorch_binary_context.sampling.hilbert import hilbert_features
from botorch_binary_context.sampling.periodic import periodic_features
from botorch_binary_context.sampling.random_products import (
    can_draw,
    random_product_features,
)

# A product of kernels may have this many times the features of one stationary kernel.
MOST_PRODUCTS = 4


@dataclass(frozen=True)
class FeatureOptions:
    r"""How a kernel is approximated by features.

    Attributes:
        bounds: The ``2 x d`` box in which they are used; without one, stationary
            kernels get random Fourier features.
        dim: The number of columns.
        max_features: The maximum number of Hilbert-space features of a stationary
            kernel, and the number of its random ones.
    """

    bounds: Tensor | None
    dim: int
    max_features: int = 2048

    def select(self, columns: list[int]) -> FeatureOptions:
        r"""The options for some of the columns.

        Args:
            columns: The columns.

        Returns:
            The options with the bounds of these columns.
        """
        bounds = None if self.bounds is None else self.bounds[:, columns]
        return FeatureOptions(bounds, len(columns), self.max_features)


def kernel_features(kernel: Kernel, options: FeatureOptions) -> Features:
    r"""Features of a kernel.

    Args:
        kernel: A stationary kernel (squared exponential or Matérn), a context kernel,
            or a scaling, sum or product of such.
        options: Where the features approximate the kernel, and how many there may be.

    """
    active_dims: Any = kernel.active_dims
    if active_dims is None:
        return _features(kernel, options)
    inner = _features(kernel, options.select(active_dims.tolist()))
    return SelectedFeatures(inner, lambda X: X.index_select(-1, active_dims))


def _features(kernel: Kernel, options: FeatureOptions) -> Features:
    """The features, given the active columns."""
    maker = _MAKERS.get(type(kernel))
    if maker is None:
        raise UnsupportedError(
            "Expected ``kernel`` to be composed of "
            f"{', '.join(sorted(k.__name__ for k in _MAKERS))}, but got "
            f"{type(kernel).__name__}."
        )
    return maker(kernel, options)


def _stationary(kernel: RBFKernel | MaternKernel, options: FeatureOptions) -> Features:
    if options.bounds is not None:
        features = hilbert_features(kernel, options.bounds, options.max_features)
        if features is not None:
            return features
    return fourier_features(kernel, options.dim, options.max_features)


def _scaled(kernel: ScaleKernel, options: FeatureOptions) -> Features:
    # A ``ScaleKernel`` takes over the active columns of its base kernel.
    inner = _features(kernel.base_kernel, options)
    root = kernel.outputscale.detach().sqrt().unsqueeze(-1)
    return ScaledFeatures(inner, root)


def _parts(kernel: AdditiveKernel | ProductKernel) -> list[Any]:
    return list(kernel.kernels)


def _joined(kernel: AdditiveKernel, options: FeatureOptions) -> Features:
    return JoinedFeatures([kernel_features(k, options) for k in _parts(kernel)])


def _multiplied(kernel: ProductKernel, options: FeatureOptions) -> Features:
    factors = _parts(kernel)
    drawable = can_draw(factors)
    if options.bounds is None and drawable:
        return random_product_features(factors, options.dim, options.max_features)
    parts = [kernel_features(k, options) for k in factors]
    count = math.prod(part.size for part in parts)
    if drawable:
        # Random features have errors, but do not multiply.
        is_exact = any(type(k) in _EXACT for k in factors)
        most = options.max_features * (1 if is_exact else MOST_PRODUCTS)
        if count > most:
            return random_product_features(factors, options.dim, options.max_features)
    return ComputedFeatures(lambda X: reduce(outer, [part(X) for part in parts]), count)


def _periodic(kernel: PeriodicKernel, options: FeatureOptions) -> Features:
    return periodic_features(kernel)


def _categories(kernel: CategoryKernel, options: FeatureOptions) -> Features:
    """A constant and the columns themselves, for every variable."""
    rho = kernel.correlation.detach()[..., None, None]  # batch_shape x v x 1 x 1
    common = rho.sqrt().unbind(dim=-3)
    own = (1.0 - rho).sqrt().unbind(dim=-3)

    def features(X: Tensor) -> Tensor:
        parts = [
            concatenate([a + 0.0 * u[..., :1], b * u])
            for a, b, u in zip(common, own, kernel.split(X), strict=True)
        ]
        return reduce(outer, parts)

    return ComputedFeatures(features, math.prod(size + 1 for size in kernel.sizes))


def _constant(kernel: ConstantKernel, options: FeatureOptions) -> Features:
    root = kernel.constant.detach().sqrt().unsqueeze(-1)
    return ComputedFeatures(lambda X: root + 0.0 * X[..., :1], 1)


def _split_options(
    kernel: MultiplicativeContextKernel | AdditiveContextKernel, options: FeatureOptions
) -> FeatureOptions:
    columns = torch.arange(options.dim, device="cpu")
    return options.select(kernel.split(columns)[1].tolist())


def _of_parameters(
    kernel: MultiplicativeContextKernel | AdditiveContextKernel, options: FeatureOptions
) -> Features:
    inner = kernel_features(kernel.base_kernel, _split_options(kernel, options))
    return SelectedFeatures(inner, lambda X: kernel.split(X)[1])


def _multiplicative(
    kernel: MultiplicativeContextKernel, options: FeatureOptions
) -> Features:
    count = len(kernel.context_dims)
    contexts = ComputedFeatures(lambda X: kernel.split(X)[0], count)
    return MultipliedFeatures(contexts, _of_parameters(kernel, options))


def _additive(kernel: AdditiveContextKernel, options: FeatureOptions) -> Features:
    root = kernel.context_variance.detach().sqrt()[..., None, None]
    count = len(kernel.context_dims)
    contexts = ComputedFeatures(lambda X: root * kernel.split(X)[0], count)
    return JoinedFeatures([contexts, _of_parameters(kernel, options)])


def _column(kernel: ColumnKernel, options: FeatureOptions) -> Features:
    """Features of the shared part, and products of the own part's and the column's."""
    columns = torch.arange(options.dim, device="cpu")
    column, rest = (options.select(part.tolist()) for part in kernel.split(columns))
    shared = kernel_features(kernel.shared_kernel, rest)
    own = kernel_features(kernel.own_kernel, rest)
    factor = kernel_features(kernel.column_kernel, column)

    def features(X: Tensor) -> Tensor:
        c, z = kernel.split(X)
        return concatenate([shared(z), outer(factor(c), own(z))])

    return ComputedFeatures(features, shared.size + factor.size * own.size)


def _same(kernel: SameKernel, options: FeatureOptions) -> Features:
    """A column for each value."""

    def features(X: Tensor) -> Tensor:
        values = torch.arange(kernel.num_values, dtype=X.dtype, device=X.device)
        return (values == X).to(X)

    return ComputedFeatures(features, kernel.num_values)


def _peaks(kernel: PeakKernel, options: FeatureOptions) -> Features:
    fixed = deepcopy(kernel).requires_grad_(False)
    return ComputedFeatures(fixed.features, fixed.num_features)


# Kernels with exact features: few on their own, but many in products.
_EXACT = (PeriodicKernel, CategoryKernel)
_MAKERS: dict[type[Kernel], Callable[[Any, FeatureOptions], Features]] = {
    RBFKernel: _stationary,
    MaternKernel: _stationary,
    ScaleKernel: _scaled,
    AdditiveKernel: _joined,
    ProductKernel: _multiplied,
    ConstantKernel: _constant,
    PeriodicKernel: _periodic,
    CategoryKernel: _categories,
    MultiplicativeContextKernel: _multiplicative,
    AdditiveContextKernel: _additive,
    ColumnKernel: _column,
    SubjectKernel: _column,
    DriftKernel: _column,
    SameKernel: _same,
    PeakKernel: _peaks,
}
