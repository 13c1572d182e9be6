r"""
The box of whole trials: one context, and the parameters of every row of a trial.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_binary_context.constraints import Constraints
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.functionals import Functional
from botorch_binary_context.numerics.optim import draw_points


@dataclass(frozen=True)
class TrialSpace:
    r"""The free variables of a trial, and the trials that they make.

    The free variables of a pass/fail trial are its context and its parameters; the free
    variables of a duel are one context and the parameters of both sides.

    Attributes:
        space: The box of the rows of trials.
        functional: What a trial observes, which determines its number of rows.
        context: The context of all trials, ``m`` numbers or, for a batch of models,
            ``batch_shape x m``; by default it is free.
        constraints: The constraints on the rows of trials.

    Example:
        >>> duels = TrialSpace(space, DIFFERENCE)
        >>> duels.draw_quasi_random(5, seed=0)  # 5 x 2 x d
    """

    space: ContextSpace
    functional: Functional
    context: Tensor | None = None
    constraints: Constraints | None = None

    @property
    def num_rows(self) -> int:
        """How many rows a trial has."""
        return self.functional.num_rows

    @property
    def bounds(self) -> Tensor:
        """The ``2 x k`` bounds of the free variables, contexts first."""
        sides = [self.space.parameter_bounds] * self.num_rows
        free = [] if self.context is not None else [self.space.context_bounds]
        return torch.cat([*free, *sides], dim=-1)

    def decode(self, variables: Tensor) -> Tensor:
        r"""The trials that free variables make.

        Args:
            variables: A ``... x k`` tensor.

        Returns:
            A ``... x num_rows x d`` tensor, whose rows share their context.
        """
        k = self.num_rows * len(self.space.parameter_dims)
        m = variables.shape[-1] - k
        shape = self.num_rows, len(self.space.parameter_dims)
        parameters = variables[..., m:].unflatten(-1, shape)
        context = variables[..., :m] if self.context is None else self.context
        rows = self.space.join(parameters, context.unsqueeze(-2))
        if self.constraints is None:
            return rows
        return self.constraints.apply(self.space, rows)

    def scale(self, unit: Tensor) -> Tensor:
        r"""The trials of points of the unit cube.

        Args:
            unit: A ``... x k`` tensor.

        Returns:
            A ``... x num_rows x d`` tensor.
        """
        low, high = self.bounds.to(unit)
        return self.decode(low + (high - low) * unit)

    def draw(self, shape: torch.Size) -> Tensor:
        r"""Trials drawn uniformly, by torch's generator.

        Args:
            shape: The shape of the batch of trials.

        Returns:
            A ``shape x num_rows x d`` tensor.
        """
        low = self.bounds[0]
        size = (*shape, low.shape[-1])
        return self.scale(torch.rand(size, dtype=low.dtype, device=low.device))

    def draw_quasi_random(self, n: int, seed: int | None = None) -> Tensor:
        r"""Trials of a scrambled Sobol sequence.

        Args:
            n: The number of trials.
            seed: The seed of the scrambling.

        Returns:
            A ``n x num_rows x d`` tensor.
        """
        return self.decode(draw_points(self.bounds, n, seed))
