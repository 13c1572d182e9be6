r"""
Plots that compare the approximation of a model with its true posterior.
"""

from __future__ import annotations

from statistics import NormalDist

from matplotlib.axes import Axes

from botorch_binary_context.bands import Band, exact_latent_band, latent_band
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.plotting.predictions import evaluating
from botorch_binary_context.plotting.slices import finish
from botorch_binary_context.plotting.style import (
    PALETTE,
    column_names,
    prepare_axes,
    shade,
    to_numpy,
)
from botorch_binary_context.plotting.view import View, cut_along
from botorch_binary_context.rules import recommend

CREDIBLE = 0.9


def plot_approximation(
    model: LatentGP,
    space: ContextSpace,
    view: View = View(),
    ax: Axes | None = None,
) -> Axes:
    r"""The approximate and the true posterior of the latent function along a parameter.

    Each is a curve with a band that holds it with a probability of 90 %. Where the two
    coincide, the approximation can be trusted;
    :func:`~botorch_binary_context.diagnostics.check_approximation` gives numbers.

    Args:
        model: A model of pass/fail outcomes or duels, without batch dimensions.
        space: The box of the trials.
        view: What is shown, along one parameter: ``dims`` counts the parameters. The
            others are held at the recommended ones by default.
        ax: The axes to draw on, by default those of a new figure.

    Example:
        >>> ax = plot_approximation(model, space)
    """
    view.refuse("opponent")
    with evaluating(model, space) as space:
        at = recommend(model, space) if view.at is None else view.at
        cut = cut_along(view.with_defaults(at=at), space, space.parameter_dims, most=1)
        width = NormalDist().inv_cdf((1 + CREDIBLE) / 2)
        bands: dict[str, Band] = {
            type(model.inference).__name__: latent_band(model, cut.trials, width),
            "true posterior": exact_latent_band(model, cut.trials, CREDIBLE),
        }
    ax = prepare_axes(ax)
    names = column_names(space, view.names)
    side = to_numpy(cut.sides[0])
    for color, (label, band) in zip(PALETTE, bands.items(), strict=False):
        center, low, high = map(to_numpy, band)
        ax.plot(side, center, label=label, color=color)
        shade(ax, side, low, high, color)
    ax.set_ylabel("latent function")
    finish(ax, cut, names)
    return ax
