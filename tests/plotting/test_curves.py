r"""Psychometric curves, progress and contexts."""

from __future__ import annotations

import math

import torch
from matplotlib.collections import PathCollection
from torch.special import ndtr

from botorch_binary_context import (
    BinaryLaplaceGP,
    PreferenceLaplaceGP,
    ProbitLikelihood,
    recommend,
)
from botorch_binary_context.plotting import (
    View,
    plot_best_so_far,
    plot_contexts,
    plot_psychometric_curves,
)
from tests.closeness import assert_all_close
from tests.plotting.pictures import (
    SPACE,
    TWO_CONTEXTS,
    band,
    bands,
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
from tests.small_models import random_model
from tests.tensors import double, uniform


class TestPsychometricCurves:
    parameters = double([[0.2, 1.0], [0.9, 0.1]])

    def test_curves_show_the_success_probability_by_context(self) -> None:
        model = make_model(BinaryLaplaceGP)
        ax = plot_psychometric_curves(model, SPACE, self.parameters)
        assert (len(ax.lines), len(bands(ax))) == (2, 2)
        for i, (x1, x2) in enumerate(self.parameters):
            s, y = curve(ax, i)
            assert_all_close(s, torch.linspace(-1, 1, 128).double())
            mean, deviation = moments(model, rows(x1, s, x2))
            assert_all_close(y, ndtr(mean / (1 + deviation.square()).sqrt()))
        assert (ax.get_xlabel(), ax.get_xlim()) == ("$s$", (-1.0, 1.0))
        assert ax.get_ylabel() == "success probability"
        expected = ["$x_{1}$ = 0.2, $x_{2}$ = 1", "$x_{1}$ = 0.9, $x_{2}$ = 0.1"]
        assert legend(ax) == expected
        draw(ax)

    def test_credible_band(self) -> None:
        """Quantiles of the probability, by sampling."""
        model = make_model(BinaryLaplaceGP, likelihood=ProbitLikelihood(0.1, 0.02))
        for credible in (0.5, 0.9):
            view = View(resolution=5)
            ax = plot_psychometric_curves(
                model, SPACE, self.parameters[:1], view, credible
            )
            s, _ = curve(ax)
            mean, deviation = moments(model, rows(0.2, s, 1.0))
            generator = torch.Generator().manual_seed(0)
            noise = torch.randn(100_000, 1, generator=generator, dtype=torch.double)
            samples = model.likelihood.probability(mean + deviation * noise)
            for bound, sign in zip(band(ax), (-1, 1), strict=True):
                expected = samples.quantile((1 + sign * credible) / 2, dim=0)
                assert_all_close(bound, expected, rtol=0, atol=0.01)

    def test_guess_rate(self) -> None:
        model = make_model(BinaryLaplaceGP, likelihood=ProbitLikelihood(0.25))
        view = View(names=["a", "difficulty", "c"])
        ax = plot_psychometric_curves(
            model, SPACE, self.parameters, view, labels=["good", "bad"]
        )
        assert legend(ax) == ["good", "bad", "guess rate"]
        assert ax.get_xlabel() == "difficulty"
        assert len(ax.lines) == 3
        assert ax.lines[2].get_linestyle() == ":"
        assert_all_close(curve(ax, 2)[1], double([0.25, 0.25]))

    def test_several_contexts(self) -> None:
        model = random_model(BinaryLaplaceGP, dim=3)
        for context_dim, name in ((0, "$s_{1}$"), (1, "$s_{2}$")):
            for context in (None, [0.2, -0.4]):
                view = View(dims=[context_dim], context=context)
                ax = plot_psychometric_curves(
                    model, TWO_CONTEXTS, double([[1.1]]), view
                )
                s, y = curve(ax)
                first, second = context or (0.3, 0.5)
                held = [rows(s, second, 1.1), rows(first, s, 1.1)][context_dim]
                mean, deviation = moments(model, held)
                assert_all_close(y, ndtr(mean / (1 + deviation.square()).sqrt()))
                assert ax.get_xlabel() == name
                assert legend(ax) == ["$x$ = 1.1"]

    def test_duels_show_the_preference_over_the_opponent(self) -> None:
        model = make_model(PreferenceLaplaceGP)
        for opponent in (None, [0.3, 0.3]):
            view = View(opponent=opponent)
            ax = plot_psychometric_curves(model, SPACE, self.parameters, view)
            other = recommend(model, SPACE) if opponent is None else double(opponent)
            s, y = curve(ax)
            assert_all_close(y, preference(model, rows(0.2, s, 1.0), other))
            assert "preferred to" in ax.get_ylabel()


class TestBestSoFar:
    def test_repetitions_give_the_mean_and_its_error(self) -> None:
        values = uniform(5, 7)
        ax = plot_best_so_far(values)
        x, y = curve(ax)
        assert_all_close(x, torch.arange(1, 8).double())
        assert_all_close(y, values.mean(dim=0))
        error = values.std(dim=0) / math.sqrt(5)
        low, high = band(ax)
        assert_all_close(low, y - error)
        assert_all_close(high, y + error)
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("trial", "best so far")
        assert legend(ax) == []

    def test_one_run(self) -> None:
        values = double([1.0, 3.0, 2.0])
        for run in (values, values.unsqueeze(0), values.numpy(), values.tolist()):
            ax = plot_best_so_far(run, label="run")
            assert_all_close(curve(ax)[1], values)
            assert bands(ax) == []
            assert legend(ax) == ["run"]

    def test_methods_on_the_same_axes_have_colors_of_their_own(self) -> None:
        """One method after the other on the same axes, in colors of their own."""
        ax = plot_best_so_far(uniform(4, 6), label="first")
        plot_best_so_far(uniform(3, 6, seed=1), label="second", optimum=2.0, ax=ax)
        assert legend(ax) == ["first", "second", "optimum"]
        assert (len(ax.lines), len(bands(ax))) == (3, 2)
        colors = [line.get_color() for line in ax.lines]
        assert len(set(colors)) == 3
        assert ax.lines[2].get_linestyle() == "--"
        assert_all_close(curve(ax, 2)[1], double([2.0, 2.0]))
        draw(ax)


class TestContexts:
    def test_outcomes_are_marked_at_their_contexts(self) -> None:
        contexts = uniform(9, 1)
        outcomes = double([0, 1, 1, 0, 1, 0, 0, 1, 1])
        for labels in (outcomes, outcomes.unsqueeze(-1)):
            for s in (contexts, contexts.squeeze(-1)):
                ax = plot_contexts(s, labels, SPACE)
                steps = torch.arange(1, 10).double()
                points = torch.stack([steps, contexts.squeeze(-1)], dim=-1)
                assert_all_close(marks(ax, "passed"), points[outcomes == 1])
                assert_all_close(marks(ax, "failed"), points[outcomes == 0])
                assert_all_close(torch.stack(curve(ax), dim=-1), points)
                assert legend(ax) == ["passed", "failed", "reference"]
                assert ax.lines[1].get_linestyle() == "--"
                assert_all_close(curve(ax, 1)[1], double([0.5, 0.5]))
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("trial", "context")
        draw(ax)

    def test_contexts_alone(self) -> None:
        ax = plot_contexts(uniform(9, 1))
        assert len(of_type(ax, PathCollection)) == 1
        assert len(of_type(ax, PathCollection)[0].get_offsets()) == 9
        assert (len(ax.lines), legend(ax)) == (1, [])

    def test_one_of_several(self) -> None:
        contexts = uniform(9, 2)
        ax = plot_contexts(contexts, space=TWO_CONTEXTS, context_dim=1)
        assert_all_close(curve(ax)[1], contexts[:, 1])
        assert_all_close(curve(ax, 1)[1], double([0.5, 0.5]))
        assert legend(ax) == ["reference"]
