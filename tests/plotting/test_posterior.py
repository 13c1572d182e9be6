r"""Slices of a model: what is on the axes, not how it looks."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import torch
from botorch.models.transforms import Normalize
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.contour import QuadContourSet
from torch import Tensor
from torch.special import ndtr

from botorch_binary_context import (
    BinaryLaplaceGP,
    ContextSpace,
    PreferenceLaplaceGP,
    ProbitLikelihood,
    recommend,
)
from botorch_binary_context.plotting import (
    View,
    plot_posterior_mean,
    plot_success_probability,
)
from tests.closeness import assert_all_close
from tests.plotting.pictures import (
    BOUNDS,
    FLAT,
    LINE,
    MODEL_PLOTS,
    SPACE,
    assert_surface,
    band,
    bands,
    color_bar,
    contour,
    curve,
    draw,
    legend,
    make_model,
    marks,
    moments,
    of_type,
    preference,
    rows,
)
from tests.small_models import MODEL_CLASSES, random_model
from tests.tensors import double


class TestPosteriorMean:
    def test_curve_shows_the_mean_and_two_deviations(self) -> None:
        for model_class in MODEL_CLASSES:
            model = make_model(model_class)
            best = recommend(model, SPACE)
            ax = plot_posterior_mean(model, SPACE, View(dims=[1], resolution=21))
            x, y = curve(ax)
            assert_all_close(x, torch.linspace(0, 2, 21).double())
            mean, deviation = moments(model, rows(best[0], 0.5, x))
            assert_all_close(y, mean)
            low, high = band(ax)
            assert_all_close(low, mean - 2 * deviation)
            assert_all_close(high, mean + 2 * deviation)
            assert (len(ax.lines), len(bands(ax))) == (1, 1)
            assert ax.get_xlabel() == "$x_{2}$"
            assert ax.get_ylabel() == "posterior mean"
            assert ax.get_title() == f"$x_{{1}}$ = {best[0]:.3g}, $s$ = 0.5"
            assert ax.get_xlim() == (0.0, 2.0)
            draw(ax)

    def test_star_on_the_curve(self) -> None:
        model = make_model(BinaryLaplaceGP)
        best = recommend(model, SPACE)
        ax = plot_posterior_mean(model, SPACE, View(dims=[0], resolution=401))
        top, _ = moments(model, rows(best[0], 0.5, best[1]).unsqueeze(0))
        expected = torch.stack([best[0], top[0]]).unsqueeze(0)
        assert_all_close(marks(ax, "recommended"), expected, atol=1e-3)

    def test_surface_shows_the_mean_and_the_recommended_setting(self) -> None:
        for model_class in MODEL_CLASSES:
            model = make_model(model_class)
            ax = plot_posterior_mean(model, SPACE)
            assert_surface(
                ax, lambda u, v, model=model: moments(model, rows(u, 0.5, v))[0]
            )
            assert (ax.get_xlim(), ax.get_ylim()) == ((0, 1), (0, 2))
            assert ax.get_xlabel() == "$x_{1}$"
            assert ax.get_ylabel() == "$x_{2}$"
            assert ax.get_title() == "$s$ = 0.5"
            assert color_bar(ax).get_ylabel() == "posterior mean"
            star = marks(ax, "recommended")
            assert_all_close(star, recommend(model, SPACE).unsqueeze(0))
            draw(ax)

    def test_other_side_first(self) -> None:
        model = make_model(BinaryLaplaceGP)
        ax = plot_posterior_mean(model, SPACE, View(dims=(1, 0), context=-0.5))
        assert_surface(ax, lambda u, v: moments(model, rows(v, -0.5, u))[0])
        assert (ax.get_xlim(), ax.get_ylim()) == ((0, 2), (0, 1))
        assert ax.get_xlabel() == "$x_{2}$"
        best = recommend(model, SPACE)
        assert_all_close(marks(ax, "recommended"), best.flip(0).unsqueeze(0))

    def test_where_the_rest_is_held(self) -> None:
        model = make_model(BinaryLaplaceGP)
        names = ["gain", "noise", "offset"]
        for at, context in product(
            ([0.9, 0.2], double([0.9, 7.0])), ([-0.3], double([-0.3]), -0.3)
        ):
            ax = plot_posterior_mean(model, SPACE, View([1], at, context, names=names))
            x, y = curve(ax)
            assert_all_close(y, moments(model, rows(0.9, -0.3, x))[0])
            assert ax.get_xlabel() == "offset"
            assert ax.get_title() == "gain = 0.9, noise = -0.3"

    def test_many_columns_held(self) -> None:
        """Four on a line of the title."""
        bounds = torch.stack([torch.zeros(7), torch.ones(7)]).double()
        model = random_model(BinaryLaplaceGP, dim=7)
        ax = plot_posterior_mean(model, ContextSpace(bounds), View([0], [0.5] * 7))
        first, second = ax.get_title().split("\n")
        expected = [f"$x_{{{i}}}$ = 0.5" for i in range(2, 8)]
        assert first.split(", ") == expected[:4]
        assert second.split(", ") == expected[4:]

    def test_spaces_without_contexts(self) -> None:
        for space, default in ((LINE, 1), (FLAT, 2)):
            for plot in MODEL_PLOTS:
                model = random_model(BinaryLaplaceGP, dim=space.dim)
                ax = plot(model, space)
                assert len(of_type(ax, QuadContourSet)) == default - 1
                assert len(ax.lines) == 2 - default
                assert ax.get_title() == ""
                assert ax.get_xlabel() == ("$x$" if default == 1 else "$x_{1}$")

    def test_input_transform(self) -> None:
        """Values and data are those of the inputs before the transform."""
        for model_class in MODEL_CLASSES:
            transform = Normalize(3, bounds=BOUNDS)
            model = make_model(model_class, input_transform=transform)
            data = make_model(model_class).original_datapoints
            for train in (True, False):
                model.train(train)
                ax = plot_posterior_mean(model, SPACE)
                shown = torch.cat([marks(ax, label) for label in legend(ax)[1:]])
                expected = data[:, [0, 2]].sort(dim=0).values
                assert_all_close(shown.sort(dim=0).values, expected)
                assert_surface(
                    ax, lambda u, v, model=model: moments(model, rows(u, 0.5, v))[0]
                )


class TestSuccessProbability:
    def test_curve_follows_the_formula_with_guesses_and_lapses(self) -> None:
        """``γ + (1 - γ - λ) Φ(μ / sqrt(1 + σ²))``, and ``Φ`` of ``μ ± 2σ``."""
        for guess, lapse in ((0.0, 0.0), (0.25, 0.05)):
            likelihood = ProbitLikelihood(guess, lapse)
            model = make_model(BinaryLaplaceGP, likelihood=likelihood)
            ax = plot_success_probability(model, SPACE, View(dims=[0], at=[0.0, 1.2]))
            x, y = curve(ax)
            mean, deviation = moments(model, rows(x, 0.5, 1.2))
            scale = 1 - guess - lapse
            h = mean / (1 + deviation.square()).sqrt()
            assert_all_close(y, guess + scale * ndtr(h), rtol=1e-9)
            low, high = band(ax)
            assert_all_close(low, guess + scale * ndtr(mean - 2 * deviation))
            assert_all_close(high, guess + scale * ndtr(mean + 2 * deviation))
            assert ax.get_ylabel() == "success probability"

    def test_surface_follows_the_formula_from_zero_to_one(self) -> None:
        model = make_model(BinaryLaplaceGP, likelihood=ProbitLikelihood(0.25, 0.05))
        ax = plot_success_probability(model, SPACE, View(context=[-1.0]))

        def probability(u: Tensor, v: Tensor) -> Tensor:
            mean, deviation = moments(model, rows(u, -1.0, v))
            return 0.25 + 0.7 * ndtr(mean / (1 + deviation.square()).sqrt())

        assert_surface(ax, probability)
        assert contour(ax).get_clim() == (0.0, 1.0)
        assert color_bar(ax).get_ylabel() == "success probability"
        assert color_bar(ax).get_ylim() == (0.0, 1.0)
        draw(ax)

    def test_duels_show_the_preference_over_the_opponent(self) -> None:
        model = make_model(PreferenceLaplaceGP)
        best = recommend(model, SPACE)
        for opponent in (None, double([0.2, 1.5])):
            other = best if opponent is None else opponent
            view = View(context=1.0, opponent=opponent)
            label = (
                f"probability of being preferred to ({other[0]:.3g}, {other[1]:.3g})"
            )
            line = replace(view, dims=[0], resolution=401)
            ax = plot_success_probability(model, SPACE, line)
            x, y = curve(ax)
            expected = preference(model, rows(x, 1.0, best[1]), other)
            assert_all_close(y, expected)
            assert ax.get_ylabel() == label
            if opponent is None:  # the best against itself
                star = marks(ax, "recommended")[0]
                assert_all_close(star, double([best[0], 0.5]), atol=1e-4)
            ax = plot_success_probability(model, SPACE, view)
            assert color_bar(ax).get_ylabel() == label
            assert_surface(
                ax, lambda u, v, z=other: preference(model, rows(u, 1.0, v), z)
            )

    def test_marks_at_the_outcomes(self) -> None:
        """Beside a curve passes are at probability 1 and fails at 0."""
        model = make_model(BinaryLaplaceGP)
        ax = plot_success_probability(model, SPACE, View(dims=[0]))
        for label, outcome in (("passed", 1.0), ("failed", 0.0)):
            (found,) = (
                c for c in of_type(ax, PathCollection) if c.get_label() == label
            )
            pixels = found.get_offset_transform().transform(found.get_offsets())
            heights = ax.transData.inverted().transform(pixels)[:, 1]
            np.testing.assert_allclose(heights, outcome, atol=1e-9)


class TestTrials:
    def test_outcomes_are_marked_as_passed_or_failed(self) -> None:
        model = make_model(BinaryLaplaceGP)
        X, passed = model.train_inputs[0], model.train_targets == 1
        assert 0 < passed.sum() < len(X)
        for plot in MODEL_PLOTS:
            ax = plot(model, SPACE)
            assert legend(ax) == ["recommended", "passed", "failed"]
            assert_all_close(marks(ax, "passed"), X[passed][:, [0, 2]])
            assert_all_close(marks(ax, "failed"), X[~passed][:, [0, 2]])
            ax = plot(model, SPACE, View(dims=[1]))
            assert_all_close(marks(ax, "passed")[:, 0], X[passed, 2])
            assert_all_close(marks(ax, "failed")[:, 0], X[~passed, 2])
            assert (marks(ax, "passed")[:, 1] > 0.9).all()
            assert (marks(ax, "failed")[:, 1] < 0.1).all()

    def test_marker_and_color(self) -> None:
        ax = plot_posterior_mean(make_model(BinaryLaplaceGP), SPACE)
        star, passed, failed = of_type(ax, PathCollection)
        for one, other in ((star, passed), (star, failed), (passed, failed)):
            assert one.get_facecolor().tolist() != other.get_facecolor().tolist()
            shapes = [c.get_paths()[0].vertices for c in (one, other)]
            assert not np.array_equal(*shapes)

    def test_duels_are_marked_and_joined(self) -> None:
        model = make_model(PreferenceLaplaceGP)
        pairs, first = model.train_inputs[0], model.train_targets == 1
        assert 0 < first.sum() < len(pairs)
        winners = torch.stack(
            [pair[0 if won else 1] for pair, won in zip(pairs, first, strict=True)]
        )
        losers = pairs.sum(dim=1) - winners
        for plot in MODEL_PLOTS:
            ax = plot(model, SPACE)
            assert legend(ax) == ["recommended", "won", "lost"]
            assert_all_close(marks(ax, "won"), winners[:, [0, 2]])
            assert_all_close(marks(ax, "lost"), losers[:, [0, 2]])
            self.assert_joined(ax, winners[:, [0, 2]], losers[:, [0, 2]])
            ax = plot(model, SPACE, View(dims=[0]))
            assert_all_close(marks(ax, "won")[:, 0], winners[:, 0])
            self.assert_joined(ax, marks(ax, "won"), marks(ax, "lost"))

    def assert_joined(self, ax: Axes, winners: Tensor, losers: Tensor) -> None:
        (lines,) = of_type(ax, LineCollection)
        segments = torch.from_numpy(np.stack(lines.get_segments()))
        assert_all_close(segments, torch.stack([winners, losers], dim=1))

    def test_left_out(self) -> None:
        for model_class, plot in product(MODEL_CLASSES, MODEL_PLOTS):
            ax = plot(make_model(model_class), SPACE, show_data=False)
            assert legend(ax) == ["recommended"]
            assert len(of_type(ax, PathCollection)) == 1
            assert of_type(ax, LineCollection) == []

    def test_outside_of_the_box(self) -> None:
        model = make_model(BinaryLaplaceGP)
        bounds = double([[0.0, -1.0, 0.5], [0.7, 1.0, 2.0]])
        space = ContextSpace(bounds, context_dims=[1], reference_context=[0.5])
        ax = plot_posterior_mean(model, space)
        X = model.train_inputs[0]
        inside = (X[:, 0] <= 0.7) & (X[:, 2] >= 0.5)
        assert 0 < inside.sum() < len(X)
        shown = torch.cat([marks(ax, "passed"), marks(ax, "failed")])
        assert len(shown) == int(inside.sum())
        assert (shown[:, 0] <= 0.7).all()
        assert (shown[:, 1] >= 0.5).all()

    def test_no_trials(self) -> None:
        for model_class, plot, dims in product(
            MODEL_CLASSES, MODEL_PLOTS, ([0], [0, 1])
        ):
            ax = plot(
                make_model(model_class, n=0), SPACE, View(dims=dims, resolution=8)
            )
            for label in legend(ax)[1:]:
                assert len(marks(ax, label)) == 0
            draw(ax)
