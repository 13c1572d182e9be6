r"""
Kernels that know which columns are context.

Each wraps a kernel of the parameters ``x`` and adds the effect of the context ``s``
that [Fauvel2022contextual]_ assumes. A product ``k₁(s,s') k₂(x,x')`` of general kernels
needs no class of its own: stock kernels with ``active_dims`` multiply.

    >>> RBFKernel(active_dims=[0]) * RBFKernel(active_dims=[1, 2], ard_num_dims=2)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from botorch.exceptions import InputDataError
from gpytorch.constraints import Interval, Positive
from gpytorch.kernels import Kernel
from gpytorch.priors import Prior
from linear_operator import to_dense
from torch import Tensor

from botorch_binary_context.context import normalize_context_dims, take_columns
from botorch_binary_context.numerics.covariance import (
    covariance,
    register_evaluation,
    variance,
)


class _ContextKernel(Kernel):
    """A kernel of the parameters, combined with the dot product of the contexts."""

    def __init__(
        self, base_kernel: Kernel, context_dims: Sequence[int], **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if not context_dims:
            raise InputDataError(
                "Expected ``context_dims`` to name at least one column, but got none."
            )
        self.base_kernel = base_kernel
        self.context_dims = tuple(int(i) for i in context_dims)

    @property
    def is_stationary(self) -> bool:
        return False

    def split(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""The contexts and the parameters of rows.

        Args:
            X: A ``... x d`` tensor.

        Returns:
            The ``... x m`` contexts and the ``... x (d - m)`` parameters.
        """
        columns = normalize_context_dims(self.context_dims, X.shape[-1])
        rest = [i for i in range(X.shape[-1]) if i not in columns]
        return take_columns(X, columns), take_columns(X, rest)

    @abstractmethod
    def combine(self, contexts: Tensor, base: Tensor) -> Tensor:
        r"""The covariance, from the contexts' dot products and the base kernel.

        Args:
            contexts: A ``... x n x m`` tensor of ``sᵀs'``.
            base: A ``... x n x m`` tensor of ``k(x,x')``.

        Returns:
            A tensor of the same shape.
        """

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any
    ) -> Tensor:
        contexts1, x1 = self.split(x1)
        contexts2, x2 = self.split(x2)
        if diag:
            contexts = (contexts1 * contexts2).sum(dim=-1, keepdim=True)
            base = to_dense(self.base_kernel(x1, x2, diag=True, **params))
            return self.combine(contexts, base.unsqueeze(-1)).squeeze(-1)
        return self.combine(
            contexts1 @ contexts2.mT, covariance(self.base_kernel, x1, x2)
        )


def _context_variance(kernel: _ContextKernel, X: Tensor) -> Tensor:
    contexts, parameters = kernel.split(X)
    squares = contexts.square().sum(dim=-1, keepdim=True)
    base = variance(kernel.base_kernel, parameters).unsqueeze(-1)
    return kernel.combine(squares, base).squeeze(-1)


class MultiplicativeContextKernel(_ContextKernel):
    r"""``s s' k(x,x')``: the context scales the performance, ``f(s,x) = s g(x)``.

    The kernel of the synthetic studies of [Fauvel2022contextual]_. Several context
    columns enter by their dot product, ``f(s,x) = sᵀ g(x)``.

    Example:
        >>> base = ScaleKernel(RBFKernel(ard_num_dims=2))
        >>> kernel = MultiplicativeContextKernel(base, context_dims=[0])
    """

    def __init__(self, base_kernel: Kernel, context_dims: Sequence[int]) -> None:
        r"""
        Args:
            base_kernel: The kernel of the parameters; it sees only the columns that
                are not context.
            context_dims: The context columns; negative ones count from the end.
        """
        super().__init__(base_kernel, context_dims)

    def combine(self, contexts: Tensor, base: Tensor) -> Tensor:
        r"""``sᵀs' k(x,x')``."""
        return contexts * base


class AdditiveContextKernel(_ContextKernel):
    r"""``θ s s' + k(x,x')``: the context shifts the performance, ``f = a s + g(x)``.

    The kernel of psychometric functions (supplement 5 of [Fauvel2022contextual]_), with
    ``θ = context_variance`` the prior variance of the slope. Several context columns
    enter by their dot product.

    Example:
        >>> base = ScaleKernel(RBFKernel(ard_num_dims=2))
        >>> kernel = AdditiveContextKernel(base, context_dims=[0])
        >>> kernel.context_variance = 9.0
    """

    raw_context_variance: torch.nn.Parameter
    raw_context_variance_constraint: Interval

    def __init__(
        self,
        base_kernel: Kernel,
        context_dims: Sequence[int],
        context_variance_prior: Prior | None = None,
        context_variance_constraint: Interval | None = None,
    ) -> None:
        r"""
        Args:
            base_kernel: The kernel of the parameters; it sees only the columns that
                are not context.
            context_dims: The context columns; negative ones count from the end.
            context_variance_prior: A prior of ``θ``.
            context_variance_constraint: The constraint of ``θ``, by default positive.
        """
        super().__init__(base_kernel, context_dims, batch_shape=base_kernel.batch_shape)
        like = next(base_kernel.parameters(), None)
        device = torch.get_default_device() if like is None else like.device
        dtype = torch.get_default_dtype() if like is None else like.dtype
        self.register_parameter(
            "raw_context_variance",
            torch.nn.Parameter(
                torch.zeros(self.batch_shape, dtype=dtype, device=device)
            ),
        )
        self.register_constraint(
            "raw_context_variance", context_variance_constraint or Positive()
        )
        if context_variance_prior is not None:
            self.register_prior(
                "context_variance_prior",
                context_variance_prior,
                _get_context_variance,
                _set_context_variance,
            )

    @property
    def context_variance(self) -> Tensor:
        r"""``θ``, of shape ``batch_shape``."""
        constraint = self.raw_context_variance_constraint
        return constraint.transform(self.raw_context_variance)

    @context_variance.setter
    def context_variance(self, value: Tensor | float) -> None:
        raw = self.raw_context_variance
        constraint = self.raw_context_variance_constraint
        value = torch.as_tensor(value, dtype=raw.dtype, device=raw.device)
        self.initialize(raw_context_variance=constraint.inverse_transform(value))

    def combine(self, contexts: Tensor, base: Tensor) -> Tensor:
        r"""``θ sᵀs' + k(x,x')``."""
        return self.context_variance[..., None, None] * contexts + base


def _get_context_variance(kernel: AdditiveContextKernel) -> Tensor:
    return kernel.context_variance


def _set_context_variance(kernel: Any, value: Any) -> Any:
    kernel.context_variance = value


for _kernel_type in (MultiplicativeContextKernel, AdditiveContextKernel):
    register_evaluation(_kernel_type, _kernel_type.forward, _context_variance)


def context_dims_of(kernel: Kernel) -> tuple[int, ...]:
    r"""The columns that the context kernels within a kernel treat as context.

    Args:
        kernel: A GPyTorch kernel, possibly a composition.

    Returns:
        The columns as the context kernels name them; empty if there are none.
    """
    found = (k.context_dims for k in kernel.modules() if isinstance(k, _ContextKernel))
    return next(found, ())
