r"""Experiments that the tests run, and a simulated person who answers."""

from __future__ import annotations

from pathlib import Path
from statistics import NormalDist
from typing import Any

from botorch_binary_context.experiment import (
    Categorical,
    Context,
    Duels,
    Experiment,
    Integer,
    NamedSpace,
    PassFail,
    Real,
    Settings,
    Trial,
)
from botorch_binary_context.experiment.space import Values

# Hyperparameters that need no fit.
FIXED = {"outputscale": 4.0, "lengthscale": 0.3}

CONTINUOUS = NamedSpace(
    [Real("gain", 0.1, 10.0, "log"), Real("shift", -1.0, 1.0)],
    [Context("noise", reference=2.0, low=0.0, high=4.0, harder="up")],
)
MIXED = NamedSpace(
    [
        Real("gain", 0.1, 10.0, "log"),
        Integer("taps", 1, 9),
        Categorical("window", ["hann", "box", "flat"]),
    ],
    [Context("noise", reference=2.0, levels=[0.0, 1.0, 1.5, 2.5, 4.0], harder="up")],
)


def pass_fail(space: NamedSpace = CONTINUOUS, **kwargs: Any) -> Settings:
    """Settings of a pass/fail experiment."""
    return Settings(space, PassFail(), **{"seed": 0, **kwargs})


def duels(space: NamedSpace = CONTINUOUS, **kwargs: Any) -> Settings:
    """Settings of an experiment with duels."""
    return Settings(space, Duels(), **{"seed": 0, **kwargs})


def unmodeled(**kwargs: Any) -> Settings:
    """Settings of an experiment that stays quasi-random."""
    return pass_fail(initial_trials=10**6, **kwargs)


def quality(parameters: Values) -> float:
    """The best gain is 2."""
    return 3.0 - 2.0 * abs(float(parameters["gain"]) - 2.0) ** 0.5


def answer(trial: Trial) -> bool:
    """An answer that depends on the trial, and on its number as if by chance."""
    difficulty = float(trial.context.get("noise", 2.0))
    margin = quality(trial.sides[0]) - difficulty
    if len(trial.sides) == 2:
        margin = quality(trial.first) - quality(trial.second)
    luck = (trial.id * 0.618034) % 1.0
    return luck < NormalDist().cdf(2.0 * margin)


def run(path: Path, settings: Settings, num_trials: int) -> list[Trial]:
    """A whole experiment, and what became of its trials."""
    with Experiment.create(path, settings) as experiment:
        for _ in range(num_trials):
            trial = experiment.ask()
            experiment.tell(trial.id, answer(trial))
        return experiment.trials
