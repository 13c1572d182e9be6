from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.studies import known_physics
from botorch_binary_context.problems import RefractionProblem

pytestmark = pytest.mark.skipif(
    not (Path(sys.prefix) / "peers" / "questplus").exists(),
    reason="questplus is not installed (`make test` does that)",
)


@pytest.mark.parametrize("slope", [2.0, 5.0])
def test_physics_are_those_of_the_patients(slope: float) -> None:
    X = torch.rand(20, 3, dtype=torch.double) * 3 - 1
    patient = RefractionProblem(slope, 4, prescription=(0.5, -1.0))
    found = known_physics.success_probability(
        *(X - torch.tensor([0.0, 0.5, -1.0])).numpy().T, alternatives=4, slope=slope
    )
    assert np.allclose(found, patient.success_probability(X))


def test_run_and_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_physics, "LETTERS", 12)
    monkeypatch.setattr(known_physics, "CHECKPOINTS", (1, 12))
    monkeypatch.setattr(known_physics, "LENSES", np.arange(-4.0, 4.1, 2.0))
    monkeypatch.setattr(known_physics, "PRESCRIPTIONS", np.arange(-3.0, 3.1, 1.0))
    for _ in range(2):  # the second run has nothing to do
        known_physics.run(Namespace(output=tmp_path, seeds=2))
    table = known_physics.store.read_table(tmp_path / "questplus" / "results.parquet")
    assert table is not None
    assert table.shape == (2 * 3 * 12, 5)
    first, last = (table.filter(letter=n, alternatives=26) for n in (1, 12))
    assert last["regret"].mean() < first["regret"].mean()  # pyright: ignore
    report = known_physics.write_report(tmp_path).read_text()
    assert "| 26 | 5 | QUEST+ |" in report
