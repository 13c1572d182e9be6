from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from botorch.exceptions import InputDataError

from benchmarks.__main__ import main
from benchmarks.studies import store
from benchmarks.studies.job_tables import find_table, pack_tables, read_tables


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "study"
    for value, name in enumerate(("b", "a")):
        store.save(make_table(value), folder / f"{name}.parquet")
    return folder


def make_table(value: int) -> pl.DataFrame:
    return pl.DataFrame({"value": [value, value + 10]})


def test_packed_tables_are_found_as_before(folder: Path) -> None:
    before = read_tables(folder)
    assert before["value"].to_list() == [1, 11, 0, 10]  # by the names of the files
    path = pack_tables(folder)
    assert list(folder.iterdir()) == [path]
    assert read_tables(folder).equals(before)
    for value, name in enumerate(("b", "a")):
        found = find_table(folder / f"{name}.parquet")
        assert found is not None
        assert found.equals(make_table(value))
    assert find_table(folder / "c.parquet") is None


def test_a_new_table_takes_precedence_and_is_packed_too(folder: Path) -> None:
    pack_tables(folder)
    for value, name in ((7, "b"), (8, "c")):
        store.save(make_table(value), folder / f"{name}.parquet")
    expected = [1, 11, 7, 17, 8, 18]
    assert read_tables(folder)["value"].to_list() == expected
    pack_tables(folder)
    assert read_tables(folder)["value"].to_list() == expected


def test_the_command_packs_a_study(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["pack", "study", "--output", str(folder.parent)])
    assert capsys.readouterr().out == f"{folder / 'results.parquet'}\n"


def test_a_study_without_results_is_refused(tmp_path: Path) -> None:
    for function in (pack_tables, read_tables):
        with pytest.raises(InputDataError, match="results of the study 'none'"):
            function(tmp_path / "none")
