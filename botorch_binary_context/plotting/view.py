r"""
Which trials a picture shows, and what its axes are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from botorch.exceptions import InputDataError

from botorch_binary_context.context import ContextSpace
from botorch_binary_context.plotting.predictions import Values, make_trial
from botorch_binary_context.plotting.slices import Slice, check_dims

RESOLUTION = 64


@dataclass(frozen=True)
class View:
    r"""What a picture shows of the box of trials.

    Columns are along its axes, or they are held at a value. All plots of slices take
    a view; each says which columns ``dims`` counts, and refuses what it cannot show.

    Attributes:
        dims: The columns along the axes; by default the first ones.
        at: Where parameters that are not along the axes are held: ``d - m`` numbers;
            the ones along the axes do not matter.
        context: Where contexts that are not along the axes are held, by default at
            the reference context.
        opponent: The ``d - m`` parameters that all others are compared with in duels.
        names: The names of the ``d`` columns of a trial.
        resolution: The number of grid points along each axis.

    Example:
        >>> view = View(dims=[2], context=[0.5], names=["size", "gain", "tilt", "pace"])
        >>> ax = plot_posterior_mean(model, space, view)
        >>> ax = plot_success_probability(model, space, replace(view, dims=[0, 1]))
    """

    dims: Sequence[int] | None = None
    at: Values | None = None
    context: Values | None = None
    opponent: Values | None = None
    names: Sequence[str] | None = None
    resolution: int | None = None

    def with_defaults(self, **defaults: Any) -> View:
        r"""The view with values for what it does not say.

        Args:
            defaults: Values of attributes, for those that are None.
        """
        missing = [name for name in defaults if getattr(self, name) is None]
        return replace(self, **{name: defaults[name] for name in missing})

    def refuse(self, *names: str) -> None:
        r"""Check that a view does not ask for what a plot cannot show.

        Args:
            names: The attributes that the plot does not use.
        """
        for name in names:
            if (value := getattr(self, name)) is not None:
                raise InputDataError(
                    f"Expected ``{name}`` of the view to be None for this plot, but "
                    f"got {value}."
                )


def cut_along(
    view: View, space: ContextSpace, columns: Sequence[int], most: int = 2
) -> Slice:
    r"""The slice that a view shows.

    Args:
        view: The view.
        space: The box of the trials.
        columns: The columns that its ``dims`` count.
        most: The largest number of them along the axes, one or two.
    """
    dims = range(min(most, len(columns))) if view.dims is None else view.dims
    check_dims(dims, len(columns), most)
    origin = make_trial(space, view.at, view.context)
    resolution = RESOLUTION if view.resolution is None else view.resolution
    return Slice.through(origin, space, [columns[i] for i in dims], resolution)
