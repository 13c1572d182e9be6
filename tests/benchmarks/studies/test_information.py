r"""The study of richer answers: kinds differ in what is told only."""

from __future__ import annotations

import polars as pl
import torch

from benchmarks.studies import information
from benchmarks.studies.information import Task, trials_to_reach


def test_trials_to_reach():
    means = {10: 0.5, 20: 0.1, 30: 0.3, 40: 0.2, 50: 0.1}
    assert trials_to_reach(means, 0.2) == "40"
    assert trials_to_reach(means, 0.05) == "> 50"
    assert trials_to_reach(means, 1.0) == "10"


def test_richer_answers_refine_plain_ones():
    plain, rated = (Task("threshold", kind, 3) for kind in ("pass/fail", "confidence"))
    trials = torch.rand(3, 20, 2, dtype=torch.double, generator=_generator())
    noise = torch.rand(3, 20, dtype=torch.double, generator=_generator())
    answers = [
        information._answer(t, t.likelihood(False), trials, t.best(), noise)
        for t in (plain, rated)
    ]
    torch.testing.assert_close((answers[1] >= 2).double(), answers[0])


def test_short_runs(monkeypatch, tmp_path):
    monkeypatch.setattr(information, "TRIALS", 7)
    monkeypatch.setattr(information, "CHECKPOINTS", (6, 7))
    monkeypatch.setattr(information, "LEARN_AT", (6,))
    for kind in ("five ratings", "ties", "best of three"):
        frame = information.run_task(Task("threshold", kind, 2))
        assert frame["trials"].to_list() == [6, 6, 7, 7]
        assert frame["loss"].min() >= 0  # pyright: ignore
        assert isinstance(frame, pl.DataFrame)


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
