r"""The study of intervals of thresholds, in a small form."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import torch
from botorch.exceptions import InputDataError

from benchmarks.studies import threshold_coverage
from benchmarks.studies.threshold_coverage import (
    format_choice,
    format_rows,
    make_settings,
    simulate,
)
from benchmarks.studies.threshold_priors import SlopePrior
from botorch_binary_context.experiment.surrogate import Surrogate
from botorch_binary_context.experiment.trial import Trial


def test_simulated_intervals_narrow_and_mostly_hold_the_truth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threshold_coverage, "CHECKPOINTS", (2, 8))
    frame = simulate("wide", 26, 12.0, subjects=3)
    assert frame["trials"].to_list() == [2] * 3 + [8] * 3
    assert (frame["error"] < frame["width"]).sum() > 3
    early, late = (frame.filter(pl.col("trials") == n)["width"].sum() for n in (2, 8))
    assert late < early


def test_models_are_those_of_experiments() -> None:
    settings = make_settings("wide", 2)
    outcomes = {0.2: 0, 0.5: 0, 0.6: 1, 0.9: 1}
    trials = [
        Trial(i + 1, {"contrast": c}, ({},), "x", "now", "answered", passed)
        for i, (c, passed) in enumerate(outcomes.items())
    ]
    surrogate = Surrogate(settings)
    X = surrogate.rows(trials).unsqueeze(0)
    Y = X.new_tensor(list(outcomes.values())).view(1, -1, 1)
    batch = threshold_coverage.make_model(settings, X, Y)
    single = surrogate.predicting_model(trials, {})
    with torch.no_grad():
        found = batch.posterior(X).mean[0]
        torch.testing.assert_close(found, single.posterior(X[0]).mean)


def test_format_rows() -> None:
    frame = pl.DataFrame(
        {
            "priors": ["wide"] * 4,
            "alternatives": [2] * 4,
            "slope": [3.0] * 4,
            "trials": [20] * 4,
            "covered": [True, True, True, False],
            "width": [0.1, 0.2, 0.3, 0.4],
            "error": [0.0, 0.1, 0.1, 0.5],
        }
    )
    assert "| 75 ± 22 | 0.300 | 0.100 |" in format_rows(frame)


def test_choice_has_the_best_priors_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threshold_coverage, "CHECKPOINTS", (6,))
    monkeypatch.setattr(threshold_coverage, "CHOICE_SUBJECTS", 20)
    monkeypatch.setattr(threshold_coverage, "CHOICE_SLOPES", (1.5,))
    narrow = threshold_coverage.choose(SlopePrior(30.0, 0.1, 1.0, 25.0))
    wide = threshold_coverage.choose(SlopePrior(2.0, 1.0, 1.0, 25.0))
    lines = format_choice(pl.concat([narrow, wide])).splitlines()
    assert lines[2].startswith("| 2 / 1 / 1 / 25 |")
    assert lines[3].startswith("| 30 / 0.1 / 1 / 25 |")


def test_report_without_results(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="threshold-coverage has none"):
        threshold_coverage.STUDY.write_report(tmp_path)
