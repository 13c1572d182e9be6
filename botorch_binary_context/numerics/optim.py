r"""
Maximizing many functions on a box at once.

BoTorch's ``optimize_acqf`` optimizes one acquisition function. Here the repetitions of
an experiment are a batch of models, and every element of the batch has its own maximum.
:func:`maximize` finds them together: quasi-random points, the local maxima among them
as starts, and a projected BFGS method in which every start of every element moves on
its own but all are evaluated in one call. The elements do not influence each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from botorch.exceptions import InputDataError
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from botorch_binary_context.checks import check_number, check_whole

SUFFICIENT_INCREASE = 1e-4
RELATIVE_GAIN = 1e-10
# A climber may hope for this many times the gain that its quadratic model predicts.
OPTIMISM = 10.0
FIRST_STEP = 0.05  # as a fraction of the box
# This many points still fit into the caches of a CPU.
POINTS_AT_ONCE = 2560
NUMBERS_AT_ONCE = 131_072
# With fewer points a model spends its time on reading its own matrices.
FEWEST_AT_ONCE = 256
# Of many functions: what they have in common is computed once for so many points.
FEWEST_POINTS = 16

# After how many steps to ask how many still climb, by device: a CPU knows at once, but
# for any other the host has to wait.
CHECK_EVERY = {"cpu": 1}

# Forbidden candidates get values this far below zero, far below any other value.
FORBIDDEN = 1e6

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class SearchOptions:
    r"""The effort of a search for a maximum.

    Attributes:
        num_restarts: The number of starts of the local search, for each element.
        raw_samples: The number of quasi-random points from which the starts are chosen.
        max_evaluations: The maximum number of evaluations in the local search.
        relative_gain: The local search ends when a step gains no more than this,
            relative to the value.
    """

    num_restarts: int = 10
    raw_samples: int = 512
    max_evaluations: int = 100
    relative_gain: float = RELATIVE_GAIN

    def __post_init__(self) -> None:
        for name in ("num_restarts", "raw_samples", "max_evaluations"):
            check_whole(name, getattr(self, name))
        check_number("relative_gain", self.relative_gain)
        if not 1 <= self.num_restarts <= self.raw_samples or self.raw_samples < 2:
            raise InputDataError(
                "Expected ``num_restarts`` to be at least 1 and at most "
                "``raw_samples``, and that at least 2, but got "
                f"{self.num_restarts} and {self.raw_samples}."
            )


def maximize(
    function: Function,
    bounds: Tensor,
    batch_shape: torch.Size = torch.Size(),  # noqa: B008
    options: SearchOptions = SearchOptions(),  # noqa: B008
    starts: Tensor | None = None,
    seed: int | None = None,
    size: int = 1,
) -> tuple[Tensor, Tensor]:
    r"""Maximize a batch of functions on a box.

    Args:
        function: Maps ``r x batch_shape x k`` points to ``r x batch_shape`` values,
            each value depending on its own point only; differentiable. It also takes
            points with ones instead of ``batch_shape``, which are the same for all
            elements.
        bounds: The ``2 x k`` bounds of the box.
        batch_shape: The shape of the batch of functions.
        options: The effort of the search.
        starts: Further points to start from, ``r' x batch_shape x k``.
        seed: The seed of the quasi-random points.
        size: The number of values that the function computes for a point of one
            element.

    Returns:
        The maximizers, ``batch_shape x k``, and the maxima, ``batch_shape``.
    """
    chosen = find_starts(function, bounds, batch_shape, options, seed, size)
    if starts is not None:
        low, high = bounds
        starts = starts.clamp(low, high).expand(-1, *batch_shape, -1)
        chosen = torch.cat([chosen, starts])
    return maximize_from(function, chosen, bounds, options)


def find_starts(
    function: Function,
    bounds: Tensor,
    batch_shape: torch.Size,
    options: SearchOptions,
    seed: int | None = None,
    size: int = 1,
) -> Tensor:
    r"""Good starts for a local search, from quasi-random points of a box.

    Args:
        function: As in :func:`maximize`; need not be differentiable.
        bounds: The ``2 x k`` bounds of the box.
        batch_shape: The shape of the batch of functions.
        options: The effort of the search.
        seed: The seed of the quasi-random points.
        size: The number of values that the function computes for a point of one
            element.

    Returns:
        A ``num_restarts x batch_shape x k`` tensor.
    """
    low, high = bounds
    seed = _draw_seed() if seed is None else seed
    raw = _unit_points(options.raw_samples, bounds.shape[-1], seed).to(bounds)
    number = raw.shape[0]
    raw = raw.view(number, *[1] * len(batch_shape), raw.shape[-1])
    raw = low + (high - low) * raw
    if raw.device.type == "cpu":
        most = max(FEWEST_AT_ONCE, NUMBERS_AT_ONCE // max(1, size))
        most = min(POINTS_AT_ONCE, most)
        number = max(FEWEST_POINTS, most // max(1, batch_shape.numel()))
    with torch.no_grad():
        parts = [function(part).expand(-1, *batch_shape) for part in raw.split(number)]
    values = torch.cat(parts)
    raw = raw.expand(-1, *batch_shape, -1)
    return choose_starts(raw, values, options.num_restarts, seed)


def maximize_from(
    function: Function, starts: Tensor, bounds: Tensor, options: SearchOptions
) -> tuple[Tensor, Tensor]:
    r"""The best local maximum that the given starts lead to.

    Args:
        function: As in :func:`maximize`.
        starts: An ``r x batch_shape x k`` tensor.
        bounds: The ``2 x k`` bounds of the box.
        options: The effort of the search.

    Returns:
        The maximizers, ``batch_shape x k``, and the maxima, ``batch_shape``.
    """
    low, high = bounds
    width = high - low
    U, value = climb(
        lambda U: function(low + width * U),
        (starts - low) / width,
        options.max_evaluations,
        options.relative_gain,
    )
    # Rounding may take the sum past the upper bound.
    return (low + width * U).clamp(low, high), value


def draw_points(bounds: Tensor, number: int, seed: int | None) -> Tensor:
    r"""Quasi-random points of a box.

    Args:
        bounds: The ``2 x k`` bounds of the box; ``k`` may be zero.
        number: The number of points.
        seed: The seed of the scrambling.

    Returns:
        A ``number x k`` tensor.
    """
    if bounds.shape[-1] == 0:
        return bounds.new_zeros(number, 0)
    return draw_sobol_samples(bounds, n=number, q=1, seed=seed).squeeze(-2)


def draw_corners(bounds: Tensor, number: int, seed: int) -> Tensor:
    r"""Corners of a box, each once.

    Args:
        bounds: The ``2 x k`` bounds of the box; ``k`` may be zero.
        number: The number of draws; corners that are drawn again are left out.
        seed: The seed of the draws.

    Returns:
        At most ``number x k`` corners.
    """
    low, high = bounds
    if len(low) == 0:
        return bounds.new_zeros(1, 0)
    points = draw_points(bounds, number, seed)
    return torch.where(points < (low + high) / 2, low, high).unique(dim=0)


def _draw_seed() -> int:
    return int(torch.randint(2**31 - 1, (1,), device="cpu"))


@lru_cache(maxsize=64)
def _unit_points(n: int, dim: int, seed: int) -> Tensor:
    """Quasi-random points of the unit cube."""
    cube = torch.zeros(2, dim, dtype=torch.float64, device="cpu")
    cube[1] = 1.0
    with torch.inference_mode(False):
        return draw_points(cube, n, seed)


@lru_cache(maxsize=64)
def _neighbors(n: int, dim: int, seed: int) -> Tensor:
    """Each quasi-random point and the points nearest to it, one in each row."""
    points = _unit_points(n, dim, seed)
    # Fewer than eight are too often all on the lower side of a point on a slope.
    count = min(max(8, 2 * dim) + 1, n)
    return torch.cdist(points, points).topk(count, largest=False).indices


def choose_starts(U: Tensor, values: Tensor, num_restarts: int, seed: int) -> Tensor:
    r"""The best local maxima among quasi-random points, then the best of the others.

    Args:
        U: The points of :func:`find_starts`, ``n x batch_shape x k``.
        values: Their values, ``n x batch_shape``.
        num_restarts: The number of points to choose.
        seed: The seed of the points.

    Returns:
        The chosen points, ``num_restarts x batch_shape x k``, the better first.
    """
    values = values.nan_to_num(nan=-torch.inf, neginf=-torch.inf)
    neighbors = _neighbors(U.shape[0], U.shape[-1], seed).to(values.device)
    is_peak = (values >= values[neighbors].amax(dim=1)) & (values > -torch.inf)
    values = _break_ties(values)
    count = min(num_restarts, len(values))
    peaks = values.masked_fill(~is_peak, -torch.inf).topk(count, dim=0)
    others = values.masked_fill(is_peak, -torch.inf).topk(count, dim=0)
    # Real peaks first, places without a peak last.
    merit = torch.cat(
        [2.0 * (peaks.values > -torch.inf), torch.ones_like(others.values)]
    )
    first = merit.argsort(dim=0, descending=True, stable=True)[:count]
    index = torch.cat([peaks.indices, others.indices])
    points = index.gather(0, first).unsqueeze(-1)
    return U.gather(0, points.expand(*points.shape[:-1], U.shape[-1]))


def _break_ties(values: Tensor) -> Tensor:
    """Values with changed last digits, so that the last of equal ones is greatest."""
    info = torch.finfo(values.dtype)
    number = torch.arange(len(values), dtype=values.dtype, device=values.device)
    number = number.view(-1, *[1] * (values.ndim - 1))
    size = values.abs().clamp_max(info.max)
    return values + number * (info.eps * size + info.tiny)


def choose_best(points: Tensor, values: Tensor, number: int) -> Tensor:
    r"""The best of some points, for each function.

    Args:
        points: ``n x batch_shape x k`` points.
        values: Their values, ``n x batch_shape``.
        number: The maximum number of points to choose.

    Returns:
        A ``min(n, number) x batch_shape x k`` tensor, the better first.
    """
    index = values.topk(min(number, len(values)), dim=0).indices.unsqueeze(-1)
    return points.gather(0, index.expand(*index.shape[:-1], points.shape[-1]))


def avoid(values: Tensor, slack: Tensor) -> Tensor:
    r"""Values of candidates, with the forbidden ones moved below all others.

    Args:
        values: The values.
        slack: The slack of the candidates, negative for forbidden ones.

    Returns:
        A tensor of the same shape.
    """
    return torch.where(slack >= 0, values, slack - FORBIDDEN)


def climb(
    function: Function,
    U: Tensor,
    max_evaluations: int,
    relative_gain: float = RELATIVE_GAIN,
) -> tuple[Tensor, Tensor]:
    r"""Climb from every start to a local maximum in the unit cube.

    This is a projected BFGS method: coordinates at a bound that the gradient presses
    against are held, and steps are projected onto the cube and shortened until they
    ascend enough. A climber whose quadratic model does not reach the best of its
    competitors, the other starts of the same function, gives up.

    Args:
        function: Maps ``r x ... x k`` points of the unit cube to ``r x ...`` values.
        U: ``r`` starts for each function, ``r x ... x k``.
        max_evaluations: The maximum number of evaluations.
        relative_gain: A climber stops when a step gains no more than this, relative to
            its value.

    Returns:
        The best points reached, ``... x k``, and their values, ``...``.
    """
    if U.shape[-1] == 0:  # nowhere to climb
        with torch.no_grad():
            return U[0], function(U).amax(dim=0)
    state = _Ascent.begin(function, U)
    best = _Best(U[0], torch.full_like(state.value[0], -torch.inf))
    every = CHECK_EVERY.get(U.device.type, 4)
    for i in range(max_evaluations - 1):
        if i % every == 0:
            count = int(state.active.sum(dim=0).max()) if state.active.numel() else 0
            if count == 0:
                break
            if count <= state.U.shape[0] // 2:  # of any function, half have given up
                best = best.update(state)
                state = state.keep_active(count)
        state = state.advance(function, best.value, relative_gain)
    best = best.update(state)
    return best.U, best.value


@dataclass(frozen=True)
class _Best:
    """The best point of each function that climbers reached."""

    U: Tensor  # ... x k
    value: Tensor  # ...

    def update(self, state: _Ascent) -> _Best:
        value, index = state.value.max(dim=0)
        index = index[None, ..., None].expand(1, *self.U.shape)
        better = value > self.value
        U = state.U.gather(0, index).squeeze(0)
        return _Best(
            torch.where(better.unsqueeze(-1), U, self.U),
            torch.where(better, value, self.value),
        )


def _evaluate(function: Function, U: Tensor) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        U = U.detach().requires_grad_(True)
        value = function(U)
        (gradient,) = torch.autograd.grad(value.sum(), U)
    # NaN is no maximum, and must not hide one.
    value = value.detach().nan_to_num(-torch.inf, torch.inf, -torch.inf)
    return value, gradient


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(dim=-1, keepdim=True)


@dataclass(frozen=True)
class _Ascent:
    """The state of all climbers; quantities per climber keep a trailing dimension."""

    U: Tensor
    value: Tensor  # without the trailing dimension
    gradient: Tensor
    H: Tensor  # the inverse of the negative Hessian, ... x k x k
    direction: Tensor
    size: Tensor  # of the next step, relative to the direction
    active: Tensor

    @classmethod
    def begin(cls, function: Function, U: Tensor) -> _Ascent:
        value, gradient = _evaluate(function, U)
        steepness = gradient.abs().amax(dim=-1, keepdim=True)
        steepness = steepness.clamp_min(torch.finfo(gradient.dtype).tiny)
        identity = torch.eye(U.shape[-1], dtype=U.dtype, device=U.device)
        H = identity * (FIRST_STEP / steepness).unsqueeze(-1)
        direction, slope = _ascent_direction(U, gradient, H)
        size = torch.ones_like(steepness)
        return cls(U, value, gradient, H, direction, size, slope > 0)

    def keep_active(self, count: int) -> _Ascent:
        """Only ``count`` climbers of each function, the active ones among them."""
        chosen = self.active.to(self.U).topk(count, dim=0).indices

        def take(field: Tensor) -> Tensor:
            extra = (1,) * (field.ndim - chosen.ndim)
            index = chosen.reshape(*chosen.shape, *extra)
            return field.gather(0, index.expand(count, *field.shape[1:]))

        fields = self.U, self.gradient, self.H, self.direction, self.size, self.active
        U, gradient, H, direction, size, active = (take(field) for field in fields)
        value = self.value.gather(0, chosen.squeeze(-1))
        return _Ascent(U, value, gradient, H, direction, size, active)

    def advance(
        self, function: Function, best: Tensor, relative_gain: float
    ) -> _Ascent:
        """Try the next step of every climber; others have reached ``best``."""
        trial = (self.U + self.size * self.direction).clamp(0.0, 1.0)
        trial = torch.where(self.active, trial, self.U)
        step = trial - self.U
        value, gradient = _evaluate(function, trial)
        gain = (value - self.value).unsqueeze(-1)
        expected = _dot(self.gradient, step)
        accepted = (gain >= SUFFICIENT_INCREASE * expected) & (gain >= 0) & self.active
        # Along held coordinates, nothing was learned about the curvature.
        change = (self.gradient - gradient).masked_fill(step == 0, 0.0)
        H = torch.where(accepted.unsqueeze(-1), _update(self.H, step, change), self.H)
        U = torch.where(accepted, trial, self.U)
        gradient = torch.where(accepted, gradient, self.gradient)
        reached = torch.where(accepted.squeeze(-1), value, self.value)
        direction, slope = _ascent_direction(U, gradient, H)
        size = self._shorter(gain, expected).masked_fill(accepted, 1.0)
        least = relative_gain * self.value.abs().unsqueeze(-1)
        exhausted = torch.where(accepted, gain <= least, size < 1e-10)
        best = torch.maximum(reached.amax(dim=0), best)
        hopeful = reached.unsqueeze(-1) + OPTIMISM * slope >= best.unsqueeze(-1)
        active = self.active & ~exhausted & hopeful & (slope > 0)
        return _Ascent(U, reached, gradient, H, direction, size, active)

    def _shorter(self, gain: Tensor, expected: Tensor) -> Tensor:
        """The step at the maximum of the parabola through the known values."""
        factor = (expected / (2 * (expected - gain))).nan_to_num(nan=0.1)
        return self.size * factor.clamp(0.1, 0.5)


def _update(H: Tensor, step: Tensor, change: Tensor) -> Tensor:
    """The BFGS update of the inverse of the negative Hessian."""
    curvature = _dot(step, change).unsqueeze(-1)
    s = step.unsqueeze(-1)
    y = change.unsqueeze(-1)
    Hy = H @ y
    yHy = (y.mT @ Hy).clamp_min(torch.finfo(y.dtype).tiny)
    outer = s @ Hy.mT
    updated = (
        H
        - (outer + outer.mT) / curvature
        + (1 + yHy / curvature) * (s @ s.mT) / curvature
    )
    usable = (
        curvature > 1e-10 * (s.square().sum(-2, True) * y.square().sum(-2, True)).sqrt()
    )
    return torch.where(usable, updated, H)


def _ascent_direction(U: Tensor, gradient: Tensor, H: Tensor) -> tuple[Tensor, Tensor]:
    """A direction that ascends within the cube, and the slope along it."""
    held = ((U <= 0.0) & (gradient < 0)) | ((U >= 1.0) & (gradient > 0))
    free = gradient.masked_fill(held, 0.0)
    direction = (H @ free.unsqueeze(-1)).squeeze(-1).masked_fill(held, 0.0)
    slope = _dot(direction, free)
    # Holding coordinates can spoil the direction; a scaled gradient always ascends.
    steepest = free * torch.diagonal(H, dim1=-2, dim2=-1)
    spoilt = slope <= 0
    direction = torch.where(spoilt, steepest, direction)
    return direction, torch.where(spoilt, _dot(steepest, free), slope)
