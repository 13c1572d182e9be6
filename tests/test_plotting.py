r"""Tests of the pictures: what is on the axes, not how it looks."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from botorch.acquisition import PosteriorMean
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models.transforms import Normalize
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.contour import QuadContourSet
from matplotlib.figure import Figure
from torch import Tensor
from torch.special import ndtr

from botorch_binary_context import (
    AdditiveContextKernel,
    BernoulliMutualInformation,
    BinaryLaplaceGP,
    ContextSpace,
    MaximallyUncertainChallenge,
    PreferenceLaplaceGP,
    ProbitLikelihood,
    recommend,
)
from botorch_binary_context.plotting import (
    plot_acquisition,
    plot_best_so_far,
    plot_contexts,
    plot_posterior_mean,
    plot_psychometric_curves,
    plot_success_probability,
)
from botorch_binary_context.plotting.predictions import evaluating
from tests.helpers import (
    MODEL_CLASSES,
    AnyModel,
    ModelClass,
    RequireDevice,
    StrictTestCase,
    double,
    latent,
    random_model,
    random_trials,
    simple_kernel,
    uniform,
)

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


class PlottingTestCase(StrictTestCase):
    def assert_surface(
        self, ax: Axes, function: Callable[[Tensor, Tensor], Tensor]
    ) -> None:
        """The function has the values of the contour's levels on their borders."""
        filled = contour(ax)
        levels = torch.as_tensor(np.asarray(filled.levels, dtype=float))
        spacing = float(levels[1] - levels[0])
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
            distance = (values.unsqueeze(-1) - levels[i : i + 2]).abs().amin(dim=-1)
            self.assertLess(float(distance.max()), 0.05 * spacing)
            checked += len(border)
        self.assertGreater(checked, 100)


# ------------------------------------------------------------- slices of a model


class TestPosteriorMean(PlottingTestCase):
    def test_curve(self) -> None:
        for model_class in MODEL_CLASSES:
            model = make_model(model_class)
            best = recommend(model, SPACE)
            ax = plot_posterior_mean(model, SPACE, dims=[1], resolution=21)
            x, y = curve(ax)
            self.assertAllClose(x, torch.linspace(0, 2, 21).double())
            mean, deviation = moments(model, rows(best[0], 0.5, x))
            self.assertAllClose(y, mean)
            low, high = band(ax)
            self.assertAllClose(low, mean - 2 * deviation)
            self.assertAllClose(high, mean + 2 * deviation)
            self.assertEqual((len(ax.lines), len(bands(ax))), (1, 1))
            self.assertEqual(ax.get_xlabel(), "$x_{2}$")
            self.assertEqual(ax.get_ylabel(), "posterior mean")
            self.assertEqual(ax.get_title(), f"$x_{{1}}$ = {best[0]:.3g}, $s$ = 0.5")
            self.assertEqual(ax.get_xlim(), (0.0, 2.0))
            draw(ax)

    def test_star_on_the_curve(self) -> None:
        model = make_model(BinaryLaplaceGP)
        best = recommend(model, SPACE)
        ax = plot_posterior_mean(model, SPACE, dims=[0], resolution=401)
        top, _ = moments(model, rows(best[0], 0.5, best[1]).unsqueeze(0))
        expected = torch.stack([best[0], top[0]]).unsqueeze(0)
        self.assertAllClose(marks(ax, "recommended"), expected, atol=1e-3)

    def test_surface(self) -> None:
        for model_class in MODEL_CLASSES:
            model = make_model(model_class)
            ax = plot_posterior_mean(model, SPACE)
            self.assert_surface(
                ax, lambda u, v, model=model: moments(model, rows(u, 0.5, v))[0]
            )
            self.assertEqual((ax.get_xlim(), ax.get_ylim()), ((0, 1), (0, 2)))
            self.assertEqual(ax.get_xlabel(), "$x_{1}$")
            self.assertEqual(ax.get_ylabel(), "$x_{2}$")
            self.assertEqual(ax.get_title(), "$s$ = 0.5")
            self.assertEqual(color_bar(ax).get_ylabel(), "posterior mean")
            star = marks(ax, "recommended")
            self.assertAllClose(star, recommend(model, SPACE).unsqueeze(0))
            draw(ax)

    def test_other_side_first(self) -> None:
        model = make_model(BinaryLaplaceGP)
        ax = plot_posterior_mean(model, SPACE, dims=(1, 0), context=-0.5)
        self.assert_surface(ax, lambda u, v: moments(model, rows(v, -0.5, u))[0])
        self.assertEqual((ax.get_xlim(), ax.get_ylim()), ((0, 2), (0, 1)))
        self.assertEqual(ax.get_xlabel(), "$x_{2}$")
        best = recommend(model, SPACE)
        self.assertAllClose(marks(ax, "recommended"), best.flip(0).unsqueeze(0))

    def test_where_the_rest_is_held(self) -> None:
        model = make_model(BinaryLaplaceGP)
        names = ["gain", "noise", "offset"]
        for at, context in product(
            ([0.9, 0.2], double([0.9, 7.0])), ([-0.3], double([-0.3]), -0.3)
        ):
            ax = plot_posterior_mean(model, SPACE, [1], at, context, names)
            x, y = curve(ax)
            self.assertAllClose(y, moments(model, rows(0.9, -0.3, x))[0])
            self.assertEqual(ax.get_xlabel(), "offset")
            self.assertEqual(ax.get_title(), "gain = 0.9, noise = -0.3")

    def test_many_columns_held(self) -> None:
        """Four on a line of the title."""
        bounds = torch.stack([torch.zeros(7), torch.ones(7)]).double()
        model = random_model(BinaryLaplaceGP, dim=7)
        ax = plot_posterior_mean(model, ContextSpace(bounds), [0], [0.5] * 7)
        first, second = ax.get_title().split("\n")
        expected = [f"$x_{{{i}}}$ = 0.5" for i in range(2, 8)]
        self.assertEqual(first.split(", "), expected[:4])
        self.assertEqual(second.split(", "), expected[4:])

    def test_spaces_without_contexts(self) -> None:
        for space, default in ((LINE, 1), (FLAT, 2)):
            for plot in MODEL_PLOTS:
                model = random_model(BinaryLaplaceGP, dim=space.dim)
                ax = plot(model, space)
                self.assertEqual(len(of_type(ax, QuadContourSet)), default - 1)
                self.assertEqual(len(ax.lines), 2 - default)
                self.assertEqual(ax.get_title(), "")
                self.assertEqual(ax.get_xlabel(), "$x$" if default == 1 else "$x_{1}$")

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
                self.assertAllClose(shown.sort(dim=0).values, expected)
                self.assert_surface(
                    ax, lambda u, v, model=model: moments(model, rows(u, 0.5, v))[0]
                )


