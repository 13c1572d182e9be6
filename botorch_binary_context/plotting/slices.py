r"""
Slices of the box of trials along one or two columns, and how they are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from botorch.exceptions import InputDataError
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from botorch_binary_context.bands import Band
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.functionals import DIFFERENCE, VALUE, Functional
from botorch_binary_context.likelihoods import TiesLikelihood
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.plotting.style import (
    BAD_MARKER,
    EDGE,
    GOOD_MARKER,
    PALETTE,
    STAR_MARKER,
    TIE_MARKER,
    describe,
    shade,
    to_numpy,
)

NUM_COLORS = 20
LEGEND_HEIGHT = 22.0  # in points
HELD_PER_LINE = 4
# With a curve, trials are marked at these fractions of the axes' height ...
MARK_HEIGHTS = (0.95, 0.05)
# ... with this much room above and below the curve, as a fraction of its range.
MARGIN = 0.12


@dataclass(frozen=True)
class Slice:
    r"""A grid of trials that differ in one or two columns only.

    Attributes:
        space: The box of the trials.
        columns: The columns.
        sides: The values of each on the grid.
        origin: A trial on the slice, which gives the values of the other columns.
        trials: ``g x d`` or, with the second column along the first dimension as in
            an image, ``g x g x d``.
    """

    space: ContextSpace
    columns: tuple[int, ...]
    sides: tuple[Tensor, ...]
    origin: Tensor
    trials: Tensor

    @classmethod
    def through(
        cls,
        origin: Tensor,
        space: ContextSpace,
        columns: Sequence[int],
        resolution: int,
    ) -> Slice:
        r"""The slice through a trial.

        Args:
            origin: The trial, ``d`` numbers.
            space: The box of the trials.
            columns: One or two columns.
            resolution: The number of grid values of each.
        """
        if resolution < 2:
            raise InputDataError(
                f"Expected ``resolution`` to be at least 2, but got {resolution}."
            )
        low, high = space.bounds[:, list(columns)]
        unit = torch.linspace(0, 1, resolution, dtype=low.dtype, device=low.device)
        sides = tuple(torch.lerp(a, b, unit) for a, b in zip(low, high, strict=True))
        mesh = torch.meshgrid(*sides, indexing="xy")
        trials = origin.expand(*mesh[0].shape, -1).clone()
        for column, values in zip(columns, mesh, strict=True):
            trials[..., column] = values
        return cls(space, tuple(columns), sides, origin, trials)

    @property
    def is_curve(self) -> bool:
        """Whether the slice is along one column."""
        return len(self.columns) == 1

    def project(self, trials: Tensor) -> np.ndarray:
        r"""The coordinates of trials on the slice.

        Args:
            trials: A ``... x d`` tensor.

        Returns:
            A ``... x 1`` or ``... x 2`` array.
        """
        return to_numpy(trials[..., list(self.columns)])


def check_dims(dims: Sequence[int], size: int, most: int = 2) -> None:
    r"""Check that one or two different columns are named.

    Args:
        dims: The columns.
        size: The number of columns there are.
        most: The largest number of them that may be named, one or two.
    """
    known = all(0 <= i < size for i in dims)
    if not known or not 1 <= len(dims) <= most or len(set(dims)) < len(dims):
        expected = f"one of {size} columns, counted from 0"
        if most > 1:
            expected = f"one or two different numbers from 0 to {size - 1}"
        raise InputDataError(
            f"Expected ``dims`` to be {expected}, but got {list(dims)}."
        )


def draw_values(
    ax: Axes,
    cut: Slice,
    values: Tensor,
    label: str,
    limits: tuple[float, float] | None = None,
) -> None:
    r"""A curve over one column, or a filled contour with a color bar over two.

    Args:
        ax: The axes.
        cut: The slice.
        values: The values of its trials.
        label: The name of the values.
        limits: The smallest and the largest possible value, if they should be visible.
    """
    sides = [to_numpy(side) for side in cut.sides]
    if cut.is_curve:
        ax.plot(sides[0], to_numpy(values), color=PALETTE[0])
        ax.set_ylabel(label)
        ax.margins(y=MARGIN)
        if limits is not None:
            # The marks of trials are then at the limits: outcomes 1 and 0.
            room = MARK_HEIGHTS[1] / (MARK_HEIGHTS[0] - MARK_HEIGHTS[1])
            room *= limits[1] - limits[0]
            ax.set_ylim(limits[0] - room, limits[1] + room)
        return
    borders = NUM_COLORS if limits is None else np.linspace(*limits, NUM_COLORS + 1)
    filled = ax.contourf(*sides, to_numpy(values), levels=borders, cmap="viridis")
    ticks = MaxNLocator(8, steps=[1, 2, 5, 10])
    ax.figure.colorbar(filled, ax=ax, label=label, ticks=ticks)


def draw_band(ax: Axes, cut: Slice, band: Band) -> None:
    r"""The space between the bounds of a curve; on a surface they are not shown.

    Args:
        ax: The axes.
        cut: The slice.
        band: The values of its trials, with their bounds.
    """
    if cut.is_curve:
        side, low, high = map(to_numpy, (cut.sides[0], band.low, band.high))
        shade(ax, side, low, high, PALETTE[0])


def draw_star(ax: Axes, cut: Slice, trial: Tensor, values: Tensor, label: str) -> None:
    r"""A star at a trial, on the curve if there is one.

    Args:
        ax: The axes.
        cut: The slice.
        trial: The trial, ``d`` numbers.
        values: The values of the trials of the slice.
        label: The name of the trial.
    """
    point = cut.project(trial)
    if cut.is_curve:
        side = to_numpy(cut.sides[0])
        point = (point[0], np.interp(point[0], side, to_numpy(values)))
    ax.scatter(*point, label=label, zorder=5, clip_on=False, **STAR_MARKER, **EDGE)


def draw_trials(ax: Axes, cut: Slice, model: LatentGP) -> None:
    r"""The trials of a model, projected along the columns that are held.

    With a curve, trials that passed or won are marked at the top, the others at the
    bottom, and ties halfway. The two sides of a duel are joined.

    Args:
        ax: The axes.
        cut: The slice.
        model: The model.
    """
    low, high = cut.project(cut.space.bounds)
    transform = ax.get_xaxis_transform() if cut.is_curve else ax.transData
    # Marks on the edge of the box are whole, those outside of it are left out.
    style = {"transform": transform, "clip_on": False, "zorder": 4, **EDGE}
    for known, (functional, trials, targets) in zip(
        model.kinds, model.trials_by_kind(), strict=True
    ):
        if isinstance(known, TiesLikelihood):
            _draw_ties(ax, cut, trials[targets == 1], style)
            trials, targets = trials[targets != 1], targets[targets != 1]
        success = targets >= known.passing
        good, bad = (cut.project(rows) for rows in _split(functional, trials, success))
        if cut.is_curve:
            good = np.insert(good, 1, MARK_HEIGHTS[0], axis=-1)
            bad = np.insert(bad, 1, MARK_HEIGHTS[1], axis=-1)
        labels = ("passed", "failed")
        if functional == DIFFERENCE:
            labels = ("won", "lost")
            _join_sides(ax, cut, good, bad)
        marks = (good, labels[0], GOOD_MARKER), (bad, labels[1], BAD_MARKER)
        for points, label, marker in marks:
            shown = points[:, : len(cut.columns)]
            inside = points[((low <= shown) & (shown <= high)).all(axis=-1)]
            ax.scatter(*inside.T, label=label, **marker, **style)


def _draw_ties(ax: Axes, cut: Slice, duels: Tensor, style: dict[str, Any]) -> None:
    """Both sides of duels that ended in a tie."""
    if not len(duels):
        return
    first, second = (cut.project(rows) for rows in duels.unbind(dim=-2))
    if cut.is_curve:
        first, second = (
            np.insert(side, 1, sum(MARK_HEIGHTS) / 2, axis=-1)
            for side in (first, second)
        )
    _join_sides(ax, cut, first, second)
    low, high = cut.project(cut.space.bounds)
    points = np.concatenate([first, second])
    shown = points[:, : len(cut.columns)]
    inside = points[((low <= shown) & (shown <= high)).all(axis=-1)]
    ax.scatter(*inside.T, label="tied", **TIE_MARKER, **style)


def _join_sides(ax: Axes, cut: Slice, good: Any, bad: Any) -> None:
    """Lines between the two sides of duels."""
    transform = ax.get_xaxis_transform() if cut.is_curve else ax.transData
    color = "0.6" if cut.is_curve else "white"
    style = {"colors": color, "linewidths": 0.6, "alpha": 0.7}
    duels = list(np.stack([good, bad], axis=-2))
    ax.add_collection(LineCollection(duels, transform=transform, **style))


def _split(
    functional: Functional, trials: Tensor, success: Tensor
) -> tuple[Tensor, Tensor]:
    """The rows that passed or won, and those that failed or lost."""
    if functional == VALUE:
        return trials[success], trials[~success]
    first, second = trials.unbind(dim=-2)
    success = success.unsqueeze(-1)
    return torch.where(success, first, second), torch.where(success, second, first)


def finish(ax: Axes, cut: Slice, names: Sequence[str]) -> None:
    r"""Limits and names of the axes, and where the other columns are held.

    Args:
        ax: The axes.
        cut: The slice.
        names: The names of the columns of a trial.
    """
    low, high = cut.project(cut.space.bounds)
    ax.set_xlim(low[0], high[0])
    ax.set_xlabel(names[cut.columns[0]])
    if not cut.is_curve:
        ax.set_ylim(low[1], high[1])
        ax.set_ylabel(names[cut.columns[1]])
    held = [i for i in range(cut.space.dim) if i not in cut.columns]
    lines = [held[i : i + HELD_PER_LINE] for i in range(0, len(held), HELD_PER_LINE)]
    text = [describe([names[i] for i in line], cut.origin[line]) for line in lines]
    ax.set_title("\n".join(text), size="small", pad=LEGEND_HEIGHT)
    # Above the axes: on a surface there is no room that is known to be free.
    place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1), "borderaxespad": 0.2}
    ax.legend(**place, ncols=3, columnspacing=1, handletextpad=0.3, frameon=False)
