r"""Tests of warnings about answers that contradict the settings."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.warnings import InputDataWarning
from scipy.stats import norm

from botorch_binary_context.experiment import (
    Context,
    Duels,
    Experiment,
    NamedSpace,
    PassFail,
    Real,
    Settings,
    Trial,
)
from botorch_binary_context.experiment.contradictions import find_contradictions

SIZE = Context("size", reference=0.5, low=-1.0, high=2.0, harder="down")
LENS = [Real("sphere", -2.0, 2.0), Real("cylinder", -2.0, 0.0)]
SETTINGS = Settings(NamedSpace(LENS, [SIZE]), PassFail(guess_rate=0.04))


def simulate(
    n: int,
    seed: int,
    slope: float = 3.0,
    guess: float = 0.04,
    lapse: float = 0.0,
) -> list[Trial]:
    """Answers of somebody who reads large letters, the better the smaller the blur."""
    generator = np.random.default_rng(seed)
    trials = []
    for i in range(n):
        size, u, v = generator.random(3)
        context, sphere, cylinder = 3 * size - 1, 4 * u - 2, 2 * v - 2
        blur = float(np.hypot(sphere - 0.5 + cylinder / 2, cylinder / 2 + 0.5))
        p = norm.cdf(slope * (context + 0.5 - blur))
        outcome = generator.random() < guess + (1 - guess - lapse) * p
        side = {"sphere": sphere, "cylinder": cylinder}
        trials.append(
            Trial(i + 1, {"size": context}, (side,), "", "", "answered", int(outcome))
        )
    return trials


def turned(settings: Settings = SETTINGS) -> Settings:
    """The same, with the context the wrong way round."""
    space = NamedSpace(LENS, [replace(SIZE, harder="up")])
    return replace(settings, space=space)


@pytest.mark.parametrize("kernel", ["additive", "product"])
def test_wrong_direction_is_found_after_thirty_answers(kernel: str) -> None:
    """Thirty answers are enough to see that large letters are easier."""
    settings = turned(replace(SETTINGS, kernel=kernel))
    for seed in range(4):
        (found,) = find_contradictions(simulate(30, seed), settings)
        assert found.startswith("Expected tests to become harder as 'size' goes up")
        assert "as it goes down: see ``harder``" in found


def count(sentence: str, n: int, **subject: float) -> int:
    """How many of ten experiments end with a sentence."""
    return sum(
        any(sentence in found for found in find_contradictions(trials, SETTINGS))
        for trials in (simulate(n, seed, **subject) for seed in range(10))
    )


def test_lapses_are_found_half_of_the_time_and_guesses_mostly() -> None:
    """Lapses are found half of the time, guesses nearly always."""
    assert count("``lapse_rate`` of 0, but easy tests were missed", 100, lapse=0.2) >= 5
    assert count("``guess_rate`` of 0.04, but hard tests were", 100, guess=0.5) >= 8


@pytest.mark.parametrize("lapse_rate", [0.2, "learned"])
def test_lapses_that_were_told_are_no_contradiction(lapse_rate: float | str) -> None:
    told = replace(SETTINGS, feedback=PassFail(0.04, lapse_rate))
    for seed in range(5):
        assert find_contradictions(simulate(60, seed, lapse=0.2), told) == []


@pytest.mark.parametrize("slope", [1.5, 3.0, 10.0])
def test_false_alarms(slope: float) -> None:
    """Where the settings hold, shallow and steep."""
    assert count("Expected", 60, slope=slope) == 0


def test_few_answers_and_duels() -> None:
    assert find_contradictions(simulate(9, 0), turned()) == []
    duels = Settings(SETTINGS.space, Duels())
    assert find_contradictions([], duels) == []


def test_no_context() -> None:
    """Rates are checked without contexts, too; directions there are none."""
    plain = Settings(NamedSpace(LENS), PassFail(0.04))
    trials = [replace(trial, context={}) for trial in simulate(15, 0)]
    assert find_contradictions(trials, plain) == []


def test_recommend_warns(tmp_path: Path) -> None:
    def run(settings: Settings, name: str) -> Any:
        path = tmp_path / name
        with Experiment.create(path, replace(settings, seed=0)) as experiment:
            for trial in simulate(25, 1):
                values = {**trial.context, **trial.sides[0]}
                experiment.add(values, trial.outcome)
            return experiment.recommend()

    with pytest.warns(InputDataWarning, match="to become harder as 'size' goes up"):
        run(turned(), "wrong")
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputDataWarning)
        best = run(SETTINGS, "right")
    assert torch.isfinite(torch.tensor(best.threshold("size").median))