class TestSuccessProbability(PlottingTestCase):
    def test_curve(self) -> None:
        """``γ + (1 - γ - λ) Φ(μ / sqrt(1 + σ²))``, and ``Φ`` of ``μ ± 2σ``."""
        for guess, lapse in ((0.0, 0.0), (0.25, 0.05)):
            likelihood = ProbitLikelihood(guess, lapse)
            model = make_model(BinaryLaplaceGP, likelihood=likelihood)
            ax = plot_success_probability(model, SPACE, dims=[0], at=[0.0, 1.2])
            x, y = curve(ax)
            mean, deviation = moments(model, rows(x, 0.5, 1.2))
            scale = 1 - guess - lapse
            h = mean / (1 + deviation.square()).sqrt()
            self.assertAllClose(y, guess + scale * ndtr(h), rtol=1e-9)
            low, high = band(ax)
            self.assertAllClose(low, guess + scale * ndtr(mean - 2 * deviation))
            self.assertAllClose(high, guess + scale * ndtr(mean + 2 * deviation))
            self.assertEqual(ax.get_ylabel(), "success probability")

    def test_surface(self) -> None:
        model = make_model(BinaryLaplaceGP, likelihood=ProbitLikelihood(0.25, 0.05))
        ax = plot_success_probability(model, SPACE, context=[-1.0])

        def probability(u: Tensor, v: Tensor) -> Tensor:
            mean, deviation = moments(model, rows(u, -1.0, v))
            return 0.25 + 0.7 * ndtr(mean / (1 + deviation.square()).sqrt())

        self.assert_surface(ax, probability)
        self.assertEqual(contour(ax).get_clim(), (0.0, 1.0))
        self.assertEqual(color_bar(ax).get_ylabel(), "success probability")
        self.assertEqual(color_bar(ax).get_ylim(), (0.0, 1.0))
        draw(ax)

    def test_opponent(self) -> None:
        model = make_model(PreferenceLaplaceGP)
        best = recommend(model, SPACE)
        for opponent in (None, double([0.2, 1.5])):
            other = best if opponent is None else opponent
            options = {"opponent": opponent, "context": 1.0}
            label = (
                f"probability of being preferred to ({other[0]:.3g}, {other[1]:.3g})"
            )
            ax = plot_success_probability(model, SPACE, [0], resolution=401, **options)
            x, y = curve(ax)
            expected = preference(model, rows(x, 1.0, best[1]), other)
            self.assertAllClose(y, expected)
            self.assertEqual(ax.get_ylabel(), label)
            if opponent is None:  # the best against itself
                star = marks(ax, "recommended")[0]
                self.assertAllClose(star, double([best[0], 0.5]), atol=1e-4)
            ax = plot_success_probability(model, SPACE, **options)
            self.assertEqual(color_bar(ax).get_ylabel(), label)
            self.assert_surface(
                ax, lambda u, v, z=other: preference(model, rows(u, 1.0, v), z)
            )

    def test_marks_at_the_outcomes(self) -> None:
        """Beside a curve passes are at probability 1 and fails at 0."""
        ax = plot_success_probability(make_model(BinaryLaplaceGP), SPACE, dims=[0])
        for label, outcome in (("passed", 1.0), ("failed", 0.0)):
            (found,) = (
                c for c in of_type(ax, PathCollection) if c.get_label() == label
            )
            pixels = found.get_offset_transform().transform(found.get_offsets())
            heights = ax.transData.inverted().transform(pixels)[:, 1]
            np.testing.assert_allclose(heights, outcome, atol=1e-9)


