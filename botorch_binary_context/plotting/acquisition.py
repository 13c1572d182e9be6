r"""
Slices of acquisition functions.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch
from botorch.exceptions import InputDataError
from matplotlib.axes import Axes
from torch import Tensor

from botorch_binary_context.context import ContextSpace
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.plotting.predictions import (
    as_candidates,
    as_row,
    evaluating,
)
from botorch_binary_context.plotting.slices import (
    draw_star,
    draw_values,
    finish,
)
from botorch_binary_context.plotting.style import column_names, prepare_axes
from botorch_binary_context.plotting.view import View, cut_along


def plot_acquisition(
    acqf: Callable[[Tensor], Tensor],
    space: ContextSpace,
    view: View = View(),
    ax: Axes | None = None,
) -> Axes:
    r"""An acquisition function along one or two columns of a trial.

    A curve along one column, a filled contour along two, with a star at the largest
    value on the grid. Contexts count as columns: with a context along one axis and a
    parameter along the other, the plot shows which difficulty suits which parameters.

    Args:
        acqf: An acquisition function, or any function from ``t x q x d`` candidates
            to ``t`` values. It is called once.
        space: The box of the trials.
        view: What is shown, along one or two columns: ``dims`` counts all of a trial.
            Parameters are held in the middle of the box by default. With an opponent
            candidates are duels against it, ``q = 2``, in the same context.
        ax: The axes to draw on, by default those of a new figure.

    Example:
        >>> acqf = BernoulliMutualInformation(model)
        >>> ax = plot_acquisition(acqf, space, View(dims=[0, 1]))
        >>> acqf = BernoulliMutualInformation(preferences)
        >>> view = View(opponent=recommend(preferences, space))
        >>> ax = plot_acquisition(acqf, space, view)
    """
    model = getattr(acqf, "model", None)
    is_ours = isinstance(model, LatentGP)
    with evaluating(model, space) if is_ours else nullcontext(space) as space:
        cut = cut_along(view, space, range(space.dim))
        opponent = view.opponent
        if opponent is not None:
            opponent = as_row(opponent, space.parameter_bounds, "opponent")
        values = _evaluate(acqf, as_candidates(space, cut.trials, opponent))
    ax = prepare_axes(ax)
    names = column_names(space, view.names)
    draw_values(ax, cut, values, "acquisition value")
    best = cut.trials.flatten(0, -2)[values.argmax()]
    draw_star(ax, cut, best, values, "maximum")
    finish(ax, cut, names)
    return ax


@torch.no_grad()
def _evaluate(acqf: Callable[[Tensor], Tensor], candidates: Tensor) -> Tensor:
    """The values of ``... x q x d`` candidates."""
    shape = candidates.shape[:-2]
    values = acqf(candidates.flatten(0, -3))
    if values.shape != (shape.numel(),):
        raise InputDataError(
            f"Expected ``acqf`` to give one value for each of {shape.numel()} "
            f"candidates, but got values of shape {list(values.shape)}."
        )
    return values.reshape(shape)
