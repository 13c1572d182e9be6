r"""
The history of an experiment: what happened, when, and who changed what.
"""

from __future__ import annotations

import getpass
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from typing import Any

from botorch_binary_context.experiment.checksums import Row, SealedTables


@dataclass(frozen=True)
class Event:
    r"""Something that happened to an experiment.

    Attributes:
        number: Its number, from 1.
        at: When it happened, in UTC.
        kind: What happened: "created", "migrated", "described", "asked", "answered",
            "withdrawn", "added", "annotated", "corrected", "undone", "excluded" or
            "included".
        trial: The id of the trial, if it is about one.
        old: The former values of what was changed.
        new: The new values.
        environment: Who did it, and with which software: "user", "host", "package",
            "torch", "python" and "platform".
    """

    number: int
    at: str
    kind: str
    trial: int | None
    old: Mapping[str, Any]
    new: Mapping[str, Any]
    environment: Mapping[str, str]


def now() -> str:
    r"""The present time.

    Returns:
        The time in UTC, in milliseconds, as in "2026-01-31T12:30:00.123+00:00".
    """
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def log_event(
    tables: SealedTables,
    kind: str,
    trial: int | None = None,
    old: Mapping[str, Any] | None = None,
    new: Mapping[str, Any] | None = None,
) -> int:
    r"""Write an event down, within a transaction.

    Args:
        tables: The tables of the journal.
        kind: What happened.
        trial: The id of the trial, if it is about one.
        old: The former values of what was changed.
        new: The new values.

    Returns:
        The number of the event.
    """
    number = last_number(tables) + 1
    changes = [None if part is None else to_json(part) for part in (old, new)]
    environment = _environment_id(tables)
    tables.insert("events", (number, now(), kind, trial, *changes, environment))
    return number


def log_migration(tables: SealedTables) -> int:
    r"""Record that a journal was upgraded.

    Args:
        tables: The tables of the journal.

    Returns:
        The number of the event.
    """
    return log_event(tables, "migrated")


def last_number(tables: SealedTables) -> int:
    r"""The number of the last event.

    Args:
        tables: The tables of the journal.

    Returns:
        The number; 0 if there is none.
    """
    rows = tables.select("events", "number = (SELECT MAX(number) FROM events)")
    return rows[0][0] if rows else 0


def read_events(tables: SealedTables, trial_id: int | None = None) -> list[Event]:
    r"""The events of a journal, or of one trial.

    Args:
        tables: The tables of the journal.
        trial_id: The id of the trial that the events are about; if None, all.

    Returns:
        The events, in order.
    """
    return _select(tables, "trial = ? OR ? IS NULL", (trial_id, trial_id))


def read_events_since_last(
    tables: SealedTables, kind: str, trial_id: int
) -> list[Event]:
    r"""The events of a trial since the last one of a kind.

    The table is read from its end, so it does not matter how much happened before.

    Args:
        tables: The tables of the journal.
        kind: The kind of the first event.
        trial_id: The id of the trial.

    Returns:
        The events, in order.
    """
    last = (
        "SELECT number FROM events WHERE trial = ? AND kind = ? "
        "ORDER BY number DESC LIMIT 1"
    )
    values = (trial_id, kind, trial_id)
    return _select(tables, f"number >= ({last}) AND trial = ?", values)


def _select(tables: SealedTables, condition: str, values: Sequence[Any]) -> list[Event]:
    environments = {
        key: dict(zip(_environment(), values, strict=True))
        for key, *values in tables.select("environments")
    }
    rows = tables.select("events", condition, values)
    return [_make_event(row, environments) for row in rows]


def _make_event(row: Row, environments: Mapping[int, Mapping[str, str]]) -> Event:
    number, at, kind, trial, old, new, environment = row
    old, new = (json.loads(part) if part else {} for part in (old, new))
    return Event(number, at, kind, trial, old, new, environments[environment])


def to_json(value: Any) -> str:
    r"""A value as readable JSON.

    Args:
        value: Plain data.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _environment_id(tables: SealedTables) -> int:
    """The row of this user and this software, new if there is none."""
    current = tuple(_environment().values())
    rows = tables.select("environments")
    for key, *values in rows:
        if tuple(values) == current:
            return key
    tables.insert("environments", (len(rows) + 1, *current))
    return len(rows) + 1


@cache
def _environment() -> dict[str, str]:
    return {
        "user": _user(),
        "host": platform.node(),
        "package": _version("botorch-binary-context"),
        "torch": _version("torch"),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        return ""


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