class TestTrials(PlottingTestCase):
    def test_outcomes(self) -> None:
        model = make_model(BinaryLaplaceGP)
        X, passed = model.train_inputs[0], model.train_targets == 1
        self.assertTrue(0 < passed.sum() < len(X))
        for plot in MODEL_PLOTS:
            ax = plot(model, SPACE)
            self.assertEqual(legend(ax), ["recommended", "passed", "failed"])
            self.assertAllClose(marks(ax, "passed"), X[passed][:, [0, 2]])
            self.assertAllClose(marks(ax, "failed"), X[~passed][:, [0, 2]])
            ax = plot(model, SPACE, dims=[1])
            self.assertAllClose(marks(ax, "passed")[:, 0], X[passed, 2])
            self.assertAllClose(marks(ax, "failed")[:, 0], X[~passed, 2])
            self.assertTrue((marks(ax, "passed")[:, 1] > 0.9).all())
            self.assertTrue((marks(ax, "failed")[:, 1] < 0.1).all())

    def test_marker_and_color(self) -> None:
        ax = plot_posterior_mean(make_model(BinaryLaplaceGP), SPACE)
        star, passed, failed = of_type(ax, PathCollection)
        for one, other in ((star, passed), (star, failed), (passed, failed)):
            self.assertNotEqual(
                one.get_facecolor().tolist(), other.get_facecolor().tolist()
            )
            shapes = [c.get_paths()[0].vertices for c in (one, other)]
            self.assertFalse(np.array_equal(*shapes))

    def test_duels(self) -> None:
        model = make_model(PreferenceLaplaceGP)
        pairs, first = model.train_inputs[0], model.train_targets == 1
        self.assertTrue(0 < first.sum() < len(pairs))
        winners = torch.stack(
            [pair[0 if won else 1] for pair, won in zip(pairs, first, strict=True)]
        )
        losers = pairs.sum(dim=1) - winners
        for plot in MODEL_PLOTS:
            ax = plot(model, SPACE)
            self.assertEqual(legend(ax), ["recommended", "won", "lost"])
            self.assertAllClose(marks(ax, "won"), winners[:, [0, 2]])
            self.assertAllClose(marks(ax, "lost"), losers[:, [0, 2]])
            self.assert_joined(ax, winners[:, [0, 2]], losers[:, [0, 2]])
            ax = plot(model, SPACE, dims=[0])
            self.assertAllClose(marks(ax, "won")[:, 0], winners[:, 0])
            self.assert_joined(ax, marks(ax, "won"), marks(ax, "lost"))

    def assert_joined(self, ax: Axes, winners: Tensor, losers: Tensor) -> None:
        (lines,) = of_type(ax, LineCollection)
        segments = torch.from_numpy(np.stack(lines.get_segments()))
        self.assertAllClose(segments, torch.stack([winners, losers], dim=1))

    def test_left_out(self) -> None:
        for model_class, plot in product(MODEL_CLASSES, MODEL_PLOTS):
            ax = plot(make_model(model_class), SPACE, show_data=False)
            self.assertEqual(legend(ax), ["recommended"])
            self.assertEqual(len(of_type(ax, PathCollection)), 1)
            self.assertEqual(of_type(ax, LineCollection), [])

    def test_outside_of_the_box(self) -> None:
        model = make_model(BinaryLaplaceGP)
        bounds = double([[0.0, -1.0, 0.5], [0.7, 1.0, 2.0]])
        space = ContextSpace(bounds, context_dims=[1], reference_context=[0.5])
        ax = plot_posterior_mean(model, space)
        X = model.train_inputs[0]
        inside = (X[:, 0] <= 0.7) & (X[:, 2] >= 0.5)
        self.assertTrue(0 < inside.sum() < len(X))
        shown = torch.cat([marks(ax, "passed"), marks(ax, "failed")])
        self.assertEqual(len(shown), int(inside.sum()))
        self.assertTrue((shown[:, 0] <= 0.7).all() and (shown[:, 1] >= 0.5).all())

    def test_no_trials(self) -> None:
        for model_class, plot, dims in product(
            MODEL_CLASSES, MODEL_PLOTS, ([0], [0, 1])
        ):
            ax = plot(make_model(model_class, n=0), SPACE, dims=dims, resolution=8)
            for label in legend(ax)[1:]:
                self.assertEqual(len(marks(ax, label)), 0)
            draw(ax)


