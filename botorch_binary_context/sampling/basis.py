r"""
What all features of kernels have in common: ``φ(x)ᵀφ(x')`` approximates ``k(x,x')``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

#: A function of ``batch_shape x q x d`` points, differentiable.
Function = Callable[[Tensor], Tensor]


class Features(ABC):
    r"""Features ``φ`` of a kernel: ``batch_shape x q x d`` points have
    ``batch_shape x q x m`` features, which are differentiable.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        r"""The number ``m`` of features."""

    @abstractmethod
    def __call__(self, X: Tensor) -> Tensor:
        r"""Evaluate the features.

        Args:
            X: A ``batch_shape x q x d`` tensor.

        Returns:
            A ``batch_shape x q x m`` tensor.
        """

    def weigh(self, weights: Tensor) -> Function:
        r"""The functions ``φ(·)ᵀω``.

        Args:
            weights: ``ω``, a ``sample_shape x batch_shape x m`` tensor.

        Returns:
            Maps points, ``... x sample_shape x batch_shape x q x d`` or any that can be
            broadcast to it, to ``... x sample_shape x batch_shape x q`` values.
        """
        return lambda X: weighted_sum(self(X), weights)


@dataclass(frozen=True)
class ComputedFeatures(Features):
    r"""Features that a function computes.

    Attributes:
        compute: Maps points to features.
        count: The number of features.
    """

    compute: Function
    count: int

    @property
    def size(self) -> int:  # noqa: D102
        return self.count

    def __call__(self, X: Tensor) -> Tensor:  # noqa: D102
        return self.compute(X)


@dataclass(frozen=True)
class ScaledFeatures(Features):
    r"""Features times a number.

    Attributes:
        base: The features.
        root: The number, ``batch_shape x 1``.
    """

    base: Features
    root: Tensor

    @property
    def size(self) -> int:  # noqa: D102
        return self.base.size

    def __call__(self, X: Tensor) -> Tensor:  # noqa: D102
        return self.root.unsqueeze(-1) * self.base(X)

    def weigh(self, weights: Tensor) -> Function:  # noqa: D102
        return self.base.weigh(self.root * weights)


@dataclass(frozen=True)
class JoinedFeatures(Features):
    r"""The features of a sum of kernels.

    Attributes:
        parts: The features of each kernel.
    """

    parts: list[Features]

    @property
    def size(self) -> int:  # noqa: D102
        return sum(part.size for part in self.parts)

    def __call__(self, X: Tensor) -> Tensor:  # noqa: D102
        return concatenate([part(X) for part in self.parts])

    def weigh(self, weights: Tensor) -> Function:  # noqa: D102
        blocks = weights.split([part.size for part in self.parts], dim=-1)
        terms = [
            part.weigh(block) for part, block in zip(self.parts, blocks, strict=True)
        ]
        return lambda X: reduce(torch.add, [term(X) for term in terms])


@dataclass(frozen=True)
class SelectedFeatures(Features):
    r"""Features of some of the columns.

    Attributes:
        base: The features.
        select: Takes the columns of points.
    """

    base: Features
    select: Function

    @property
    def size(self) -> int:  # noqa: D102
        return self.base.size

    def __call__(self, X: Tensor) -> Tensor:  # noqa: D102
        return self.base(self.select(X))

    def weigh(self, weights: Tensor) -> Function:  # noqa: D102
        function = self.base.weigh(weights)
        return lambda X: function(self.select(X))


@dataclass(frozen=True)
class MultipliedFeatures(Features):
    r"""All products of a few features and many others.

    Attributes:
        few: The few.
        many: The many.
    """

    few: Features
    many: Features

    @property
    def size(self) -> int:  # noqa: D102
        return self.few.size * self.many.size

    def __call__(self, X: Tensor) -> Tensor:  # noqa: D102
        return outer(self.few(X), self.many(X))

    def weigh(self, weights: Tensor) -> Function:  # noqa: D102
        blocks = weights.split(self.many.size, dim=-1)
        functions = [self.many.weigh(block) for block in blocks]

        def evaluate(X: Tensor) -> Tensor:
            factors = self.few(X).unbind(dim=-1)
            terms = [
                factor * function(X)
                for factor, function in zip(factors, functions, strict=True)
            ]
            return reduce(torch.add, terms)

        return evaluate


def outer(first: Tensor, second: Tensor) -> Tensor:
    r"""All products of two sets of features.

    Args:
        first: A ``... x m`` tensor.
        second: A ``... x k`` tensor.

    Returns:
        A ``... x (m k)`` tensor.
    """
    return (first.unsqueeze(-1) * second.unsqueeze(-2)).flatten(-2)


def concatenate(parts: list[Tensor]) -> Tensor:
    r"""Sets of features in one.

    Args:
        parts: ``... x m`` tensors, which are broadcast except for their last dimension.
    """
    batch = torch.broadcast_shapes(*[part.shape[:-1] for part in parts])
    return torch.cat([part.expand(*batch, -1) for part in parts], dim=-1)


def has_own_points(X: Tensor, shape: torch.Size) -> bool:
    r"""Whether each of a set of functions is evaluated at points of its own.

    Args:
        X: Points, ``... x q x d``.
        shape: The shape of the set of functions.
    """
    extra = X.ndim - 2 - len(shape)
    return extra >= 0 and X.shape[extra:-2] == shape


def weighted_sum(basis: Tensor, weights: Tensor) -> Tensor:
    r"""The values of basis functions times weights.

    Args:
        basis: A ``... x q x m`` tensor.
        weights: A ``... x m`` tensor.

    Returns:
        A ``... x q`` tensor.
    """
    # Where one of the two is shared along a dimension, this is a matrix product.
    return torch.einsum("...qm,...m->...q", basis, weights)
