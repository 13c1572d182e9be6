r"""
Prior means of the latent function that know what a context does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from botorch.exceptions import InputDataError
from gpytorch.constraints import Interval, Positive
from gpytorch.means import Mean
from gpytorch.priors import Prior
from torch import Tensor

from botorch_binary_context.checks import to_directions
from botorch_binary_context.context import normalize_context_dims, take_columns


class LinearContextMean(Mean):
    r"""``m(s,x) = Σᵢ ±aᵢsᵢ`` with ``aᵢ > 0``: tests become easier or harder with ``s``.

    The kernel ``θ s s' + k(x,x')`` alone leaves open which way a context goes. Where
    that is known, as for the size of a letter, this mean says so; ``θ`` is then the
    variance of the slope around ``a``.

    Example:
        >>> mean = LinearContextMean(context_dims=[0], slope=5.0)
        >>> model = BinaryLaplaceGP(train_X, train_Y, mean_module=mean)

    Attributes:
        signs: Of the slopes: 1 for each context that goes down as tests become harder,
            -1 for each that goes up.
    """

    signs: Tensor
    raw_slope: torch.nn.Parameter
    raw_slope_constraint: Interval

    def __init__(
        self,
        context_dims: Sequence[int],
        slope: float = 1.0,
        slope_prior: Prior | None = None,
        harder: str | Sequence[str] = "down",
        batch_shape: torch.Size = torch.Size(),  # noqa: B008
    ) -> None:
        r"""
        Args:
            context_dims: The context columns; negative ones count from the end.
            slope: The initial value of the slopes.
            slope_prior: A prior of the slopes.
            harder: "up" if tests become harder as the contexts go up, so that the mean
                falls, "down" if they become harder as the contexts go down; or a
                sequence with one of them for each context, in the order of
                ``context_dims``.
            batch_shape: The batch shape of the model.
        """
        super().__init__()
        if not context_dims:
            raise InputDataError(
                "Expected ``context_dims`` to name at least one column, but got none."
            )
        if not slope > 0.0:
            raise InputDataError(f"Expected ``slope`` to be positive, but got {slope}.")
        self.context_dims = tuple(int(i) for i in context_dims)
        m = len(self.context_dims)
        signs = [-1.0 if way == "up" else 1.0 for way in to_directions(harder, m)]
        shape = (*batch_shape, m)
        device = torch.get_default_device()
        signs = torch.tensor(signs, device=device)
        self.register_buffer("signs", signs, persistent=False)
        self.register_parameter(
            "raw_slope", torch.nn.Parameter(torch.zeros(shape, device=device))
        )
        self.register_constraint("raw_slope", Positive())
        if slope_prior is not None:
            self.register_prior("slope_prior", slope_prior, _get_slope, _set_slope)
        self.slope = slope

    @property
    def slope(self) -> Tensor:
        r"""``a``, of shape ``batch_shape x m``, in the order of ``context_dims``."""
        return self.raw_slope_constraint.transform(self.raw_slope)

    @slope.setter
    def slope(self, value: Tensor | float) -> None:
        raw = self.raw_slope
        value = torch.as_tensor(value, dtype=raw.dtype, device=raw.device)
        value = value.expand_as(raw)
        raw_value = self.raw_slope_constraint.inverse_transform(value)
        self.initialize(raw_slope=raw_value)

    def forward(self, x: Tensor) -> Tensor:
        r"""The prior mean.

        Args:
            x: A ``... x batch_shape x q x d`` tensor.

        Returns:
            A ``... x batch_shape x q`` tensor.
        """
        dim = x.shape[-1]
        normalize_context_dims(self.context_dims, dim)  # raises unless x has them
        contexts = take_columns(x, [i % dim for i in self.context_dims])
        return (contexts * (self.signs * self.slope).unsqueeze(-2)).sum(dim=-1)


def _get_slope(mean: LinearContextMean) -> Tensor:
    return mean.slope


def _set_slope(mean: Any, value: Any) -> Any:
    mean.slope = value
