r"""
Kernels for trials that differ in who answered them, or when.

One column is neither a parameter nor a difficulty: the subject, or the number of the
trial. The function of the other columns changes with it:

    ``k((z,c), (z',c')) = k_shared(z,z') + k_c(c,c') k_own(z,z')``.

If ``k_c`` is one for the same subject and zero otherwise, subjects share a function and
each has its own deviation from it: a hierarchical model in one posterior. If ``k_c``
falls with time, the deviation drifts, as performance does in a long session.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from gpytorch.kernels import Kernel, MaternKernel
from gpytorch.priors import LogNormalPrior, Prior
from linear_operator import to_dense
from torch import Tensor

from botorch_binary_context.checks import check_count
from botorch_binary_context.context import normalize_context_dims, take_columns
from botorch_binary_context.numerics.covariance import (
    covariance,
    register_evaluation,
    variance,
)

# The standard deviation, in the logarithm, of the prior of the drift's timescale.
TIMESCALE_SPREAD = 0.7


class SameKernel(Kernel):
    r"""1 where the values of a column are equal, 0 elsewhere.

    Example:
        >>> who = torch.tensor([[0.0], [1.0], [1.0]])
        >>> SameKernel(num_values=2)(who).to_dense()  # 1 for rows of the same subject
    """

    def __init__(self, num_values: int) -> None:
        r"""
        Args:
            num_values: The column holds whole numbers from 0 to ``num_values - 1``.
        """
        super().__init__()
        check_count("num_values", num_values)
        self.num_values = num_values

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any
    ) -> Tensor:
        r"""1 where values are equal, else 0.

        Args:
            x1: A ``... x n x 1`` tensor.
            x2: A ``... x m x 1`` tensor.
            diag: Whether to compare row by row.
            params: Not used.

        Returns:
            A ``... x n x m`` tensor, or ``... x n``.
        """
        if diag:
            return (x1 == x2).all(dim=-1).to(x1)
        return (x1.unsqueeze(-2) == x2.unsqueeze(-3)).all(dim=-1).to(x1)


class ColumnKernel(Kernel):
    r"""``k_shared(z,z') + k_c(c,c') k_own(z,z')``, where ``c`` is one of the columns.

    Example:
        >>> shared, own = (ScaleKernel(RBFKernel(ard_num_dims=2)) for _ in range(2))
        >>> kernel = ColumnKernel(shared, own, MaternKernel(nu=0.5), column=2)
    """

    def __init__(
        self,
        shared_kernel: Kernel,
        own_kernel: Kernel,
        column_kernel: Kernel,
        column: int = -1,
    ) -> None:
        r"""
        Args:
            shared_kernel: The kernel of the part that is shared; it sees all columns
                except ``column``.
            own_kernel: The kernel of the deviations; it sees the same columns.
            column_kernel: The kernel of the column; it should be 1 at distance zero.
            column: The column; a negative one counts from the end.
        """
        super().__init__(batch_shape=shared_kernel.batch_shape)
        self.shared_kernel = shared_kernel
        self.own_kernel = own_kernel
        self.column_kernel = column_kernel
        self.column = int(column)

    @property
    def is_stationary(self) -> bool:
        """False, since the deviation may not be stationary."""
        return False

    def split(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""The column and the others.

        Args:
            X: A ``... x d`` tensor.

        Returns:
            The ``... x 1`` column and the ``... x (d - 1)`` others.
        """
        (column,) = normalize_context_dims([self.column], X.shape[-1])
        rest = [i for i in range(X.shape[-1]) if i != column]
        return take_columns(X, [column]), take_columns(X, rest)

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any
    ) -> Tensor:
        r"""The covariance.

        Args:
            x1: A ``... x n x d`` tensor.
            x2: A ``... x m x d`` tensor.
            diag: Whether to compare row by row.
            params: Further arguments of the kernels.

        Returns:
            A ``... x n x m`` tensor, or ``... x n``.
        """
        c1, x1 = self.split(x1)
        c2, x2 = self.split(x2)
        if diag:
            shared, own = (
                to_dense(kernel(x1, x2, diag=True, **params))
                for kernel in (self.shared_kernel, self.own_kernel)
            )
            return shared + to_dense(self.column_kernel(c1, c2, diag=True)) * own
        own = covariance(self.own_kernel, x1, x2)
        factor = covariance(self.column_kernel, c1, c2)
        return covariance(self.shared_kernel, x1, x2) + factor * own


