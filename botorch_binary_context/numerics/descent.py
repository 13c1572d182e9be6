r"""
Minimizing many smooth functions of a few variables, each on its own.

This is a BFGS method in which every function takes its own steps, while one call
evaluates all functions that are not done. A function that is done drops out, so the
time depends on the evaluations that each function needs, not on those of the slowest
one times the number of functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
# Maps points of some functions, ``b x p``, and their indices to values and slopes.
Functions = Callable[[Array, Array], tuple[Array, Array]]

SUFFICIENT_DECREASE = 1e-4
MAX_EVALUATIONS = 200
# The longest step of any variable, and the shortest step that is tried.
LONGEST = 1.0
SHORTEST = 1e-10
# The first step, in units of the slope.
FIRST_STEP = 0.2


@dataclass(frozen=True)
class Minima:
    r"""The minimum of each function.

    Attributes:
        x: The minimizers, ``B x p``.
        value: The minima, ``B``.
        is_found: Whether the search ended there, ``B``.
        num_evaluations: The number of evaluations of each function, ``B``.
    """

    x: Array
    value: Array
    is_found: Array
    num_evaluations: Array


def minimize_each(
    functions: Functions, begin: Array, bounds: Array, tolerance: float
) -> Minima:
    r"""Minimize every function from its own starting point.

    Args:
        functions: The functions. Steps to values that are NaN are shortened.
        begin: The starting points, ``B x p``, within the bounds.
        bounds: The bounds of all variables, ``B x p x 2``.
        tolerance: A search ends when its function is expected to fall by no more than
            this.

    Returns:
        The minimum of each function, and whether its search converged.
    """
    state = _Descent.begin(functions, begin, bounds)
    for _ in range(MAX_EVALUATIONS):
        active = np.flatnonzero(state.is_active)
        if not len(active):
            break
        state.advance(functions, active, tolerance)
    return Minima(state.x, state.value, state.is_found, state.num_evaluations)


@dataclass
class _Descent:
    """The state of the searches of all functions."""

    x: Array
    value: Array
    slope: Array
    bounds: Array
    H: Array  # the inverse of the Hessian, ``B x p x p``
    direction: Array
    size: Array  # of the next step, relative to the direction
    is_active: Array
    is_found: Array
    num_evaluations: Array

    @classmethod
    def begin(cls, functions: Functions, x: Array, bounds: Array) -> _Descent:
        number, dim = x.shape
        value, slope = functions(x, np.arange(number))
        H = np.tile(FIRST_STEP * np.eye(dim), (number, 1, 1))
        state = cls(
            x.copy(),
            value,
            slope,
            bounds,
            H,
            np.zeros_like(x),
            np.ones(number),
            np.isfinite(value),
            np.zeros(number, dtype=bool),
            np.ones(number, dtype=int),
        )
        state._aim(np.flatnonzero(state.is_active))
        return state

    def advance(self, functions: Functions, active: Array, tolerance: float) -> None:
        """Try the next step of each active function."""
        x = self.x[active]
        low, high = np.moveaxis(self.bounds[active], -1, 0)
        trial = x + self.size[active, None] * self.direction[active]
        trial = np.clip(trial, low, high)
        step = trial - x
        value, slope = functions(trial, active)
        self.num_evaluations[active] += 1
        gain = self.value[active] - value
        expected = -_dot(self.slope[active], step)
        with np.errstate(invalid="ignore"):
            accepted = gain >= SUFFICIENT_DECREASE * expected
        moved = active[accepted]
        change = slope[accepted] - self.slope[moved]
        is_first = self.num_evaluations[moved] == 2
        self.H[moved] = _update(self.H[moved], step[accepted], change, is_first)
        self.x[moved] = trial[accepted]
        self.value[moved] = value[accepted]
        self.slope[moved] = slope[accepted]
        self.size[moved] = 1.0
        hope = self._aim(moved)
        done = moved[(hope <= tolerance) & (gain[accepted] <= 100 * tolerance)]
        self.is_found[done] = True
        self.is_active[done] = False
        self._shorten(active[~accepted], gain[~accepted], expected[~accepted])

    def _aim(self, rows: Array) -> Array:
        """Choose directions of descent within the bounds; return what they may gain."""
        x = self.x[rows]
        slope = self.slope[rows]
        low, high = np.moveaxis(self.bounds[rows], -1, 0)
        held = ((x <= low) & (slope > 0)) | ((x >= high) & (slope < 0))
        free = np.where(held, 0.0, slope)
        direction = -np.where(held, 0.0, _times(self.H[rows], free))
        # Holding variables can spoil the direction; a scaled slope always descends.
        spoilt = _dot(direction, free) >= 0
        diagonal = np.diagonal(self.H[rows], axis1=-2, axis2=-1)
        direction = np.where(spoilt[:, None], -diagonal * free, direction)
        hope = -_dot(direction, free) / 2
        longest = np.abs(direction).max(axis=-1, initial=0.0)
        shrink = LONGEST / np.maximum(longest, LONGEST)
        self.direction[rows] = shrink[:, None] * direction
        return hope

    def _shorten(self, rows: Array, gain: Array, expected: Array) -> None:
        """Shorten failed steps, to the minimum of a parabola through known values."""
        factor = expected / (2 * (expected - gain))
        factor[np.isnan(factor)] = 0.1
        self.size[rows] *= np.clip(factor, 0.1, 0.5)
        self.is_active[rows] = self.size[rows] > SHORTEST


def _dot(a: Array, b: Array) -> Array:
    return (a * b).sum(axis=-1)


def _times(matrix: Array, vector: Array) -> Array:
    return np.matmul(matrix, vector[..., None])[..., 0]


def _update(H: Array, step: Array, change: Array, is_first: Array) -> Array:
    """The BFGS update of the inverses of the Hessians."""
    curvature = _dot(step, change)
    length = np.sqrt(_dot(step, step) * _dot(change, change))
    usable = curvature > 1e-10 * length
    curvature = np.where(usable, curvature, 1.0)
    # The first step shows how large the others should be.
    scale = curvature / np.where(usable, _dot(change, change), 1.0)
    scaled = scale[:, None, None] * np.eye(H.shape[-1])
    H = np.where((is_first & usable)[:, None, None], scaled, H)
    Hy = _times(H, change)
    outer = step[:, :, None] * Hy[:, None, :]
    weight = (1 + _dot(change, Hy) / curvature) / curvature
    updated = H - (outer + outer.swapaxes(-2, -1)) / curvature[:, None, None]
    updated += weight[:, None, None] * step[:, :, None] * step[:, None, :]
    return np.where(usable[:, None, None], updated, H)
