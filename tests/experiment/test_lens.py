r"""Tests of lenses as one parameter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context.experiment import (
    Context,
    Duels,
    Experiment,
    Lens,
    NamedSpace,
    Real,
    Settings,
)
from botorch_binary_context.experiment.journal import Journal
from botorch_binary_context.experiment.surrogate import Surrogate
from botorch_binary_context.models.power_vectors import PowerVectors, power_vector
from botorch_binary_context.sampling.paths import draw_sample_paths
from tests.tensors import double, uniform

SIZE = Context("size", reference=0.0, low=-0.3, high=1.0, harder="down")
LENS = Lens("right", sphere=(-6, 6), cylinder=(-4, 0))
SPACE = NamedSpace([LENS], [SIZE])


def values(sphere: float, cylinder: float, axis: float) -> dict[str, Any]:
    return {
        "right sphere": sphere,
        "right cylinder": cylinder,
        "right axis": axis,
    }


def matrix(sphere: float, cylinder: float, axis: float) -> torch.Tensor:
    """The dioptric power matrix of a lens, which adds up as lenses do."""
    angle = torch.deg2rad(double([axis]))
    across = torch.cat([-angle.sin(), angle.cos()])
    return sphere * torch.eye(2).double() + cylinder * torch.outer(across, across)


class TestPowerVector:
    @pytest.mark.parametrize(
        "lens", [(1.0, -2.0, 0.0), (-3.0, -1.5, 35.0), (0.5, 2.0, 120.0)]
    )
    def test_is_that_of_the_power_matrix(self, lens: Any) -> None:
        """``P = M I + J0 diag(1, -1) + J45 offdiag``, and blur is its norm."""
        M, J0, J45 = power_vector(double([lens]))[0]
        P = matrix(*lens)
        expected = torch.stack([P[0, 0] + P[1, 1], P[0, 0] - P[1, 1], 2 * P[0, 1]]) / 2
        torch.testing.assert_close(torch.stack([M, J0, J45]), expected)

    def test_same_lenses_are_the_same(self) -> None:
        """An axis of 180° is one of 0°, and without cylinder the axis is nothing."""
        lenses = double([[1, -2, 0], [1, -2, 180], [-1, 2, 90]])
        vectors = power_vector(lenses)
        torch.testing.assert_close(vectors[0], vectors[1])
        torch.testing.assert_close(vectors[0], vectors[2])  # the other notation
        plain = power_vector(double([[1, 0, 10], [1, 0, 77]]))
        torch.testing.assert_close(plain[0], plain[1])

    def test_transform_scales_power_vectors_and_keeps_other_columns(self) -> None:
        transform = PowerVectors(1, (-6.0, 6.0), (-4.0, 0.0))
        X = uniform(5, 5)
        found = transform(X)
        assert torch.equal(found[:, [0, 4]], X[:, [0, 4]])
        lenses = double([-6, -4, 0]) + X[:, 1:4] * double([12, 4, 180])
        expected = (power_vector(lenses) - double([-1, 0, 0])) / 48**0.5
        torch.testing.assert_close(found[:, 1:4], expected)

    def test_box_holds_all_lenses_and_is_no_larger(self) -> None:
        """It holds all that lenses become, and is no larger."""
        transform = PowerVectors(1, (-6.0, 6.0), (-4.0, 1.0))
        bounds = double([[-1, 0, 0, 0], [1, 1, 1, 1]])
        low, high = transform.transform_box(bounds)
        points = uniform(20_000, 4)
        points[:, 0] = 2 * points[:, 0] - 1
        points[::2, 1:3] = points[::2, 1:3].round()  # ends of the ranges
        found = transform(points)
        assert bool(((low <= found + 1e-12) & (found <= high + 1e-12)).all())
        torch.testing.assert_close(found.amin(dim=0), low, atol=2e-3, rtol=0)
        torch.testing.assert_close(found.amax(dim=0), high, atol=2e-3, rtol=0)


def test_no_step_is_kept_in_settings() -> None:
    """A step that is None, which is not the default, is none when opened again."""
    lens = Lens("right", (-6, 6), (-4, 0), cylinder_step=None, axis_step=None)
    settings = Settings(NamedSpace([lens], [SIZE]))
    assert Settings.from_dict(settings.to_dict()) == settings


class TestLens:
    def test_parts_have_the_names_and_steps_of_a_lens(self) -> None:
        assert [part.name for part in SPACE.parts] == list(values(0, 0, 0))
        assert [part.choices[1] for part in LENS.parts if part.choices] == [
            -5.75,
            -3.75,
            5.0,
        ]

    def test_round_trip(self) -> None:
        settings = Settings(SPACE)
        assert Settings.from_dict(settings.to_dict()) == settings
        table = {"type": "lens", "name": "left", "sphere": [-2, 2], "cylinder": [-2, 0]}
        found = Settings.from_dict({"parameters": [table]}).space.parameters
        assert found == (Lens("left", (-2, 2), (-2, 0)),)

    def test_model_sees_power_vectors(self) -> None:
        """Equal lenses have equal values, whatever their notation."""
        maker = Surrogate(Settings(SPACE))
        model = maker.choosing_model([], {})
        rows = [
            maker.encoder.encode({"size": 0.1}, [values(*lens)])
            for lens in ((1, -2, 0), (1, -2, 180), (2, 0, 35), (2, 0, 90), (1, -2, 5))
        ]
        K: Any = model.prior_covariance(*[model.transform_inputs(torch.cat(rows))] * 2)
        torch.testing.assert_close(K[0], K[1])
        torch.testing.assert_close(K[2], K[3])
        assert K[0, 4] > 0.97 * K[0, 0]

    def test_sample_paths(self) -> None:
        """Functions drawn from the prior have its variance in the whole box."""
        maker = Surrogate(Settings(SPACE))
        model = maker.choosing_model([], {})
        bounds = maker.encoder.context_space.bounds
        paths = draw_sample_paths(model, 2000, bounds, seed=0)
        X = bounds[0] + (bounds[1] - bounds[0]) * uniform(6, 4)
        with torch.no_grad():
            drawn = paths(X)  # 2000 x 6
            rows = model.transform_inputs(X)
            expected = model.prior_covariance(rows, rows)  # of variance 38
        torch.testing.assert_close(drawn.T.cov(), expected, rtol=0.0, atol=5.0)

    @pytest.mark.parametrize("feedback", [None, Duels()])
    def test_asks_for_and_recommends_lenses_in_steps(
        self, tmp_path: Path, feedback: Any
    ) -> None:
        kind = {} if feedback is None else {"feedback": feedback}
        settings = Settings(SPACE, **kind, initial_trials=5)
        with Experiment.create(tmp_path / "journal", settings) as experiment:
            for i in range(8):
                trial = experiment.ask()
                for side in trial.sides:
                    self.check(side)
                experiment.tell(trial.id, i % 3 > 0)
            best = experiment.recommend()
        self.check(best.parameters)
        assert set(best.uncertainty) == set(values(0, 0, 0))

    def check(self, shown: Any) -> None:
        """Steps of a quarter of a diopter and of five degrees."""
        assert (4 * shown["right sphere"]).is_integer()
        assert -4 <= shown["right cylinder"] <= 0
        assert shown["right axis"] in LENS.parts[2].choices

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("right", 4, (-4, 0)), "``sphere`` of 'right' to be two numbers"),
            (("right", (-4, 4), (0, 0)), "``low`` of 'right cylinder' to be less"),
            (("right", (-4, 4), (-2, 0), 9), "``step`` of 'right sphere' to make 2"),
            (("", (-4, 4), (-2, 0)), "``name`` to be a text"),
        ],
    )
    def test_refuses_wrong_ranges_steps_and_names(
        self, arguments: Any, message: str
    ) -> None:
        with pytest.raises(InputDataError, match=message):
            Lens(*arguments)

    def test_names_are_checked(self) -> None:
        with pytest.raises(InputDataError, match="got right axis more than once"):
            NamedSpace([LENS, Real("right axis", 0, 1)])


class TestNamedCombinations:
    space = NamedSpace([Real("sphere", -4, 4, step=0.25), Real("cyl", -3, 0)], [SIZE])

    def test_power_vector(self) -> None:
        settings = Settings(self.space, combinations="power-vector")
        assert Settings.from_dict(settings.to_dict()) == settings
        by_hand = Settings(self.space, combinations=[[1, 0.5], [0, 0.5]])
        X = uniform(4, 3)
        named = settings.coordinates()
        expected = by_hand.coordinates()
        assert named is not None
        assert expected is not None
        torch.testing.assert_close(named(X), expected(X))

    @pytest.mark.parametrize(
        ("parameters", "name", "message"),
        [
            ([Real("a", 0, 1)], "power-vector", "sphere and cylinder by .* but got a"),
            (
                [Real("cylinder", -2, 0), Real("sphere", -2, 2)],
                "power-vector",
                "in this order, but got cylinder, sphere",
            ),
            (
                [Real("gain", -2, 2), Real("shift", -2, 0)],
                "power-vector",
                r"but got gain, shift. Give others their .*\[\[1.0, 0.5\], ",
            ),
            (
                [Real("sphere", -2, 2), Real("cylinder", -2, 0)],
                "powervector",
                "one of power-vector, but got 'powervector'",
            ),
        ],
    )
    def test_refuses_other_parameters_and_unknown_names(
        self, parameters: Any, name: str, message: str
    ) -> None:
        with pytest.raises(InputDataError, match=message):
            Settings(NamedSpace(parameters, [SIZE]), combinations=name)

    def test_journals_of_other_names(self, tmp_path: Path) -> None:
        """They were allowed once, and mean the same as the numbers."""
        gains = NamedSpace([Real("a", -2, 2), Real("b", -2, 0)], [SIZE])
        rows = [[1.0, 0.5], [0.0, 0.5]]
        settings = Settings(gains, seed=0, combinations=rows)
        content = {**settings.to_dict(), "combinations": "power-vector"}
        Journal.create(tmp_path / "journal", content, {}).close()
        with Experiment.open(tmp_path / "journal") as experiment:
            assert experiment.settings == settings

    def test_lens_needs_none(self) -> None:
        with pytest.raises(UnsupportedError, match='type = "lens"'):
            Settings(SPACE, combinations="power-vector")