# ----------------------------------------------------------- acquisition functions


class TestAcquisition(PlottingTestCase):
    def test_surface_of_context_and_parameter(self) -> None:
        model = make_model(BinaryLaplaceGP)
        acqf = BernoulliMutualInformation(model)
        ax = plot_acquisition(acqf, SPACE, dims=[2, 1], at=[0.3, 0.0])

        def value(u: Tensor, v: Tensor) -> Tensor:
            with torch.no_grad():
                return acqf(rows(0.3, v, u).unsqueeze(-2))

        self.assert_surface(ax, value)
        self.assertEqual((ax.get_xlim(), ax.get_ylim()), ((0, 2), (-1, 1)))
        self.assertEqual((ax.get_xlabel(), ax.get_ylabel()), ("$x_{2}$", "$s$"))
        self.assertEqual(ax.get_title(), "$x_{1}$ = 0.3")
        self.assertEqual(color_bar(ax).get_ylabel(), "acquisition value")
        self.assertEqual(legend(ax), ["maximum"])
        draw(ax)

    def test_curve(self) -> None:
        acqf = BernoulliMutualInformation(make_model(BinaryLaplaceGP))
        ax = plot_acquisition(acqf, SPACE, [1], [0.3, 0.8], names=["a", "b", "c"])
        x, y = curve(ax)
        self.assertAllClose(x, torch.linspace(-1, 1, 64).double())
        with torch.no_grad():
            self.assertAllClose(y, acqf(rows(0.3, x, 0.8).unsqueeze(-2)))
        i = y.argmax()
        top = torch.stack([x[i], y[i]]).unsqueeze(0)
        self.assertAllClose(marks(ax, "maximum"), top)
        self.assertEqual((ax.get_xlabel(), ax.get_title()), ("b", "a = 0.3, c = 0.8"))
        self.assertEqual(ax.get_ylabel(), "acquisition value")
        self.assertEqual(bands(ax), [])

    def test_any_function(self) -> None:
        """Called once, without gradients, in the middle and at the reference."""
        calls: list[Tensor] = []
        weight = torch.ones(3, dtype=torch.double, requires_grad=True)

        def score(X: Tensor) -> Tensor:
            calls.append(X)
            return -(((X[:, 0] - double([0.52, 0.0, 1.25])) * weight) ** 2).sum(dim=-1)

        ax = plot_acquisition(score, SPACE, dims=[0, 2], resolution=11)
        (X,) = calls
        self.assertEqual(X.shape, (121, 1, 3))
        self.assertTrue((X[..., 1] == 0.5).all())
        self.assertAllClose(marks(ax, "maximum"), double([[0.5, 1.2]]))
        plot_acquisition(score, SPACE, dims=[1])
        self.assertAllClose(calls[1][0, 0, [0, 2]], double([0.5, 1.0]))

    def test_columns_by_default(self) -> None:
        for space, count in ((LINE, 1), (FLAT, 2), (SPACE, 2)):
            ax = plot_acquisition(lambda X: X.sum(dim=(-1, -2)), space)
            self.assertEqual(len(of_type(ax, QuadContourSet)), count - 1)

    def test_duels(self) -> None:
        """Both sides are in the context along the axis."""
        model = make_model(PreferenceLaplaceGP)
        acqf = BernoulliMutualInformation(model)
        opponent = recommend(model, SPACE)
        ax = plot_acquisition(acqf, SPACE, [1, 0], [0.0, 0.4], opponent=opponent)

        def value(u: Tensor, v: Tensor) -> Tensor:
            sides = [rows(v, u, 0.4), rows(opponent[0], u, opponent[1])]
            with torch.no_grad():
                return acqf(torch.stack(sides, dim=-2))

        self.assert_surface(ax, value)

    def test_one_side_of_a_duel(self) -> None:
        model = make_model(PreferenceLaplaceGP)
        incumbent = SPACE.at_reference(recommend(model, SPACE))
        acqf = MaximallyUncertainChallenge(model, incumbent)
        ax = plot_acquisition(acqf, SPACE, dims=[0, 2], resolution=128)
        with torch.no_grad():
            self.assert_surface(ax, lambda u, v: acqf(rows(u, 0.5, v).unsqueeze(-2)))

    def test_stock_function(self) -> None:
        model = make_model(BinaryLaplaceGP)
        model.train()
        ax = plot_acquisition(PosteriorMean(model), SPACE, dims=[0], at=[0.0, 0.6])
        self.assertTrue(model.training)
        x, y = curve(ax)
        self.assertAllClose(y, moments(model, rows(x, 0.5, 0.6))[0])


