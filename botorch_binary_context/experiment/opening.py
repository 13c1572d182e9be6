r"""
Opening the SQLite file of a journal: checks and upgrades.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from botorch_binary_context.errors import InputDataError
from botorch_binary_context.experiment.checksums import DamageError
from botorch_binary_context.experiment.events import log_migration
from botorch_binary_context.experiment.journal_files import read_version, side_files
from botorch_binary_context.experiment.migration import KNOWN_VERSIONS, migrate
from botorch_binary_context.experiment.schema import (
    SCHEMA_VERSION,
    has_tables_of_today,
)


def check_kind(path: Path) -> None:
    r"""Check, read-only, that a file is a journal.

    Args:
        path: The file.
    """
    if not path.is_file():
        raise InputDataError(
            f"Expected ``path`` to be the file of a journal, but got {path}, "
            f"which is {'no file' if path.exists() else 'not there'}."
        )
    version = read_version(path)
    if version is None:
        raise InputDataError(
            f"Expected ``path`` to be the journal of an experiment, but got "
            f"{path}, which is another kind of file or empty."
        )
    if version not in KNOWN_VERSIONS:
        raise InputDataError(
            f"Expected ``path`` to be a journal of version {SCHEMA_VERSION}, "
            f"but got {path} of version {version}: a newer "
            "botorch_binary_context is needed to read it."
        )


def open_journal(path: Path, read_only: bool, timeout: float) -> sqlite3.Connection:
    r"""Open a journal, and upgrade an old one.

    Args:
        path: The file.
        read_only: Whether the file stays unchanged; an upgrade is then made in memory.
        timeout: The number of seconds to wait while another process makes a change.
    """
    connection = _connect_somehow(path, read_only, timeout)
    try:
        _check_sound(connection)
        if not read_only:
            _use_rollback_journal(connection)
        _bring_up_to_date(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_somehow(path: Path, read_only: bool, timeout: float) -> sqlite3.Connection:
    if not read_only:
        return _connect(path, "rw", timeout)
    if read_version(path) == SCHEMA_VERSION and not side_files(path):
        return _connect(path, "ro", timeout)
    return _copy_to_memory(path)


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


def _check_sound(connection: sqlite3.Connection) -> None:
    """Check what SQLite itself can tell about the file."""
    try:
        (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        raise DamageError(str(error)) from error
    if verdict != "ok":
        raise DamageError(" ".join(verdict.split()))


def _use_rollback_journal(connection: sqlite3.Connection) -> None:
    """Merge the write-ahead log of a journal of version 1 into the file."""
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
