from __future__ import annotations

import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context import (
    AtContext,
    BinaryLaplaceGP,
    ContextSpace,
    PreferenceLaplaceGP,
    WorstContext,
    psychometric_gp,
    recommend,
    recommend_for_contexts,
    threshold_map,
)
from botorch_binary_context.plotting import (
    View,
    plot_best_setting,
    plot_goal,
    plot_threshold_map,
)
from tests.closeness import assert_all_close
from tests.goals.problems import SPACE as WIDE
from tests.goals.problems import make_model as make_wide_model
from tests.plotting.pictures import (
    SPACE,
    band,
    contour,
    curve,
    make_model,
    marks,
)
from tests.small_models import MODEL_CLASSES
from tests.tensors import double, uniform

GOAL = WorstContext([-0.5, 0.2, 0.9])


class TestPlotGoal:
    def test_curve_shows_the_moments_of_the_goal(self) -> None:
        for model_class in MODEL_CLASSES:
            model = make_model(model_class)
            best = recommend(model, SPACE, goal=GOAL)
            ax = plot_goal(model, SPACE, GOAL, View(dims=[1], resolution=16))
            x, y = curve(ax)
            parameters = torch.stack([best[0].expand(16), x], dim=-1)
            with torch.no_grad():
                mean, variance = GOAL.moments(model, SPACE, parameters)
            assert_all_close(y, mean)
            low, high = band(ax)
            assert_all_close(low, mean - 2 * variance.sqrt())
            assert_all_close(high, mean + 2 * variance.sqrt())
            assert_all_close(marks(ax, "recommended")[0, 0], best[1])
            assert ax.get_ylabel() == "WorstContext"
            assert ax.get_title() == f"$x_{{1}}$ = {float(best[0]):.3g}"

    def test_surface_marks_the_recommended_setting(self) -> None:
        model = make_model(BinaryLaplaceGP)
        ax = plot_goal(model, SPACE, GOAL, View(resolution=8))
        best = recommend(model, SPACE, goal=GOAL)
        assert_all_close(marks(ax, "recommended")[0], best)
        contour(ax)


class TestPlotBestSetting:
    def test_curve_shows_the_recommended_setting_by_context(self) -> None:
        model = make_wide_model("duels")
        ax = plot_best_setting(model, WIDE, 1, View(resolution=5))
        x, y = curve(ax)
        assert_all_close(x, torch.linspace(0, 1, 5, dtype=torch.double))
        for s, best in zip(x, y, strict=True):
            expected = recommend(model, WIDE, goal=AtContext(s))[1]
            assert_all_close(best, expected, atol=1e-4)
        assert ax.get_xlabel() == "$s$"
        assert ax.get_ylabel() == "best $x_{2}$"

    def test_batch_of_models(self) -> None:
        model = make_wide_model("outcomes", (2,))
        best = recommend_for_contexts(model, WIDE, [0.1, 0.5, 0.9])
        assert best.shape == (3, 2, 2)
        for i, s in enumerate((0.1, 0.5, 0.9)):
            expected = recommend(model, WIDE, goal=AtContext(s))
            assert_all_close(best[i], expected, atol=1e-4)

    def test_refuses_unknown_parameters_and_columns(self) -> None:
        model = make_model(BinaryLaplaceGP)
        with pytest.raises(InputDataError, match="``parameter`` .* but got 2"):
            plot_best_setting(model, SPACE, parameter=2)
        message = "``dims`` to be one of 1 columns, counted from 0, but got \\[1\\]"
        with pytest.raises(InputDataError, match=message):
            plot_best_setting(model, SPACE, view=View(dims=[1]))


class TestPlotThresholdMap:
    space = ContextSpace(double([[-1.0, 0.0], [1.0, 1.0]]), [0], [0.0])

    def model(self):
        X = uniform(40, 2)
        X[:, 0] = 2 * X[:, 0] - 1
        return psychometric_gp(X, (X[:, :1] > X[:, 1:] - 0.5).double(), self.space)

    def test_curve_shows_the_thresholds_and_their_band(self) -> None:
        model = self.model()
        view = View(resolution=9)
        ax = plot_threshold_map(
            model, self.space, 0.6, view, credible=0.8, num_samples=None
        )
        x, y = curve(ax)
        expected = threshold_map(
            model, self.space, 0.6, x.unsqueeze(-1), 0.8, num_samples=None
        )
        assert_all_close(y, expected.center)
        low, high = band(ax)
        assert_all_close(low, expected.low.clamp(-1, 1))
        assert_all_close(high, expected.high.clamp(-1, 1))
        assert ax.get_ylabel() == "threshold of $s$"
        assert ax.get_xlabel() == "$x$"

    def test_surface_has_the_second_parameter_on_its_axis(self) -> None:
        model = make_model(BinaryLaplaceGP)
        ax = plot_threshold_map(
            model, SPACE, None, View(resolution=6), num_samples=None
        )
        contour(ax)
        assert ax.get_ylabel() == "$x_{2}$"

    def test_duels_have_none(self) -> None:
        with pytest.raises(UnsupportedError, match="pass/fail outcomes"):
            plot_threshold_map(make_model(PreferenceLaplaceGP), SPACE)
