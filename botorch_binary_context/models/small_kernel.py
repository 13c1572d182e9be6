r"""
The covariance of few trials and its slopes in hyperparameters, in NumPy.

The kernels that models have by default are sums of terms: a fixed matrix (products of
contexts, or ones) times scales times a smooth function of distances in units of
lengthscales. Each term and its slopes take a few calls.
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

# The values of hyperparameters by the identity of their raw parameters.
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
        lengthscale: The raw lengthscales, ``1 x d`` or ``1 x 1``.
        squares: The squared differences of every column, ``d x (m m)``.
    """

    profile: Profile
    lengthscale: Tensor
    squares: Array


@dataclass(frozen=True)
class Term:
    r"""``A ∘ k(x,x')`` times scales.

    Attributes:
        matrix: ``A``, ``m x m``; None for ones.
        scales: The raw scales.
        smooth: ``k``; None for one.
    """

    matrix: Array | None
    scales: tuple[Tensor, ...]
    smooth: Smooth | None

    def evaluate(self, values: Values, size: int) -> EvaluatedTerm:
        r"""The term at hyperparameters.

        Args:
            values: The hyperparameters.
            size: The number of rows ``m``.
        """
        scale = math.prod(float(values[id(raw)].item()) for raw in self.scales)
        if self.smooth is None:
            base = np.ones((size, size)) if self.matrix is None else self.matrix
            return EvaluatedTerm(self, scale, base, None)
        squares = self.smooth.squares
        inverse = np.square(1 / values[id(self.smooth.lengthscale)].ravel())
        if len(inverse) == len(squares):
            distances = inverse @ squares
        else:
            distances = inverse * squares.sum(axis=0)
        base, slope = self.smooth.profile(distances)
        base = base.reshape(size, size)
        if self.matrix is not None:
            base = self.matrix * base
        return EvaluatedTerm(self, scale, base, slope)


@dataclass(frozen=True)
class EvaluatedTerm:
    r"""A term at hyperparameters.

    Attributes:
        term: The term.
        scale: The product of its scales.
        base: The term without its scales, ``m x m``.
        slope: The derivatives of the smooth function in squared distances, ``m m``.
    """

    term: Term
    scale: float
    base: Array
    slope: Array | None

    def add_slopes(self, weights: Array, values: Values, slopes: Values) -> None:
        r"""Add the slopes of a weighted sum of the entries of the term.

        Args:
            weights: The weights, ``m x m``.
            values: The hyperparameters.
            slopes: Gets those of hyperparameters that are learned.
        """
        learned = [raw for raw in self.term.scales if id(raw) in slopes]
        if learned:
            total = self.scale * float(np.vdot(weights, self.base))
            for raw in learned:
                slopes[id(raw)] += total / values[id(raw)]
        smooth = self.term.smooth
        if smooth is None or self.slope is None or id(smooth.lengthscale) not in slopes:
            return
        if self.term.matrix is not None:
            weights = weights * self.term.matrix
        by_column = smooth.squares @ (weights.ravel() * self.slope)
        lengthscale = values[id(smooth.lengthscale)]
        if lengthscale.size == 1:
            by_column = by_column.sum()
        change = by_column.reshape(lengthscale.shape) / lengthscale**3
        slopes[id(smooth.lengthscale)] += -2 * self.scale * change


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
        """Add the terms of a kernel; whether it is made of known ones."""
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
        columns = X.numpy().T  # d x m
        squares = np.square(columns[:, :, None] - columns[:, None, :])
        flat = squares.reshape(len(columns), -1)
        smooth = Smooth(profile, _raw(kernel, "lengthscale"), flat)
        self.terms.append(Term(matrix, scales, smooth))
        return True


def _raw(kernel: Kernel, name: str) -> Tensor:
    """The raw parameter of a hyperparameter."""
    return getattr(kernel, f"raw_{name}")


def find_terms(kernel: Kernel, rows: Tensor) -> Sequence[Term] | None:
    r"""The terms of a kernel.

    Args:
        kernel: The kernel, without a batch.
        rows: The transformed rows of trials, ``m x d``.

    Returns:
        The terms; None if the kernel is not made of known ones.
    """
    found = _Sum()
    return found.terms if found.add(kernel, rows.detach(), None, ()) else None
