r"""
The tables of a journal.

The tables can be read with any SQLite tool:

- ``settings``: the settings of the experiment, one row of JSON;
- ``metadata``: subject, experimenter, notes and free keys, one row of JSON;
- ``trials``: what was shown, and what became of it;
- ``fits``: the hyperparameters learned from the first answers, by number;
- ``events``: everything that happened, with the old and the new values;
- ``environments``: who worked with which software;
- ``seal``: a checksum of all rows.

Every row ends with a checksum of its own. So a journal is changed through
:class:`~botorch_binary_context.experiment.Experiment`, never by hand.
"""

from __future__ import annotations

import sqlite3

from botorch_binary_context.experiment.checksums import SealedTables

#: The number that marks SQLite files of this package.
APPLICATION_ID = int.from_bytes(b"bbcx", "big")
SCHEMA_VERSION = 3

#: The columns of each table except the checksum; the first is the key.
TABLES: dict[str, tuple[str, ...]] = {
    "settings": ("content",),
    "metadata": ("content",),
    "trials": (
        "id",
        "status",
        "outcome",
        "infeasible",
        "position",
        "used",
        "shown",
        "asked",
        "chosen_by",
        "rater",
        "reaction_time",
        "extra",
        "asked_at",
        "closed_at",
        "revision",
    ),
    "fits": ("num_answers", "hyperparameters", "fitted_at"),
    "events": ("number", "at", "kind", "trial", "old", "new", "environment"),
    "environments": (
        "id",
        "user",
        "host",
        "package",
        "torch",
        "python",
        "platform",
    ),
}

SCHEMA = """
CREATE TABLE settings (content TEXT NOT NULL, checksum TEXT NOT NULL);
CREATE TABLE metadata (content TEXT NOT NULL, checksum TEXT NOT NULL);
CREATE TABLE trials (
    id INTEGER PRIMARY KEY,
    status TEXT NOT NULL CHECK (status IN ('pending', 'answered', 'withdrawn')),
    outcome INTEGER CHECK (outcome >= 0),
    infeasible TEXT NOT NULL,  -- what else was told: sides that were not feasible
    position INTEGER,  -- answers count from 1 in the order they came
    used INTEGER NOT NULL CHECK (used IN (0, 1)),  -- whether the model learns from it
    shown TEXT NOT NULL,
    asked TEXT,  -- what was to be shown, if that was something else
    chosen_by TEXT NOT NULL,
    rater TEXT,
    reaction_time REAL,  -- in seconds
    extra TEXT NOT NULL,
    asked_at TEXT NOT NULL,
    closed_at TEXT,
    revision INTEGER NOT NULL,  -- the number of the event that changed it last
    checksum TEXT NOT NULL,
    CHECK ((status = 'answered') = (outcome IS NOT NULL)),
    CHECK ((status = 'answered') = (position IS NOT NULL)),
    CHECK ((status = 'pending') = (closed_at IS NULL))
);
CREATE TABLE fits (
    num_answers INTEGER PRIMARY KEY,
    hyperparameters TEXT NOT NULL,
    fitted_at TEXT NOT NULL,
    checksum TEXT NOT NULL
);
CREATE TABLE events (
    number INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    trial INTEGER,
    old TEXT,
    new TEXT,
    environment INTEGER NOT NULL,
    checksum TEXT NOT NULL
);
CREATE TABLE environments (
    id INTEGER PRIMARY KEY,
    user TEXT NOT NULL,
    host TEXT NOT NULL,
    package TEXT NOT NULL,
    torch TEXT NOT NULL,
    python TEXT NOT NULL,
    platform TEXT NOT NULL,
    checksum TEXT NOT NULL
);
CREATE TABLE seal (digest TEXT NOT NULL);
"""
_STATEMENTS = [text.strip() for text in SCHEMA.split(";\n") if text.strip()]


def make_tables(connection: sqlite3.Connection) -> SealedTables:
    r"""Make the current tables, empty.

    Args:
        connection: A database without these tables, within a transaction.
    """
    for statement in _STATEMENTS:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    tables = SealedTables(connection.execute, TABLES)
    tables.begin()
    return tables


def has_tables_of_today(connection: sqlite3.Connection) -> bool:
    r"""Whether a database has exactly the tables that :func:`make_tables` makes.

    Args:
        connection: The database.

    Returns:
        Whether it has; False also if their definitions are damaged.
    """
    query = "SELECT sql FROM sqlite_master ORDER BY rowid"
    return [row[0] for row in connection.execute(query)] == _STATEMENTS
