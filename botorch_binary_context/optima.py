r"""
Draws of the optimum: where it may be, and how much better it is than given parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_binary_context.acquisition.entropy_search import (
    MAX_FEATURES,
    ROUGH_PATH_SEARCH,
    maximize_paths,
)
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.feasibility import Feasibility
from botorch_binary_context.goals import AtReference, Goal
from botorch_binary_context.models.averaged_gp import AveragedGP
from botorch_binary_context.numerics.optim import avoid, maximize_from
from botorch_binary_context.rules import frozen
from botorch_binary_context.sampling.paths import (
    PosteriorSamplePaths,
    draw_exact_paths,
)

MAX_STEPS = 50


@dataclass(frozen=True)
class OptimumDraws:
    r"""Draws of the optimum, from functions of the true posterior.

    Attributes:
        optima: The best parameters anywhere, ``num_draws x batch_shape x (d - m)``.
        near: The local optimum uphill from the given parameters, of the same shape.
        losses: How much better the optimum is than the given parameters, in units of
            the goal (usually those of the latent function), ``num_draws x
            batch_shape``; never negative.
        slopes: The rise of the latent function along each context, from the context's
            lower to its upper bound, at the given parameters,
            ``num_draws x batch_shape x m``.
    """

    optima: Tensor
    near: Tensor
    losses: Tensor
    slopes: Tensor


def draw_optima(
    model: AveragedGP,
    space: ContextSpace,
    parameters: Tensor,
    num_draws: int = 64,
    seed: int = 0,
    num_contrasts: int = 2048,
    steps: Tensor | None = None,
    goal: Goal = AtReference(),  # noqa: B008
    circles: Sequence[int] = (),
    feasibility: Feasibility | None = None,
) -> OptimumDraws:
    r"""Draw functions from the true posterior and find their optima.

    Hyperparameters differ between the functions, too.

    Args:
        model: The model of the trials so far.
        space: The box of the trials.
        parameters: The parameters to compare with the optimum, ``batch_shape x (d -
            m)``.
        num_draws: The number of functions, rounded up to a multiple of the model's
            draws of hyperparameters.
        seed: The seed of the draws.
        num_contrasts: The number of draws of the training contrasts, over all
            hyperparameters. If ``model.exact_posterior`` was called with this number
            and this seed, its draws are reused.
        steps: The step between the possible values of each parameter, ``d - m``
            numbers, zero for a continuous one; None if all are continuous.
        goal: What the parameters should be good at.
        circles: The indices of the periodic parameters, counted from the first
            parameter. A climb may cross their seam.
        feasibility: If given, only parameters that are feasible in all contexts of the
            goal are considered.

    Example:
        >>> averaged = AveragedGP(model)
        >>> draws = draw_optima(averaged, space, recommend(model, space))
        >>> draws.losses.mean(), draws.losses.quantile(0.9)
    """
    each = -(-num_draws // model.num_draws)
    contrasts = -(-num_contrasts // model.num_draws)
    with torch.inference_mode(False), torch.no_grad(), frozen(model.draws):
        paths = draw_exact_paths(
            model.draws, each, space.bounds, MAX_FEATURES, seed, contrasts
        )
        loop = _Circles.of(space.parameter_bounds, circles)
        hills = _Hills(paths, space, goal, loop, feasibility)
        optima, maxima = hills.highest(seed)
        starts = parameters.expand_as(optima)
        near, tops = hills.climb(starts, steps)
        optima = torch.where((tops > maxima).unsqueeze(-1), near, optima)
        best = torch.maximum(maxima, tops)
        losses = (best - hills.values_at(starts)).clamp_min(0.0)
        slopes = _slopes(paths, space, starts)
    return OptimumDraws(
        *[values.flatten(0, 1) for values in (optima, near, losses, slopes)]
    )


@dataclass(frozen=True)
class _Circles:
    """A box with periodic columns."""

    bounds: Tensor  # 2 x k
    is_circle: Tensor  # k

    @classmethod
    def of(cls, bounds: Tensor, columns: Sequence[int]) -> _Circles:
        is_circle = torch.zeros_like(bounds[0], dtype=torch.bool)
        is_circle[list(columns)] = True
        return cls(bounds, is_circle)

    @property
    def unrolled(self) -> Tensor:
        """Bounds that leave room for half a turn in either direction."""
        low, high = self.bounds
        half = (high - low) * self.is_circle / 2
        return torch.stack([low - half, high + half])

    def wrap(self, x: Tensor) -> Tensor:
        """The same points within the box."""
        low, high = self.bounds
        turned = low + (x - low).remainder(high - low)
        return torch.where(self.is_circle, turned, x)


@dataclass(frozen=True)
class _Hills:
    """The goal on drawn functions."""

    paths: PosteriorSamplePaths
    space: ContextSpace
    goal: Goal
    loop: _Circles
    feasibility: Feasibility | None

    def highest(self, seed: int) -> tuple[Tensor, Tensor]:
        """The best feasible parameters anywhere, and their values."""
        slack = None if self.feasibility is None else self._slack
        return maximize_paths(
            self.paths, self.space, seed, ROUGH_PATH_SEARCH, self.goal, slack
        )

    def climb(self, x: Tensor, steps: Tensor | None) -> tuple[Tensor, Tensor]:
        """The local optimum uphill from parameters, and its value."""
        starts = x.unsqueeze(0)
        bounds = self.loop.unrolled
        if steps is not None:
            starts = _walk(self._feasible_values_at, starts, bounds, steps)
        top, value = maximize_from(
            self._feasible_values_at, starts, bounds, ROUGH_PATH_SEARCH
        )
        return self.loop.wrap(top), value

    def values_at(self, x: Tensor) -> Tensor:
        rows = self.goal.rows(self.space, self.loop.wrap(x))
        return self.goal.combine(self.paths(rows), self.paths.model)

    def _feasible_values_at(self, x: Tensor) -> Tensor:
        values = self.values_at(x)
        if self.feasibility is None:
            return values
        return avoid(values, self._slack(self.loop.wrap(x)))

    def _slack(self, x: Tensor) -> Tensor:
        assert self.feasibility is not None
        return self.feasibility.slack_of_goal(self.goal, self.space, x)


def _walk(
    values_at: Callable[[Tensor], Tensor], x: Tensor, bounds: Tensor, steps: Tensor
) -> Tensor:
    """Walk uphill from one possible value to the next, for parameters in steps."""
    moves = torch.diag(steps)[steps > 0]
    moves = torch.cat([torch.zeros_like(moves[:1]), moves, -moves])
    low, high = bounds
    for _ in range(MAX_STEPS if len(moves) else 0):
        around = x + moves.view(-1, *[1] * (x.ndim - 2), x.shape[-1])
        around = around.clamp(low, high)
        best = values_at(around).argmax(dim=0, keepdim=True)  # 0: stay
        if not bool(best.any()):
            break
        x = around.gather(0, best.unsqueeze(-1).expand_as(x))
    return x


def _slopes(
    paths: PosteriorSamplePaths, space: ContextSpace, parameters: Tensor
) -> Tensor:
    """The rise of paths along each context, the others at the reference."""
    rises = []
    for i in range(space.num_contexts):
        ends = space.reference_context.repeat(2, 1)
        ends[:, i] = space.context_bounds[:, i]
        low, high = paths(space.join(parameters.unsqueeze(-2), ends)).unbind(dim=-1)
        rises.append(high - low)
    if not rises:
        return parameters.new_zeros(*parameters.shape[:-1], 0)
    return torch.stack(rises, dim=-1)
