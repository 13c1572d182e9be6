r"""
A picture of an experiment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from botorch.exceptions import UnsupportedError
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.figure import Figure
from matplotlib.ticker import Locator, LogLocator, MaxNLocator
from torch import Tensor

from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.experiment.files import prepare_output, refuse_journal
from botorch_binary_context.experiment.space import Encoder
from botorch_binary_context.experiment.variables import Categorical, Integer
from botorch_binary_context.goals import Goal, ThresholdMap
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.plotting import (
    View,
    plot_contexts,
    plot_goal,
    plot_posterior_mean,
    plot_psychometric_curves,
    plot_success_probability,
    plot_threshold_map,
)

Panel = Callable[[Axes], None]


def draw_experiment(experiment: Experiment, path: str | Path) -> None:
    r"""Save a picture: the model, the recommended parameters, the contexts shown.

    Axes are in the user's units.

    Args:
        experiment: The experiment, with at least one answer.
        path: Where to save it; the extension determines the format. An existing file is
            overwritten, unless it is a journal.
    """
    _check_path(path)
    model = experiment.model()
    encoder = experiment.encoder
    panels = _panels(experiment, model, encoder)
    if not panels:
        raise UnsupportedError(
            "Expected a parameter that is a number, or a context, to draw an "
            "experiment, but got neither."
        )
    size = (5.5 * len(panels), 4.2)
    figure = Figure(figsize=size, layout="constrained")
    axes: Any = figure.subplots(1, len(panels), squeeze=False)
    for panel, ax in zip(panels, axes[0], strict=True):
        panel(ax)
    if experiment.settings.stop is not None:
        ends = [str(end) for end in experiment.progress()]
        figure.suptitle("; ".join(ends), size="small")
    prepare_output(path)
    figure.savefig(path, dpi=120)


def _check_path(path: str | Path) -> None:
    """Find mistakes before anything is computed."""
    ending = Path(path).suffix[1:].lower()
    formats = FigureCanvasBase.get_supported_filetypes()
    if ending not in formats:
        raise UnsupportedError(
            "Expected ``path`` to end as an image file does, in one of "
            f"{', '.join(formats)}, but got {path}."
        )
    refuse_journal(path)


def _panels(experiment: Experiment, model: LatentGP, encoder: Encoder) -> list[Panel]:
    """What there is to draw."""
    settings = experiment.settings
    duels = not settings.feedback.functional.sees_offset
    numeric = _numeric_columns(encoder)
    goal = settings.make_goal()
    is_map = isinstance(goal, ThresholdMap)
    panels: list[Panel] = []
    if numeric and isinstance(goal, ThresholdMap) and encoder.num_contexts == 1:
        probability = goal.probability
        panels.append(lambda ax: _draw_map(ax, model, encoder, numeric, probability))
    elif numeric and isinstance(goal, Goal):
        panels.append(lambda ax: _draw_goal(ax, model, encoder, numeric, goal))
    elif numeric:
        panels.append(lambda ax: _draw_model(ax, model, encoder, numeric, duels))
    if encoder.num_contexts and not duels and not (is_map and numeric):
        best = encoder.encode_parameters(experiment.recommend().parameters)
        panels.append(lambda ax: _draw_curve(ax, model, encoder, best))
    if encoder.num_contexts:
        panels.append(lambda ax: _draw_contexts(ax, model, encoder, duels))
    return panels


def _numeric_columns(encoder: Encoder) -> list[int]:
    """The first two columns of the parameters that are numbers."""
    columns = []
    position = 0
    for parameter in encoder.space.parts:
        if not isinstance(parameter, Categorical):
            columns.append(position)
        position += parameter.num_columns
    return columns[:2]


def _draw_model(
    ax: Axes, model: LatentGP, encoder: Encoder, dims: Sequence[int], duels: bool
) -> None:
    """Draw the model over the parameters in the reference context."""
    draw: Any = plot_posterior_mean if duels else plot_success_probability
    view = View(dims, names=encoder.column_names)
    draw(model, encoder.context_space, view, ax=ax)
    held = encoder.context_space.dim > len(dims)
    ax.title.set_text(
        "reference context, other parameters as recommended" if held else ""
    )
    _use_parameter_units(ax, encoder, dims)


def _draw_goal(
    ax: Axes, model: LatentGP, encoder: Encoder, dims: Sequence[int], goal: Goal
) -> None:
    """Draw the goal over the parameters."""
    view = View(dims, names=encoder.column_names)
    plot_goal(model, encoder.context_space, goal, view, ax=ax)
    others = len(encoder.context_space.parameter_dims) > len(dims)
    ax.title.set_text("other parameters as recommended" if others else "")
    _use_parameter_units(ax, encoder, dims)


def _draw_map(
    ax: Axes, model: LatentGP, encoder: Encoder, dims: Sequence[int], probability: Any
) -> None:
    """Draw the threshold over the parameters."""
    view = View(dims, names=encoder.column_names)
    space = encoder.context_space
    # By the Gaussian approximation, which is quick.
    plot_threshold_map(model, space, probability, view, num_samples=None, ax=ax)
    _use_parameter_units(ax, encoder, dims)
    if len(dims) == 1:
        _use_context_units(ax.yaxis, encoder)


def _use_parameter_units(ax: Axes, encoder: Encoder, dims: Sequence[int]) -> None:
    owners = [p for p in encoder.space.parts for _ in range(p.num_columns)]
    for axis, dim in zip((ax.xaxis, ax.yaxis), dims, strict=False):
        _use_units(axis, owners[dim], owners[dim].encode)


def _draw_curve(ax: Axes, model: LatentGP, encoder: Encoder, best: Tensor) -> None:
    """Draw how the recommended parameters do as the first context changes."""
    plot_psychometric_curves(
        model,
        encoder.context_space,
        best.unsqueeze(0),
        View(names=encoder.column_names),
        labels=["recommended" if encoder.space.parameters else "all answers"],
        ax=ax,
    )
    _use_context_units(ax.xaxis, encoder)


def _draw_contexts(ax: Axes, model: LatentGP, encoder: Encoder, duels: bool) -> None:
    """Draw the first context of every answered trial."""
    rows = model.original_datapoints
    contexts = encoder.context_space.contexts(rows[::2] if duels else rows)
    success = model.train_targets >= model.likelihood.passing
    outcomes = None if duels else success.to(model.train_targets)
    plot_contexts(contexts, outcomes, encoder.context_space, ax=ax)
    ax.set_ylabel(encoder.column_names[0])
    _use_context_units(ax.yaxis, encoder)


def _use_context_units(axis: Axis, encoder: Encoder) -> None:
    context = encoder.space.contexts[0]
    _use_units(axis, context, lambda value: context.encode(value, encoder.centered))


def _use_units(axis: Axis, variable: Any, encode: Callable[[float], Tensor]) -> None:
    """Put ticks at round numbers of the user's units."""
    if variable.scale == "log":
        locator: Locator = LogLocator()
    else:
        whole = isinstance(variable, Integer)
        locator = MaxNLocator(6, steps=[1, 2, 2.5, 5, 10], integer=whole)
    low, high = variable.bounds
    values = [float(v) for v in locator.tick_values(low, high) if low <= v <= high]
    positions = [float(encode(value)) for value in values]
    axis.set_ticks(positions, [f"{value:g}" for value in values])
