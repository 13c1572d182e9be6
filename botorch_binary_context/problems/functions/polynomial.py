r"""
Polynomial test functions that BoTorch does not have.

Definitions are those of [Surjanovic2013library]_, in the dimensions and on the boxes of
the benchmark table of [Fauvel2022contextual]_. All are minimized.

.. [Surjanovic2013library]
    S. Surjanovic, D. Bingham. Virtual library of simulation experiments: test functions
    and datasets. Simon Fraser University, 2013.
"""

from __future__ import annotations

import torch
from botorch.test_functions.synthetic import SyntheticTestFunction
from torch import Tensor


def _numbers(X: Tensor) -> Tensor:
    """The numbers of the columns of ``X``, from 1."""
    return torch.arange(1, X.shape[-1] + 1, dtype=X.dtype, device=X.device)


class Colville(SyntheticTestFunction):
    r"""Colville test function on ``[-10, 10]^4``.

        f(x) = 100 (x_1^2 - x_2)^2 + (x_1 - 1)^2 + (x_3 - 1)^2 + 90 (x_3^2 - x_4)^2
            + 10.1 ((x_2 - 1)^2 + (x_4 - 1)^2) + 19.8 (x_2 - 1) (x_4 - 1)

    The global minimum is ``f(1, 1, 1, 1) = 0``.
    """

    dim = 4
    continuous_inds = list(range(dim))
    _bounds = [(-10.0, 10.0)] * 4
    _optimal_value = 0.0
    _optimizers = [(1.0, 1.0, 1.0, 1.0)]

    def _evaluate_true(self, X: Tensor) -> Tensor:
        x1, x2, x3, x4 = X.unbind(dim=-1)
        valleys = 100 * (x1.square() - x2).square() + 90 * (x3.square() - x4).square()
        bowls = (x1 - 1).square() + (x3 - 1).square()
        coupled = 10.1 * ((x2 - 1).square() + (x4 - 1).square())
        return valleys + bowls + coupled + 19.8 * (x2 - 1) * (x4 - 1)


class GoldsteinPrice(SyntheticTestFunction):
    r"""Goldstein-Price test function on ``[-2, 2]^2``.

        f(x) = (1 + (x_1 + x_2 + 1)^2
                (19 - 14 x_1 + 3 x_1^2 - 14 x_2 + 6 x_1 x_2 + 3 x_2^2))
            (30 + (2 x_1 - 3 x_2)^2
                (18 - 32 x_1 + 12 x_1^2 + 48 x_2 - 36 x_1 x_2 + 27 x_2^2))

    The global minimum is ``f(0, -1) = 3``.
    """

    dim = 2
    continuous_inds = list(range(dim))
    _bounds = [(-2.0, 2.0)] * 2
    _optimal_value = 3.0
    _optimizers = [(0.0, -1.0)]

    def _evaluate_true(self, X: Tensor) -> Tensor:
        x1, x2 = X.unbind(dim=-1)
        squares1 = x1.square()
        mixed = x1 * x2
        squares2 = x2.square()
        first = 19 - 14 * x1 + 3 * squares1 - 14 * x2 + 6 * mixed + 3 * squares2
        second = 18 - 32 * x1 + 12 * squares1 + 48 * x2 - 36 * mixed + 27 * squares2
        return (1 + (x1 + x2 + 1).square() * first) * (
            30 + (2 * x1 - 3 * x2).square() * second
        )


class Perm0(SyntheticTestFunction):
    r"""Perm function 0, d, β on ``[-2, 2]^2`` with ``β = 10``.

        f(x) = sum_{i=1}^d (sum_{j=1}^d (j + β) (x_j^i - j^{-i}))^2

    The global minimum is ``f(1, 1/2) = f(11/23, 45/46) = 0``; the second point is
    peculiar to two dimensions.
    """

    dim = 2
    continuous_inds = list(range(dim))
    _bounds = [(-2.0, 2.0)] * 2
    _optimal_value = 0.0
    _optimizers = [(1.0, 0.5), (11 / 23, 45 / 46)]

    def _evaluate_true(self, X: Tensor) -> Tensor:
        j = _numbers(X)
        i = j.unsqueeze(-1)
        inner = (j + 10) * (X.unsqueeze(-2) ** i - j**-i)  # ... x d x d
        return inner.sum(dim=-1).square().sum(dim=-1)


class PermD(SyntheticTestFunction):
    r"""Perm function d, β on ``[-2, 2]^2`` with ``β = 1/2``.

        f(x) = sum_{i=1}^d (sum_{j=1}^d (j^i + β) ((x_j / j)^i - 1))^2

    The global minimum is ``f(1, 2) = f(23/13, 14/13) = 0``; the second point is
    peculiar to two dimensions.
    """

    dim = 2
    continuous_inds = list(range(dim))
    _bounds = [(-2.0, 2.0)] * 2
    _optimal_value = 0.0
    _optimizers = [(1.0, 2.0), (23 / 13, 14 / 13)]

    def _evaluate_true(self, X: Tensor) -> Tensor:
        j = _numbers(X)
        i = j.unsqueeze(-1)
        inner = (j**i + 0.5) * ((X / j).unsqueeze(-2) ** i - 1)  # ... x d x d
        return inner.sum(dim=-1).square().sum(dim=-1)


class RotatedHyperEllipsoid(SyntheticTestFunction):
    r"""Rotated hyper-ellipsoid on ``[-65.536, 65.536]^2``.

        f(x) = sum_{i=1}^d sum_{j=1}^i x_j^2

    The global minimum is ``f(0, 0) = 0``.
    """

    dim = 2
    continuous_inds = list(range(dim))
    _bounds = [(-65.536, 65.536)] * 2
    _optimal_value = 0.0
    _optimizers = [(0.0, 0.0)]

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return X.square().cumsum(dim=-1).sum(dim=-1)


class Sphere(SyntheticTestFunction):
    r"""Sphere function on ``[-5.12, 5.12]^2``.

        f(x) = sum_{i=1}^d x_i^2

    The global minimum is ``f(0, 0) = 0``.
    """

    dim = 2
    continuous_inds = list(range(dim))
    _bounds = [(-5.12, 5.12)] * 2
    _optimal_value = 0.0
    _optimizers = [(0.0, 0.0)]

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return X.square().sum(dim=-1)


class SumSquares(SyntheticTestFunction):
    r"""Sum of squares, weighted, on ``[-10, 10]^2``.

        f(x) = sum_{i=1}^d i x_i^2

    The global minimum is ``f(0, 0) = 0``.
    """

    dim = 2
    continuous_inds = list(range(dim))
    _bounds = [(-10.0, 10.0)] * 2
    _optimal_value = 0.0
    _optimizers = [(0.0, 0.0)]

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return (_numbers(X) * X.square()).sum(dim=-1)


class Trid(SyntheticTestFunction):
    r"""Trid function on ``[-4, 4]^2``.

        f(x) = sum_{i=1}^d (x_i - 1)^2 - sum_{i=2}^d x_i x_{i-1}

    The global minimum is ``f(2, 2) = -2``.
    """

    dim = 2
    continuous_inds = list(range(dim))
    _bounds = [(-4.0, 4.0)] * 2
    _optimal_value = -2.0
    _optimizers = [(2.0, 2.0)]

    def _evaluate_true(self, X: Tensor) -> Tensor:
        neighbors = X[..., 1:] * X[..., :-1]
        return (X - 1).square().sum(dim=-1) - neighbors.sum(dim=-1)
