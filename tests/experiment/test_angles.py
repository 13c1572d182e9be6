r"""Tests of periodic parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError
from hypothesis import given
from hypothesis import strategies as st

from botorch_binary_context.experiment import (
    Context,
    Experiment,
    NamedSpace,
    PassFail,
    Periodic,
    Real,
    Settings,
)
from botorch_binary_context.experiment.estimates import circular_interval
from botorch_binary_context.experiment.prior import make_prior
from botorch_binary_context.experiment.surrogate import Surrogate
from botorch_binary_context.numerics.covariance import covariance
from tests.tensors import double

AXIS = Periodic("axis", 0, 180, step=5)
SPACE = NamedSpace(
    [Periodic("axis", 0, 180), Real("power", 0.0, 2.0)],
    [Context("size", reference=0.0, low=-0.3, high=1.0, harder="down")],
)


class TestValues:
    def test_ends_are_the_same(self) -> None:
        assert torch.equal(AXIS.encode(180), AXIS.encode(0))
        assert AXIS.decode(double([1.0])) == AXIS.decode(double([0.0])) == 0.0
        assert Periodic("axis", -90, 90).decode(double([1.0])) == -90.0

    @given(st.integers(0, 35))
    def test_steps_come_back_and_near_values_snap_to_them(self, number: int) -> None:
        value = 5.0 * number
        assert AXIS.decode(AXIS.encode(value)) == value
        near = AXIS.encode(value) + 0.4 / 36
        assert AXIS.decode(near) == value
        torch.testing.assert_close(AXIS.snap(near), AXIS.encode(value))

    def test_choices_are_the_steps_of_one_period(self) -> None:
        assert AXIS.choices == tuple(5.0 * i for i in range(36))
        assert not AXIS.is_continuous
        assert Periodic("axis", 0, 180).is_continuous

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("axis", 180, 0), "``low`` of 'axis' to be less than ``high``"),
            (("axis", 0, 180, 7), "``step`` of 'axis' to divide the period .* got 7"),
            (("axis", 0, 180, 180), "into at least two parts, but got 180"),
            (("axis", 0, 180, -5), "``step`` of 'axis' to make 2 to .* but got -5"),
        ],
    )
    def test_refuses_wrong_bounds_and_steps(self, arguments: Any, message: str) -> None:
        with pytest.raises(InputDataError, match=message):
            Periodic(*arguments)

    def test_refuses_a_value_outside_of_the_period(self) -> None:
        with pytest.raises(InputDataError, match="from 0 to 180, but got 181"):
            AXIS.encode(181)


class TestKernel:
    @pytest.mark.parametrize("kernel", ["additive", "multiplicative", "product"])
    def test_closes_the_circle(self, kernel: str) -> None:
        """``k(z, axis 0) = k(z, axis 180)``, and near values are alike across it."""
        settings = Settings(SPACE, kernel=kernel)
        made: Any = make_prior(settings)["covariance"]
        rows = double([[0.2, u, 0.5] for u in (0.0, 1.0, 0.99, 0.01, 0.5)])
        K = covariance(made, rows, rows).detach()
        torch.testing.assert_close(K[0], K[1])
        torch.testing.assert_close(K[0, 2], K[0, 3])
        assert K[0, 4] < K[0, 2] < K[0, 0]
        assert float(torch.linalg.eigvalsh(K).min()) > -1e-9

    def test_as_smooth_as_numbers(self) -> None:
        """A small step along the circle changes as much as one along a number."""
        made: Any = make_prior(Settings(SPACE, kernel="product"))["covariance"]
        rows = double([[0, 0.3, 0.5], [0, 0.32, 0.5], [0, 0.3, 0.52]])
        K = covariance(made, rows, rows)
        torch.testing.assert_close(K[0, 1], K[0, 2], rtol=1e-4, atol=0.0)


class TestExperiment:
    def test_round_trip(self) -> None:
        settings = Settings(SPACE)
        assert Settings.from_dict(settings.to_dict()) == settings
        table = {"type": "periodic", "name": "axis", "low": 0, "high": 180}
        content = {"parameters": [{**table, "step": 10}]}
        assert Settings.from_dict(content).space.parts == (
            Periodic("axis", 0, 180, step=10),
        )

    def test_separate_priors_know_no_circle(self) -> None:
        with pytest.raises(InputDataError, match="``priors`` to be 'pooled'"):
            Settings(SPACE, priors="separate")

    def test_periodic_lengthscale_is_set_and_the_period_is_one(self) -> None:
        fixed = {"periodic_lengthscale": 3.0, "lengthscale": 0.3, "outputscale": 2.0}
        maker = Surrogate(Settings(SPACE, hyperparameters={**fixed, "slope": 5.0}))
        model: Any = maker.choosing_model([], {})
        found = {type(m).__name__: m for m in model.covar_module.modules()}
        assert found["PeriodicKernel"].lengthscale.item() == pytest.approx(3.0)
        assert found["PeriodicKernel"].period_length.item() == pytest.approx(1.0)

    @pytest.mark.parametrize("rule", ["ucb-ald", "ts-ald", "cjes"])
    def test_asks_for_and_recommends_angles_in_range(
        self, tmp_path: Path, rule: str
    ) -> None:
        """Also by rules that draw functions, and with an interval of the angle."""
        settings = Settings(SPACE, PassFail(), rule, initial_trials=5)
        with Experiment.create(tmp_path / "journal", settings) as experiment:
            for i in range(8):
                trial = experiment.ask()
                assert 0 <= float(trial.parameters["axis"]) < 180
                experiment.tell(trial.id, i % 3 > 0)
            ends: Any = experiment.recommend().uncertainty["axis"]
        assert all(0 <= end <= 180 for end in ends)


def test_circular_interval() -> None:
    """The same as on a line, wherever the circle is cut."""
    draws = [170.0 + i for i in range(21)]  # up to 190
    low, high = circular_interval([d % 180 for d in draws], 0.9, AXIS)
    assert (low, high) == pytest.approx((170.1, 9.9))
    moved = circular_interval([(d + 60) % 180 for d in draws], 0.9, AXIS)
    assert moved == pytest.approx((50.1, 69.9))
    around = [5.0 * i for i in range(36)]
    assert circular_interval(around, 0.9, AXIS) == AXIS.bounds
    assert circular_interval(around[:30], 0.9, AXIS) != AXIS.bounds
    quarters = Periodic("axis", 0, 180, step=45)
    assert circular_interval([0.0, 45.0, 90.0, 135.0] * 9, 0.9, quarters) == (0, 180)
