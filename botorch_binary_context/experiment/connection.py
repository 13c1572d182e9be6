r"""
The SQLite file behind a journal: from any thread, after a fork, read-only if need be.

Changes use SQLite's rollback journal with the strictest synchronization. When a
transaction has ended, the one file holds everything, and it has reached the disk. That
takes four flushes: 24 ms on a disk that needs 5 ms for each, where the write-ahead log
of version 1, a second file, took 4 ms. While
a transaction ends, and after a crash in that moment, a second file
``NAME-journal`` lies beside it, from which SQLite restores the state before; it is to
be moved or copied together with the first one.

SQLite relies on the locks of the file system. On network drives whose locks do not work
(some NFS and SMB set-ups), a journal must be used by one process at a time, and how
safe an answer is depends on the server.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from botorch_binary_context.errors import InputDataError, UnsupportedError
from botorch_binary_context.experiment.checksums import DamageError
from botorch_binary_context.experiment.events import log_migration
from botorch_binary_context.experiment.journal_files import (
    is_writable,
    read_version,
    side_files,
)
from botorch_binary_context.experiment.schema import (
    KNOWN_VERSIONS,
    SCHEMA_VERSION,
    has_tables_of_today,
    migrate,
)

# How many seconds to wait before looking again whether the file is free.
PAUSE = (0.0002, 0.001)
_CHANCE = random.SystemRandom()


class Connection:
    r"""A connection to the file of a journal."""

    def __init__(self, path: Path, timeout: float) -> None:
        r"""
        Args:
            path: The file.
            timeout: How many seconds to wait while another process makes a change.
        """
        self.path = path
        self.timeout = timeout
        self.lock = threading.RLock()
        self._closed = False
        self._check_kind()
        self.read_only = not is_writable(path)
        with self._explain():
            self._connection: sqlite3.Connection | None = self._open()
        _OPEN.add(self)

    def _check_kind(self) -> None:
        """Look without the right to write whether this is a journal."""
        if not self.path.is_file():
            raise InputDataError(
                f"Expected ``path`` to be the file of a journal, but got {self.path}, "
                f"which is {'no file' if self.path.exists() else 'not there'}."
            )
        version = read_version(self.path)
        if version is None:
            raise InputDataError(
                f"Expected ``path`` to be the journal of an experiment, but got "
                f"{self.path}, which is another kind of file or empty."
            )
        if version not in KNOWN_VERSIONS:
            raise InputDataError(
                f"Expected ``path`` to be a journal of version {SCHEMA_VERSION}, "
                f"but got {self.path} of version {version}: a newer "
                "botorch_binary_context is needed to read it."
            )

    def _open(self) -> sqlite3.Connection:
        connection = self._connect()
        try:
            _check_sound(connection)
            if not self.read_only:
                _use_rollback_journal(connection)
            _bring_up_to_date(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self) -> sqlite3.Connection:
        if not self.read_only:
            return _connect(self.path, "rw", self.timeout)
        if read_version(self.path) == SCHEMA_VERSION and not side_files(self.path):
            return _connect(self.path, "ro", self.timeout)
        return _copy_to_memory(self.path)

    @contextmanager
    def _explain(self) -> Iterator[None]:
        """Say in plain words what SQLite complains about."""
        try:
            yield
        except DamageError as error:
            raise InputDataError(
                f"Expected ``path`` to be a whole journal, but got {self.path}, which "
                f"is damaged: {error}."
            ) from error
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

    def execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        r"""Run a statement; to be called within a transaction.

        Args:
            statement: The statement.
            values: Its values.

        Returns:
            What it found.
        """
        return self._live().execute(statement, values)

    def _live(self) -> sqlite3.Connection:
        if self._connection is None:
            if self._closed:
                raise sqlite3.ProgrammingError("Cannot operate on a closed database.")
            self._connection = self._open()  # in a forked process
        return self._connection

    def check_writable(self) -> None:
        r"""Check that something can be changed."""
        if self.read_only:
            raise UnsupportedError(
                f"Expected the journal {self.path} to be writable, but it or its "
                "folder is read-only: it can be read and exported."
            )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        r"""All or nothing: what is done within is on disk at the end, or undone.

        Other processes and threads wait meanwhile if they want to make a change.
        """
        self.check_writable()
        with self.lock, self._explain(), self._between("BEGIN IMMEDIATE"):
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        r"""All that is read within is of one moment; a part of any transaction."""
        with self.lock, self._explain():
            if self._live().in_transaction:
                yield
                return
            with self._between("BEGIN"):
                yield

    @contextmanager
    def _between(self, begin: str) -> Iterator[None]:
        connection = self._live()
        self._begin(connection, begin)
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _begin(self, connection: sqlite3.Connection, statement: str) -> None:
        """Take the lock as soon as it is free.

        SQLite's own waiting sleeps for up to 0.1 s at a time. Where other processes
        make one change after the other, it would find the file free too rarely.
        """
        deadline = time.monotonic() + self.timeout
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            while not _try_to_begin(connection, statement):
                if time.monotonic() > deadline:
                    raise sqlite3.OperationalError("database is locked")
                time.sleep(_CHANCE.uniform(*PAUSE))
        finally:
            milliseconds = round(1000 * self.timeout)
            connection.execute(f"PRAGMA busy_timeout = {milliseconds}")

    def close(self) -> None:
        r"""Close the file. What was written stays."""
        with self.lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _leave_to_parent(self) -> None:
        """In a forked process: neither use nor close what the parent has open."""
        if self._connection is not None:
            _OF_PARENT.append(self._connection)
            self._connection = None


def _connect(path: Path, mode: str, timeout: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode={mode}",
        uri=True,
        timeout=timeout,
        isolation_level=None,  # transactions begin and end where this module says so
        check_same_thread=False,
    )
    # EXTRA also flushes the folder when a transaction ends; on macOS only a "full"
    # flush reaches the disk. Nothing is written to the file before its end.
    for setting in ("synchronous = EXTRA", "fullfsync = ON", "cache_spill = OFF"):
        connection.execute(f"PRAGMA {setting}")
    return connection


def _try_to_begin(connection: sqlite3.Connection, statement: str) -> bool:
    """Begin a transaction, unless another process has the lock for it."""
    try:
        connection.execute(statement)
        connection.execute(
            "SELECT 1 FROM sqlite_master LIMIT 1"
        )  # takes a lock to read
    except sqlite3.OperationalError as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if "locked" not in str(error):
            raise
        return False
    return True


def _check_sound(connection: sqlite3.Connection) -> None:
    """What SQLite itself can tell about the file."""
    try:
        (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        raise DamageError(str(error)) from error
    if verdict != "ok":
        raise DamageError(" ".join(verdict.split()))


def _use_rollback_journal(connection: sqlite3.Connection) -> None:
    """Journals of version 1 had a write-ahead log; it goes into the file."""
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "delete":
        (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    if mode != "delete":
        raise sqlite3.OperationalError("the journal is locked")


def _bring_up_to_date(connection: sqlite3.Connection) -> None:
    """Migrate an older version, in one transaction."""
    if _version(connection) != SCHEMA_VERSION:
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = _version(connection)
            if version != SCHEMA_VERSION:  # another process may have been quicker
                migrate(connection, version, log_migration)
            connection.execute("COMMIT")
        except BaseException as error:
            connection.execute("ROLLBACK")
            if isinstance(error, ValueError | TypeError):  # damaged JSON, no settings
                raise DamageError(str(error)) from error
            raise
    if not has_tables_of_today(connection):
        raise DamageError("its tables are not those of a journal")


def _version(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA user_version").fetchone()[0]


def _copy_to_memory(path: Path) -> sqlite3.Connection:
    """The content of a file that cannot be brought up to date where it is."""
    memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        for file in [path, *side_files(path)]:
            shutil.copyfile(file, copy.with_name(file.name))
        with closing(_connect(copy, "rw", 0.0)) as connection:
            _use_rollback_journal(connection)
            connection.backup(memory)
    return memory


# SQLite must not take an open file across a fork. A fork waits for the transactions of
# other threads; the child opens every file anew when it first uses it, and keeps what
# it inherited, since closing a file would end locks on it.
_OPEN: weakref.WeakSet[Connection] = weakref.WeakSet()
_OF_PARENT: list[sqlite3.Connection] = []
_HELD: list[Connection] = []


def _before_fork() -> None:
    _HELD.extend(_OPEN)
    for connection in _HELD:
        connection.lock.acquire()


def _after_fork() -> None:
    while _HELD:
        _HELD.pop().lock.release()


def _after_fork_in_child() -> None:
    for connection in _HELD:
        connection._leave_to_parent()
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork,
        after_in_child=_after_fork_in_child,
    )
