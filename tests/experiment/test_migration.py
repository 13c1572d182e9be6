r"""Tests of journals that an older release has written."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context.experiment import Experiment, connection, opening
from botorch_binary_context.experiment.journal import Journal
from botorch_binary_context.experiment.schema import SCHEMA_VERSION

DATA = Path(__file__).parents[1] / "data"
# Nine trials of the first release, of which one is pending and one was withdrawn.
DUMP = (DATA / "journal_v1.sql").read_text("utf-8")
# What that release asked next.
NEXT = {"noise": 0.0, "gain": 10.0, "taps": 9, "window": "hann"}

Make = Callable[[Path], Path]


def closed(path: Path) -> Path:
    """A journal that was closed: the log is gone, but the file has its mode."""
    with closing(sqlite3.connect(path)) as old:
        old.executescript(DUMP)
        old.execute("PRAGMA journal_mode = WAL")
    return path


def killed(path: Path) -> Path:
    """A journal whose process was killed: all answers are in the log."""
    with closing(sqlite3.connect(path.with_name("source"))) as old:
        first, second = DUMP.split('INSERT INTO "trials"', 1)
        old.executescript(f"{first} COMMIT; PRAGMA journal_mode = WAL;")
        old.executescript(f'BEGIN; INSERT INTO "trials" {second}')
        for ending in ("", "-wal"):
            shutil.copy(f"{path.with_name('source')}{ending}", f"{path}{ending}")
    with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as file:
        assert file.execute("SELECT COUNT(*) FROM trials").fetchone() == (0,)
    return path


def old_rows() -> dict[str, list[Any]]:
    """What the dump holds, read with SQLite alone."""
    with closing(sqlite3.connect(":memory:")) as memory:
        memory.executescript(DUMP)
        return {
            "settings": memory.execute("SELECT content FROM settings").fetchall(),
            "fits": memory.execute("SELECT * FROM fits").fetchall(),
            "trials": memory.execute("SELECT * FROM trials ORDER BY id").fetchall(),
        }


def check_whole(journal: Journal) -> None:
    rows = old_rows()
    assert journal.settings() == json.loads(rows["settings"][0][0])
    ((num_answers, hyperparameters, _),) = rows["fits"]
    assert journal.fit(num_answers) == json.loads(hyperparameters)
    assert journal.metadata() == {}
    assert [event.kind for event in journal.history()] == ["migrated"]
    found = [
        (
            t.id,
            t.status,
            t.outcome,
            t.position,
            {"context": t.context, "sides": list(t.sides)},
            t.chosen_by,
            t.asked_at,
            t.closed_at,
        )
        for t in journal.trials()
    ]
    assert found == [(*row[:4], json.loads(row[4]), *row[5:]) for row in rows["trials"]]
    assert all(t.used and not t.extra for t in journal.trials())


@pytest.mark.parametrize("make", [closed, killed])
def test_everything_is_kept(tmp_path: Path, make: Make) -> None:
    path = make(tmp_path / "journal")
    for _ in range(2):  # brought forward, and opened again
        with closing(Journal(path)) as journal:
            check_whole(journal)
        assert not list(tmp_path.glob("journal-*"))  # one file is the whole truth
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        assert file.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_goes_on_as_before(tmp_path: Path) -> None:
    """The same next question, and answers of the old release can be taken back."""
    with Experiment.open(killed(tmp_path / "journal")) as experiment:
        assert experiment.ask().values == NEXT
        assert experiment.undo().id == 9
        assert [t.id for t in experiment.trials if t.status == "pending"] == [5, 9, 10]
        experiment.tell(9, "pass")
        experiment.correct(8, "pass")
        assert [t.outcome for t in experiment.trials[7:9]] == [1, 1]


@pytest.mark.parametrize("make", [closed, killed])
def test_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Make) -> None:
    """It is read from a copy, and stays as it is."""
    path = make(tmp_path / "journal")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    monkeypatch.setattr(connection, "is_writable", lambda path: False)
    with closing(Journal(path)) as journal:
        check_whole(journal)
        with (
            pytest.raises(UnsupportedError, match="writable, but it or its folder is"),
            journal.transaction(),
        ):
            pass
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_waits_for_the_old_release(tmp_path: Path) -> None:
    """While another program has the log open, nothing is changed."""
    path = closed(tmp_path / "journal")
    with closing(sqlite3.connect(path)) as other:
        other.execute("SELECT * FROM trials").fetchall()
        with pytest.raises(UnsupportedError, match="to be free, but another process"):
            Journal(path, timeout=0.05)
        assert other.execute("PRAGMA user_version").fetchone() == (1,)
    Journal(path).close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE trials SET shown = '{' WHERE id = 4", "is damaged: Expecting"),
        ("UPDATE fits SET hyperparameters = '[1,'", "is damaged: Expecting"),
        ("DELETE FROM settings", "is damaged: "),
        ("DROP TABLE fits", "to be usable, but got: no such table: fits"),
    ],
)
def test_damage_is_found_and_nothing_is_changed(
    tmp_path: Path, change: str, message: str
) -> None:
    path = closed(tmp_path / "journal")
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute(change)
        before = list(file.iterdump())
    with pytest.raises(InputDataError, match=message):
        Journal(path)
    with closing(sqlite3.connect(path)) as file:
        assert list(file.iterdump()) == before
        assert file.execute("PRAGMA user_version").fetchone() == (1,)


def test_interrupted_migration_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The migration is one transaction."""
    path = killed(tmp_path / "journal")

    def stop(*_: Any) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(opening, "log_migration", stop)
        with pytest.raises(KeyboardInterrupt):
            Journal(path)
    with closing(Journal(path)) as journal:
        check_whole(journal)