# ---------------------------------------------------------------------- curves


class TestPsychometricCurves(PlottingTestCase):
    parameters = double([[0.2, 1.0], [0.9, 0.1]])

    def test_curves(self) -> None:
        model = make_model(BinaryLaplaceGP)
        ax = plot_psychometric_curves(model, SPACE, self.parameters)
        self.assertEqual((len(ax.lines), len(bands(ax))), (2, 2))
        for i, (x1, x2) in enumerate(self.parameters):
            s, y = curve(ax, i)
            self.assertAllClose(s, torch.linspace(-1, 1, 128).double())
            mean, deviation = moments(model, rows(x1, s, x2))
            self.assertAllClose(y, ndtr(mean / (1 + deviation.square()).sqrt()))
        self.assertEqual((ax.get_xlabel(), ax.get_xlim()), ("$s$", (-1.0, 1.0)))
        self.assertEqual(ax.get_ylabel(), "success probability")
        expected = ["$x_{1}$ = 0.2, $x_{2}$ = 1", "$x_{1}$ = 0.9, $x_{2}$ = 0.1"]
        self.assertEqual(legend(ax), expected)
        draw(ax)

    def test_credible_band(self) -> None:
        """Quantiles of the probability, by sampling."""
        model = make_model(BinaryLaplaceGP, likelihood=ProbitLikelihood(0.1, 0.02))
        for credible in (0.5, 0.9):
            ax = plot_psychometric_curves(
                model, SPACE, self.parameters[:1], credible=credible, resolution=5
            )
            s, _ = curve(ax)
            mean, deviation = moments(model, rows(0.2, s, 1.0))
            generator = torch.Generator().manual_seed(0)
            noise = torch.randn(100_000, 1, generator=generator, dtype=torch.double)
            samples = model.likelihood.probability(mean + deviation * noise)
            for bound, level in zip(band(ax), (-1, 1), strict=True):
                expected = samples.quantile((1 + level * credible) / 2, dim=0)
                self.assertAllClose(bound, expected, rtol=0, atol=0.01)

    def test_guess_rate(self) -> None:
        model = make_model(BinaryLaplaceGP, likelihood=ProbitLikelihood(0.25))
        names = ["a", "difficulty", "c"]
        ax = plot_psychometric_curves(
            model, SPACE, self.parameters, labels=["good", "bad"], names=names
        )
        self.assertEqual(legend(ax), ["good", "bad", "guess rate"])
        self.assertEqual(ax.get_xlabel(), "difficulty")
        self.assertEqual(len(ax.lines), 3)
        self.assertEqual(ax.lines[2].get_linestyle(), ":")
        self.assertAllClose(curve(ax, 2)[1], double([0.25, 0.25]))

    def test_several_contexts(self) -> None:
        model = random_model(BinaryLaplaceGP, dim=3)
        for context_dim, name in ((0, "$s_{1}$"), (1, "$s_{2}$")):
            ax = plot_psychometric_curves(
                model, TWO_CONTEXTS, double([[1.1]]), context_dim
            )
            s, y = curve(ax)
            held = [rows(s, 0.5, 1.1), rows(0.3, s, 1.1)][context_dim]
            mean, deviation = moments(model, held)
            self.assertAllClose(y, ndtr(mean / (1 + deviation.square()).sqrt()))
            self.assertEqual(ax.get_xlabel(), name)
            self.assertEqual(legend(ax), ["$x$ = 1.1"])

    def test_duels(self) -> None:
        model = make_model(PreferenceLaplaceGP)
        for opponent in (None, [0.3, 0.3]):
            ax = plot_psychometric_curves(
                model, SPACE, self.parameters, opponent=opponent
            )
            other = recommend(model, SPACE) if opponent is None else double(opponent)
            s, y = curve(ax)
            self.assertAllClose(y, preference(model, rows(0.2, s, 1.0), other))
            self.assertIn("preferred to", ax.get_ylabel())