class SubjectKernel(ColumnKernel):
    r"""``k_shared(z,z') + δ_jj' k_own(z,z')``: subjects who have a function in common.

    Example:
        >>> kernel = SubjectKernel(shared, own, num_subjects=21)  # the last column
        >>> model = BinaryGP(train_X, train_Y, covar_module=kernel)
        >>> space, held = hold_column(space, -1, 20)  # the new subject
        >>> suggest(model, space, constraints=held)
    """

    def __init__(
        self,
        shared_kernel: Kernel,
        own_kernel: Kernel,
        num_subjects: int,
        column: int = -1,
    ) -> None:
        r"""
        Args:
            shared_kernel: The kernel of the function that subjects share; it sees all
                columns except the subject's.
            own_kernel: The kernel of each subject's deviation.
            num_subjects: The number of subjects, who are numbered 0, 1, 2 and so on.
            column: The subject's column, after any input transform.
        """
        super().__init__(shared_kernel, own_kernel, SameKernel(num_subjects), column)


class DriftKernel(ColumnKernel):
    r"""``k_shared(z,z') + exp(-|t - t'| / τ) k_own(z,z')``: performance that drifts.

    Learning, fatigue and adaptation change performance in small steps, which an
    Ornstein-Uhlenbeck process describes. With a constant as ``k_own``, all settings get
    better or worse together, which duels cannot show.

    Example:
        >>> kernel = DriftKernel(shared, offset, timescale=50.0)  # in trials
        >>> model = BinaryGP(train_X, train_Y, covar_module=kernel)
        >>> now, held = hold_column(space, -1, len(train_X))
        >>> suggest(model, now, constraints=held), recommend(model, now)
    """

    def __init__(
        self,
        shared_kernel: Kernel,
        own_kernel: Kernel,
        timescale: float = 1.0,
        timescale_prior: Prior | None = None,
        column: int = -1,
    ) -> None:
        r"""
        Args:
            shared_kernel: The kernel of the part that stays constant; it sees all
                columns except the trial number.
            own_kernel: The kernel of the part that drifts.
            timescale: The initial ``τ``, in units of the column.
            timescale_prior: The prior of ``τ``; by default log-normal around the
                initial value, with a standard deviation of 0.7 in the logarithm.
            column: The column of the trial number, or of the time.
        """
        if timescale_prior is None:
            timescale_prior = LogNormalPrior(math.log(timescale), TIMESCALE_SPREAD)
        decay = MaternKernel(
            nu=0.5,
            batch_shape=shared_kernel.batch_shape,
            lengthscale_prior=timescale_prior,
        )
        decay.initialize(lengthscale=timescale)
        super().__init__(shared_kernel, own_kernel, decay, column)

    @property
    def timescale(self) -> Tensor:
        """``τ``, of shape ``batch_shape``."""
        decay: Any = self.column_kernel
        return decay.lengthscale.squeeze(-1).squeeze(-1)


def _matrix(kernel: ColumnKernel, X1: Tensor, X2: Tensor) -> Tensor:
    return kernel.forward(X1, X2)


def _diagonal(kernel: ColumnKernel, X: Tensor) -> Tensor:
    column, rest = kernel.split(X)
    own = variance(kernel.own_kernel, rest)
    factor = variance(kernel.column_kernel, column)
    return variance(kernel.shared_kernel, rest) + factor * own


for _kernel_type in (ColumnKernel, SubjectKernel, DriftKernel):
    register_evaluation(_kernel_type, _matrix, _diagonal)


def _same(kernel: SameKernel, X1: Tensor, X2: Tensor) -> Tensor:
    return kernel.forward(X1, X2)


def _same_diagonal(kernel: SameKernel, X: Tensor) -> Tensor:
    return torch.ones_like(X[..., 0])


register_evaluation(SameKernel, _same, _same_diagonal)
