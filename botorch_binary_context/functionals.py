r"""
Functionals: what a trial observes of the latent function.

A pass/fail trial observes ``f(z)``, a duel ``f(z₁) - f(z₂)``, an average over contexts
``Σ w_k f(s_k, x)``: each is a weighted sum of the values of ``f`` at a few rows. Where
rows are stacked, the rows of one trial are consecutive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from botorch.exceptions import InputDataError, UnsupportedError
from gpytorch.distributions import MultivariateNormal
from linear_operator import to_dense, to_linear_operator
from torch import Tensor

from botorch_binary_context.numerics.covariance import raise_variance


@dataclass(frozen=True)
class Functional:
    r"""A weighted sum of the values of a function at the rows of a trial.

    Attributes:
        weights: The weight of each row.

    Example:
        >>> average = Functional((0.5, 0.5))
        >>> average(torch.tensor([1.0, 3.0, 5.0, 7.0]))  # of two trials: 2, 6
    """

    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.weights:
            raise InputDataError("Expected ``weights`` to name a row, but got none.")

    @property
    def num_rows(self) -> int:
        """The number of rows of one trial."""
        return len(self.weights)

    @property
    def sees_offset(self) -> bool:
        """Whether adding a constant to the function changes what a trial observes."""
        return sum(self.weights) != 0.0

    def __call__(self, values: Tensor, dim: int = -1) -> Tensor:
        r"""What each trial observes of the values of the rows it shows.

        Args:
            values: A tensor with the rows of all trials along ``dim``.
            dim: The dimension of the rows, negative.

        Returns:
            A tensor with the trials along ``dim``.
        """
        if self == VALUE:
            return values
        self._check_rows(values.shape[dim])
        parts = values.unflatten(dim, (-1, self.num_rows)).unbind(dim)
        if self == DIFFERENCE:
            return parts[0] - parts[1]
        total = self.weights[0] * parts[0]
        for weight, part in zip(self.weights[1:], parts[1:], strict=True):
            total = total + weight * part
        return total

    def _check_rows(self, number: int) -> None:
        if number % self.num_rows:
            trials, kind = "trials", f"sets of {self.num_rows}"
            if self.num_rows == 2:
                trials, kind = "duels", "pairs"
            raise UnsupportedError(
                f"Expected the rows of {trials} to come in {kind}, but got {number} of "
                "them."
            )

    def of_covariance(self, covariance: Tensor) -> Tensor:
        r"""The covariance of the functional at trials.

        Args:
            covariance: The covariance of the values of their rows, ``... x m x m``.

        Returns:
            A ``... x n x n`` tensor.
        """
        return self(self(covariance), dim=-2)

    def of_distribution(self, distribution: MultivariateNormal) -> MultivariateNormal:
        r"""The joint distribution of what trials observe.

        Args:
            distribution: The distribution of the values of their rows.

        Returns:
            The distribution of the functional at the trials.
        """
        if self == VALUE:
            return distribution
        covariance = to_dense(distribution.lazy_covariance_matrix)
        return MultivariateNormal(
            self(distribution.mean),
            to_linear_operator(raise_variance(self.of_covariance(covariance))),
        )

    def rows(self, trials: Tensor) -> Tensor:
        r"""The rows that trials show.

        Args:
            trials: ``batch_shape x n x d`` if a trial is one row, otherwise
                ``batch_shape x n x num_rows x d``.

        Returns:
            A ``batch_shape x (n num_rows) x d`` tensor.
        """
        return trials if self.num_rows == 1 else trials.flatten(-3, -2)

    def trials(self, rows: Tensor) -> Tensor:
        r"""The inverse of :meth:`rows`.

        Args:
            rows: A ``batch_shape x (n num_rows) x d`` tensor.
        """
        return rows if self.num_rows == 1 else rows.unflatten(-2, (-1, self.num_rows))

    @property
    def trial_dim(self) -> int:
        """How many dimensions a trial has: one, or two if it shows several rows."""
        return 1 if self.num_rows == 1 else 2


#: ``f(z)``.
VALUE = Functional((1.0,))
#: ``f(z₁) - f(z₂)``.
DIFFERENCE = Functional((1.0, -1.0))


@dataclass(frozen=True)
class StackedFunctional:
    r"""The functionals of trials of several kinds, whose rows follow one another.

    Attributes:
        parts: The functional of each kind and the number of its trials.

    Example:
        >>> observed = StackedFunctional([(VALUE, 2), (DIFFERENCE, 1)])
        >>> observed(torch.tensor([3.0, 4.0, 7.0, 5.0]))  # 3, 4 and, for the duel, 2
    """

    parts: Sequence[tuple[Functional, int]]

    def __call__(self, values: Tensor, dim: int = -1) -> Tensor:
        r"""What each trial observes of the values of the rows it shows.

        Args:
            values: A tensor with the rows of all trials along ``dim``.
            dim: The dimension of the rows, negative.

        Returns:
            A tensor with the trials along ``dim``.
        """
        if len(self.parts) == 1:
            return self.parts[0][0](values, dim)
        sizes = [functional.num_rows * n for functional, n in self.parts]
        blocks = values.split(sizes, dim=dim)
        observed = [
            functional(block, dim)
            for (functional, _), block in zip(self.parts, blocks, strict=True)
        ]
        return torch.cat(observed, dim=dim)
