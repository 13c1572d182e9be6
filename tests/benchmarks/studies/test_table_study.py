from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from botorch.exceptions import InputDataError

from benchmarks.studies.table_study import TableStudy, run_missing, write_tables


def table(value: int) -> pl.DataFrame:
    return pl.DataFrame({"value": [value]})


def describe(frame: pl.DataFrame) -> list[str]:
    return ["# Head", f"sum {frame['value'].sum()}"]


def test_only_missing_tables_are_computed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "study"
    run_missing(folder, [("one", partial(table, 1))])
    capsys.readouterr()
    run_missing(folder, [("one", partial(table, 5)), ("two", partial(table, 2))])
    assert capsys.readouterr().out == "study: two is finished\n"
    assert write_tables(folder, describe).read_text() == "# Head\n\nsum 3\n"


def test_conclusions_stand_behind_the_first_section(tmp_path: Path) -> None:
    run_missing(tmp_path, [("one", partial(table, 1))])
    (tmp_path / "conclusions.md").write_text("All is well.\n")
    text = write_tables(tmp_path, describe).read_text()
    assert text == "# Head\n\nAll is well.\n\nsum 1\n"


def test_a_report_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="results of the study 'empty'"):
        write_tables(tmp_path / "empty", describe)


def test_a_command_runs_the_jobs_and_prints_the_path_of_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    study = TableStudy(
        name="study",
        shows="what it shows",
        seeds=2,
        jobs=lambda seeds: [("one", partial(table, seeds))],
        describe=describe,
    )
    study.add_command(parser.add_subparsers())
    for arguments, total in (["--seeds", "7"], 7), ([], 2):
        output = tmp_path / str(total)
        given = parser.parse_args(["study", "--output", str(output), *arguments])
        given.run(given)
        report = output / "study" / "report.md"
        assert capsys.readouterr().out.endswith(f"{report}\n")
        assert f"sum {total}" in report.read_text()
