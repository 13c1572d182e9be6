r"""Experiments whose subjects become tired: what is said is about now."""

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
    NamedGoal,
    NamedSpace,
    PassFail,
    Real,
    Settings,
)

SPACE = NamedSpace(
    [Real("gain", 0, 1, step=0.25)],
    [Context("size", low=0, high=1, reference=0.5, harder="down")],
)
FRESH, TIRED = 0.25, 0.75  # the thresholds


def find_threshold(path: Path, drift: float | None) -> float:
    """What is found of somebody who tires in the middle."""
    settings = Settings(SPACE, drift=drift, seed=1, initial_trials=40)
    with Experiment.create(path, settings) as experiment:
        for i in range(36):
            size = (0.37 * i) % 1.0
            values = {"size": size, "gain": 0.25 * (i % 5)}
            experiment.add(values, size > (FRESH if i < 24 else TIRED))
        if drift is not None:
            model = experiment.model()
            assert model.datapoints[:, -1].tolist() == [float(t) for t in range(-36, 0)]
            trial = experiment.ask()  # quasi-random
            experiment.withdraw(trial.id)
        return experiment.recommend().threshold("size").median


def test_thresholds_are_those_of_now(tmp_path: Path):
    steady = find_threshold(tmp_path / "steady.db", None)
    now = find_threshold(tmp_path / "now.db", 8)
    assert steady + 0.1 < now < TIRED + 0.1


def test_the_kernel_of_an_experiment(tmp_path: Path):
    settings = Settings(SPACE, drift=8, seed=1, hyperparameters={"drift_constant": 2})
    assert Settings.from_dict(settings.to_dict()) == settings
    with Experiment.create(tmp_path / "one.db", settings) as experiment:
        for _ in range(6):
            trial = experiment.ask()
            experiment.tell(trial.id, float(trial.values["size"]) > FRESH)  # pyright: ignore
        model = experiment.model()
        old, now = model.datapoints[:1], model.datapoints[:1].clone()
        now[:, -1] = 0.0
        with torch.no_grad():
            far = model.prior_covariance(old, now)
            near = model.prior_covariance(now, now)
        timescale: Any = model.covar_module.timescale  # pyright: ignore
        lost = 2 * (1 - torch.exp(float(old[0, -1]) / timescale))
        torch.testing.assert_close(near - far, lost.reshape(1, 1))
        trial = experiment.ask(context={"size": 0.4})
        assert trial.chosen_by == "ucb99-ald"
        assert trial.context == {"size": 0.4}


@pytest.mark.parametrize(
    ("feedback", "given", "error", "message"),
    [
        (PassFail(), {"drift": 0}, InputDataError, "a number of answers from 1 to"),
        (PassFail(), {"drift": "fast"}, InputDataError, "a number of answers from 1"),
        (Duels(), {"drift": 9}, UnsupportedError, "left out where sides are compared"),
        (
            PassFail(),
            {"drift": 9, "goal": NamedGoal("average")},
            UnsupportedError,
            "``goal`` to be left out with ``drift``",
        ),
    ],
)
def test_refuses_wrong_drift_and_drift_of_duels_or_goals(
    feedback: Any, given: dict[str, Any], error: Any, message: str
):
    with pytest.raises(error, match=message):
        Settings(SPACE, feedback, **given)
