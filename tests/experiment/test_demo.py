r"""Tests of the simulated person."""

from __future__ import annotations

from pathlib import Path

import pytest

from botorch_binary_context.experiment import Experiment, Trial
from botorch_binary_context.experiment.demo import (
    NEEDED,
    run_demo,
    simulated_person,
    smallest_letters,
)


def test_smallest_letters() -> None:
    assert smallest_letters(NEEDED) == 0.0
    # Two diopters of defocus are a factor of five, by 1 + β².
    blurred = {**NEEDED, "sphere": NEEDED["sphere"] + 2.0}
    assert smallest_letters(blurred) == pytest.approx(0.69897)
    # A sphere of half the cylinder, with the other sign, is the circle of least blur.
    crossed = {"sphere": NEEDED["sphere"] - 0.5, "cylinder": NEEDED["cylinder"] + 1.0}
    assert smallest_letters(crossed) < smallest_letters({**NEEDED, "cylinder": 0.25})


def test_person() -> None:
    read = simulated_person()

    def share(size: float) -> float:
        trial = Trial(1, {"letter size": size}, (NEEDED,), "", "")
        return sum(read(trial) for _ in range(400)) / 400

    assert share(0.5) == 1.0
    assert 0.0 < share(-0.3) < 0.1  # by guesses
    assert 0.4 < share(0.0) < 0.6


def test_short(tmp_path: Path) -> None:
    lines: list[str] = []
    best = run_demo(tmp_path / "journal", 12, lines.append)
    assert len(lines) == 12
    assert best.num_answers == 12
    with Experiment.open(tmp_path / "journal") as experiment:
        assert len(experiment.trials) == 12
