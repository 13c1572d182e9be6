r"""Tests of journals as files: created, copied, protected, read-only."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context.experiment import Experiment, connection, journal_files
from botorch_binary_context.experiment.files import prepare_output
from botorch_binary_context.experiment.journal import Journal
from botorch_binary_context.experiment.journal_files import (
    SIDE_FILES,
    read_version,
    write_new,
)
from botorch_binary_context.experiment.schema import SCHEMA_VERSION
from tests.experiment.simulation import unmodeled


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


class TestOneFile:
    def test_a_copy_has_every_answer(self, path: Path) -> None:
        """After every call, while the journal is open."""
        with Experiment.create(path, unmodeled()) as experiment:
            for i in range(6):
                trial = experiment.ask()
                if i == 4:
                    experiment.withdraw(trial.id)
                else:
                    experiment.tell(trial.id, i % 2)
                if i == 5:
                    experiment.correct(1, "pass")
                copy = Path(shutil.copy(path, path.with_name(f"copy-{i}")))
                assert names(path.parent)[-1] == "journal"  # nothing beside it
                with Experiment.open(copy) as copied:
                    assert copied.trials == experiment.trials
                    assert copied.history == experiment.history

    def test_moved_journal_can_be_opened(self, path: Path) -> None:
        Experiment.create(path, unmodeled()).close()
        moved = path.rename(path.with_name("moved"))
        with Experiment.open(moved) as experiment:
            assert experiment.ask().id == 1

    def test_wherever_the_process_goes(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A forked process opens a relative path where it was."""
        monkeypatch.chdir(path.parent)
        with Experiment.create("journal", unmodeled()) as experiment:
            child = os.fork()
            if child == 0:
                try:
                    os.chdir("/")
                    os._exit(experiment.ask().id)
                finally:
                    os._exit(255)
            assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 1
            assert experiment.ask().id == 2


class TestCrash:
    """A process is killed while it writes the file."""

    @pytest.fixture
    def torn(self, path: Path) -> Path:
        """A file half written, and beside it what SQLite restores it from."""
        with Experiment.create(path.with_name("source"), unmodeled()) as experiment:
            for _ in range(60):
                experiment.tell(experiment.ask().id, 1)
        with closing(sqlite3.connect(experiment.path, isolation_level=None)) as writer:
            writer.execute("PRAGMA cache_size = 2")  # pages are written at once
            writer.execute("BEGIN IMMEDIATE")
            writer.execute("UPDATE trials SET outcome = 0, checksum = 'new'")
            writer.execute("UPDATE events SET at = 'now'")
            for ending in ("", "-journal"):
                shutil.copy(f"{experiment.path}{ending}", f"{path}{ending}")
            writer.execute("ROLLBACK")
        assert path.read_bytes() != experiment.path.read_bytes()
        return path

    @pytest.mark.parametrize("writable", [True, False])
    def test_answers_are_restored_even_where_nothing_can_be_written(
        self, torn: Path, monkeypatch: pytest.MonkeyPatch, writable: bool
    ) -> None:
        """Also where nothing can be written."""
        monkeypatch.setattr(connection, "is_writable", lambda path: writable)
        before = torn.read_bytes()
        with closing(Journal(torn)) as journal:
            assert [trial.outcome for trial in journal.trials()] == [1] * 60
        assert (torn.read_bytes() == before) != writable

    def test_without_its_second_file(self, torn: Path) -> None:
        """Noticed, never taken for the truth."""
        torn.with_name("journal-journal").unlink()
        with pytest.raises(InputDataError, match="is damaged: "):
            Journal(torn)

    def test_full_disk(self, path: Path) -> None:
        """An answer that does not fit is refused, and all others stay."""
        with Experiment.create(path, unmodeled()) as experiment:
            trial = experiment.ask()
            file = experiment._journal._connection
            file.execute("PRAGMA max_page_count = 1")
            with pytest.raises(InputDataError, match="database or disk is full"):
                experiment.tell(trial.id, 1, extra={"notes": 9000 * "long"})
            assert experiment.trials == [trial]
            file.execute("PRAGMA max_page_count = 1000000")
            experiment.tell(trial.id, 1)
        with Experiment.open(path) as experiment:
            assert experiment.trials[0].outcome == 1


