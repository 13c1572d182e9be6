r"""Pictures of acquisition functions."""

from __future__ import annotations

import torch
from botorch.acquisition import PosteriorMean
from matplotlib.contour import QuadContourSet
from torch import Tensor

from botorch_binary_context import (
    BernoulliMutualInformation,
    BinaryLaplaceGP,
    MaximallyUncertainChallenge,
    PreferenceLaplaceGP,
    recommend,
)
from botorch_binary_context.plotting import View, plot_acquisition
from tests.closeness import assert_all_close
from tests.plotting.pictures import (
    FLAT,
    LINE,
    SPACE,
    assert_surface,
    bands,
    color_bar,
    curve,
    draw,
    legend,
    make_model,
    marks,
    moments,
    of_type,
    rows,
)
from tests.tensors import double


class TestAcquisition:
    def test_surface_of_context_and_parameter(self) -> None:
        model = make_model(BinaryLaplaceGP)
        acqf = BernoulliMutualInformation(model)
        ax = plot_acquisition(acqf, SPACE, View(dims=[2, 1], at=[0.3, 0.0]))

        def value(u: Tensor, v: Tensor) -> Tensor:
            with torch.no_grad():
                return acqf(rows(0.3, v, u).unsqueeze(-2))

        assert_surface(ax, value)
        assert (ax.get_xlim(), ax.get_ylim()) == ((0, 2), (-1, 1))
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("$x_{2}$", "$s$")
        assert ax.get_title() == "$x_{1}$ = 0.3"
        assert color_bar(ax).get_ylabel() == "acquisition value"
        assert legend(ax) == ["maximum"]
        draw(ax)

    def test_curve_shows_the_values_and_marks_the_maximum(self) -> None:
        acqf = BernoulliMutualInformation(make_model(BinaryLaplaceGP))
        view = View([1], [0.3, 0.8], names=["a", "b", "c"])
        ax = plot_acquisition(acqf, SPACE, view)
        x, y = curve(ax)
        assert_all_close(x, torch.linspace(-1, 1, 64).double())
        with torch.no_grad():
            assert_all_close(y, acqf(rows(0.3, x, 0.8).unsqueeze(-2)))
        i = y.argmax()
        top = torch.stack([x[i], y[i]]).unsqueeze(0)
        assert_all_close(marks(ax, "maximum"), top)
        assert (ax.get_xlabel(), ax.get_title()) == ("b", "a = 0.3, c = 0.8")
        assert ax.get_ylabel() == "acquisition value"
        assert bands(ax) == []

    def test_any_function(self) -> None:
        """Called once, without gradients, in the middle and at the reference."""
        calls: list[Tensor] = []
        weight = torch.ones(3, dtype=torch.double, requires_grad=True)

        def score(X: Tensor) -> Tensor:
            calls.append(X)
            return -(((X[:, 0] - double([0.52, 0.0, 1.25])) * weight) ** 2).sum(dim=-1)

        ax = plot_acquisition(score, SPACE, View(dims=[0, 2], resolution=11))
        (X,) = calls
        assert X.shape == (121, 1, 3)
        assert (X[..., 1] == 0.5).all()
        assert_all_close(marks(ax, "maximum"), double([[0.5, 1.2]]))
        plot_acquisition(score, SPACE, View(dims=[1]))
        assert_all_close(calls[1][0, 0, [0, 2]], double([0.5, 1.0]))

    def test_columns_by_default(self) -> None:
        for space, count in ((LINE, 1), (FLAT, 2), (SPACE, 2)):
            ax = plot_acquisition(lambda X: X.sum(dim=(-1, -2)), space)
            assert len(of_type(ax, QuadContourSet)) == count - 1

    def test_duels_have_both_sides_in_the_context_of_the_axis(self) -> None:
        """Both sides are in the context along the axis."""
        model = make_model(PreferenceLaplaceGP)
        acqf = BernoulliMutualInformation(model)
        opponent = recommend(model, SPACE)
        view = View([1, 0], [0.0, 0.4], opponent=opponent)
        ax = plot_acquisition(acqf, SPACE, view)

        def value(u: Tensor, v: Tensor) -> Tensor:
            sides = [rows(v, u, 0.4), rows(opponent[0], u, opponent[1])]
            with torch.no_grad():
                return acqf(torch.stack(sides, dim=-2))

        assert_surface(ax, value)

    def test_one_side_of_a_duel(self) -> None:
        model = make_model(PreferenceLaplaceGP)
        incumbent = SPACE.at_reference(recommend(model, SPACE))
        acqf = MaximallyUncertainChallenge(model, incumbent)
        ax = plot_acquisition(acqf, SPACE, View(dims=[0, 2], resolution=128))
        with torch.no_grad():
            assert_surface(ax, lambda u, v: acqf(rows(u, 0.5, v).unsqueeze(-2)))

    def test_stock_function(self) -> None:
        model = make_model(BinaryLaplaceGP)
        model.train()
        view = View(dims=[0], at=[0.0, 0.6])
        ax = plot_acquisition(PosteriorMean(model), SPACE, view)
        assert model.training
        x, y = curve(ax)
        assert_all_close(y, moments(model, rows(x, 0.5, 0.6))[0])
