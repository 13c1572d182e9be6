r"""
Slices of a model's posterior: its latent function and the success probability.
"""

from __future__ import annotations

from matplotlib.axes import Axes
from torch import Tensor

from botorch_binary_context.bands import Band, latent_band, probability_band
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.plotting.predictions import (
    as_candidates,
    evaluating,
    find_opponent,
)
from botorch_binary_context.plotting.slices import (
    Slice,
    draw_band,
    draw_star,
    draw_trials,
    draw_values,
    finish,
)
from botorch_binary_context.plotting.style import (
    column_names,
    describe_probability,
    prepare_axes,
)
from botorch_binary_context.plotting.view import View, cut_along
from botorch_binary_context.rules import recommend

NUM_DEVIATIONS = 2.0


def plot_posterior_mean(
    model: LatentGP,
    space: ContextSpace,
    view: View = View(),
    show_data: bool = True,
    ax: Axes | None = None,
) -> Axes:
    r"""The posterior mean of the latent function along one or two parameters.

    Along one parameter it is a curve with a band of two standard deviations, along two
    a filled contour. A star marks the recommended parameters. All trials are marked,
    whatever their context and other parameters: passed and failed or, joined by a line,
    won and lost.

    Args:
        model: A model of pass/fail outcomes or duels, without batch dimensions.
        space: The box of the trials.
        view: What is shown, along one or two parameters: ``dims`` counts the
            parameters. The others are held at the recommended ones by default.
        show_data: Whether to mark the trials.
        ax: The axes to draw on, by default those of a new figure.

    Example:
        >>> ax = plot_posterior_mean(model, space)
        >>> ax = plot_posterior_mean(model, space, View(dims=[2], context=[0.5]))
    """
    view.refuse("opponent")
    with evaluating(model, space) as space:
        best = recommend(model, space)
        cut = cut_along(view.with_defaults(at=best), space, space.parameter_dims)
        band = latent_band(model, cut.trials, NUM_DEVIATIONS)
    ax = prepare_axes(ax)
    names = column_names(space, view.names)
    _draw(ax, cut, band, best, "posterior mean")
    if show_data:
        draw_trials(ax, cut, model)
    finish(ax, cut, names)
    return ax


def plot_success_probability(
    model: LatentGP,
    space: ContextSpace,
    view: View = View(),
    show_data: bool = True,
    ax: Axes | None = None,
) -> Axes:
    r"""The predicted success probability along one or two parameters.

    It is ``E p(c=1|f)``, exactly, with the guess and lapse rates of the model's
    likelihood. On a preference model it is the probability of being preferred to an
    opponent in the same context. Along one parameter it is a curve, with a band
    between the values of ``p(c=1|f)`` two standard deviations of ``f`` away from its
    mean. All else is as in :func:`plot_posterior_mean`.

    Args:
        model: A model of pass/fail outcomes or duels, without batch dimensions.
        space: The box of the trials.
        view: What is shown, along one or two parameters: ``dims`` counts the
            parameters. The others, and on a preference model the opponent, are the
            recommended ones by default.
        show_data: Whether to mark the trials.
        ax: The axes to draw on, by default those of a new figure.

    Example:
        >>> ax = plot_success_probability(model, space, View(context=[0.5]))
        >>> view = View(opponent=[0.2, 0.7])
        >>> ax = plot_success_probability(preferences, space, view)
    """
    with evaluating(model, space) as space:
        best = recommend(model, space)
        cut = cut_along(view.with_defaults(at=best), space, space.parameter_dims)
        other = find_opponent(model, space, view.opponent)
        candidates = as_candidates(space, cut.trials, other)
        band = probability_band(model, candidates, NUM_DEVIATIONS)
    ax = prepare_axes(ax)
    names = column_names(space, view.names)
    _draw(ax, cut, band, best, describe_probability(other), limits=(0.0, 1.0))
    if show_data:
        draw_trials(ax, cut, model)
    finish(ax, cut, names)
    return ax


def _draw(
    ax: Axes,
    cut: Slice,
    band: Band,
    best: Tensor,
    label: str,
    limits: tuple[float, float] | None = None,
) -> None:
    """Draw the predictions of the model and its recommendation."""
    draw_values(ax, cut, band.center, label, limits)
    draw_band(ax, cut, band)
    draw_star(ax, cut, cut.space.at_reference(best), band.center, "recommended")
