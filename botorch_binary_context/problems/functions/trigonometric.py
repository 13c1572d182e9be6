r"""
Oscillating test functions that BoTorch does not have.

Definitions are those of [Surjanovic2013library]_ where no other reference is given, in
the dimensions and on the boxes of the benchmark table of [Fauvel2022contextual]_. All
are minimized.

.. [Forrester2008engineering]
    A. Forrester, A. Sobester, A. Keane. Engineering design via surrogate modelling: a
    practical guide. Wiley, 2008.
.. [Gramacy2012nugget]
    R. B. Gramacy, H. K. H. Lee. Cases for the nugget in modeling computer experiments.
    Statistics and Computing 22, 2012.
.. [Ursem1999multinational]
    R. K. Ursem. Multinational evolutionary algorithms. Congress on Evolutionary
    Computation, 1999.
"""

from __future__ import annotations

import math

import torch
from botorch.test_functions.synthetic import SyntheticTestFunction
from torch import Tensor


class Bohachevsky(SyntheticTestFunction):
    r"""Bohachevsky function 1 on ``[-100, 100]^2``.

        f(x) = x_1^2 + 2 x_2^2 - 0.3 cos(3 pi x_1) - 0.4 cos(4 pi x_2) + 0.7

    The global minimum is ``f(0, 0) = 0``.
    """

    dim = 2
    continuous_inds = list(range(dim))
    _bounds = [(-100.0, 100.0)] * 2
    _optimal_value = 0.0
    _optimizers = [(0.0, 0.0)]

    def _evaluate_true(self, X: Tensor) -> Tensor:
        x1, x2 = X.unbind(dim=-1)
        waves = 0.3 * (3 * math.pi * x1).cos() + 0.4 * (4 * math.pi * x2).cos()
        return x1.square() + 2 * x2.square() - waves + 0.7


class CrossInTray(SyntheticTestFunction):
    r"""Cross-in-tray function on ``[-10, 10]^2``.

        f(x) = -0.0001 (|sin(x_1) sin(x_2) exp(|100 - ||x|| / pi|)| + 1)^0.1

    The global minimum is ``f(±1.3494, ±1.3494) = -2.0626``.
    """

    dim = 2
    continuous_inds = list(range(dim))
    _bounds = [(-10.0, 10.0)] * 2
    _optimal_value = -2.0626118708227366
    _optimizers = [
        (1.3494066171539107, 1.3494066171539107),
        (1.3494066171539107, -1.3494066171539107),
        (-1.3494066171539107, 1.3494066171539107),
        (-1.3494066171539107, -1.3494066171539107),
    ]

    def _evaluate_true(self, X: Tensor) -> Tensor:
        exponent = (100 - torch.linalg.norm(X, dim=-1) / math.pi).abs()
        # The exponential is taken out of the sum: it overflows in single precision.
        sines = X.sin().prod(dim=-1).abs() + (-exponent).exp()
        return -0.0001 * (0.1 * exponent).exp() * sines**0.1


class Forrester(SyntheticTestFunction):
    r"""The function of [Forrester2008engineering]_ on ``[0, 1]``.

        f(x) = (6 x - 2)^2 sin(12 x - 4)

    The global minimum is ``f(0.7572) = -6.0207``.
    """

    dim = 1
    continuous_inds = list(range(dim))
    _bounds = [(0.0, 1.0)]
    _optimal_value = -6.0207400557670825
    _optimizers = [(0.7572487578418559,)]

    def _evaluate_true(self, X: Tensor) -> Tensor:
        x = X.squeeze(-1)
        return (6 * x - 2).square() * (12 * x - 4).sin()


class GramacyLee(SyntheticTestFunction):
    r"""The function of [Gramacy2012nugget]_ on ``[0.5, 2.5]``.

        f(x) = sin(10 pi x) / (2 x) + (x - 1)^4

    The global minimum is ``f(0.5486) = -0.8690``.
    """

    dim = 1
    continuous_inds = list(range(dim))
    _bounds = [(0.5, 2.5)]
    _optimal_value = -0.8690111349894998
    _optimizers = [(0.5485634445276052,)]

    def _evaluate_true(self, X: Tensor) -> Tensor:
        x = X.squeeze(-1)
        return (10 * math.pi * x).sin() / (2 * x) + (x - 1) ** 4


class Langermann(SyntheticTestFunction):
    r"""Langermann function on ``[0, 10]^2``.

        f(x) = sum_{i=1}^5 c_i exp(-||x - a_i||^2 / pi) cos(pi ||x - a_i||^2)

    with ``c = (1, 2, 5, 2, 3)`` and five centers ``a_i``. The global minimum is
    ``f(2.7934, 1.5972) = -4.1558``.
    """

    dim = 2
    continuous_inds = list(range(dim))
    _bounds = [(0.0, 10.0)] * 2
    _optimal_value = -4.155809291847785
    _optimizers = [(2.7934022086450367, 1.59723250132836)]
    _centers = [(3.0, 5.0), (5.0, 2.0), (2.0, 1.0), (1.0, 4.0), (7.0, 9.0)]
    _weights = [1.0, 2.0, 5.0, 2.0, 3.0]

    def _evaluate_true(self, X: Tensor) -> Tensor:
        difference = X.unsqueeze(-2) - X.new_tensor(self._centers)  # ... x 5 x 2
        squares = difference.square().sum(dim=-1)
        waves = (-squares / math.pi).exp() * (math.pi * squares).cos()
        return waves @ X.new_tensor(self._weights)


