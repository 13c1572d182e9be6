r"""
A kernel of categorical variables that learns how similar their values are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from botorch.exceptions import InputDataError
from gpytorch.constraints import Interval
from gpytorch.kernels import Kernel
from gpytorch.priors import Prior
from torch import Tensor

from botorch_binary_context.numerics.covariance import register_evaluation


class CategoryKernel(Kernel):
    r"""``Π_v (ρ_v + (1 - ρ_v) u_vᵀu'_v)``, with ``u_v`` the one-hot columns of ``v``.

    Two rows that differ in the categorical variable ``v`` have the correlation ``ρ_v``,
    whatever the two values are, so trials with one value also inform predictions for
    the others. A stationary kernel on one-hot columns correlates them, too, but barely
    so at the lengthscales that suit numeric variables.

    Example:
        >>> kernel = CategoryKernel([3, 2])  # of columns 1 to 3 and 4 to 5
        >>> RBFKernel(active_dims=[0]) * CategoryKernel([3], active_dims=[1, 2, 3])
    """

    raw_correlation: torch.nn.Parameter
    raw_correlation_constraint: Interval

    def __init__(
        self,
        sizes: Sequence[int],
        batch_shape: torch.Size = torch.Size(),  # noqa: B008
        active_dims: Sequence[int] | None = None,
        correlation_prior: Prior | None = None,
    ) -> None:
        r"""
        Args:
            sizes: The number of values of each variable. The one-hot columns of a
                variable are adjacent.
            batch_shape: The batch shape of the correlations.
            active_dims: The columns, ``sum(sizes)`` of them; by default all.
            correlation_prior: A prior of the correlations.
        """
        dims = None if active_dims is None else tuple(active_dims)
        super().__init__(batch_shape=batch_shape, active_dims=dims)
        self.sizes = [int(size) for size in sizes]
        if not self.sizes or min(self.sizes) < 1:
            raise InputDataError(
                "Expected ``sizes`` to be positive numbers of values, but got "
                f"{list(sizes)}."
            )
        if dims is not None and len(dims) != sum(self.sizes):
            raise InputDataError(
                f"Expected ``active_dims`` to be {sum(self.sizes)} columns, one for "
                f"each value, but got {len(dims)}."
            )
        device = torch.get_default_device()
        raw = torch.zeros(*batch_shape, len(self.sizes), device=device)
        self.register_parameter("raw_correlation", torch.nn.Parameter(raw))
        self.register_constraint("raw_correlation", Interval(0.0, 1.0))
        if correlation_prior is not None:
            self.register_prior(
                "correlation_prior",
                correlation_prior,
                _get_correlation,
                _set_correlation,
            )

    @property
    def is_stationary(self) -> bool:
        """False: it does not depend on differences alone."""
        return False

    @property
    def correlation(self) -> Tensor:
        r"""``ρ``, of shape ``batch_shape x v``."""
        return self.raw_correlation_constraint.transform(self.raw_correlation)

    @correlation.setter
    def correlation(self, value: Tensor | float) -> None:
        raw = self.raw_correlation
        value = torch.as_tensor(value, dtype=raw.dtype, device=raw.device)
        inverse = self.raw_correlation_constraint.inverse_transform(value)
        self.initialize(raw_correlation=inverse.expand(raw.shape).clone())

    def split(self, X: Tensor) -> tuple[Tensor, ...]:
        r"""The columns of each variable.

        Args:
            X: A ``... x sum(sizes)`` tensor.

        Returns:
            A ``... x size`` tensor for each variable.
        """
        return X.split(self.sizes, dim=-1)

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any
    ) -> Tensor:
        r"""The covariance.

        Args:
            x1: A ``... x n x k`` tensor.
            x2: A ``... x m x k`` tensor.
            diag: Whether to return only the variances of ``x1``.
            params: Not used.

        Returns:
            A ``... x n x m`` tensor, or ``... x n``.
        """
        if diag:
            return _variance(self, x1)
        products = (
            u1 @ u2.mT for u1, u2 in zip(self.split(x1), self.split(x2), strict=True)
        )
        correlations = self.correlation[..., None, None].unbind(dim=-3)
        return _combine(correlations, products)


def _variance(kernel: CategoryKernel, X: Tensor) -> Tensor:
    squares = (u.square().sum(dim=-1) for u in kernel.split(X))
    correlations = kernel.correlation[..., None].unbind(dim=-2)
    return _combine(correlations, squares)


def _combine(correlations: Any, products: Any) -> Tensor:
    """The product over variables of ``ρ + (1 - ρ) uᵀu'``."""
    factors = (
        rho + (1.0 - rho) * product
        for rho, product in zip(correlations, products, strict=True)
    )
    return reduce(torch.mul, factors)


def _get_correlation(kernel: CategoryKernel) -> Tensor:
    return kernel.correlation


def _set_correlation(kernel: Any, value: Any) -> Any:
    kernel.correlation = value


register_evaluation(CategoryKernel, CategoryKernel.forward, _variance)
