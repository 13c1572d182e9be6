r"""The choice of the prior of duels."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
import torch

from benchmarks.studies import duel_priors


def test_candidates_learn_from_a_simulated_rater(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = duel_priors.RATERS[0]
    rater = duel_priors.simulate_rater(name)
    assert rater.X.shape == (duel_priors.NUM_DUELS, 2, 1)
    assert 0.4 < float(rater.Y.mean()) < 0.6
    monkeypatch.setattr(duel_priors, "TUNING", {})
    monkeypatch.setattr(duel_priors, "RATERS", (name,))
    candidates = ["long", "linear + short"]
    threads = torch.get_num_threads()
    asked = Namespace(sizes=[40], candidates=candidates, seeds=2, output=tmp_path)
    duel_priors.run(asked)
    torch.set_num_threads(threads)
    table = duel_priors.store.read_table(tmp_path / "duel-priors" / "results.parquet")
    assert table is not None
    assert table["candidate"].unique().sort().to_list() == sorted(candidates)
    assert float(table["log_loss"].mean()) < 0.6  # pyright: ignore
    report = (tmp_path / "duel-priors" / "report.md").read_text()
    assert f"| {name} | 40 |" in report
