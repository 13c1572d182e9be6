from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.studies import known_physics, law_examiner

pytestmark = pytest.mark.skipif(
    not (Path(sys.prefix) / "peers" / "questplus").exists(),
    reason="questplus is not installed (`make test` does that)",
)


def test_run_and_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_physics, "LETTERS", 12)
    monkeypatch.setattr(known_physics, "CHECKPOINTS", (1, 12))
    monkeypatch.setattr(known_physics, "LENSES", np.arange(-4.0, 4.1, 2.0))
    monkeypatch.setattr(known_physics, "PRESCRIPTIONS", np.arange(-3.0, 3.1, 1.0))
    monkeypatch.setattr(law_examiner, "POWER_STEP", 0.5)
    monkeypatch.setattr(law_examiner, "NUM_SLOPES", 5)
    for _ in range(2):  # the second run has nothing to do
        known_physics.run(Namespace(output=tmp_path, seeds=2))
    table = known_physics.store.read_table(tmp_path / "questplus" / "results.parquet")
    assert table is not None
    methods = list(known_physics.METHODS)
    assert table.shape == (2 * 3 * 12 * len(methods), 6)
    report = known_physics.write_report(tmp_path).read_text()
    for method in methods:
        mine = table.filter(method=method, alternatives=26)
        first, last = (mine.filter(letter=n)["regret"].mean() for n in (1, 12))
        assert last < first  # pyright: ignore
        assert f"| 26 | 5 | {method} |" in report
