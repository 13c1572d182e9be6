r"""
Slices of a model's posterior: its latent function and the success probability.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from torch import Tensor

from botorch_binary_context.bands import Band, latent_band, probability_band
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.plotting.predictions import (
    Values,
    as_candidates,
    evaluating,
    find_opponent,
    make_trial,
)
from botorch_binary_context.plotting.slices import (
    Slice,
    check_dims,
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
from botorch_binary_context.rules import recommend

NUM_DEVIATIONS = 2.0


def plot_posterior_mean(
    model: LatentGP,
    space: ContextSpace,
    dims: Sequence[int] | None = None,
    at: Values | None = None,
    context: Values | None = None,
    names: Sequence[str] | None = None,
    show_data: bool = True,
    resolution: int = 64,
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
        dims: The parameters along the axes, one or two; by default the first two, or
            the only one.
        at: Where the other parameters are held: ``d - m`` numbers, of which those
            along the axes do not matter. By default the recommended parameters.
        context: The context, by default the reference context.
        names: The names of the ``d`` columns of a trial.
        show_data: Whether to mark the trials.
        resolution: The number of grid points along each axis.
        ax: The axes to draw on, by default those of a new figure.

    Example:
        >>> ax = plot_posterior_mean(model, space)
        >>> ax = plot_posterior_mean(model, space, dims=[2], context=[0.5])
    """
    with evaluating(model, space) as space:
        best = recommend(model, space)
        at = best if at is None else at
        cut = slice_parameters(space, dims, at, context, resolution)
        band = latent_band(model, cut.trials, NUM_DEVIATIONS)
    ax = prepare_axes(ax)
    names = column_names(space, names)
    _draw(ax, cut, band, best, "posterior mean")
    if show_data:
        draw_trials(ax, cut, model)
    finish(ax, cut, names)
    return ax


def plot_success_probability(
    model: LatentGP,
    space: ContextSpace,
    dims: Sequence[int] | None = None,
    at: Values | None = None,
    context: Values | None = None,
    opponent: Values | None = None,
    names: Sequence[str] | None = None,
    show_data: bool = True,
    resolution: int = 64,
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
        dims: The parameters along the axes, one or two; by default the first two, or
            the only one.
        at: Where the other parameters are held: ``d - m`` numbers, of which those
            along the axes do not matter. By default the recommended parameters.
        context: The context, by default the reference context.
        opponent: On a preference model, the ``d - m`` parameters to compare with, by
            default the recommended ones.
        names: The names of the ``d`` columns of a trial.
        show_data: Whether to mark the trials.
        resolution: The number of grid points along each axis.
        ax: The axes to draw on, by default those of a new figure.

    Example:
        >>> ax = plot_success_probability(model, space, context=[0.5])
        >>> ax = plot_success_probability(preferences, space, opponent=[0.2, 0.7])
    """
    with evaluating(model, space) as space:
        best = recommend(model, space)
        at = best if at is None else at
        cut = slice_parameters(space, dims, at, context, resolution)
        other = find_opponent(model, space, opponent)
        candidates = as_candidates(space, cut.trials, other)
        band = probability_band(model, candidates, NUM_DEVIATIONS)
    ax = prepare_axes(ax)
    names = column_names(space, names)
    _draw(ax, cut, band, best, describe_probability(other), limits=(0.0, 1.0))
    if show_data:
        draw_trials(ax, cut, model)
    finish(ax, cut, names)
    return ax


def slice_parameters(
    space: ContextSpace,
    dims: Sequence[int] | None,
    at: Values,
    context: Values | None,
    resolution: int,
) -> Slice:
    r"""The slice along parameters, which are counted without the contexts.

    Args:
        space: The box of the trials.
        dims: One or two parameters, by default the first two.
        at: The other parameters.
        context: The context, by default the reference context.
        resolution: The number of grid points along each axis.
    """
    num_parameters = len(space.parameter_dims)
    if dims is None:
        dims = range(min(2, num_parameters))
    check_dims(dims, num_parameters)
    columns = [space.parameter_dims[i] for i in dims]
    return Slice.through(make_trial(space, at, context), space, columns, resolution)


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
