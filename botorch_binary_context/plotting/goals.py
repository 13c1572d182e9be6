r"""
Plots of goals, of the best parameters in each context, and of thresholds.
"""

from __future__ import annotations

from botorch.exceptions import InputDataError
from matplotlib.axes import Axes

from botorch_binary_context.bands import NUM_SAMPLES, Band
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.goals import Goal, threshold_map
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.plotting.posterior import NUM_DEVIATIONS
from botorch_binary_context.plotting.predictions import evaluating
from botorch_binary_context.plotting.slices import (
    LEGEND_HEIGHT,
    draw_band,
    draw_star,
    draw_values,
    finish,
)
from botorch_binary_context.plotting.style import (
    PALETTE,
    column_names,
    describe,
    prepare_axes,
    shade,
    to_numpy,
)
from botorch_binary_context.plotting.view import View, cut_along
from botorch_binary_context.rules import recommend, recommend_for_contexts

# Where each grid point takes a search.
SEARCHED_RESOLUTION = 41


def plot_goal(
    model: LatentGP,
    space: ContextSpace,
    goal: Goal,
    view: View = View(),
    ax: Axes | None = None,
) -> Axes:
    r"""The posterior of a goal along one or two parameters.

    Along one parameter it is a curve with a band of two standard deviations, along two
    a filled contour. A star marks the recommended parameters.

    Args:
        model: A model of pass/fail outcomes or duels, without batch dimensions.
        space: The box of the trials.
        goal: What the parameters should be good at.
        view: What is shown, along one or two parameters: ``dims`` counts the
            parameters. The others are held at the recommended ones by default.
        ax: The axes to draw on, by default those of a new figure.

    Example:
        >>> ax = plot_goal(model, space, WorstContext([0.2, 0.5, 0.8]))
    """
    view.refuse("context", "opponent")
    with evaluating(model, space) as space:
        best = recommend(model, space, goal=goal)
        cut = cut_along(view.with_defaults(at=best), space, space.parameter_dims)
        parameters = space.parameters(cut.trials)
        mean, variance = goal.moments(model, space, parameters)
        half_width = NUM_DEVIATIONS * variance.sqrt()
    ax = prepare_axes(ax)
    names = column_names(space, view.names)
    draw_values(ax, cut, mean, type(goal).__name__)
    draw_band(ax, cut, Band(mean, mean - half_width, mean + half_width))
    draw_star(ax, cut, space.at_reference(best), mean, "recommended")
    finish(ax, cut, names)
    # The contexts are those of the goal: only parameters are held.
    held = [i for i in space.parameter_dims if i not in cut.columns]
    text = describe([names[i] for i in held], cut.origin[held])
    ax.set_title(text, size="small", pad=LEGEND_HEIGHT)
    return ax


def plot_best_setting(
    model: LatentGP,
    space: ContextSpace,
    parameter: int = 0,
    view: View = View(),
    ax: Axes | None = None,
) -> Axes:
    r"""The best value of a parameter for every context.

    The other parameters are the best ones, too.

    Args:
        model: A model of pass/fail outcomes or duels, without batch dimensions.
        space: The box of the trials.
        parameter: The index of the parameter, counted without the contexts.
        view: What is shown, along one context: ``dims`` counts the contexts.
        ax: The axes to draw on, by default those of a new figure.

    Example:
        >>> ax = plot_best_setting(model, space)
    """
    _check_parameter(parameter, len(space.parameter_dims))
    view.refuse("at", "opponent")
    with evaluating(model, space) as space:
        view = view.with_defaults(resolution=SEARCHED_RESOLUTION)
        cut = cut_along(view, space, space.context_dims, most=1)
        contexts = space.contexts(cut.trials)
        best = recommend_for_contexts(model, space, contexts)[:, parameter]
    ax = prepare_axes(ax)
    names = column_names(space, view.names)
    ax.plot(to_numpy(cut.sides[0]), to_numpy(best), color=PALETTE[0])
    ax.set_xlim(*cut.project(space.bounds)[:, 0])
    ax.set_ylim(*space.parameter_bounds[:, parameter].tolist())
    ax.set_xlabel(names[cut.columns[0]])
    ax.set_ylabel(f"best {names[space.parameter_dims[parameter]]}")
    return ax


def plot_threshold_map(
    model: LatentGP,
    space: ContextSpace,
    probability: float | None = None,
    view: View = View(),
    credible: float = 0.9,
    num_samples: int | None = NUM_SAMPLES,
    ax: Axes | None = None,
) -> Axes:
    r"""The context at which tests are passed with a given probability.

    Along one parameter it is a curve with its credible interval, along two a filled
    contour of the medians.

    Args:
        model: A model that includes pass/fail outcomes, without batch dimensions.
        space: The box of the trials, with one context and at least one parameter.
        probability: The success probability, by default halfway between guesses and
            lapses.
        view: What is shown, along one or two parameters: ``dims`` counts the
            parameters. The others are held in the middle of the box by default.
        credible: The probability of each interval.
        num_samples: The number of draws from the true posterior; None for the Gaussian
            approximation.
        ax: The axes to draw on, by default those of a new figure.

    Example:
        >>> ax = plot_threshold_map(model, space, probability=0.75)
    """
    view.refuse("context", "opponent")
    with evaluating(model, space) as space:
        view = view.with_defaults(resolution=SEARCHED_RESOLUTION)
        cut = cut_along(view, space, space.parameter_dims)
        parameters = space.parameters(cut.trials)
        band = threshold_map(
            model, space, probability, parameters, credible, num_samples
        )
    ax = prepare_axes(ax)
    names = column_names(space, view.names)
    low, high = space.context_bounds[:, 0]
    # Values beyond the box are drawn at its edge.
    inside = Band(*[curve.clamp(low, high) for curve in band])
    draw_values(ax, cut, inside.center, f"threshold of {names[space.context_dims[0]]}")
    if cut.is_curve:
        side = to_numpy(cut.sides[0])
        shade(ax, side, to_numpy(inside.low), to_numpy(inside.high), PALETTE[0])
        ax.set_ylim(float(low), float(high))
    ax.set_xlim(*cut.project(space.bounds)[:, 0])
    ax.set_xlabel(names[cut.columns[0]])
    if not cut.is_curve:
        ax.set_ylabel(names[cut.columns[1]])
    return ax


def _check_parameter(parameter: int, size: int) -> None:
    if not 0 <= parameter < size:
        raise InputDataError(
            f"Expected ``parameter`` to be from 0 to {size - 1}, but got {parameter}."
        )