class TestBestSoFar(PlottingTestCase):
    def test_repetitions(self) -> None:
        values = uniform(5, 7)
        ax = plot_best_so_far(values)
        x, y = curve(ax)
        self.assertAllClose(x, torch.arange(1, 8).double())
        self.assertAllClose(y, values.mean(dim=0))
        error = values.std(dim=0) / math.sqrt(5)
        low, high = band(ax)
        self.assertAllClose(low, y - error)
        self.assertAllClose(high, y + error)
        self.assertEqual((ax.get_xlabel(), ax.get_ylabel()), ("trial", "best so far"))
        self.assertEqual(legend(ax), [])

    def test_one_run(self) -> None:
        values = double([1.0, 3.0, 2.0])
        for run in (values, values.unsqueeze(0), values.numpy(), values.tolist()):
            ax = plot_best_so_far(run, label="run")
            self.assertAllClose(curve(ax)[1], values)
            self.assertEqual(bands(ax), [])
            self.assertEqual(legend(ax), ["run"])

    def test_comparison(self) -> None:
        """One method after the other on the same axes, in colours of their own."""
        ax = plot_best_so_far(uniform(4, 6), label="first")
        plot_best_so_far(uniform(3, 6, seed=1), label="second", optimum=2.0, ax=ax)
        self.assertEqual(legend(ax), ["first", "second", "optimum"])
        self.assertEqual((len(ax.lines), len(bands(ax))), (3, 2))
        colors = [line.get_color() for line in ax.lines]
        self.assertEqual(len(set(colors)), 3)
        self.assertEqual(ax.lines[2].get_linestyle(), "--")
        self.assertAllClose(curve(ax, 2)[1], double([2.0, 2.0]))
        draw(ax)


class TestContexts(PlottingTestCase):
    def test_outcomes(self) -> None:
        contexts, outcomes = uniform(9, 1), double([0, 1, 1, 0, 1, 0, 0, 1, 1])
        for labels in (outcomes, outcomes.unsqueeze(-1)):
            for s in (contexts, contexts.squeeze(-1)):
                ax = plot_contexts(s, labels, SPACE)
                steps = torch.arange(1, 10).double()
                points = torch.stack([steps, contexts.squeeze(-1)], dim=-1)
                self.assertAllClose(marks(ax, "passed"), points[outcomes == 1])
                self.assertAllClose(marks(ax, "failed"), points[outcomes == 0])
                self.assertAllClose(torch.stack(curve(ax), dim=-1), points)
                self.assertEqual(legend(ax), ["passed", "failed", "reference"])
                self.assertEqual(ax.lines[1].get_linestyle(), "--")
                self.assertAllClose(curve(ax, 1)[1], double([0.5, 0.5]))
        self.assertEqual((ax.get_xlabel(), ax.get_ylabel()), ("trial", "context"))
        draw(ax)

    def test_contexts_alone(self) -> None:
        ax = plot_contexts(uniform(9, 1))
        self.assertEqual(len(of_type(ax, PathCollection)), 1)
        self.assertEqual(len(of_type(ax, PathCollection)[0].get_offsets()), 9)
        self.assertEqual((len(ax.lines), legend(ax)), (1, []))

    def test_one_of_several(self) -> None:
        contexts = uniform(9, 2)
        ax = plot_contexts(contexts, space=TWO_CONTEXTS, context_dim=1)
        self.assertAllClose(curve(ax)[1], contexts[:, 1])
        self.assertAllClose(curve(ax, 1)[1], double([0.5, 0.5]))
        self.assertEqual(legend(ax), ["reference"])


# ------------------------------------------------------------- every function


def every_plot(
    model: AnyModel, space: ContextSpace = SPACE
) -> list[Callable[..., Axes]]:
    """All functions that ask a model, with their arguments filled in but ``ax``."""
    parameters = space.parameter_bounds[:1]
    duel: Any = {}
    if isinstance(model, PreferenceLaplaceGP):
        duel = {"opponent": space.parameter_bounds[0]}
    acqf = BernoulliMutualInformation(model)
    return [
        lambda **k: plot_posterior_mean(model, space, resolution=8, **k),
        lambda **k: plot_success_probability(model, space, resolution=8, **k),
        lambda **k: plot_psychometric_curves(model, space, parameters, **k),
        lambda **k: plot_acquisition(acqf, space, resolution=8, **duel, **k),
    ]