class TestCreate:
    def test_for_the_owner_alone(self, path: Path) -> None:
        before = os.umask(0)
        try:
            Experiment.create(path, unmodeled()).close()
        finally:
            os.umask(before)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    @pytest.mark.parametrize("ending", SIDE_FILES)
    def test_what_is_left_of_an_old_journal(self, path: Path, ending: str) -> None:
        """Its answers must not appear in a new one."""
        left = path.with_name(path.name + ending)
        left.write_bytes(b"answers")
        with pytest.raises(InputDataError, match=f"beside which {left.name} is left"):
            Experiment.create(path, unmodeled())
        assert names(path.parent) == [left.name]

    def test_old_drafts_are_not_in_the_way(self, path: Path) -> None:
        draft = path.with_name(f".{path.name}.{os.getpid()}.new")
        draft.write_text("draft")
        with Experiment.create(path, unmodeled()) as experiment:
            trial = experiment.ask()
            experiment.tell(trial.id, "pass")
        with Experiment.open(path) as experiment:
            assert [t.id for t in experiment.trials] == [trial.id]
        assert path.read_bytes()[:5] != b"draft"

    def test_links_are_not_followed(self, path: Path) -> None:
        target = path.with_name("precious")
        for exists in (False, True):
            if exists:
                target.write_text("precious")
            path.unlink(missing_ok=True)
            path.symlink_to(target)
            with pytest.raises(InputDataError, match="to be a new file, but got"):
                Experiment.create(path, unmodeled())
            assert target.exists() == exists
        assert target.read_text() == "precious"

    @pytest.mark.parametrize("links", [True, False])
    def test_the_name_is_taken_meanwhile(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
    ) -> None:
        """Also where the file system has no links."""

        def refuse(*_: object) -> None:
            raise PermissionError(1, "no links here")

        monkeypatch.setattr(journal_files, "_check_free", lambda path: None)
        if not links:
            monkeypatch.setattr(os, "link", refuse)
        write_new(path, b"first")
        with pytest.raises(InputDataError, match="but got .*: File exists"):
            write_new(path, b"second")
        assert path.read_bytes() == b"first"
        assert names(path.parent) == ["journal"]

    def test_failures_leave_nothing(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            write_new(path, b"content")
        assert names(path.parent) == []


class TestReadVersion:
    def test_version_of_a_new_journal_is_the_latest(self, path: Path) -> None:
        Experiment.create(path, unmodeled()).close()
        assert read_version(path) == SCHEMA_VERSION

    @pytest.mark.parametrize("content", [b"", b"id,outcome\n" * 1000, bytes(5000)])
    def test_other_files(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        assert read_version(path) is None

    def test_locks_stay(self, path: Path) -> None:
        """Looking at a file must not free it for other processes."""
        Experiment.create(path, unmodeled()).close()
        with closing(Journal(path)) as journal, journal.transaction():
            assert read_version(path) == SCHEMA_VERSION
            child = os.fork()
            if child == 0:
                try:
                    other = sqlite3.connect(path, timeout=0.0)
                    other.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError:
                    os._exit(0)
                finally:
                    os._exit(1)
            assert os.waitpid(child, 0)[1] == 0


class TestOutput:
    def test_journals_are_never_overwritten(self, path: Path) -> None:
        Experiment.create(path, unmodeled()).close()
        before = path.read_bytes()
        path.with_name("link").symlink_to(path)
        os.link(path, path.with_name("other name"))
        for name in ("journal", "link", "other name", "journal-journal"):
            with pytest.raises(InputDataError, match="the journal of an experiment"):
                prepare_output(path.with_name(name))
        assert path.read_bytes() == before


class TestReadOnly:
    def test_can_be_read(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with Experiment.create(path, unmodeled()) as experiment:
            experiment.tell(experiment.ask().id, 1)
            expected = experiment.trials
        before = path.read_bytes()
        monkeypatch.setattr(connection, "is_writable", lambda path: False)
        with Experiment.open(path) as experiment:
            assert experiment.read_only
            assert experiment.trials == expected
            assert experiment.recommend().num_answers == 1
            for change in (
                experiment.ask,
                experiment.undo,
                lambda: experiment.tell(1, 1),
                lambda: experiment.describe(notes="no"),
            ):
                with pytest.raises(UnsupportedError, match="folder is read-only: it"):
                    change()
        assert path.read_bytes() == before
        assert names(path.parent) == ["journal"]

    @pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
    def test_as_another_user(self) -> None:
        """The rights of the file or of its folder are not ours."""
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "journal"
            with Experiment.create(path, unmodeled()) as experiment:
                experiment.ask()
            for mode, folder_mode, read_only in (
                (0o666, 0o777, False),
                (0o444, 0o777, True),
                (0o666, 0o555, True),
            ):
                path.chmod(mode)
                path.parent.chmod(folder_mode)
                assert self.open_as_nobody(path) == (read_only, 1)

    def open_as_nobody(self, path: Path) -> tuple[bool, int]:
        """Whether a journal is read-only, and how many trials can be read."""
        child = os.fork()
        if child == 0:
            try:
                os.setegid(65534)
                os.seteuid(65534)
                with closing(Journal(path)) as journal:
                    os._exit(2 * len(journal.trials()) + journal.read_only)
            finally:
                os._exit(255)
        count, read_only = divmod(os.WEXITSTATUS(os.waitpid(child, 0)[1]), 2)
        return bool(read_only), count
