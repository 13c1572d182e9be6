r"""
The journal of an experiment: a crash-safe SQLite file.

Every change is one transaction, and has reached the disk when it ends. The one file
holds everything then, and can be copied or moved. A process that is killed leaves no
lock behind. Several processes may use one journal: a change waits until the change of
another process has ended.

Every row has a checksum, which is checked whenever it is read. The tables are described
in :mod:`~botorch_binary_context.experiment.schema`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from botorch_binary_context.experiment.checksums import DamageError
from botorch_binary_context.experiment.connection import Connection
from botorch_binary_context.experiment.events import log_event, now, to_json
from botorch_binary_context.experiment.journal_files import write_new
from botorch_binary_context.experiment.schema import make_tables
from botorch_binary_context.experiment.trial_log import AMENDMENTS, TrialLog


class Journal(TrialLog):
    r"""The file that an experiment lives in."""

    def __init__(self, path: str | Path, timeout: float = 30.0) -> None:
        r"""
        Args:
            path: The file, which must exist; :meth:`create` makes one.
            timeout: The number of seconds to wait while another process makes a change.
        """
        self.path = Path(path)
        super().__init__(Connection(self.path, timeout))
        try:
            with self._connection.reading():
                self._tables.verify()
                self.settings()
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(
        cls,
        path: str | Path,
        settings: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
    ) -> Journal:
        r"""Make a new journal; an existing file is never overwritten.

        Args:
            path: Where to make it.
            settings: The settings of the experiment, as plain data.
            metadata: Notes about it, as plain data.
        """
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as draft:
            tables = make_tables(draft)
            tables.insert("settings", (to_json(settings),))
            tables.insert("metadata", (to_json(dict(metadata or {})),))
            log_event(tables, "created", new=metadata)
            content = draft.serialize()
        write_new(Path(path), content)
        return cls(path)

    @property
    def read_only(self) -> bool:
        """Whether nothing can be changed."""
        return self._connection.read_only

    def check_writable(self) -> None:
        r"""Raise an error if the journal is read-only."""
        self._connection.check_writable()

    def close(self) -> None:
        r"""Close the file. What was written stays."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        r"""A transaction: its changes are all on disk at the end, or all undone.

        Other processes wait meanwhile if they want to make a change.
        """
        try:
            with self._connection.transaction():
                yield
        except BaseException:
            self._forget()  # what was read within may be undone
            raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        r"""A consistent read: everything is read as of one moment."""
        with self._connection.reading():
            yield

    def settings(self) -> dict[str, Any]:
        r"""The settings of the experiment.

        Returns:
            The settings with which the journal was created.
        """
        return self._read_object("settings")

    def metadata(self) -> dict[str, Any]:
        r"""The notes about the experiment.

        Returns:
            The values by free keys.
        """
        return self._read_object("metadata")

    def _read_object(self, table: str) -> dict[str, Any]:
        with self._connection.reading():
            rows = self._tables.select(table)
            if len(rows) != 1:
                raise DamageError(f"it has {len(rows)} rows of {table}")
            return json.loads(rows[0][0])

    def describe(self, changes: Mapping[str, Any]) -> None:
        r"""Change the metadata; to be called within a transaction.

        Args:
            changes: The new values by their keys; None removes a key.
        """
        former = self.metadata()
        merged = {**former, **changes}
        content = {key: value for key, value in merged.items() if value is not None}
        self._tables.update("metadata", (to_json(former),), (to_json(content),))
        old = {key: former.get(key) for key in changes}
        log_event(self._tables, "described", None, old, changes)

    def fit(self, num_answers: int) -> dict[str, Any] | None:
        r"""The hyperparameters learned from a given number of first answers.

        Args:
            num_answers: The number of answers, counting only those that the model uses.

        Returns:
            The hyperparameters by their names, or None if they were not learned yet.
        """
        return self._read_fit("num_answers = ?", num_answers)

    def last_fit(self, before: int | None = None) -> dict[str, Any] | None:
        r"""The hyperparameters learned last.

        Args:
            before: If given, they must have been learned from fewer answers than this.

        Returns:
            The hyperparameters by their names, or None if none were learned yet.
        """
        found = (
            "num_answers = (SELECT MAX(num_answers) FROM fits WHERE num_answers < ?)"
        )
        return self._read_fit(found, before or 2**62)

    def _read_fit(self, condition: str, value: int) -> dict[str, Any] | None:
        with self._connection.reading():
            rows = self._tables.select("fits", condition, (value,))
        return json.loads(rows[0][1]) if rows else None

    def add_fit(
        self,
        num_answers: int,
        hyperparameters: Mapping[str, Any],
        revision: int | None = None,
    ) -> None:
        r"""Write hyperparameters down; to be called within a transaction.

        Args:
            num_answers: The number of answers they were learned from.
            hyperparameters: The hyperparameters by their names.
            revision: The revision at which these answers were read. If an answer was
                changed since then, or another process was quicker, nothing is written.
        """
        if self.fit(num_answers) is None and not self._amended_since(revision):
            row = (num_answers, to_json(hyperparameters), now())
            self._tables.insert("fits", row)

    def _amended_since(self, revision: int | None) -> bool:
        if revision is None:
            return False
        newer = self._tables.select("events", "number > ?", (revision,))
        return any(row[2] in AMENDMENTS for row in newer)