class TestAxes(PlottingTestCase):
    def every_plot(self) -> list[Callable[..., Axes]]:
        return [
            *every_plot(make_model(BinaryLaplaceGP)),
            lambda **k: plot_best_so_far(uniform(3, 4), **k),
            lambda **k: plot_contexts(uniform(4, 1), **k),
        ]

    def test_given_axes(self) -> None:
        for plot in self.every_plot():
            figure = Figure()
            ax = figure.subplots()
            self.assertIs(plot(ax=ax), ax)
            self.assertIs(ax.figure, figure)

    def test_subfigure(self) -> None:
        for plot in self.every_plot():
            subfigure: Any = Figure().subfigures()
            ax = subfigure.subplots()
            self.assertIs(plot(ax=ax).figure, subfigure)

    def test_new_figure(self) -> None:
        """``pyplot`` knows nothing of it."""
        before = plt.get_fignums()
        for plot in self.every_plot():
            first, second = plot(), plot()
            self.assertIsNot(first.figure, second.figure)
        self.assertEqual(plt.get_fignums(), before)

    def test_colors_of_axes_with_data(self) -> None:
        ax = Figure().subplots()
        ax.set_prop_cycle(color=["red", "lime"])
        ax.plot([0, 1], [0, 1])
        plot_best_so_far(uniform(3), ax=ax)
        self.assertEqual([line.get_color() for line in ax.lines], ["red", "lime"])


class TestModelIsLeftAlone(PlottingTestCase):
    def test_state(self) -> None:
        for model_class, train in product(MODEL_CLASSES, (True, False)):
            transform = Normalize(3, bounds=BOUNDS)
            model = make_model(model_class, input_transform=transform)
            model.eval().train(train)
            state = {k: v.clone() for k, v in model.state_dict().items()}
            inputs, random = model.train_inputs[0].clone(), torch.get_rng_state()
            for plot in every_plot(model):
                plot()
                self.assertEqual(model.training, train)
                self.assertTrue(torch.equal(model.train_inputs[0], inputs))
                self.assertTrue(all(p.requires_grad for p in model.parameters()))
                self.assertTrue(all(p.grad is None for p in model.parameters()))
                for key, value in model.state_dict().items():
                    self.assertTrue(torch.equal(value, state[key]))
            self.assertTrue(torch.equal(torch.get_rng_state(), random))

    def test_no_gradients(self) -> None:
        with evaluating(make_model(BinaryLaplaceGP), SPACE):
            self.assertFalse(torch.is_grad_enabled())
        self.assertTrue(torch.is_grad_enabled())

    def test_after_an_error(self) -> None:
        model = make_model(BinaryLaplaceGP)
        model.train()
        with self.assertRaises(InputDataError):
            plot_posterior_mean(model, SPACE, context=[1.0, 2.0])
        self.assertTrue(model.training)
        self.assertTrue(torch.is_grad_enabled())

    def test_device(self) -> None:
        for model_class in MODEL_CLASSES:
            model = make_model(model_class)
            with RequireDevice():
                for plot in every_plot(model):
                    plot()

    def test_precision_of_the_model(self) -> None:
        """A space in another precision follows the model."""
        space = ContextSpace(BOUNDS.float(), context_dims=[1], reference_context=[0.5])
        for model_class in MODEL_CLASSES:
            for plot in every_plot(make_model(model_class), space):
                plot()


