r"""
The journal of an experiment: an SQLite file that no crash can take an answer from.

Every change is one transaction, and is on disk when it ends (a write-ahead log, with
full synchronisation). A process that is killed leaves no lock behind. Several processes
may use one journal: a change waits until that of another process has ended.

The tables can be read with any SQLite tool: ``settings`` (one row of JSON), ``trials``
(what was shown, and the outcome) and ``fits`` (the hyperparameters learned from the
first so many answers).
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botorch_binary_context.errors import InputDataError, UnsupportedError
from botorch_binary_context.experiment.trial import Trial

if TYPE_CHECKING:
    from botorch_binary_context.experiment.space import Values

# How SQLite files tell whose they are.
APPLICATION_ID = int.from_bytes(b"bbcx", "big")
SCHEMA_VERSION = 1

SCHEMA = """
CREATE TABLE settings (content TEXT NOT NULL);
CREATE TABLE trials (
    id INTEGER PRIMARY KEY,
    status TEXT NOT NULL DEFAULT 'pending'
        CHECK (status IN ('pending', 'answered', 'withdrawn')),
    outcome INTEGER CHECK (outcome IN (0, 1)),
    position INTEGER UNIQUE,  -- answers count from 1 in the order they came
    shown TEXT NOT NULL,
    chosen_by TEXT NOT NULL,
    asked_at TEXT NOT NULL,
    closed_at TEXT,
    CHECK ((status = 'answered') = (outcome IS NOT NULL)),
    CHECK ((status = 'answered') = (position IS NOT NULL)),
    CHECK ((status = 'pending') = (closed_at IS NULL))
);
CREATE TABLE fits (
    num_answers INTEGER PRIMARY KEY,
    hyperparameters TEXT NOT NULL,
    fitted_at TEXT NOT NULL
);
"""

_COLUMNS = "id, shown, chosen_by, asked_at, status, outcome, closed_at"


class Journal:
    r"""The file that an experiment lives in."""

    def __init__(self, path: str | Path, timeout: float = 30.0) -> None:
        r"""
        Args:
            path: The file, which must exist; :meth:`create` makes one.
            timeout: How many seconds to wait while another process makes a change.
        """
        self.path = Path(path)
        self.timeout = timeout
        if not self.path.is_file():
            raise InputDataError(
                f"Expected ``path`` to be the file of a journal, but got {self.path}, "
                f"which is {'no file' if self.path.exists() else 'not there'}."
            )
        with self._explain():
            self._check_file()
            self._connection = _connect(self.path, "rw", timeout)
            # The log is flushed at the end of every transaction; on macOS only a
            # "full" flush reaches the disk.
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA fullfsync = ON")

    @classmethod
    def create(cls, path: str | Path, settings: Mapping[str, Any]) -> Journal:
        r"""Make a new journal; a file that is there is never overwritten.

        Args:
            path: Where to make it.
            settings: What the experiment is, as plain data.

        Returns:
            The journal.
        """
        path = Path(path)
        try:  # reserves the name
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except OSError as error:
            raise InputDataError(
                f"Expected ``path`` to be a new file, but got {path}: {error.strerror}."
            ) from error
        draft = path.with_name(f".{path.name}.{os.getpid()}.new")
        try:
            _write_draft(draft, settings)
            os.replace(draft, path)  # whole or not at all
        except BaseException:
            draft.unlink(missing_ok=True)
            path.unlink()
            raise
        _sync_directory(path.resolve().parent)
        return cls(path)

    def _check_file(self) -> None:
        """Look, without the right to write, whether this is a journal and sound."""
        with closing(_connect(self.path, "ro", self.timeout)) as connection:
            try:
                owner, version = (
                    connection.execute(f"PRAGMA {name}").fetchone()[0]
                    for name in ("application_id", "user_version")
                )
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                owner, version = None, None
            if owner != APPLICATION_ID:
                raise InputDataError(
                    f"Expected ``path`` to be the journal of an experiment, but got "
                    f"{self.path}, which is another kind of file or empty."
                )
            if version != SCHEMA_VERSION:
                raise InputDataError(
                    f"Expected ``path`` to be a journal of version {SCHEMA_VERSION}, "
                    f"but got {self.path} of version {version}: a newer "
                    "botorch_binary_context is needed to read it."
                )
            self._check_sound(connection)

    def _check_sound(self, connection: sqlite3.Connection) -> None:
        try:
            verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            verdict = str(error)
        if verdict != "ok":
            raise InputDataError(
                f"Expected ``path`` to be a whole journal, but got {self.path}, which "
                f"is damaged: {' '.join(verdict.split())}."
            )

    @contextmanager
    def _explain(self) -> Iterator[None]:
        """Say in plain words what SQLite complains about."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "busy" in str(error):
                raise UnsupportedError(
                    f"Expected the journal {self.path} to be free, but another process "
                    f"has been using it for {self.timeout:g} s."
                ) from error
            raise InputDataError(
                f"Expected the journal {self.path} to be usable, but got: {error}."
            ) from error
        except sqlite3.Error as error:
            raise InputDataError(
                f"Expected the journal {self.path} to be open and sound, but got: "
                f"{error}"
            ) from error

    def close(self) -> None:
        r"""Close the file. What was written stays."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        r"""All or nothing: what is done within is on disk at the end, or undone.

        Other processes wait meanwhile if they want to make a change.
        """
        self._execute("BEGIN IMMEDIATE")
        try:
            yield
            self._execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._execute("ROLLBACK")
            raise

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        with self._explain():
            return self._connection.execute(statement, values)

    def _fetch(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._explain():
            return self._connection.execute(statement, values).fetchall()

    def settings(self) -> dict[str, Any]:
        r"""What the experiment is.

        Returns:
            The settings that the journal was created with.
        """
        return json.loads(self._fetch("SELECT content FROM settings")[0][0])

    def trials(self) -> list[Trial]:
        r"""All trials, in the order they were asked.

        Returns:
            The trials.
        """
        return [
            _read_trial(row)
            for row in self._fetch(f"SELECT {_COLUMNS} FROM trials ORDER BY id")
        ]

    def answered(self) -> list[Trial]:
        r"""The answered trials, in the order of the answers.

        Returns:
            The trials.
        """
        return [
            _read_trial(row)
            for row in self._fetch(
                f"SELECT {_COLUMNS} FROM trials WHERE status = 'answered' "
                "ORDER BY position"
            )
        ]

    def add_trial(
        self, context: Values, sides: Sequence[Values], chosen_by: str
    ) -> Trial:
        r"""Write a new question down; to be called within a transaction.

        Args:
            context: The values of the contexts.
            sides: The parameters.
            chosen_by: How it was chosen.

        Returns:
            The trial, with its id.
        """
        shown = json.dumps(
            {"context": context, "sides": list(sides)}, ensure_ascii=False
        )
        now = _now()
        cursor = self._execute(
            "INSERT INTO trials (id, shown, chosen_by, asked_at) "
            "VALUES ((SELECT COALESCE(MAX(id), 0) + 1 FROM trials), ?, ?, ?)",
            (shown, chosen_by, now),
        )
        assert cursor.lastrowid is not None
        return Trial(cursor.lastrowid, context, tuple(sides), chosen_by, now)

    def answer(self, trial_id: int, outcome: int) -> None:
        r"""Write an answer down; to be called within a transaction.

        Args:
            trial_id: The id of a pending trial.
            outcome: 0 or 1.
        """
        self._close_trial(
            trial_id,
            "status = 'answered', outcome = ?, "
            "position = (SELECT COALESCE(MAX(position), 0) + 1 FROM trials)",
            (outcome,),
        )

    def withdraw(self, trial_id: int) -> None:
        r"""Give a question up; to be called within a transaction.

        Args:
            trial_id: The id of a pending trial.
        """
        self._close_trial(trial_id, "status = 'withdrawn'", ())

    def _close_trial(self, trial_id: int, change: str, values: tuple[Any, ...]) -> None:
        last = self._fetch("SELECT COALESCE(MAX(id), 0) FROM trials")[0][0]
        if not 1 <= trial_id <= last:
            there_are = (
                f"from 1 to {last}" if last else "of a trial, and none was asked"
            )
            raise InputDataError(
                f"Expected ``trial_id`` to be {there_are}, but got {trial_id}."
            )
        cursor = self._execute(
            f"UPDATE trials SET {change}, closed_at = ? "
            "WHERE id = ? AND status = 'pending'",
            (*values, _now(), trial_id),
        )
        if cursor.rowcount != 1:
            status, closed_at = self._fetch(
                "SELECT status, closed_at FROM trials WHERE id = ?", (trial_id,)
            )[0]
            raise InputDataError(
                f"Expected ``trial_id`` to be that of a pending trial, but got "
                f"{trial_id}, which was {status} at {closed_at}."
            )

    def fit(self, num_answers: int) -> dict[str, Any] | None:
        r"""The hyperparameters learned from the first so many answers.

        Args:
            num_answers: How many.

        Returns:
            The hyperparameters by their names, or None if they were not learned yet.
        """
        rows = self._fetch(
            "SELECT hyperparameters FROM fits WHERE num_answers = ?", (num_answers,)
        )
        return json.loads(rows[0][0]) if rows else None

    def last_fit(self) -> dict[str, Any] | None:
        r"""The hyperparameters learned last.

        Returns:
            The hyperparameters by their names, or None if none were learned yet.
        """
        rows = self._fetch(
            "SELECT hyperparameters FROM fits ORDER BY num_answers DESC LIMIT 1"
        )
        return json.loads(rows[0][0]) if rows else None

    def add_fit(self, num_answers: int, hyperparameters: Mapping[str, Any]) -> None:
        r"""Write hyperparameters down; to be called within a transaction.

        Args:
            num_answers: The number of answers they were learned from.
            hyperparameters: The hyperparameters by their names.
        """
        self._execute(
            "INSERT INTO fits VALUES (?, ?, ?)",
            (num_answers, json.dumps(dict(hyperparameters)), _now()),
        )


def _connect(path: Path, mode: str, timeout: float) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.resolve().as_uri()}?mode={mode}",
        uri=True,
        timeout=timeout,
        isolation_level=None,  # transactions begin and end where this module says so
    )


def _write_draft(path: Path, settings: Mapping[str, Any]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("PRAGMA synchronous = FULL")
        connection.executescript(SCHEMA)
        content = json.dumps(settings, ensure_ascii=False)
        connection.execute("INSERT INTO settings VALUES (?)", (content,))
        connection.execute("PRAGMA journal_mode = WAL")


def _sync_directory(directory: Path) -> None:
    """Flush the name of a new file, where the system can do that."""
    if os.name == "posix":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _read_trial(row: Sequence[Any]) -> Trial:
    trial_id, shown, chosen_by, asked_at, status, outcome, closed_at = row
    content = json.loads(shown)
    return Trial(
        trial_id,
        content["context"],
        tuple(content["sides"]),
        chosen_by,
        asked_at,
        status,
        outcome,
        closed_at,
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