# Twelve trials of version 2: answered, not feasible, excluded, added and withdrawn.
SECOND_DUMP = (DATA / "journal_v2.sql").read_text("utf-8")
# What that version asked next.
SECOND_NEXT = {"size": 1.0, "gain": 0.5}


def second(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as old:
        old.executescript(SECOND_DUMP)
    return path


def test_version_2_is_kept(tmp_path: Path) -> None:
    path = second(tmp_path / "journal")
    tables = ("settings", "metadata", "fits", "events", "environments")
    query = "SELECT * FROM {} ORDER BY 1"
    with closing(sqlite3.connect(path)) as old:
        before = {name: old.execute(query.format(name)).fetchall() for name in tables}
        old.row_factory = sqlite3.Row
        rows = [dict(row) for row in old.execute("SELECT * FROM trials ORDER BY id")]
    Journal(path).close()
    with closing(sqlite3.connect(path)) as new:
        assert new.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        after = {name: new.execute(query.format(name)).fetchall() for name in tables}
        new.row_factory = sqlite3.Row
        found = [dict(row) for row in new.execute("SELECT * FROM trials ORDER BY id")]
    assert [event[2] for event in after["events"][len(before["events"]) :]] == [
        "migrated"
    ]
    for name in tables:
        assert after[name][: len(before[name])] == before[name]
    assert {row.pop("infeasible") for row in found} == {"[]"}
    for row in (*rows, *found):
        del row["checksum"]
    assert found == rows


def test_version_2_goes_on_as_before(tmp_path: Path) -> None:
    with Experiment.open(second(tmp_path / "journal")) as experiment:
        assert experiment.metadata == {"subject": "P07"}
        trial = experiment.ask()
        assert trial.values == SECOND_NEXT
        experiment.tell(trial.id, "pass", infeasible=True)
        assert experiment.undo(4).values["gain"] != 0.33  # which was shown instead


def test_damage_of_version_2_is_found(tmp_path: Path) -> None:
    path = second(tmp_path / "journal")
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("UPDATE trials SET outcome = 0 WHERE id = 3")
    with pytest.raises(InputDataError, match="does not fit its checksum"):
        Journal(path)
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (2,)