class Levy13(SyntheticTestFunction):
    r"""Levy function 13 on ``[-10, 10]^2``.

        f(x) = sin^2(3 pi x_1) + (x_1 - 1)^2 (1 + sin^2(3 pi x_2))
            + (x_2 - 1)^2 (1 + sin^2(2 pi x_2))

    The global minimum is ``f(1, 1) = 0``.
    """

    dim = 2
    continuous_inds = list(range(dim))
    _bounds = [(-10.0, 10.0)] * 2
    _optimal_value = 0.0
    _optimizers = [(1.0, 1.0)]

    def _evaluate_true(self, X: Tensor) -> Tensor:
        x1, x2 = X.unbind(dim=-1)
        first = (x1 - 1).square() * (1 + (3 * math.pi * x2).sin().square())
        second = (x2 - 1).square() * (1 + (2 * math.pi * x2).sin().square())
        return (3 * math.pi * x1).sin().square() + first + second


class Schaffer4(SyntheticTestFunction):
    r"""Schaffer function 4 on ``[-100, 100]^2``.

        f(x) = 0.5 + (cos^2(sin(|x_1^2 - x_2^2|)) - 0.5) / (1 + 0.001 ||x||^2)^2

    The global minimum is 0.2926 at ``(0, ±1.2531)`` and ``(±1.2531, 0)``.
    """

    dim = 2
    continuous_inds = list(range(dim))
    _bounds = [(-100.0, 100.0)] * 2
    _optimal_value = 0.29257863203598056
    _optimizers = [
        (0.0, 1.2531318314637332),
        (0.0, -1.2531318314637332),
        (1.2531318314637332, 0.0),
        (-1.2531318314637332, 0.0),
    ]

    def _evaluate_true(self, X: Tensor) -> Tensor:
        squares = X.square()
        wave = (squares[..., 0] - squares[..., 1]).abs().sin().cos().square()
        return 0.5 + (wave - 0.5) / (1 + 0.001 * squares.sum(dim=-1)).square()


class Schwefel(SyntheticTestFunction):
    r"""Schwefel function on ``[-500, 500]^2``.

        f(x) = 418.9829 d - sum_{i=1}^d x_i sin(sqrt(|x_i|))

    The global minimum is ``f(420.9687, 420.9687) = 2.5e-5``: the constant has too few
    digits to make it zero.
    """

    dim = 2
    continuous_inds = list(range(dim))
    _bounds = [(-500.0, 500.0)] * 2
    _optimal_value = 2.5455132458773733e-05
    _optimizers = [(420.968746359982, 420.968746359982)]

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return 418.9829 * self.dim - (X * X.abs().sqrt().sin()).sum(dim=-1)


class Shubert(SyntheticTestFunction):
    r"""Shubert function on ``[0, 10]^2``.

        f(x) = prod_{j=1}^2 sum_{i=1}^5 i cos((i + 1) x_j + i)

    On this box two of its 18 global minima are left, ``f = -186.7309`` at
    ``(4.8581, 5.4829)`` and ``(5.4829, 4.8581)``.
    """

    dim = 2
    continuous_inds = list(range(dim))
    _bounds = [(0.0, 10.0)] * 2
    _optimal_value = -186.73090883102378
    _optimizers = [
        (4.858056878859825, 5.482864206707613),
        (5.482864206707613, 4.858056878859825),
    ]

    def _evaluate_true(self, X: Tensor) -> Tensor:
        i = torch.arange(1, 6, dtype=X.dtype, device=X.device)
        waves = ((i + 1) * X.unsqueeze(-1) + i).cos()  # ... x 2 x 5
        return (waves @ i).prod(dim=-1)


class UrsemWaves(SyntheticTestFunction):
    r"""Waves function of [Ursem1999multinational]_ on ``[-0.9, 1.2] x [-1.2, 1.2]``.

        f(x) = -(0.3 x_1)^3 + (x_2^2 - 4.5 x_2^2) x_1 x_2
            + 4.7 cos(3 x_1 - x_2^2 (2 + x_1)) sin(2.5 pi x_1)

    Some collections have ``-0.9 x_1^2`` for the cube; the paper's authors do not. The
    global minimum is ``f(-0.6057, -1.1776) = -7.3070``; the corner ``(1.2, 1.2)`` comes
    within 0.003 of it.
    """

    dim = 2
    continuous_inds = list(range(dim))
    _bounds = [(-0.9, 1.2), (-1.2, 1.2)]
    _optimal_value = -7.306998731324457
    _optimizers = [(-0.6056894935888592, -1.1775619344871522)]

    def _evaluate_true(self, X: Tensor) -> Tensor:
        x1, x2 = X.unbind(dim=-1)
        wave = (3 * x1 - x2.square() * (2 + x1)).cos() * (2.5 * math.pi * x1).sin()
        return -((0.3 * x1) ** 3) - 3.5 * x1 * x2**3 + 4.7 * wave