class TestErrors(PlottingTestCase):
    def check(
        self, message: str, plots: Sequence[Callable[..., Any]], **kwargs: Any
    ) -> None:
        """Every one refuses the arguments, before it has drawn anything."""
        for plot in plots:
            ax = Figure().subplots()
            with self.assertRaisesRegex(InputDataError, message):
                plot(ax=ax, **kwargs)
            self.assertFalse(ax.has_data())

    def test_batch(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, dim=3, batch_shape=(2,))
            for plot in every_plot(model):
                message = "Expected ``model`` to be one model, .* shape \\[2\\]"
                with self.assertRaisesRegex(UnsupportedError, message):
                    plot()

    def test_space(self) -> None:
        message = "Expected ``space`` to have the 3 columns .* got 2"
        bounds = double([[0.0, 0.0], [1.0, 1.0]])
        space = ContextSpace(bounds, context_dims=[0], reference_context=[0.5])
        self.check(message, every_plot(make_model(BinaryLaplaceGP), space))

    def test_slices(self) -> None:
        model = make_model(BinaryLaplaceGP)
        acqf = BernoulliMutualInformation(model)
        of_model: list[Callable[..., Axes]] = [
            lambda plot=plot, **k: plot(model, SPACE, **k) for plot in MODEL_PLOTS
        ]
        every = [*of_model, lambda **k: plot_acquisition(acqf, SPACE, **k)]
        for dims in ([], [0, 0], [-1], [0, 1, 2], [3]):
            message = "Expected ``dims`` to be one or two different numbers from 0 to "
            self.check(message, every, dims=dims)
        message = "``dims`` .* from 0 to 1, but got \\[0, 2\\]"
        self.check(message, of_model, dims=[0, 2])
        message = "Expected ``resolution`` to be at least 2, but got 1"
        self.check(message, every, resolution=1)
        for at in ([0.1], 0.1, [[0.1, 0.2]], [0.1, 0.2, 0.3]):
            message = "Expected ``at`` to have one number for each of 2 columns"
            self.check(message, every, at=at)
        message = "Expected ``context`` to have one number for each of 1 columns"
        self.check(message, every, context=[0.1, 0.2])
        message = "Expected ``names`` to name the 3 columns .* \\['a', 'b'\\]"
        self.check(message, every, names=["a", "b"])

    def test_opponent(self) -> None:
        model = make_model(BinaryLaplaceGP)
        message = "Expected ``opponent`` to be None for a model of pass/fail outcomes"
        with self.assertRaisesRegex(UnsupportedError, message):
            plot_success_probability(model, SPACE, opponent=[0.1, 0.2])
        duels = make_model(PreferenceLaplaceGP)
        acqf = BernoulliMutualInformation(duels)
        self.check(
            "Expected ``opponent`` to have one number for each of 2 columns",
            [
                lambda **k: plot_success_probability(duels, SPACE, **k),
                lambda **k: plot_acquisition(acqf, SPACE, **k),
            ],
            opponent=[0.1],
        )

    def test_acquisition_values(self) -> None:
        message = "``acqf`` to give one value for each of 64 candidates.* \\[64, 1\\]"
        with self.assertRaisesRegex(InputDataError, message):
            plot_acquisition(lambda X: X.sum(dim=-1), FLAT, resolution=8)

    def test_psychometric_curves(self) -> None:
        model = make_model(BinaryLaplaceGP)
        parameters = double([[0.2, 1.0], [0.9, 0.1]])
        plots = [
            lambda **k: plot_psychometric_curves(
                **{"model": model, "space": SPACE, "parameters": parameters, **k}
            )
        ]
        for wrong in (parameters[0], parameters[:, :1], parameters[:0]):
            message = "Expected ``parameters`` to be one or more rows of 2 numbers"
            self.check(message, plots, parameters=wrong)
        for context_dim in (-1, 1):
            message = f"``context_dim`` to be one of 1 contexts.* got {context_dim}"
            self.check(message, plots, context_dim=context_dim)
        for credible in (0.0, 1.0, 90):
            message = f"``credible`` to be between 0 and 1, but got {credible}"
            self.check(message, plots, credible=credible)
        message = "Expected ``labels`` to name 2 curves, but got \\['a'\\]"
        self.check(message, plots, labels=["a"])

    def test_best_so_far(self) -> None:
        for values in (uniform(2, 3, 4), uniform(0), double(1.0)):
            self.check(
                "Expected ``values`` to be ``iterations`` or ",
                [lambda values=values, **k: plot_best_so_far(values, **k)],
            )

    def test_contexts(self) -> None:
        contexts = uniform(4, 1)
        plots = [lambda **k: plot_contexts(**{"contexts": contexts, **k})]
        message = "Expected ``contexts`` to be ``n x m``, but got shape \\[2, 4, 1\\]"
        self.check(message, plots, contexts=uniform(2, 4, 1))
        message = "Expected ``context_dim`` to be one of 1 contexts"
        self.check(message, plots, context_dim=1)
        message = "Expected ``context_dim`` to be one of 0 contexts"
        self.check(message, plots, space=FLAT)
        for outcomes in (uniform(3), uniform(4, 2)):
            message = "Expected ``outcomes`` to have one label for each of 4 trials"
            self.check(message, plots, outcomes=outcomes)
        message = "Expected ``outcomes`` to hold labels 0 and 1"
        self.check(message, plots, outcomes=uniform(4))
