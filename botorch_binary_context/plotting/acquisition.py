r"""
Slices of acquisition functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import torch
from botorch.exceptions import InputDataError
from matplotlib.axes import Axes
from torch import Tensor

from botorch_binary_context.context import ContextSpace
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.plotting.predictions import (
    Values,
    as_candidates,
    as_row,
    evaluating,
    make_trial,
)
from botorch_binary_context.plotting.slices import (
    Slice,
    check_dims,
    draw_star,
    draw_values,
    finish,
)
from botorch_binary_context.plotting.style import column_names, prepare_axes


def plot_acquisition(
    acqf: Callable[[Tensor], Tensor],
    space: ContextSpace,
    dims: Sequence[int] | None = None,
    at: Values | None = None,
    context: Values | None = None,
    opponent: Values | None = None,
    names: Sequence[str] | None = None,
    resolution: int = 64,
    ax: Axes | None = None,
) -> Axes:
    r"""An acquisition function along one or two columns of a trial.

    A curve along one column, a filled contour along two, with a star at the largest
    value on the grid. Contexts count as columns: with a context along one axis and a
    parameter along the other one sees which difficulty suits which parameters.

    Args:
        acqf: An acquisition function, or any function from ``t x q x d`` candidates
            to ``t`` values. It is called once.
        space: The box of the trials.
        dims: The columns along the axes, one or two; by default the first two, or the
            only one.
        at: Where parameters that are not along the axes are held: ``d - m`` numbers,
            by default the middle of the box.
        context: Where contexts that are not along the axes are held, by default at
            the reference context.
        opponent: If given, candidates are duels, ``q = 2``, against these ``d - m``
            parameters in the same context.
        names: The names of the ``d`` columns of a trial.
        resolution: The number of grid points along each axis.
        ax: The axes to draw on, by default those of a new figure.

    Example:
        >>> acqf = BernoulliMutualInformation(model)
        >>> ax = plot_acquisition(acqf, space, dims=[0, 1])
        >>> acqf = BernoulliMutualInformation(preferences)
        >>> ax = plot_acquisition(acqf, space, opponent=recommend(preferences, space))
    """
    model = getattr(acqf, "model", None)
    is_ours = isinstance(model, LatentGP)
    with evaluating(model, space) if is_ours else nullcontext(space) as space:
        dims = range(min(2, space.dim)) if dims is None else dims
        check_dims(dims, space.dim)
        cut = Slice.through(make_trial(space, at, context), space, dims, resolution)
        if opponent is not None:
            opponent = as_row(opponent, space.parameter_bounds, "opponent")
        values = _evaluate(acqf, as_candidates(space, cut.trials, opponent))
    ax = prepare_axes(ax)
    names = column_names(space, names)
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
