r"""What holds for every picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models.transforms import Normalize
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from botorch_binary_context import (
    BernoulliMutualInformation,
    BinaryLaplaceGP,
    ContextSpace,
    PreferenceLaplaceGP,
)
from botorch_binary_context.plotting import (
    View,
    plot_acquisition,
    plot_best_so_far,
    plot_contexts,
    plot_posterior_mean,
    plot_psychometric_curves,
    plot_success_probability,
)
from botorch_binary_context.plotting.predictions import evaluating
from tests.devices import RequireDevice
from tests.plotting.pictures import (
    BOUNDS,
    FLAT,
    MODEL_PLOTS,
    SPACE,
    make_model,
)
from tests.small_models import MODEL_CLASSES, AnyModel, random_model
from tests.tensors import double, uniform


def every_plot(
    model: AnyModel, space: ContextSpace = SPACE
) -> list[Callable[..., Axes]]:
    """All functions that ask a model, with their arguments filled in but ``ax``."""
    parameters = space.parameter_bounds[:1]
    view = View(resolution=8)
    against = view
    if isinstance(model, PreferenceLaplaceGP):
        against = View(opponent=space.parameter_bounds[0], resolution=8)
    acqf = BernoulliMutualInformation(model)
    return [
        lambda **k: plot_posterior_mean(model, space, view, **k),
        lambda **k: plot_success_probability(model, space, view, **k),
        lambda **k: plot_psychometric_curves(model, space, parameters, **k),
        lambda **k: plot_acquisition(acqf, space, against, **k),
    ]


class TestAxes:
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
            assert plot(ax=ax) is ax
            assert ax.figure is figure

    def test_subfigure_is_drawn_on(self) -> None:
        for plot in self.every_plot():
            subfigure: Any = Figure().subfigures()
            ax = subfigure.subplots()
            assert plot(ax=ax).figure is subfigure

    def test_new_figure(self) -> None:
        """``pyplot`` knows nothing of it."""
        before = plt.get_fignums()
        for plot in self.every_plot():
            first = plot()
            second = plot()
            assert first.figure is not second.figure
        assert plt.get_fignums() == before

    def test_colors_of_axes_with_data(self) -> None:
        ax = Figure().subplots()
        ax.set_prop_cycle(color=["red", "lime"])
        ax.plot([0, 1], [0, 1])
        plot_best_so_far(uniform(3), ax=ax)
        assert [line.get_color() for line in ax.lines] == ["red", "lime"]


class TestModelIsLeftAlone:
    def test_state_and_gradients_are_unchanged(self) -> None:
        for model_class, train in product(MODEL_CLASSES, (True, False)):
            transform = Normalize(3, bounds=BOUNDS)
            model = make_model(model_class, input_transform=transform)
            model.eval().train(train)
            state = {k: v.clone() for k, v in model.state_dict().items()}
            inputs = model.train_inputs[0].clone()
            random = torch.get_rng_state()
            for plot in every_plot(model):
                plot()
                assert model.training == train
                assert torch.equal(model.train_inputs[0], inputs)
                assert all(p.requires_grad for p in model.parameters())
                assert all(p.grad is None for p in model.parameters())
                for key, value in model.state_dict().items():
                    assert torch.equal(value, state[key])
            assert torch.equal(torch.get_rng_state(), random)

    def test_no_gradients(self) -> None:
        with evaluating(make_model(BinaryLaplaceGP), SPACE):
            assert not torch.is_grad_enabled()
        assert torch.is_grad_enabled()

    def test_after_an_error(self) -> None:
        model = make_model(BinaryLaplaceGP)
        model.train()
        with pytest.raises(InputDataError):
            plot_posterior_mean(model, SPACE, View(context=[1.0, 2.0]))
        assert model.training
        assert torch.is_grad_enabled()

    def test_makes_nothing_on_the_default_device(self) -> None:
        for model_class in MODEL_CLASSES:
            model = make_model(model_class)
            with RequireDevice():
                for plot in every_plot(model):
                    plot()

    def test_space_in_another_precision_gives_the_same_plots(self) -> None:
        single = ContextSpace(BOUNDS.float(), context_dims=[1], reference_context=[0.5])
        for model_class in MODEL_CLASSES:
            model = make_model(model_class)
            pairs = zip(every_plot(model), every_plot(model, single), strict=True)
            for plot, other in pairs:
                lines = [np.asarray(x.get_xydata()) for x in plot().lines]
                others = [np.asarray(x.get_xydata()) for x in other().lines]
                for line, expected in zip(others, lines, strict=True):
                    np.testing.assert_allclose(line, expected, atol=1e-5)


class TestErrors:
    def check(
        self, message: str, plots: Sequence[Callable[..., Any]], **kwargs: Any
    ) -> None:
        """Every one refuses the arguments, before it has drawn anything."""
        for plot in plots:
            ax = Figure().subplots()
            with pytest.raises(InputDataError, match=message):
                plot(ax=ax, **kwargs)
            assert not ax.has_data()

    def test_refuses_a_batch_of_models(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, dim=3, batch_shape=(2,))
            for plot in every_plot(model):
                message = "Expected ``model`` to be one model, .* shape \\[2\\]"
                with pytest.raises(UnsupportedError, match=message):
                    plot()

    def test_refuses_a_space_of_other_columns(self) -> None:
        message = "Expected ``space`` to have the 3 columns .* got 2"
        bounds = double([[0.0, 0.0], [1.0, 1.0]])
        space = ContextSpace(bounds, context_dims=[0], reference_context=[0.5])
        self.check(message, every_plot(make_model(BinaryLaplaceGP), space))

    def test_refuses_wrong_slices_by_name(self) -> None:
        model = make_model(BinaryLaplaceGP)
        acqf = BernoulliMutualInformation(model)
        of_model: list[Callable[..., Axes]] = [
            lambda plot=plot, **k: plot(model, SPACE, **k) for plot in MODEL_PLOTS
        ]
        every = [*of_model, lambda **k: plot_acquisition(acqf, SPACE, **k)]
        for dims in ([], [0, 0], [-1], [0, 1, 2], [3]):
            message = "Expected ``dims`` to be one or two different numbers from 0 to "
            self.check(message, every, view=View(dims=dims))
        message = "``dims`` .* from 0 to 1, but got \\[0, 2\\]"
        self.check(message, of_model, view=View(dims=[0, 2]))
        message = "Expected ``resolution`` to be at least 2, but got 1"
        self.check(message, every, view=View(resolution=1))
        places: Any = ([0.1], 0.1, [[0.1, 0.2]], [0.1, 0.2, 0.3])
        for at in places:
            message = "Expected ``at`` to have one number for each of 2 columns"
            self.check(message, every, view=View(at=at))
        message = "Expected ``context`` to have one number for each of 1 columns"
        self.check(message, every, view=View(context=[0.1, 0.2]))
        message = "Expected ``names`` to name the 3 columns .* \\['a', 'b'\\]"
        self.check(message, every, view=View(names=["a", "b"]))

    def test_refuses_wrong_opponents(self) -> None:
        model = make_model(BinaryLaplaceGP)
        message = "Expected ``opponent`` to be None for a model of pass/fail outcomes"
        with pytest.raises(UnsupportedError, match=message):
            plot_success_probability(model, SPACE, View(opponent=[0.1, 0.2]))
        duels = make_model(PreferenceLaplaceGP)
        acqf = BernoulliMutualInformation(duels)
        self.check(
            "Expected ``opponent`` to have one number for each of 2 columns",
            [
                lambda **k: plot_success_probability(duels, SPACE, **k),
                lambda **k: plot_acquisition(acqf, SPACE, **k),
            ],
            view=View(opponent=[0.1]),
        )

    def test_acquisition_values(self) -> None:
        message = "``acqf`` to give one value for each of 64 candidates.* \\[64, 1\\]"
        with pytest.raises(InputDataError, match=message):
            plot_acquisition(lambda X: X.sum(dim=-1), FLAT, View(resolution=8))

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
        for dim in (-1, 1):
            message = f"``dims`` to be one of 1 columns.* got \\[{dim}\\]"
            self.check(message, plots, view=View(dims=[dim]))
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

    def test_refuses_wrong_contexts_and_outcomes(self) -> None:
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
