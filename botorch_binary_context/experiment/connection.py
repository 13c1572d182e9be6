r"""
The SQLite file behind a journal, usable from any thread, after a fork, and read-only.

Changes use SQLite's rollback journal with the strictest synchronization. When a
transaction has ended, everything is in this one file and on disk. That takes four
flushes: 24 ms on a disk that needs 5 ms for each; the write-ahead log of version 1, a
second file, took 4 ms. While a transaction ends, and after a crash in that moment, a
second file ``NAME-journal`` exists next to it, from which SQLite restores the previous
state; move or copy it together with the first one.

SQLite relies on the locks of the file system. On network drives whose locks do not work
(some NFS and SMB set-ups), a journal must be used by one process at a time, and how
safe an answer is depends on the server.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from botorch_binary_context.errors import InputDataError, UnsupportedError
from botorch_binary_context.experiment.checksums import DamageError
from botorch_binary_context.experiment.journal_files import is_writable
from botorch_binary_context.experiment.opening import check_kind, open_journal

# The number of seconds to wait before checking again whether the file is free.
PAUSE = (0.0002, 0.001)
MAX_TIMEOUT = 10**6
_CHANCE = random.SystemRandom()


class Connection:
    r"""A connection to the file of a journal."""

    def __init__(self, path: Path, timeout: float) -> None:
        r"""
        Args:
            path: The file.
            timeout: The number of seconds to wait while another process makes a change.
        """
        self.path = path
        self.timeout = _check_timeout(timeout)
        self.lock = threading.RLock()
        self._closed = False
        check_kind(path)
        self._place = path.resolve()  # a process may change its folder
        self.read_only = not is_writable(path)
        self._connection: sqlite3.Connection | None = None
        with self._explain():
            self._live()
        _OPEN.add(self)

    @contextmanager
    def _explain(self) -> Iterator[None]:
        """Turn SQLite's errors into plain messages."""
        try:
            yield
        # SQLite repeats damaged definitions of tables, which need not be texts.
        except (DamageError, UnicodeDecodeError) as error:
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
            The cursor over the rows it found.
        """
        return self._live().execute(statement, values)

    def _live(self) -> sqlite3.Connection:
        if self._connection is None:
            if self._closed:
                raise sqlite3.ProgrammingError("Cannot operate on a closed database.")
            # For the first time, or in a forked process.
            self._connection = open_journal(self._place, self.read_only, self.timeout)
        return self._connection

    def check_writable(self) -> None:
        r"""Raise an error if the journal is read-only."""
        if self.read_only:
            raise UnsupportedError(
                f"Expected the journal {self.path} to be writable, but it or its "
                "folder is read-only: it can be read and exported."
            )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        r"""A transaction: its changes are all on disk at the end, or all undone.

        Other processes and threads wait meanwhile if they want to make a change.
        """
        self.check_writable()
        with self.lock, self._explain(), self._between("BEGIN IMMEDIATE"):
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        r"""A consistent read: everything is read as of one moment."""
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


def _check_timeout(timeout: Any) -> float:
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not is_number or not 0.0 <= timeout <= MAX_TIMEOUT:
        raise InputDataError(
            f"Expected ``timeout`` to be a number of seconds from 0 to {MAX_TIMEOUT}, "
            f"but got {timeout!r}."
        )
    return float(timeout)


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


# SQLite must not take an open file across a fork. A fork waits for the transactions of
# other threads; the child opens every file again when it first uses it, and keeps what
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
