r"""
Upgrades of the tables of older journals.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence

from botorch_binary_context.experiment.checksums import Row, SealedTables
from botorch_binary_context.experiment.schema import (
    SCHEMA_VERSION,
    TABLES,
    make_tables,
)

#: Writes the event of a migration; returns its number.
Log = Callable[[SealedTables], int]


def migrate(connection: sqlite3.Connection, version: int, log: Log) -> None:
    r"""Upgrade the tables of an older version, within a transaction.

    Args:
        connection: The database.
        version: The version of its tables.
        log: Writes the event of the migration; returns its number.
    """
    _MIGRATIONS[version](connection, log)


def _from_version_1(connection: sqlite3.Connection, log: Log) -> None:
    """Version 1 had three tables, without checksums and without a history."""
    (content,) = connection.execute("SELECT content FROM settings").fetchone()
    json.loads(content)
    trials = connection.execute(
        "SELECT id, status, outcome, '[]', position, 1, shown, NULL, chosen_by, NULL, "
        "NULL, '{}', asked_at, closed_at FROM trials ORDER BY id"
    ).fetchall()
    fits = connection.execute("SELECT * FROM fits ORDER BY 1").fetchall()
    for row in trials:
        json.loads(row[TABLES["trials"].index("shown")])
    for row in fits:
        json.loads(row[1])
    _drop(connection, ("settings", "trials", "fits"))
    tables = make_tables(connection)
    revision = log(tables)
    rows = {
        "settings": [(content,)],
        "metadata": [("{}",)],
        "trials": [(*row, revision) for row in trials],
        "fits": fits,
    }
    _insert(tables, rows)


def _from_version_2(connection: sqlite3.Connection, log: Log) -> None:
    """In version 2 a trial was answered or not feasible, never both."""
    columns = {
        name: tuple(column for column in names if column != "infeasible")
        for name, names in TABLES.items()
    }
    former = SealedTables(connection.execute, columns)
    former.verify()
    rows = {name: former.select(name) for name in columns}
    place = TABLES["trials"].index("infeasible")
    rows["trials"] = [(*row[:place], "[]", *row[place:]) for row in rows["trials"]]
    _drop(connection, (*columns, "seal"))
    tables = make_tables(connection)
    _insert(tables, rows)
    log(tables)


def _drop(connection: sqlite3.Connection, names: Sequence[str]) -> None:
    for name in names:
        connection.execute(f"DROP TABLE {name}")


def _insert(tables: SealedTables, rows: Mapping[str, Sequence[Row]]) -> None:
    for name, content in rows.items():
        for row in content:
            tables.insert(name, row)


_MIGRATIONS = {1: _from_version_1, 2: _from_version_2}
#: The versions that can be opened.
KNOWN_VERSIONS = (*_MIGRATIONS, SCHEMA_VERSION)
