r"""Tests of the journal: what is on disk, and what is not a journal."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context.experiment.journal import Journal
from botorch_binary_context.experiment.schema import APPLICATION_ID, SCHEMA_VERSION

SETTINGS = {"rule": "ucb-ald", "größe": [1, 2.5]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a journal#1.db"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    with closing(Journal.create(path, SETTINGS)) as journal:
        yield journal


def add(journal: Journal, gain: float = 1.0) -> int:
    with journal.transaction():
        return journal.add_trial({"noise": 2.0}, [{"gain": gain}], "quasi-random").id


def filled(path: Path, num_trials: int = 200) -> Path:
    """A closed journal of some pages."""
    with closing(Journal.create(path, SETTINGS)) as journal, journal.transaction():
        for i in range(num_trials):
            journal.add_trial({"noise": 2.0}, [{"gain": float(i)}], "quasi-random")
    return path


class TestTrials:
    def test_journal_keeps_its_settings_and_path(
        self, journal: Journal, path: Path
    ) -> None:
        assert journal.settings() == SETTINGS
        assert journal.path == path

    def test_life_of_trials(self, journal: Journal) -> None:
        assert [add(journal, gain) for gain in (1.0, 2.0, 3.0)] == [1, 2, 3]
        with journal.transaction():
            journal.answer(3, 1)
        with journal.transaction():
            journal.answer(1, 0)
            journal.withdraw(2)
        trials = journal.trials()
        assert [t.status for t in trials] == ["answered", "withdrawn", "answered"]
        assert [t.outcome for t in trials] == [0, None, 1]
        assert [t.sides for t in trials] == [({"gain": g},) for g in (1.0, 2.0, 3.0)]
        assert all(t.context == {"noise": 2.0} for t in trials)
        assert all(t.closed_at is not None for t in trials)
        assert [t.id for t in journal.answered()] == [3, 1]  # as they came

    def test_human_readable(self, journal: Journal, path: Path) -> None:
        """With any SQLite tool, while the journal is open."""
        add(journal, 2.5)
        with closing(sqlite3.connect(path)) as other:
            rows = other.execute("SELECT id, status, shown FROM trials").fetchall()
            content = other.execute("SELECT content FROM settings").fetchone()[0]
        shown = '{"context": {"noise": 2.0}, "sides": [{"gain": 2.5}]}'
        assert rows == [(1, "pending", shown)]
        assert "größe" in content

    @pytest.mark.parametrize("trial_id", [0, -1, 3, 2**70])
    def test_unknown_id(self, journal: Journal, trial_id: int) -> None:
        with pytest.raises(InputDataError, match="of a trial, and none was asked"):
            journal.withdraw(1)
        add(journal)
        add(journal)
        for change in (
            lambda: journal.answer(trial_id, 1),
            lambda: journal.withdraw(trial_id),
        ):
            with pytest.raises(InputDataError, match="to be from 1 to 2, but got"):
                change()

    def test_closed_trials_stay_closed(self, journal: Journal) -> None:
        add(journal)
        add(journal)
        with journal.transaction():
            journal.answer(1, 1)
            journal.withdraw(2)
        before = journal.trials()
        for trial_id, status in ((1, "answered"), (2, "withdrawn")):
            message = f"a pending trial, but got {trial_id}, which was {status} at "
            with pytest.raises(InputDataError, match=message):
                journal.answer(trial_id, 0)
            with pytest.raises(InputDataError, match=message):
                journal.withdraw(trial_id)
        assert journal.trials() == before

    def test_the_file_itself_refuses_nonsense(self, journal: Journal) -> None:
        add(journal)
        for change in (
            "outcome = 1",
            "status = 'answered'",
            "status = 'lost'",
            "status = 'answered', outcome = -1, position = 1, closed_at = ''",
            "used = 2",
        ):
            with (
                pytest.raises(InputDataError, match="CHECK constraint failed"),
                journal.transaction(),
            ):
                journal._connection.execute(f"UPDATE trials SET {change}")

    def test_fits_are_kept_to_the_last_bit(self, journal: Journal) -> None:
        assert journal.fit(5) is None
        assert journal.last_fit() is None
        values = {"lengthscale": [0.1 + 0.2, 1 / 3], "outputscale": [1e-300]}
        with journal.transaction():
            journal.add_fit(5, values)
            journal.add_fit(12, {"outputscale": [2.0]})
        assert journal.fit(5) == values  # to the last bit
        assert journal.last_fit() == {"outputscale": [2.0]}


class TestTransactions:
    def test_all_or_nothing(self, journal: Journal) -> None:
        add(journal)

        def interrupted() -> None:
            with journal.transaction():
                journal.answer(1, 1)
                journal.add_trial({}, [{}], "rule")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert [t.status for t in journal.trials()] == ["pending"]
        add(journal)  # the next one is not disturbed

    def test_flushed_to_disk(self, journal: Journal) -> None:
        for setting, value in (("journal_mode", "delete"), ("synchronous", 3)):  # EXTRA
            found = journal._connection.execute(f"PRAGMA {setting}").fetchall()
            assert found == [(value,)]

    def test_others_wait(self, journal: Journal, path: Path) -> None:
        with closing(Journal(path, timeout=0.05)) as second:
            with journal.transaction():
                journal.add_trial({}, [{}], "rule")
                assert second.trials() == []  # reading does not wait
                message = "to be free, but another process has been using it for 0.05 s"
                with pytest.raises(UnsupportedError, match=message):
                    add(second)
            assert add(second) == 2
        assert len(journal.trials()) == 2

    @pytest.mark.parametrize("timeout", [-1, "1", None, True, math.nan, math.inf])
    def test_wrong_timeout(self, path: Path, timeout: Any) -> None:
        filled(path, 1)
        with pytest.raises(InputDataError, match="``timeout`` to be a number of secon"):
            Journal(path, timeout)

    def test_refused_at_the_very_end(self, path: Path) -> None:
        """Someone reads for too long: what was done within has not happened."""
        filled(path, 2)
        with (
            closing(Journal(path, timeout=0.05)) as journal,
            closing(sqlite3.connect(path, isolation_level=None)) as reader,
        ):
            before = journal.trials()

            def change() -> None:
                with journal.transaction():
                    journal.answer(1, 1)
                    journal.add_trial({}, [{}], "rule")
                    assert len(journal.trials()) == 3

            reader.execute("BEGIN")
            reader.execute("SELECT * FROM trials").fetchall()
            with pytest.raises(UnsupportedError, match="to be free, but another proce"):
                change()
            assert journal.trials() == before
            reader.execute("COMMIT")
            change()
            assert [t.outcome for t in journal.trials()] == [1, None, None]

    def test_closed_journal_refuses_to_be_read(self, journal: Journal) -> None:
        journal.close()
        with pytest.raises(InputDataError, match="to be open and sound, but got: Cann"):
            journal.trials()


class TestCreate:
    def test_only_one_file_is_left(self, path: Path) -> None:
        filled(path, 3)
        assert list(path.parent.iterdir()) == [path]

    def test_never_overwrites(self, path: Path) -> None:
        path.write_text("precious")
        with pytest.raises(InputDataError, match="to be a new file, but got .* exists"):
            Journal.create(path, SETTINGS)
        assert path.read_text() == "precious"
        with pytest.raises(InputDataError, match="to be a new file, but got"):
            Journal.create(path.parent / "no folder" / "journal", SETTINGS)

    def test_failure_leaves_nothing(self, path: Path) -> None:
        with pytest.raises(TypeError):
            Journal.create(path, {"not JSON": object()})
        assert list(path.parent.iterdir()) == []


class TestOtherFiles:
    """A clear error, and not a byte is changed."""

    def refuse(self, path: Path, message: str) -> None:
        before = path.read_bytes()
        with pytest.raises(InputDataError, match=message):
            Journal(path)
        assert path.read_bytes() == before
        # Nothing was left beside it that a later opening could take for a log.
        others = [p for p in path.parent.iterdir() if p != path]
        assert all(p.stat().st_size == 0 or p.suffix.endswith("-shm") for p in others)

    def test_missing_file_and_folder_are_refused(self, path: Path) -> None:
        with pytest.raises(InputDataError, match="which is not there"):
            Journal(path)
        assert not path.exists()
        with pytest.raises(InputDataError, match="which is no file"):
            Journal(path.parent)

    @pytest.mark.parametrize(
        "content", [b"", b"id,outcome\n1,pass\n", b"SQLite format 3\0", bytes(5000)]
    )
    def test_another_kind_of_file_is_refused_and_unchanged(
        self, path: Path, content: bytes
    ) -> None:
        path.write_bytes(content)
        self.refuse(path, "the journal of an experiment, but got .* another kind of")

    def test_foreign_database(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA journal_mode = WAL")
            other.execute("CREATE TABLE trials (id)")
        self.refuse(path, "the journal of an experiment, but got .* another kind of")

    def test_newer_version_is_refused_and_unchanged(self, path: Path) -> None:
        filled(path, 3)
        with closing(sqlite3.connect(path)) as other:
            other.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        message = (
            f"version {SCHEMA_VERSION}, but got .* of version {SCHEMA_VERSION + 1}"
        )
        self.refuse(path, message)

    @pytest.mark.parametrize("fraction", [0.01, 0.2, 0.4, 0.6, 0.8, 0.99])
    def test_truncated_file_is_refused_and_unchanged(
        self, path: Path, fraction: float
    ) -> None:
        content = filled(path).read_bytes()
        path.write_bytes(content[: int(fraction * len(content))])
        self.refuse(path, "but got .*(is damaged: |another kind of file)")

    def test_scrambled_page_is_refused_and_unchanged(self, path: Path) -> None:
        content = bytearray(filled(path).read_bytes())
        content[4096 * 2 : 4096 * 3] = bytes(range(256)) * 16
        path.write_bytes(content)
        self.refuse(path, "which is damaged: ")

    def test_header_says_whose_file_it_is_and_its_version(self, path: Path) -> None:
        header = filled(path, 1).read_bytes()[:100]
        assert int.from_bytes(header[68:72], "big") == APPLICATION_ID
        assert int.from_bytes(header[60:64], "big") == SCHEMA_VERSION
