r"""
Values whose slopes in the prior are known in closed form.

The evidence of an approximation depends on the prior mean and covariance of the
contrasts directly, and through what was searched for: a mode, or sites. Its slopes are
known in closed form, so that no graph leads through the search, and none through the
factorizations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Slopes:
    r"""The slopes of a value in the prior.

    Attributes:
        mean: The slopes in the prior mean, ``batch_shape x n``.
        covariance: The slopes in the prior covariance, ``batch_shape x n x n``.
    """

    mean: Tensor
    covariance: Tensor


def attach_slopes(
    value: Tensor,
    prior_mean: Tensor,
    K: Tensor,
    slopes: Slopes,
    evaluate: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    r"""Make a value a differentiable function of the prior.

    Args:
        value: The value, ``batch_shape``.
        prior_mean: The prior mean, ``batch_shape x n``.
        K: The prior covariance, ``batch_shape x n x n``.
        slopes: The slopes of the value.
        evaluate: The same value as a function of the prior mean and covariance, with a
            graph; called if second derivatives are needed.

    Returns:
        The same value, with its slopes.
    """
    return _Sloped.apply(  # pyright: ignore[reportReturnType]
        prior_mean, K, value, slopes, evaluate
    )


class _Sloped(torch.autograd.Function):
    """A value with known slopes in its first two arguments."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        prior_mean: Tensor,
        K: Tensor,
        value: Tensor,
        slopes: Slopes,
        evaluate: Callable[[Tensor, Tensor], Tensor],
    ) -> Tensor:
        ctx.save_for_backward(prior_mean, K, slopes.mean, slopes.covariance)
        ctx.evaluate = evaluate
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        prior_mean, K, by_mean, by_covariance = ctx.saved_tensors
        (grad,) = grad_outputs
        if torch.is_grad_enabled():  # second derivatives are needed
            found = _differentiate(ctx.evaluate, prior_mean, K, grad)
        else:
            found = grad[..., None] * by_mean, grad[..., None, None] * by_covariance
        return *found, None, None, None


def _differentiate(
    evaluate: Callable[[Tensor, Tensor], Tensor],
    prior_mean: Tensor,
    K: Tensor,
    grad: Tensor,
) -> tuple[Tensor | None, ...]:
    """The slopes with a graph."""
    inputs = [t for t in (prior_mean, K) if t.requires_grad]
    value = evaluate(prior_mean, K)
    found = iter(torch.autograd.grad(value, inputs, grad, create_graph=True))
    return tuple(next(found) if t.requires_grad else None for t in (prior_mean, K))
