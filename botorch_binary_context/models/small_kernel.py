r"""
The covariance of few trials and its slopes in hyperparameters, in NumPy.

The kernels that models have by default are sums of terms: a fixed matrix (products of
contexts, or ones) times scales times a smooth function of distances in units of
lengthscales. Each term and its slopes take a few calls.

A term knows the trials of all ``B`` models of a batch, or of a single one; it is
evaluated for some of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gpytorch.kernels import (
    AdditiveKernel,
    ConstantKernel,
    Kernel,
    MaternKernel,
    RBFKernel,
    ScaleKernel,
)
from torch import Tensor

from botorch_binary_context.kernels import (
    AdditiveContextKernel,
    MultiplicativeContextKernel,
)
from botorch_binary_context.likelihoods.probit_terms import Array

# The values of hyperparameters by the identity of their raw parameters, ``b x k``.
Values = dict[int, Array]
# Maps scaled squared distances to correlations and their derivatives.
Profile = Callable[[Array], tuple[Array, Array]]


def _rbf(squared: Array) -> tuple[Array, Array]:
    value = np.exp(-0.5 * squared)
    return value, -0.5 * value


def _matern_three_halves(squared: Array) -> tuple[Array, Array]:
    r = np.sqrt(3 * squared)
    decay = np.exp(-r)
    return (1 + r) * decay, -1.5 * decay


def _matern_five_halves(squared: Array) -> tuple[Array, Array]:
    r = np.sqrt(5 * squared)
    decay = np.exp(-r)
    rising = 1 + r
    return (rising + (5 / 3) * squared) * decay, (-5 / 6) * rising * decay


MATERN = {1.5: _matern_three_halves, 2.5: _matern_five_halves}


@dataclass(frozen=True)
class Smooth:
    r"""A function of distances in units of lengthscales.

    Attributes:
        profile: The function.
        lengthscale: The raw lengthscales, ``batch_shape x 1 x d`` or one for all.
        squares: The squared differences of every column, ``B x d x (m m)``.
    """

    profile: Profile
    lengthscale: Tensor
    squares: Array


@dataclass(frozen=True)
class Term:
    r"""``A ∘ k(x,x')`` times scales.

    Attributes:
        matrix: ``A``, ``B x m x m``; None for ones.
        scales: The raw scales.
        smooth: ``k``; None for a constant 1.
    """

    matrix: Array | None
    scales: tuple[Tensor, ...]
    smooth: Smooth | None

    def evaluate(self, values: Values, models: Array) -> EvaluatedTerm:
        r"""The term at hyperparameters.

        Args:
            values: The hyperparameters of some models.
            models: The indices of these models, ``b``.
        """
        scales = [values[id(raw)][:, 0] for raw in self.scales]
        scale = math.prod(scales, start=np.ones(len(models)))
        base = None if self.matrix is None else self.matrix[models]
        if self.smooth is None:
            return EvaluatedTerm(self, models, scale, base, None)
        squares = self.smooth.squares
        _, dim, cells = squares.shape
        inverse = np.square(1 / values[id(self.smooth.lengthscale)])
        if inverse.shape[-1] == 1:
            inverse = inverse.repeat(dim, axis=-1)
        distances = np.empty((len(models), cells))
        for i, model in enumerate(models):  # nothing large is copied
            np.matmul(inverse[i], squares[model], out=distances[i])
        value, slope = self.smooth.profile(distances)
        size = math.isqrt(cells)
        value = value.reshape(-1, size, size)
        value = value if base is None else base * value
        return EvaluatedTerm(self, models, scale, value, slope)


@dataclass(frozen=True)
class EvaluatedTerm:
    r"""A term at hyperparameters.

    Attributes:
        term: The term.
        models: The indices of the models at whose hyperparameters it is evaluated,
            ``b``.
        scale: The product of its scales, ``b``.
        base: The term without its scales, ``b x m x m``; None for ones.
        slope: The derivatives of the smooth function in squared distances,
            ``b x (m m)``.
    """

    term: Term
    models: Array
    scale: Array
    base: Array | None
    slope: Array | None

    def add_to(self, K: Array) -> None:
        r"""Add the term to a covariance.

        Args:
            K: The covariance, ``b x m x m``.
        """
        scale = self.scale[:, None, None]
        K += scale if self.base is None else scale * self.base

    def add_slopes(self, weights: Array, values: Values, slopes: Values) -> None:
        r"""Add the slopes of a weighted sum of the entries of the term.

        Args:
            weights: The weights, ``b x m x m``.
            values: The hyperparameters.
            slopes: The slopes in the hyperparameters that are learned, which are
                updated in place.
        """
        learned = [raw for raw in self.term.scales if id(raw) in slopes]
        if learned:
            total = (self.scale * self._sum(weights))[:, None]
            for raw in learned:
                slopes[id(raw)] += total / values[id(raw)]
        smooth = self.term.smooth
        if smooth is None or self.slope is None or id(smooth.lengthscale) not in slopes:
            return
        if self.term.matrix is not None:
            weights = weights * self.term.matrix[self.models]
        weighted = weights.reshape(self.slope.shape) * self.slope
        by_column = np.empty((len(weighted), smooth.squares.shape[1]))
        for i, model in enumerate(self.models):
            np.matmul(smooth.squares[model], weighted[i], out=by_column[i])
        lengthscale = values[id(smooth.lengthscale)]
        if lengthscale.shape[-1] == 1:
            by_column = by_column.sum(axis=-1, keepdims=True)
        change = self.scale[:, None] * by_column / lengthscale**3
        slopes[id(smooth.lengthscale)] += -2 * change

    def _sum(self, weights: Array) -> Array:
        """The weighted sum of the entries, without scales, ``b``."""
        if self.base is None:
            return weights.sum(axis=(-2, -1))
        flat = weights.reshape(len(weights), 1, -1)
        return np.matmul(flat, self.base.reshape(len(weights), -1, 1))[:, 0, 0]


@dataclass
class _Sum:
    """Collects the terms of a kernel."""

    terms: list[Term] = field(default_factory=list)

    def add(
        self,
        kernel: Any,
        X: Tensor,
        matrix: Array | None,
        scales: tuple[Tensor, ...],
    ) -> bool:
        """Add the terms of a kernel, and return whether all of them are known."""
        if kernel.active_dims is not None:
            X = X.index_select(-1, kernel.active_dims)
        while type(kernel) is ScaleKernel:  # which takes over the columns of its base
            scales = (*scales, _raw(kernel, "outputscale"))
            kernel = kernel.base_kernel
        if type(kernel) is AdditiveKernel:
            return all(self.add(k, X, matrix, scales) for k in kernel.kernels)
        if type(kernel) is ConstantKernel:
            self.terms.append(Term(matrix, (*scales, _raw(kernel, "constant")), None))
            return True
        if type(kernel) in (AdditiveContextKernel, MultiplicativeContextKernel):
            contexts, X = kernel.split(X)
            products = (contexts @ contexts.mT).numpy()
            products = products if matrix is None else matrix * products
            if type(kernel) is MultiplicativeContextKernel:
                return self.add(kernel.base_kernel, X, products, scales)
            scale = _raw(kernel, "context_variance")
            self.terms.append(Term(products, (*scales, scale), None))
            return self.add(kernel.base_kernel, X, matrix, scales)
        return self._add_smooth(kernel, X, matrix, scales)

    def _add_smooth(
        self, kernel: Any, X: Tensor, matrix: Array | None, scales: tuple[Tensor, ...]
    ) -> bool:
        if type(kernel) is RBFKernel:
            profile = _rbf
        elif type(kernel) is MaternKernel and kernel.nu in MATERN:
            profile = MATERN[kernel.nu]
        else:
            return False
        columns = X.mT.numpy()  # B x d x m
        squares = columns[..., :, None] - columns[..., None, :]
        np.square(squares, out=squares)
        flat = squares.reshape(*columns.shape[:2], -1)
        smooth = Smooth(profile, _raw(kernel, "lengthscale"), flat)
        self.terms.append(Term(matrix, scales, smooth))
        return True


def _raw(kernel: Kernel, name: str) -> Tensor:
    """The raw parameter of a hyperparameter."""
    return getattr(kernel, f"raw_{name}")


def find_terms(kernel: Kernel, rows: Tensor) -> Sequence[Term] | None:
    r"""The terms of a kernel.

    Args:
        kernel: The kernel.
        rows: The transformed rows of the trials of all models, ``B x m x d``.

    Returns:
        The terms; None if the kernel is not made of known ones.
    """
    found = _Sum()
    return found.terms if found.add(kernel, rows.detach(), None, ()) else None
