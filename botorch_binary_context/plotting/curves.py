r"""
Curves over contexts and over trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from botorch.exceptions import InputDataError
from matplotlib.axes import Axes
from torch import Tensor

from botorch_binary_context.bands import probability_band
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.models.validation import check_labels
from botorch_binary_context.plotting.predictions import (
    as_candidates,
    evaluating,
    find_opponent,
)
from botorch_binary_context.plotting.slices import Slice
from botorch_binary_context.plotting.style import (
    BAD_MARKER,
    EDGE,
    GOOD_MARKER,
    GUIDE,
    PALETTE,
    column_names,
    describe,
    describe_probability,
    prepare_axes,
    shade,
    to_numpy,
)
from botorch_binary_context.plotting.view import View, cut_along

CURVE_RESOLUTION = 128


def plot_psychometric_curves(
    model: LatentGP,
    space: ContextSpace,
    parameters: Tensor,
    view: View = View(),
    credible: float = 0.9,
    labels: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    r"""The predicted success probability against the context.

    One curve of ``E p(c=1|f)`` for each of the parameters, with a credible band of
    ``p(c=1|f)`` between equal tails. A dotted line shows the guess rate.

    Args:
        model: A model of pass/fail outcomes or duels, without batch dimensions.
        space: The box of the trials.
        parameters: The parameters, ``k x (d - m)``.
        view: What is shown, along one context: ``dims`` counts the contexts. On a
            preference model the opponent is the recommended one by default.
        credible: The posterior probability of the band.
        labels: The names of the ``k`` curves, by default their parameters.
        ax: The axes to draw on, by default those of a new figure.

    Example:
        >>> parameters = torch.stack([recommend(model, space), worst])
        >>> ax = plot_psychometric_curves(model, space, parameters)
    """
    view.refuse("at")
    if not 0.0 < credible < 1.0:
        raise InputDataError(
            f"Expected ``credible`` to be between 0 and 1, but got {credible}."
        )
    width = NormalDist().inv_cdf((1 + credible) / 2)
    with evaluating(model, space) as space:
        cut = _slice_context(space, parameters, view)
        rows = parameters.to(space.bounds).unsqueeze(-2)
        trials = space.join(rows, space.contexts(cut.trials))  # k x g x d
        other = find_opponent(model, space, view.opponent)
        bands = probability_band(model, as_candidates(space, trials, other), width)
    names = column_names(space, view.names)
    labels = _label_curves(space, parameters, names, labels)
    ax = prepare_axes(ax)
    side = to_numpy(cut.sides[0])
    for label, center, low, high in zip(labels, *map(to_numpy, bands), strict=True):
        (line,) = ax.plot(side, center, label=label)
        shade(ax, side, low, high, line.get_color())
    never = model.likelihood.probability(trials.new_tensor([-float("inf")])).detach()
    if (guess_rate := float(never)) > 0:
        ax.axhline(guess_rate, label="guess rate", linestyle=":", **GUIDE)
    ax.set(xlim=side[[0, -1]], ylim=(-0.03, 1.03))
    ax.set(xlabel=names[cut.columns[0]], ylabel=describe_probability(other))
    ax.legend()
    return ax


def _slice_context(space: ContextSpace, parameters: Tensor, view: View) -> Slice:
    """The slice along a context through the first of the parameters."""
    num_parameters = len(space.parameter_dims)
    if (
        parameters.ndim != 2
        or not len(parameters)
        or parameters.shape[-1] != num_parameters
    ):
        raise InputDataError(
            f"Expected ``parameters`` to be one or more rows of {num_parameters} "
            f"numbers, but got shape {list(parameters.shape)}."
        )
    view = view.with_defaults(at=parameters[0], resolution=CURVE_RESOLUTION)
    return cut_along(view, space, space.context_dims, most=1)


def _label_curves(
    space: ContextSpace,
    parameters: Tensor,
    names: Sequence[str],
    labels: Sequence[str] | None,
) -> Sequence[str]:
    """The given labels, or the parameters of each curve."""
    if labels is None:
        shown = [names[i] for i in space.parameter_dims]
        return [describe(shown, row) for row in parameters]
    if len(labels) != len(parameters):
        raise InputDataError(
            f"Expected ``labels`` to name {len(parameters)} curves, but got "
            f"{list(labels)}."
        )
    return labels


def plot_best_so_far(
    values: Tensor | npt.ArrayLike,
    label: str | None = None,
    optimum: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    r"""The best value so far after each trial.

    With repetitions it is the mean over them, with a band of one standard error.
    Methods are compared by drawing one after the other on the same axes.

    Args:
        values: The values, ``iterations`` or ``repetitions x iterations``, shown as
            they are: a later recommendation may be worse.
        label: The name of the curve.
        optimum: The largest possible value, shown as a dashed line.
        ax: The axes to draw on, by default those of a new figure.

    Example:
        >>> ax = plot_best_so_far(chosen, label="difficulty chosen")
        >>> ax = plot_best_so_far(random, label="at random", optimum=2.0, ax=ax)
    """
    runs = to_numpy(values)
    if runs.ndim not in (1, 2) or runs.size == 0:
        raise InputDataError(
            "Expected ``values`` to be ``iterations`` or ``repetitions x iterations`` "
            f"numbers, but got shape {list(runs.shape)}."
        )
    runs = np.atleast_2d(runs)
    repetitions, iterations = runs.shape
    ax = prepare_axes(ax)
    steps = np.arange(1, iterations + 1)
    mean = runs.mean(axis=0)
    (line,) = ax.plot(steps, mean, label=label)
    if repetitions > 1:
        error = runs.std(axis=0, ddof=1) / repetitions**0.5
        shade(ax, steps, mean - error, mean + error, line.get_color())
    if optimum is not None:
        ax.axhline(optimum, label="optimum", linestyle="--", **GUIDE)
    ax.set(xlabel="trial", ylabel="best so far")
    if label is not None or optimum is not None:
        ax.legend()
    return ax


def plot_contexts(
    contexts: Tensor,
    outcomes: Tensor | None = None,
    space: ContextSpace | None = None,
    context_dim: int = 0,
    ax: Axes | None = None,
) -> Axes:
    r"""The context of each trial of an experiment.

    Args:
        contexts: The contexts of the trials in their order, ``n x m``, or ``n`` if
            there is one.
        outcomes: Their outcomes in {0, 1}, ``n`` or ``n x 1``, to be marked.
        space: The box of the trials, to show the reference context as a dashed line.
        context_dim: Which of the ``m`` contexts to show.
        ax: The axes to draw on, by default those of a new figure.

    Example:
        >>> contexts = space.contexts(model.original_datapoints)
        >>> ax = plot_contexts(contexts, model.train_targets, space)
    """
    if contexts.ndim == 1:
        contexts = contexts.unsqueeze(-1)
    if contexts.ndim != 2:
        raise InputDataError(
            f"Expected ``contexts`` to be ``n x m``, but got shape "
            f"{list(contexts.shape)}."
        )
    _check_context_dim(context_dim, contexts.shape[-1])
    if space is not None:
        _check_context_dim(context_dim, space.num_contexts)
    if outcomes is not None:
        _check_outcomes(outcomes, len(contexts))
    ax = prepare_axes(ax)
    _draw_contexts(ax, contexts[:, context_dim], outcomes)
    if space is not None:
        reference = float(space.reference_context[context_dim])
        ax.axhline(reference, label="reference", linestyle="--", **GUIDE)
    ax.set(xlabel="trial", ylabel="context")
    if outcomes is not None or space is not None:
        ax.legend()
    return ax


def _draw_contexts(ax: Axes, contexts: Tensor, outcomes: Tensor | None) -> None:
    """The contexts of trials in order, marked by their outcomes."""
    steps = np.arange(1, len(contexts) + 1)
    heights = to_numpy(contexts)
    ax.plot(steps, heights, zorder=1, color="0.8", linewidth=1)
    if outcomes is None:
        ax.scatter(steps, heights, s=GOOD_MARKER["s"], color=PALETTE[0])
        return
    success = to_numpy(outcomes).reshape(-1) == 1
    ax.scatter(steps[success], heights[success], label="passed", **GOOD_MARKER, **EDGE)
    ax.scatter(steps[~success], heights[~success], label="failed", **BAD_MARKER, **EDGE)


def _check_outcomes(outcomes: Tensor, n: int) -> None:
    if outcomes.shape not in ((n,), (n, 1)):
        raise InputDataError(
            f"Expected ``outcomes`` to have one label for each of {n} trials, but got "
            f"shape {list(outcomes.shape)}."
        )
    check_labels(outcomes, name="outcomes")


def _check_context_dim(context_dim: int, num_contexts: int) -> None:
    if not 0 <= context_dim < num_contexts:
        raise InputDataError(
            f"Expected ``context_dim`` to be one of {num_contexts} contexts, counted "
            f"from 0, but got {context_dim}."
        )
