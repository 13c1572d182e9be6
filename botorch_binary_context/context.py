r"""
Which columns of a trial are context, their bounds, and the reference context.

A trial is a row ``z`` of ``d`` numbers: the parameters ``x`` of the system, which are
optimized, and the context ``s`` of the test, which the experimenter chooses.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import lru_cache

import torch
from botorch.exceptions import InputDataError
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from botorch_binary_context.checks import describe


def normalize_context_dims(context_dims: Sequence[int], dim: int) -> tuple[int, ...]:
    r"""Sorted non-negative context columns of rows with ``dim`` columns.

    Args:
        context_dims: The columns; negative ones count from the end.
        dim: The number of columns of a row.

    Returns:
        The columns in ascending order.
    """
    try:
        columns = [operator.index(i) for i in context_dims]
    except TypeError:
        raise InputDataError(
            "Expected ``context_dims`` to be a list of columns, but got "
            f"{describe(context_dims)}."
        ) from None
    wrong = [i for i in columns if not -dim <= i < dim]
    if wrong:
        raise InputDataError(
            f"Expected ``context_dims`` to be columns of rows with {dim} columns, but "
            f"got {wrong} in {columns}."
        )
    normalized = tuple(sorted(i % dim for i in columns))
    if len(set(normalized)) < len(normalized):
        raise InputDataError(
            f"Expected ``context_dims`` to name each column once, but got {columns}."
        )
    return normalized


@lru_cache(maxsize=256)
def _runs(columns: tuple[int, ...]) -> list[tuple[int, int]]:
    """Columns as runs of neighbors, from start to stop."""
    runs: list[tuple[int, int]] = []
    for column in columns:
        if runs and runs[-1][1] == column:
            runs[-1] = (runs[-1][0], column + 1)
        else:
            runs.append((column, column + 1))
    return runs


def take_columns(X: Tensor, columns: Sequence[int]) -> Tensor:
    r"""Some columns of rows, by slices, which are faster than indexing.

    Args:
        X: A ``... x d`` tensor.
        columns: Non-negative columns.

    Returns:
        A ``... x k`` tensor.
    """
    parts = [X[..., start:stop] for start, stop in _runs(tuple(columns))]
    if not parts:
        return X[..., :0]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


class ContextSpace:
    r"""The box that trials come from, split into parameters and contexts.

    Every part of the package that distinguishes parameters ``x`` from contexts ``s``
    takes one of these. A space may have no context columns; every method then works as
    it would without contexts. It may also have no parameters; then there is only a
    threshold to learn.

    Example:
        >>> bounds = [[0.0, -4.0, -4.0], [1.0, 4.0, 4.0]]
        >>> space = ContextSpace(bounds, context_dims=[0], reference_context=[1.0])
        >>> space.at_reference(torch.zeros(5, 2))  # 5 x 3, the context set to 1
    """

    bounds: Tensor
    context_dims: tuple[int, ...]
    parameter_dims: tuple[int, ...]
    reference_context: Tensor

    def __init__(
        self,
        bounds: Tensor | Sequence[Sequence[float]],
        context_dims: Sequence[int] = (),
        reference_context: Tensor | Sequence[float] | float = (),
    ) -> None:
        r"""
        Args:
            bounds: The lower and the upper bounds of all columns: a ``2 x d`` tensor,
                or two lists, which become a tensor of double precision.
            context_dims: The columns that are context; negative ones count from the
                end.
            reference_context: The context ``s₀`` in which the system should be good:
                one number for each context column, in the order of ``context_dims``.
        """
        self.bounds = _check_bounds(bounds)
        dim = self.bounds.shape[-1]
        self.context_dims = normalize_context_dims(context_dims, dim)
        self.parameter_dims = tuple(i for i in range(dim) if i not in self.context_dims)
        order = sorted(range(len(context_dims)), key=lambda i: context_dims[i] % dim)
        self.reference_context = self._check_reference(reference_context, order)

    def _check_reference(
        self, reference: Tensor | Sequence[float] | float, order: list[int]
    ) -> Tensor:
        try:
            value = torch.as_tensor(
                reference, dtype=self.bounds.dtype, device=self.bounds.device
            ).reshape(-1)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            raise InputDataError(
                "Expected ``reference_context`` to be numbers, but got "
                f"{describe(reference)}."
            ) from None
        if value.numel() != self.num_contexts:
            raise InputDataError(
                "Expected ``reference_context`` to have one number for each of the "
                f"{self.num_contexts} context columns, but got {value.tolist()}."
            )
        value = value[order]
        low, high = self.context_bounds
        # not (low <= value <= high), so that NaN is refused too
        if not bool(((low <= value) & (value <= high)).all()):
            raise InputDataError(
                "Expected ``reference_context`` to lie within the bounds of the "
                f"context columns, {low.tolist()} to {high.tolist()}, but got "
                f"{value.tolist()}."
            )
        return value

    @property
    def dim(self) -> int:
        """The number of columns of a trial."""
        return self.bounds.shape[-1]

    @property
    def num_contexts(self) -> int:
        """The number of context columns."""
        return len(self.context_dims)

    @property
    def parameter_bounds(self) -> Tensor:
        """The ``2 x (d - m)`` bounds of the parameters."""
        return take_columns(self.bounds, self.parameter_dims)

    @property
    def context_bounds(self) -> Tensor:
        """The ``2 x m`` bounds of the contexts."""
        return take_columns(self.bounds, self.context_dims)

    def parameters(self, X: Tensor) -> Tensor:
        r"""The parameter columns of trials.

        Args:
            X: A ``... x d`` tensor of trials.

        Returns:
            A ``... x (d - m)`` tensor.
        """
        return take_columns(X, self.parameter_dims)

    def contexts(self, X: Tensor) -> Tensor:
        r"""The context columns of trials.

        Args:
            X: A ``... x d`` tensor of trials.

        Returns:
            A ``... x m`` tensor.
        """
        return take_columns(X, self.context_dims)

    def join(self, parameters: Tensor, contexts: Tensor) -> Tensor:
        r"""Put parameters and contexts together into trials.

        Args:
            parameters: A ``... x (d - m)`` tensor.
            contexts: A ``... x m`` tensor whose leading dimensions broadcast with those
                of ``parameters``.

        Returns:
            A ``... x d`` tensor.
        """
        batch_shape = parameters.shape[:-1]
        if contexts.ndim > 1 and contexts.shape[:-1] != batch_shape:
            batch_shape = torch.broadcast_shapes(batch_shape, contexts.shape[:-1])
        columns = torch.cat(
            [
                parameters.expand(*batch_shape, -1),
                contexts.to(parameters).expand(*batch_shape, -1),
            ],
            dim=-1,
        )
        source = self.parameter_dims + self.context_dims
        order = sorted(range(self.dim), key=lambda i: source[i])
        return take_columns(columns, order)

    def at_reference(self, parameters: Tensor) -> Tensor:
        r"""Trials of the given parameters in the reference context.

        Args:
            parameters: A ``... x (d - m)`` tensor.

        Returns:
            A ``... x d`` tensor.
        """
        return self.join(parameters, self.reference_context)

    def draw_quasi_random(self, n: int, seed: int | None = None) -> Tensor:
        r"""Trials of a scrambled Sobol sequence, to begin with.

        Args:
            n: The number of trials.
            seed: The seed of the scrambling.

        Returns:
            A ``n x d`` tensor.
        """
        return draw_sobol_samples(self.bounds, n=n, q=1, seed=seed).squeeze(-2)

    def to(self, other: Tensor) -> ContextSpace:
        r"""The same space with the dtype and the device of a tensor.

        Args:
            other: The tensor to follow.

        Returns:
            This space if it already has them, or else a copy.
        """
        if (self.bounds.dtype, self.bounds.device) == (other.dtype, other.device):
            return self
        return ContextSpace(
            self.bounds.to(other), self.context_dims, self.reference_context.to(other)
        )

    def __repr__(self) -> str:
        return (
            f"ContextSpace(bounds={self.bounds.tolist()}, "
            f"context_dims={list(self.context_dims)}, "
            f"reference_context={self.reference_context.tolist()})"
        )


def _check_bounds(bounds: Tensor | Sequence[Sequence[float]]) -> Tensor:
    if not isinstance(bounds, Tensor):
        try:
            bounds = torch.tensor(bounds, dtype=torch.double)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            raise InputDataError(
                "Expected ``bounds`` to be a ``2 x d`` tensor or two lists of numbers, "
                f"but got {describe(bounds)}."
            ) from None
    if bounds.ndim != 2 or bounds.shape[0] != 2:
        raise InputDataError(
            "Expected ``bounds`` to be a ``2 x d`` tensor, but got shape "
            f"{list(bounds.shape)}."
        )
    if not bounds.is_floating_point() or not bool(bounds.isfinite().all()):
        raise InputDataError(
            "Expected ``bounds`` to hold finite floating point numbers, but got "
            f"{bounds.tolist()} of type {bounds.dtype}."
        )
    if not bool((bounds[0] < bounds[1]).all()):
        raise InputDataError(
            "Expected ``bounds`` to have every lower bound below its upper bound, but "
            f"got lower bounds {bounds[0].tolist()} and upper bounds "
            f"{bounds[1].tolist()}."
        )
    return bounds
