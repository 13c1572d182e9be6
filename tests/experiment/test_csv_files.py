r"""CSV files: read by the standard library, and back by the package."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from botorch.exceptions import InputDataError

from botorch_binary_context.experiment import PassFail, Trial
from botorch_binary_context.experiment.csv_files import read_csv, write_csv

WHEN = "2026-01-01T00:00:00Z"


def make_trial(**values: Any) -> Trial:
    about: dict[str, Any] = {"outcome": 1, "status": "answered", **values}
    extra = about.pop("extra", {})
    return Trial(
        1, {"size": 0.5}, ({"gain": 2.0},), "ucb-ald", WHEN, extra=extra, **about
    )


def write(*trials: Trial) -> str:
    file = io.StringIO(newline="")
    write_csv(PassFail(), make_trial(), trials, file)
    return file.getvalue()


def test_without_trials_there_is_a_header():
    (header,) = csv.reader(io.StringIO(write()))
    assert {"id", "size", "gain", "outcome"} <= set(header)


def test_a_row_has_what_was_shown_and_answered():
    (row,) = csv.DictReader(io.StringIO(write(make_trial(outcome=0))))
    assert row["outcome"] == "0"
    assert (row["size"], row["gain"]) == ("0.5", "2.0")


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@cell", "\tx"])
def test_a_text_that_looks_like_a_formula_is_guarded_and_comes_back(
    text: str, tmp_path: Path
):
    written = write(make_trial(rater=text))
    (row,) = csv.DictReader(io.StringIO(written))
    assert row["rater"] == f"'{text}"
    path = tmp_path / "trials.csv"
    path.write_text(written, newline="")
    (cells,) = read_csv(make_trial(), path)
    assert cells["rater"] == text


def test_a_note_with_the_name_of_a_column_gets_another_name():
    (row,) = csv.DictReader(io.StringIO(write(make_trial(extra={"size": "small"}))))
    assert row["size"] == "0.5"
    assert "small" in row["extra.size"]


def test_a_variable_with_the_name_of_another_column_comes_back(tmp_path: Path):
    trial = Trial(1, {"outcome": 3.0}, ({"gain": 2.0},), "added", WHEN, outcome=1)
    file = io.StringIO(newline="")
    write_csv(PassFail(), trial, [trial], file)
    (row,) = csv.DictReader(io.StringIO(file.getvalue()))
    assert row["shown.outcome"] == "3.0"
    path = tmp_path / "trials.csv"
    path.write_text(file.getvalue(), newline="")
    (cells,) = read_csv(trial, path)
    assert cells["outcome"] == "3.0"


def test_what_is_no_text_is_refused(tmp_path: Path):
    path = tmp_path / "trials.csv"
    path.write_bytes(b"id,size\n1,\xff\xfe\n")
    with pytest.raises(InputDataError, match="Expected ``path`` to be a CSV file"):
        list(read_csv(make_trial(), path))
