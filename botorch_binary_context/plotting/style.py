r"""
What all pictures share: axes, colors that color-blind readers can tell apart, names.

.. [Okabe2008color]
    M. Okabe, K. Ito. Color universal design: how to make figures and presentations
    that are friendly to colorblind people. 2008.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from botorch.exceptions import InputDataError
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.typing import ColorType
from torch import Tensor

from botorch_binary_context.context import ContextSpace

# The colors of [Okabe2008color]_, without yellow, which is faint on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# The style of lines that only mark a value for comparison.
GUIDE: dict[str, Any] = {"color": "0.4", "linewidth": 1}

# Passed and failed, won, lost and tied: distinguished by shape as well as color, and by
# their edges from any background.
GOOD_MARKER: dict[str, Any] = {"marker": "o", "color": "#56B4E9", "s": 32}
BAD_MARKER: dict[str, Any] = {"marker": "X", "color": "#D55E00", "s": 38}
TIE_MARKER: dict[str, Any] = {"marker": "s", "color": "#F0E442", "s": 28}
STAR_MARKER: dict[str, Any] = {"marker": "*", "color": "#CC79A7", "s": 180}
EDGE: dict[str, Any] = {"edgecolors": "black", "linewidths": 0.7}


def prepare_axes(ax: Axes | None) -> Axes:
    r"""The given axes, or the axes of a new figure.

    Axes without data get the palette; others keep their colors.

    Args:
        ax: The axes, or None.
    """
    if ax is None:
        ax = Figure(figsize=(5.5, 4.2), layout="constrained").subplots()
    if not ax.has_data():
        ax.set_prop_cycle(color=PALETTE)
    return ax


def shade(
    ax: Axes,
    x: npt.ArrayLike,
    low: npt.ArrayLike,
    high: npt.ArrayLike,
    color: ColorType,
) -> None:
    r"""A band around a curve.

    Args:
        ax: The axes.
        x: Where the bounds are given.
        low: The lower bounds.
        high: The upper bounds.
        color: The color of the curve.
    """
    ax.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)


def to_numpy(values: Tensor | npt.ArrayLike) -> npt.NDArray[Any]:
    r"""Convert values to an array for matplotlib.

    Args:
        values: A tensor on any device, or anything that NumPy converts to an array.

    Returns:
        An array on the CPU, without gradient.
    """
    if isinstance(values, Tensor):
        return values.detach().cpu().numpy()
    return np.asarray(values)


def column_names(space: ContextSpace, names: Sequence[str] | None) -> list[str]:
    r"""A name for each column of a trial.

    Args:
        space: The box of the trials.
        names: The names, or None for ``x`` and ``s``, numbered if there are several.
    """
    if names is None:
        found = {}
        for letter, columns in (("s", space.context_dims), ("x", space.parameter_dims)):
            for i, column in enumerate(columns, start=1):
                index = f"_{{{i}}}" if len(columns) > 1 else ""
                found[column] = f"${letter}{index}$"
        return [found[column] for column in range(space.dim)]
    if len(names) != space.dim:
        raise InputDataError(
            f"Expected ``names`` to name the {space.dim} columns of a trial, but got "
            f"{list(names)}."
        )
    return list(names)


def describe(names: Sequence[str], values: Tensor) -> str:
    r"""Names and values, such as ``x = 0.3, s = 1``.

    Args:
        names: The names.
        values: One number for each name.

    Returns:
        A line of text.
    """
    pairs = zip(names, values.tolist(), strict=True)
    return ", ".join(f"{name} = {value:.3g}" for name, value in pairs)


def describe_probability(opponent: Tensor | None) -> str:
    r"""The label of a success probability.

    Args:
        opponent: The parameters that others are compared with, or None.
    """
    if opponent is None:
        return "success probability"
    values = ", ".join(f"{value:.3g}" for value in opponent.tolist())
    return f"probability of being preferred to ({values})"
