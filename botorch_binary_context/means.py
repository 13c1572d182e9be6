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

from botorch_binary_context.context import normalize_context_dims, take_columns


class LinearContextMean(Mean):
    r"""``m(s,x) = ±aᵀs`` with ``a > 0``: tests become easier or harder with ``s``.

    The kernel ``θ s s' + k(x,x')`` alone leaves open which way a context goes. Where
    that is known, as for the size of a letter, this mean says so; ``θ`` is then the
    variance of the slope around ``a``.

    Example:
        >>> mean = LinearContextMean(context_dims=[0], slope=5.0)
        >>> model = BinaryLaplaceGP(train_X, train_Y, mean_module=mean)
    """

    raw_slope: torch.nn.Parameter
    raw_slope_constraint: Interval

    def __init__(
        self,
        context_dims: Sequence[int],
        slope: float = 1.0,
        slope_prior: Prior | None = None,
        falling: bool = False,
        batch_shape: torch.Size = torch.Size(),  # noqa: B008
    ) -> None:
        r"""
        Args:
            context_dims: The context columns; negative ones count from the end.
            slope: The initial value of the slopes.
            slope_prior: A prior of the slopes.
            falling: Whether the mean falls as the context rises, because tests become
                harder.
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
        self.sign = -1.0 if falling else 1.0
        shape = (*batch_shape, len(self.context_dims))
        device = torch.get_default_device()
        self.register_parameter(
            "raw_slope", torch.nn.Parameter(torch.zeros(shape, device=device))
        )
        self.register_constraint("raw_slope", Positive())
        if slope_prior is not None:
            self.register_prior("slope_prior", slope_prior, _get_slope, _set_slope)
        self.slope = slope

    @property
    def slope(self) -> Tensor:
        r"""``a``, of shape ``batch_shape x m``."""
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
        columns = normalize_context_dims(self.context_dims, x.shape[-1])
        effects = take_columns(x, columns) * self.slope.unsqueeze(-2)
        return self.sign * effects.sum(dim=-1)


def _get_slope(mean: LinearContextMean) -> Tensor:
    return mean.slope


def _set_slope(mean: Any, value: Any) -> Any:
    mean.slope = value
