from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.studies import population


def test_patients_have_slopes_of_their_own() -> None:
    few = population.draw_patients(3, 0)
    X = few.space.at_reference(few.prescription).unsqueeze(-2)
    slopes: Any = few.slopes
    assert torch.allclose(few.latent(X), 0.5 * slopes.unsqueeze(-1))
    assert len(set(slopes.tolist())) == 3


def test_run_and_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(population, "EARLIER", (2,))
    monkeypatch.setattr(population, "LETTERS", 8)
    monkeypatch.setattr(population, "CHECKPOINTS", (7, 8))
    population.run(Namespace(output=tmp_path, seeds=2))
    report = population.write_report(tmp_path).read_text()
    for way in (population.TODAY, "2, hyperparameters", "2, mean function too"):
        assert f"| {way} |" in report
    assert f"| {population.IDEAL} |" in report
