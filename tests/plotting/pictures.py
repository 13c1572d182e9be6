r"""Models to draw, and what is on the axes of a picture."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.contour import QuadContourSet
from torch import Tensor

from botorch_binary_context import (
    AdditiveContextKernel,
    ContextSpace,
    PreferenceLaplaceGP,
)
from botorch_binary_context.plotting import (
    plot_posterior_mean,
    plot_success_probability,
)
from tests.latent_posteriors import latent
from tests.small_models import AnyModel, ModelClass, random_trials, simple_kernel
from tests.tensors import double

# The context between two parameters, so that columns and parameters are counted
# differently; no two ranges are the same.
BOUNDS = double([[0.0, -1.0, 0.0], [1.0, 1.0, 2.0]])
SPACE = ContextSpace(BOUNDS, context_dims=[1], reference_context=[0.5])
FLAT = ContextSpace(double([[0.0, 0.0], [1.0, 1.0]]))  # without a context
LINE = ContextSpace(double([[0.0], [1.0]]))  # one parameter alone
TWO_CONTEXTS = ContextSpace(BOUNDS, [0, 1], [0.3, 0.5])
MODEL_PLOTS: tuple[Callable[..., Axes], ...] = (
    plot_posterior_mean,
    plot_success_probability,
)


def make_model(model_class: ModelClass, n: int = 12, **kwargs: Any) -> AnyModel:
    """A model of trials in ``SPACE``."""
    X, Y = random_trials(model_class, n, dim=3)
    X = BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * X
    if model_class is PreferenceLaplaceGP:
        X[..., 1, 1] = X[..., 0, 1]
    kernel = AdditiveContextKernel(simple_kernel(dim=2), context_dims=[1])
    return model_class(X, Y, covar_module=kernel, **kwargs)


def moments(model: AnyModel, X: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and the standard deviation of the latent function, row by row."""
    with torch.no_grad():
        posterior = latent(model, X)
        return posterior.mean.squeeze(-1), posterior.variance.squeeze(-1).sqrt()


def preference(model: AnyModel, X: Tensor, opponent: Tensor) -> Tensor:
    """The probability that rows are preferred to an opponent's parameters."""
    other = X.clone()
    other[:, [0, 2]] = opponent
    with torch.no_grad():
        duels = torch.stack([X, other], dim=-2)
        return model.probability_posterior(duels).mean.flatten()


def rows(x1: Any, context: Any, x2: Any) -> Tensor:
    """Trials in ``SPACE`` of numbers or columns."""
    columns = torch.broadcast_tensors(*(torch.as_tensor(c) for c in (x1, context, x2)))
    return torch.stack([c.double() for c in columns], dim=-1)


# ----------------------------------------------------------- what is on the axes


def of_type(ax: Axes, kind: type) -> list[Any]:
    """The collections of one type, in the order they were drawn in."""
    return [c for c in ax.collections if type(c) is kind]


def curve(ax: Axes, index: int = 0) -> tuple[Tensor, Tensor]:
    """The coordinates of a line."""
    x, y = (np.asarray(data, dtype=float) for data in ax.lines[index].get_data())
    return torch.from_numpy(x), torch.from_numpy(y)


def band(ax: Axes, index: int = 0) -> tuple[Tensor, Tensor]:
    """The lower and the upper bounds of a shaded band, one for each point."""
    (path,) = bands(ax)[index].get_paths()
    n = (len(path.vertices) - 3) // 2  # there, back and the ends
    low, high = path.vertices[1 : n + 1, 1], path.vertices[n + 2 : -1, 1][::-1]
    return torch.from_numpy(low.copy()), torch.from_numpy(high.copy())


def bands(ax: Axes) -> list[Any]:
    """The shaded bands; their class differs between versions of matplotlib."""
    return [c for c in ax.collections if isinstance(c, PolyCollection)]


def marks(ax: Axes, label: str) -> Tensor:
    """The coordinates of the markers with a label, ``n x 2``."""
    (found,) = (c for c in of_type(ax, PathCollection) if c.get_label() == label)
    return torch.from_numpy(np.asarray(found.get_offsets(), dtype=float))


def legend(ax: Axes) -> list[str]:
    found = ax.get_legend()
    return [] if found is None else [text.get_text() for text in found.get_texts()]


def contour(ax: Axes) -> QuadContourSet:
    (found,) = of_type(ax, QuadContourSet)
    return found


def color_bar(ax: Axes) -> Axes:
    (found,) = (other for other in ax.figure.axes if other is not ax)
    return found


def draw(ax: Axes) -> None:
    """Run the renderer: a warning would be an error."""
    figure: Any = ax.figure
    figure.savefig(io.BytesIO(), dpi=40)


def assert_surface(ax: Axes, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    """The function has the values of the contour where its colors meet."""
    filled = contour(ax)
    borders = torch.as_tensor(np.asarray(filled.levels, dtype=float))
    spacing = float(borders[1] - borders[0])
    box = (ax.get_xlim(), ax.get_ylim())
    checked = 0
    for i, path in enumerate(filled.get_paths()):
        vertices = torch.from_numpy(np.asarray(path.vertices, dtype=float))
        inside = [
            (low + 1e-9 < u) & (u < high - 1e-9)
            for u, (low, high) in zip(vertices.T, box, strict=True)
        ]
        border = vertices[inside[0] & inside[1]]
        if len(border) == 0:
            continue
        values = function(*border.T)
        distance = (values.unsqueeze(-1) - borders[i : i + 2]).abs().amin(dim=-1)
        assert float(distance.max()) < 0.05 * spacing
        checked += len(border)
    assert checked > 100
