r"""
Anderson's acceleration of fixed-point iterations, many at once [Anderson1965]_.

.. [Anderson1965]
    D. G. Anderson. Iterative procedures for nonlinear integral equations. Journal of
    the ACM, 1965.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Relative to the norms, so that nearly parallel differences leave a unique solution.
REGULARIZATION = 1e-12
PATIENCE = 4


class AndersonMixing:
    r"""Anderson's acceleration of ``x ← x + d(x)``, for each column on its own.

    The next ``x`` is the combination of the last three ``x + d`` that would have the
    smallest ``‖d‖`` if ``d`` were linear. On a linear problem this is a truncated GMRES
    method with the plain iteration as its preconditioner. A column whose ``d`` is zero
    stays where it is.

    Example:
        >>> mixing = AndersonMixing()
        >>> for _ in range(10):
        >>>     x = mixing.advance(x, x.cos() - x)
    """

    def __init__(self) -> None:
        self._last: tuple[Tensor, Tensor] | None = None
        # Differences of d, and of x + d; the newest come last.
        self._differences: list[tuple[Tensor, Tensor]] = []

    def advance(self, x: Tensor, d: Tensor) -> Tensor:
        r"""The next iterate.

        Args:
            x: The iterate, ``... x n x C``.
            d: The change that the plain iteration would make.

        Returns:
            A ``... x n x C`` tensor.
        """
        if self._last is not None:
            dx = x - self._last[0]
            dd = d - self._last[1]
            self._differences = [*self._differences[-1:], (dd, dx + dd)]
        self._last = x, d
        x = x + d
        for weight, (_, change) in zip(
            self._weights(d), self._differences, strict=True
        ):
            x = torch.addcmul(x, weight.unsqueeze(-2), change, value=-1)
        return x

    def _weights(self, d: Tensor) -> list[Tensor]:
        """The least-squares coefficients of ``d`` in its differences."""
        if not self._differences:
            return []
        first = self._differences[0][0]
        g11 = column_dot(first, first)
        b1 = column_dot(first, d)
        g11 = g11 * (1 + REGULARIZATION)
        if len(self._differences) == 1:
            return [_divide(b1, g11)]
        second = self._differences[1][0]
        g22 = column_dot(second, second)
        b2 = column_dot(second, d)
        g22 = g22 * (1 + REGULARIZATION)
        g12 = column_dot(first, second)
        determinant = g11 * g22 - g12.square()
        return [
            _divide(b1 * g22 - b2 * g12, determinant),
            _divide(b2 * g11 - b1 * g12, determinant),
        ]


class Watch:
    r"""Decides when an iteration on many columns is over."""

    def __init__(self, limit: float | Tensor) -> None:
        r"""
        Args:
            limit: The error at which a column is done.
        """
        self.limit = limit
        self._mark: Tensor | float = torch.inf  # the error when it was last halved
        self._age: Tensor | float = 0.0  # steps since then

    def is_over(self, error: Tensor) -> bool:
        r"""Whether every column is done, or has not halved its error for a while.

        Args:
            error: The error of every column.
        """
        halved = error < self._mark / 2
        self._mark = torch.where(halved, error, self._mark)
        self._age = torch.where(halved, 0.0, self._age + 1)
        return bool(((error <= self.limit) | (self._age >= PATIENCE)).all())


def column_dot(a: Tensor, b: Tensor) -> Tensor:
    r"""The inner products of columns.

    Args:
        a: A ``... x n x C`` tensor.
        b: A ``... x n x C`` tensor.

    Returns:
        A ``... x C`` tensor.
    """
    return (a * b).sum(dim=-2)


def _divide(a: Tensor, b: Tensor) -> Tensor:
    """The ratio, zero where the denominator is not positive."""
    return torch.where(b > 0, a / b, 0.0)
