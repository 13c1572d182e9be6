r"""The study of lapse rates, in a small form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from botorch.exceptions import InputDataError

from benchmarks.studies.lapses import (
    ASSUMED,
    LAPSES,
    STUDY,
    format_rows,
    make_settings,
    simulate,
)


def test_models_assume_what_they_should() -> None:
    for assumed in ASSUMED:
        likelihood: Any = make_settings(26, assumed).feedback.likelihood()
        learned = dict(likelihood.named_parameters())
        assert list(learned) == ["raw_lapse_rate"] * (assumed == "learned")
        assert learned or likelihood.lapse_rate == assumed


def test_simulation_has_every_lapse_rate_and_mostly_small_errors() -> None:
    frame = simulate(26, "learned", seed=0, subjects=2, trials=7)
    assert frame["lapse"].to_list() == [rate for rate in LAPSES for _ in range(2)]
    assert (frame["error"] < frame["width"]).sum() >= 4


def test_format_rows() -> None:
    columns = {"alternatives": 2, "lapse": 0.05, "assumed": "learned"}
    found = {
        "covered": [True, True, True, False],
        "width": [0.1, 0.2, 0.3, 0.4],
        "error": [0.1, 0.3, 0.1, 0.3],
    }
    constants = [pl.lit(value).alias(name) for name, value in columns.items()]
    frame = pl.DataFrame(found).with_columns(constants)
    row = "| 2 | 0.05 | learned | 0.200 ± 0.050 | 75 | 0.300 |"
    assert row in format_rows(frame)


def test_no_report_without_results(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="lapses has none"):
        STUDY.write_report(tmp_path)
