r"""
Kernels of numbers, angles and categories, whose lengthscales shrink to a common one.

Each kind of column has its own factor: numbers a stationary kernel, periodic columns a
periodic kernel, categories a correlation. Outcomes of one bit say little about any one
of many lengthscales, so the lengthscales of numbers share most of their prior.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul

import torch
from botorch.exceptions import InputDataError
from gpytorch.constraints import GreaterThan, Interval
from gpytorch.kernels import Kernel, MaternKernel, PeriodicKernel, RBFKernel
from gpytorch.priors import LogNormalPrior

from botorch_binary_context.category_kernel import CategoryKernel
from botorch_binary_context.likelihoods.priors import BetaPrior
from botorch_binary_context.models.defaults import SHORTEST_OF_FACTOR
from botorch_binary_context.models.priors import PooledLogNormalPrior

# Standard deviations of the prior of log lengthscales: of their common part, and of
# each one's own part.
COMMON_SPREAD, OWN_SPREAD = 0.4, 0.25
# The Beta prior of the correlation of two categories.
CORRELATION_PRIOR = (4.0, 2.0)


@dataclass(frozen=True)
class Columns:
    r"""The kinds of the columns of the parameters.

    Attributes:
        numbers: Columns of numbers, in [0, 1].
        circles: Columns of periodic numbers, whose period is 1.
        categories: The one-hot columns of each categorical parameter.
    """

    numbers: tuple[int, ...] = ()
    circles: tuple[int, ...] = ()
    categories: tuple[tuple[int, ...], ...] = ()

    @property
    def num_parameters(self) -> int:
        """The number of parameters; a categorical one counts once."""
        return len(self.numbers) + len(self.circles) + len(self.categories)

    @property
    def num_columns(self) -> int:
        """The number of columns."""
        one_hot = sum(map(len, self.categories))
        return len(self.numbers) + len(self.circles) + one_hot

    def shift(self, by: int) -> Columns:
        r"""The same columns, moved behind other columns.

        Args:
            by: The number of columns in front.
        """

        def moved(columns: Sequence[int]) -> tuple[int, ...]:
            return tuple(column + by for column in columns)

        categories = tuple(map(moved, self.categories))
        return Columns(moved(self.numbers), moved(self.circles), categories)


def pooled_covar_module(
    columns: Columns,
    kernel_class: type[RBFKernel] | type[MaternKernel],
    lengthscale: float,
    batch_shape: torch.Size,
) -> Kernel:
    r"""The product of a kernel of each kind of columns, with unit variance.

    Args:
        columns: The kinds of the columns.
        kernel_class: The kernel of numbers.
        lengthscale: The median of the prior of their lengthscales.
        batch_shape: The batch shape of the model.

    Returns:
        The kernel, with a set of hyperparameters for each element of the batch.
    """
    factors: list[Kernel] = []
    if columns.numbers:
        factors.append(
            _numbers(columns.numbers, kernel_class, lengthscale, batch_shape)
        )
    if columns.circles:
        factors.append(_circles(columns.circles, lengthscale, batch_shape))
    if columns.categories:
        factors.append(_categories(columns.categories, batch_shape))
    if not factors:
        raise InputDataError("Expected ``columns`` to name some columns, but got none.")
    return reduce(mul, factors)


def _numbers(
    columns: tuple[int, ...],
    kernel_class: type[RBFKernel] | type[MaternKernel],
    lengthscale: float,
    batch_shape: torch.Size,
) -> Kernel:
    kernel = kernel_class(
        active_dims=columns,
        ard_num_dims=len(columns),
        batch_shape=batch_shape,
        lengthscale_prior=PooledLogNormalPrior(
            math.log(lengthscale), COMMON_SPREAD, OWN_SPREAD
        ),
        lengthscale_constraint=GreaterThan(SHORTEST_OF_FACTOR),
    )
    return kernel.initialize(lengthscale=lengthscale)


def _circles(
    columns: tuple[int, ...], lengthscale: float, batch_shape: torch.Size
) -> Kernel:
    """``exp(-2 Σ sin²(π (x - x')) / λ)``, as smooth nearby as for numbers."""
    # Near zero this is exp(-(x - x')² / (2 l²)) with λ = (2 π l)².
    scale = (2 * math.pi * lengthscale) ** 2
    spread = 2 * math.hypot(COMMON_SPREAD, OWN_SPREAD)
    kernel = PeriodicKernel(
        active_dims=columns,
        ard_num_dims=len(columns),
        batch_shape=batch_shape,
        lengthscale_prior=LogNormalPrior(math.log(scale), spread),
        lengthscale_constraint=GreaterThan((2 * math.pi * SHORTEST_OF_FACTOR) ** 2),
        period_length_constraint=Interval(0.5, 2.0),
    )
    kernel.raw_period_length.requires_grad_(False)
    return kernel.initialize(lengthscale=scale, period_length=1.0)


def _categories(
    categories: tuple[tuple[int, ...], ...], batch_shape: torch.Size
) -> Kernel:
    like, unlike = CORRELATION_PRIOR
    kernel = CategoryKernel(
        [len(columns) for columns in categories],
        batch_shape=batch_shape,
        active_dims=[column for columns in categories for column in columns],
        correlation_prior=BetaPrior(like, unlike),
    )
    kernel.correlation = like / (like + unlike)
    return kernel
