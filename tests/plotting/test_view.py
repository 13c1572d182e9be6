r"""What a picture shows of the box of trials."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from botorch_binary_context import AtContext, BinaryLaplaceGP, ContextSpace
from botorch_binary_context.plotting import (
    View,
    plot_approximation,
    plot_best_setting,
    plot_goal,
    plot_posterior_mean,
    plot_psychometric_curves,
    plot_threshold_map,
)
from botorch_binary_context.plotting.view import cut_along
from tests.closeness import assert_all_close
from tests.plotting.pictures import SPACE, TWO_CONTEXTS, band, curve, make_model, rows
from tests.tensors import double

MIDDLE = double([[0.5, 1.0]])
REFUSALS: list[tuple[Callable[..., Axes], tuple[Any, ...], tuple[str, ...]]] = [
    (plot_approximation, (), ("opponent",)),
    (plot_best_setting, (0,), ("at", "opponent")),
    (plot_goal, (AtContext(0.0),), ("context", "opponent")),
    (plot_posterior_mean, (), ("opponent",)),
    (plot_psychometric_curves, (MIDDLE,), ("at",)),
    (plot_threshold_map, (None,), ("context", "opponent")),
]


class TestCut:
    def test_rest_is_held_in_the_middle_and_at_the_reference(self) -> None:
        cut = cut_along(View(resolution=3), SPACE, SPACE.context_dims, most=1)
        assert cut.columns == (1,)
        assert_all_close(cut.trials, rows(0.5, double([-1.0, 0.0, 1.0]), 1.0))

    def test_rest_is_held_where_the_view_says(self) -> None:
        view = View(dims=[1], at=[0.3, 0.0], context=[-0.5], resolution=2)
        cut = cut_along(view, SPACE, SPACE.parameter_dims)
        assert cut.columns == (2,)
        assert_all_close(cut.trials, rows(0.3, -0.5, double([0.0, 2.0])))

    def test_at_most_two_columns_are_along_the_axes(self) -> None:
        cut = cut_along(View(), SPACE, range(3))
        assert cut.columns == (0, 1)
        assert cut.trials.shape == (64, 64, 3)

    @pytest.mark.parametrize("dims", [[], [0, 1], [2], [-1]])
    def test_one_column_where_a_plot_has_one(self, dims: list[int]) -> None:
        message = "Expected ``dims`` to be one of 2 columns, counted from 0, but got "
        with pytest.raises(InputDataError, match=message):
            cut_along(View(dims=dims), TWO_CONTEXTS, TWO_CONTEXTS.context_dims, most=1)

    def test_no_column_to_show(self) -> None:
        space = ContextSpace(double([[0.0], [1.0]]))
        with pytest.raises(InputDataError, match="``dims`` to be one of 0 columns"):
            cut_along(View(), space, space.context_dims, most=1)


def test_defaults_are_for_what_a_view_does_not_say() -> None:
    view = View(dims=[1], resolution=5).with_defaults(at=[0.1, 0.2], resolution=9)
    assert view == View(dims=[1], at=[0.1, 0.2], resolution=5)


@pytest.mark.parametrize(("plot", "args", "names"), REFUSALS)
def test_a_plot_refuses_what_it_cannot_show(
    plot: Callable[..., Axes], args: tuple[Any, ...], names: tuple[str, ...]
) -> None:
    model = make_model(BinaryLaplaceGP)
    for name in names:
        ax = Figure().subplots()
        asked: Any = {name: [0.1]}
        message = f"Expected ``{name}`` of the view to be None for this plot, but got"
        with pytest.raises(InputDataError, match=message):
            plot(model, SPACE, *args, view=View(**asked), ax=ax)
        assert not ax.has_data()


def test_approximation_is_drawn_along_the_parameter_of_the_view() -> None:
    model = make_model(BinaryLaplaceGP)
    view = View(dims=[1], at=[0.3, 0.0], context=[-0.5], resolution=5)
    ax = plot_approximation(model, SPACE, view)
    x, y = curve(ax)
    assert_all_close(x, torch.linspace(0, 2, 5).double())
    with torch.no_grad():
        posterior = model.posterior(rows(0.3, -0.5, x))
    assert_all_close(y, posterior.mean.squeeze(-1))
    low, high = band(ax)
    width = 2 * 1.6448536269514722 * posterior.variance.sqrt().squeeze(-1)
    assert_all_close(high - low, width)
    assert len(ax.lines) == 2
    assert ax.get_title() == "$x_{1}$ = 0.3, $s$ = -0.5"
