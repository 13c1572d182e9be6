r"""
Journals as files: how to recognize one, and how to make a new one.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from botorch_binary_context.errors import InputDataError
from botorch_binary_context.experiment.schema import APPLICATION_ID

#: Files that SQLite may keep next to a database in use, or after a crash.
SIDE_FILES = ("-journal", "-wal", "-shm")


def read_version(path: Path) -> int | None:
    r"""The version of a journal, from the beginning of the file.

    Args:
        path: Any file.

    Returns:
        The version; None if the file is not a journal.
    """
    # SQLite itself opens the file: closing it by other means would end the locks that
    # this process has on it. "Immutable" means without locks and without side files.
    uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            (owner,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise _unusable(path, error) from error
        return None
    return version if owner == APPLICATION_ID else None


def _unusable(path: Path, error: Exception) -> Exception:
    return InputDataError(
        f"Expected the journal {path} to be usable, but got: {error}."
    )


def side_files(path: Path) -> list[Path]:
    r"""The files next to a journal that belong to its content.

    Args:
        path: The journal.

    Returns:
        The files that exist.
    """
    beside = [path.with_name(path.name + ending) for ending in SIDE_FILES]
    return [file for file in beside if os.path.lexists(file)]


def is_writable(path: Path) -> bool:
    r"""Whether a journal and its folder can be changed.

    Args:
        path: The journal.
    """
    effective = os.access in os.supports_effective_ids
    places = (path, path.resolve().parent)
    return all(os.access(p, os.W_OK, effective_ids=effective) for p in places)


def write_new(path: Path, content: bytes) -> None:
    r"""Make a complete file, or none, that only its owner can read.

    The content is written under a random name, and then renamed if the final name is
    still free. So a crash leaves either no file of that name or a complete one.

    Args:
        path: The file, which must not exist.
        content: Its content.
    """
    _check_free(path)
    try:
        descriptor, name = tempfile.mkstemp(".new", f".{path.name}.", path.parent)
    except OSError as error:
        raise _not_new(path, error) from error
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        _name(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    _sync_directory(path.resolve().parent)


def _check_free(path: Path) -> None:
    """Raise an error if the file, or a side file of an older journal, exists."""
    if os.path.lexists(path):
        raise _not_new(path, FileExistsError(17, "File exists"))
    left = side_files(path)
    if left:
        raise InputDataError(
            f"Expected ``path`` to be a new file, but got {path}, beside which "
            f"{', '.join(file.name for file in left)} is left of an older journal: "
            "it may hold answers. Put it back beside that journal, or delete it."
        )


def _name(draft: Path, path: Path) -> None:
    """Give a draft its name, but never the name of another file."""
    try:
        os.link(draft, path)
    except FileExistsError as error:
        raise _not_new(path, error) from error
    except OSError:  # some file systems have no links
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            raise _not_new(path, error) from error
        os.replace(draft, path)


def _not_new(path: Path, error: OSError) -> Exception:
    return InputDataError(
        f"Expected ``path`` to be a new file, but got {path}: {error.strerror}."
    )


def _sync_directory(directory: Path) -> None:
    """Flush the name of a new file, where the system can do that."""
    if os.name == "posix":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
