r"""The figures of a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from benchmarks.studies.analysis import Analysis
from benchmarks.studies.ranking import Ranking
from benchmarks.studies.refraction import show

COLUMNS = 3
#: Panels of one figure: more would be too small to read on a page.
PANELS = 12
#: With more curves than this, their bands would hide each other.
MOST_BANDS = 6
DPI = 150


def draw_wins(ranking: Ranking, rules: Sequence[str], path: Path) -> None:
    r"""The two matrices of pairwise wins (figures S1 and S2 of the paper).

    Args:
        ranking: The ranking.
        rules: Its rules.
        path: Where to save the figure.
    """
    size = 2.5 + 0.45 * len(rules)
    figure = Figure(figsize=(2 * size, size + 0.5), layout="constrained")
    axes = figure.subplots(1, 2)
    _draw_matrix(axes[0], ranking.last_wins, rules, "A: by the last value")
    _draw_matrix(axes[1], ranking.mean_wins, rules, "B: by the mean of the curve")
    save_figure(figure, path)


def _draw_matrix(ax: Any, wins: NDArray[Any], rules: Sequence[str], title: str) -> None:
    ax.imshow(wins, cmap="viridis", vmin=0.0, vmax=1.0)
    for (i, j), fraction in ((ij, wins[ij]) for ij in _cells(len(rules))):
        color = "black" if fraction > 0.6 else "white"
        ax.text(
            j, i, f"{fraction:.2f}", ha="center", va="center", color=color, fontsize=7
        )
    ticks = range(len(rules))
    ax.set_xticks(ticks, rules, rotation=60, ha="right")
    ax.set_yticks(ticks, rules)
    ax.set(ylabel="this rule …", xlabel="… beats this one")
    ax.set_title(title, fontsize=10)


def _cells(n: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(n) for j in range(n) if i != j]


def draw_regret(analysis: Analysis, folder: Path) -> list[str]:
    r"""The regret curves of every function, with standard errors.

    Args:
        analysis: The analysis.
        folder: Where to save the figures: ``regret.png``, ``regret-2.png`` and so on.

    Returns:
        The names of the files.
    """
    curves = analysis.curves()
    names = [x for x in analysis.study.functions if x in curves["function"]]
    files = []
    for first in range(0, len(names), PANELS):
        page = names[first : first + PANELS]
        figure, axes = make_panels(page, COLUMNS, (3.4, 2.6))
        for ax, name in zip(axes, page, strict=True):
            draw_curves(ax, curves.filter(pl.col("function") == name), analysis.rules)
            ax.set_title(show(name), fontsize=10)
            ax.set_yscale("log")
        label_panels(figure, axes, "regret", "outside upper center", 2 * COLUMNS)
        files.append("regret.png" if first == 0 else f"regret-{len(files) + 1}.png")
        save_figure(figure, folder / files[-1])
    return files


def make_panels(
    names: Sequence[str], max_columns: int, size: tuple[float, float], **kwargs: Any
) -> tuple[Figure, list[Any]]:
    r"""A figure with a panel for every name, row by row.

    Args:
        names: The names.
        max_columns: The largest number of panels in a row.
        size: The width and height of a panel, in inches.
        kwargs: Further arguments of :meth:`Figure.subplots`.

    Returns:
        The figure, with some space for a legend, and the panels.
    """
    columns = min(max_columns, len(names))
    rows = math.ceil(len(names) / columns)
    figsize = (size[0] * columns, size[1] * rows + 1.2)
    figure = Figure(figsize=figsize, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **kwargs).ravel()
    for ax in axes[len(names) :]:
        ax.set_axis_off()
    for ax in axes[max(len(names) - columns, 0) : len(names)]:
        ax.tick_params(labelbottom=True)  # even if the place below is empty
    return figure, list(axes[: len(names)])


def draw_curves(
    ax: Any, curves: pl.DataFrame, names: Sequence[str], by: str = "rule"
) -> None:
    r"""A curve for every rule, with standard errors.

    Few curves have bands. Of many curves only the standard errors at the end are shown,
    as bars next to each other.

    Args:
        ax: The axes.
        curves: The result of :meth:`Analysis.curves` for one panel.
        names: The rules.
        by: The column that tells the curves apart, if it is not the rule.
    """
    for i, name in enumerate(names):
        curve = curves.filter(pl.col(by) == name)
        if curve.is_empty():
            continue
        steps, mean, error = (
            curve[column].to_numpy() for column in ("iteration", "mean", "error")
        )
        style = {"color": colormaps["tab10"](i % 10), "linewidth": 1.0}
        ax.plot(steps, mean, "-" if i < 10 else "--", label=show(name), **style)
        if len(names) <= MOST_BANDS:
            style |= {"alpha": 0.25, "linewidth": 0}
            ax.fill_between(steps, mean - error, mean + error, **style)
        else:
            place = steps[-1] * (1.02 + 0.012 * i)
            ax.vlines(place, mean[-1] - error[-1], mean[-1] + error[-1], **style)
    ax.tick_params(labelsize=7, which="both")
    ax.xaxis.get_major_locator().set_params(integer=True)


def label_panels(
    figure: Figure, axes: Sequence[Any], what: str, loc: Any, ncols: int
) -> None:
    r"""One legend for all panels, with every curve that any of them shows, and axes.

    Args:
        figure: The figure.
        axes: Its panels.
        what: What the curves show.
        loc: Where the legend goes.
        ncols: The number of its columns.
    """
    handles = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc=loc, ncols=ncols)
    figure.supxlabel("trials after the random ones", fontsize=9)
    figure.supylabel(f"{what}, mean ± standard error", fontsize=9)


def save_figure(figure: Figure, path: Path) -> None:
    r"""Save a figure.

    Args:
        figure: The figure.
        path: The path of the file.
    """
    canvas = FigureCanvasAgg(figure)
    figure.set_dpi(DPI)
    canvas.draw()
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    # 256 colors are enough for curves, and take a third of the space.
    picture.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
