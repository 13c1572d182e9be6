r"""
Output files: private, and never overwriting a journal.
"""

from __future__ import annotations

import os
from pathlib import Path

from botorch_binary_context.errors import InputDataError
from botorch_binary_context.experiment.journal_files import SIDE_FILES, read_version

PRIVATE = 0o600


def prepare_output(path: str | Path) -> None:
    r"""Make a file that can be written, and that only its owner can read.

    Args:
        path: The file; an error says so if it is a journal or cannot be written.
    """
    refuse_journal(path)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, PRIVATE))
    if Path(path).is_file():
        os.chmod(path, PRIVATE)  # it may have existed before


def refuse_journal(path: str | Path) -> None:
    r"""Raise an error if a file that is to be written is a journal.

    Args:
        path: The file, which need not exist.
    """
    if is_journal(path):
        raise InputDataError(
            f"Expected ``path`` to be a file that may be overwritten, but got {path}, "
            "which is the journal of an experiment."
        )


def is_journal(path: str | Path) -> bool:
    r"""Whether a file is a journal, or a file that SQLite keeps next to a journal.

    Args:
        path: The file, which need not exist.
    """
    path = Path(path)
    names = {path.name, *(path.name.removesuffix(end) for end in SIDE_FILES)}
    files = [path.with_name(name) for name in names if name]
    return any(file.is_file() and read_version(file) is not None for file in files)
