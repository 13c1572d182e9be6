r"""
The trials of a journal: asked, answered, withdrawn, corrected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from botorch_binary_context.errors import InputDataError, UnsupportedError
from botorch_binary_context.experiment.checksums import Row, SealedTables
from botorch_binary_context.experiment.connection import Connection
from botorch_binary_context.experiment.events import (
    Event,
    last_number,
    log_event,
    now,
    read_events,
    read_events_since_last,
    to_json,
)
from botorch_binary_context.experiment.schema import TABLES
from botorch_binary_context.experiment.trial import Trial, join_values
from botorch_binary_context.experiment.trial_index import TrialIndex

if TYPE_CHECKING:
    from botorch_binary_context.experiment.space import Values

#: The mark of trials that the experiment did not ask for.
ADDED = "added"
#: The events that change what was answered before.
AMENDMENTS = ("corrected", "undone", "excluded", "included")
_JSON_COLUMNS = ("infeasible", "shown", "asked", "extra")


class TrialLog:
    r"""Trials and what happened to them.

    Changes are made within a transaction of the connection.
    """

    def __init__(self, connection: Connection) -> None:
        r"""
        Args:
            connection: The connection to the journal.
        """
        self._connection = connection
        self._tables = SealedTables(connection.execute, TABLES)
        self._index = TrialIndex()
        self._seen = 0  # the last event that the index knows of

    def _forget(self) -> None:
        """Read all trials again the next time."""
        with self._connection.lock:
            self._index = TrialIndex()
            self._seen = 0

    def index(self) -> TrialIndex:
        r"""The trials as they are now; to be called while reading, and used there.

        Only what has changed since the last call is read.
        """
        last = last_number(self._tables)
        if self._seen == 0:
            changed = self._tables.select("trials")
        else:
            changed = [self._row(i) for i in self._changed_since(self._seen)]
        for row in changed:
            self._index.put(_make_trial(row))
        self._seen = last
        return self._index

    def _changed_since(self, number: int) -> list[int]:
        """The ids of the trials that were changed after an event."""
        newer = self._tables.select("events", "number > ?", (number,))
        return sorted({row[3] for row in newer if row[3] is not None})

    def revision(self) -> int:
        r"""The number of the last event, which every change of a trial raises."""
        with self._connection.reading():
            return last_number(self._tables)

    def history(self, trial_id: int | None = None) -> list[Event]:
        r"""Everything that happened.

        Args:
            trial_id: The id of the trial that the events are about; if None, all.

        Returns:
            The events, in order.
        """
        with self._connection.reading():
            return read_events(self._tables, trial_id)

    def trials(self) -> list[Trial]:
        r"""All trials, in the order they were asked."""
        with self._connection.reading():
            return self.index().trials

    def answered(self) -> list[Trial]:
        r"""The answered trials, in the order of the answers."""
        with self._connection.reading():
            return self.index().answered

    def add_trial(
        self,
        context: Values,
        sides: Sequence[Values],
        chosen_by: str,
        rater: str | None = None,
        used: bool = True,
    ) -> Trial:
        r"""Record a new question; call it within a transaction.

        Args:
            context: The values of the contexts.
            sides: The parameters.
            chosen_by: How it was chosen.
            rater: Who is to answer it.
            used: Whether the model is to learn from it.

        Returns:
            The trial, with its id.
        """
        columns = {"shown": _shown(context, sides), "chosen_by": chosen_by}
        return self._insert("asked", {**columns, "rater": rater, "used": used})

    def add_answered(
        self, context: Values, sides: Sequence[Values], answer: Mapping[str, Any]
    ) -> Trial:
        r"""Record a trial that was run by other means; call it within a transaction.

        Args:
            context: The values of the contexts.
            sides: The parameters.
            answer: The columns "outcome", "used", and of "infeasible", "rater",
                "reaction_time", "extra", "asked", "chosen_by", "asked_at" and
                "closed_at" those that are known.

        Returns:
            The trial, with its id.
        """
        columns = {
            "shown": _shown(context, sides),
            "chosen_by": ADDED,
            "status": "answered",
            "position": self.index().last_position + 1,
            "closed_at": now(),
        }
        return self._insert("added", {**columns, **answer})

    def _insert(self, kind: str, columns: Mapping[str, Any]) -> Trial:
        trial_id = self._last_id() + 1
        defaults = {"status": "pending", "used": True, "asked_at": now()}
        defaults |= {"infeasible": [], "extra": {}}
        revision = log_event(self._tables, kind, trial_id)
        given = {**defaults, **columns, "id": trial_id, "revision": revision}
        row = tuple(_to_column(name, given.get(name)) for name in TABLES["trials"])
        self._tables.insert("trials", row)
        return _make_trial(row)

    def _last_id(self) -> int:
        query = "SELECT COALESCE(MAX(id), 0) FROM trials"
        return self._connection.execute(query).fetchone()[0]

    def trial(self, trial_id: int) -> Trial:
        r"""One trial.

        Args:
            trial_id: Its id.
        """
        return _make_trial(self._row(trial_id))

    def _row(self, trial_id: int) -> Row:
        with self._connection.reading():
            last = self._last_id()
            if 1 <= trial_id <= last:
                (row,) = self._tables.select("trials", "id = ?", (trial_id,))
                return row
        there_are = f"from 1 to {last}" if last else "of a trial, and none was asked"
        raise InputDataError(
            f"Expected ``trial_id`` to be {there_are}, but got {trial_id}."
        )

    def answer(
        self, trial_id: int, outcome: int, details: Mapping[str, Any] | None = None
    ) -> None:
        r"""Record an answer; call it within a transaction.

        Args:
            trial_id: The id of a pending trial.
            outcome: The number of the outcome, from 0.
            details: The columns "infeasible", "rater", "reaction_time", "extra" and
                "shown" that are to be changed.
        """
        row = self._pending_row(trial_id)
        answer = {"status": "answered", "outcome": outcome, "closed_at": now()}
        answer |= {"position": self.index().last_position + 1, **(details or {})}
        former = dict(zip(TABLES["trials"], row, strict=True))["shown"]
        if "shown" in answer and to_json(answer["shown"]) != former:
            answer["asked"] = json.loads(former)
        self._change("answered", row, answer)

    def withdraw(self, trial_id: int) -> None:
        r"""Withdraw a question; call it within a transaction.

        Args:
            trial_id: The id of a pending trial.
        """
        row = self._pending_row(trial_id)
        self._change("withdrawn", row, {"status": "withdrawn", "closed_at": now()})

    def _pending_row(self, trial_id: int) -> Row:
        row = self._row(trial_id)
        trial = _make_trial(row)
        if trial.status != "pending":
            raise InputDataError(
                f"Expected ``trial_id`` to be that of a pending trial, but got "
                f"{trial_id}, which was {trial.status} at {trial.closed_at}."
            )
        return row

    def correct(
        self, trial_id: int, outcome: int, infeasible: Sequence[str] = ()
    ) -> None:
        r"""Change an answer; to be called within a transaction.

        Args:
            trial_id: The id of an answered trial.
            outcome: The number of the right outcome.
            infeasible: What was not feasible in spite of it.
        """
        row = self._row_that_is(trial_id, "answered")
        answer = {"outcome": outcome, "infeasible": list(infeasible)}
        self._amend("corrected", row, answer)

    def annotate(self, trial_id: int, extra: Mapping[str, Any]) -> None:
        r"""Note more about a trial; to be called within a transaction.

        Args:
            trial_id: The id of a trial.
            extra: Notes with free names, which replace former notes with these names.
        """
        row = self._row(trial_id)
        self._change("annotated", row, {"extra": {**_make_trial(row).extra, **extra}})

    def use(self, trial_id: int, used: bool) -> None:
        r"""Say whether the model learns from a trial; to be called in a transaction.

        Args:
            trial_id: The id of a trial that was not withdrawn.
            used: Whether it does.
        """
        row = self._row_that_is(trial_id, "pending", "answered")
        if _make_trial(row).used != used:
            kind = "included" if used else "excluded"
            self._amend(kind, row, {"used": used})

    def undo(self, trial_id: int | None = None) -> Trial:
        r"""Take back an answer; to be called within a transaction.

        Args:
            trial_id: The id of an answered trial; by default that of the last answer.

        Returns:
            The trial, which is pending again as it was before the answer. One that was
            not asked but added is withdrawn.
        """
        if trial_id is None:
            last = self.index().last_answer(None)
            if last is None:
                raise UnsupportedError("Expected an answer to undo, but got none.")
            trial_id = last.id
        row = self._row_that_is(trial_id, "answered")
        self._amend("undone", row, self._before_answer(_make_trial(row)))
        return self.trial(trial_id)

    def _before_answer(self, trial: Trial) -> dict[str, Any]:
        """The columns that an answer has changed, as they were before."""
        unanswered = {"outcome": None, "infeasible": [], "position": None}
        events = read_events_since_last(self._tables, "answered", trial.id)
        if not events and self._was_added(trial):
            return {**unanswered, "status": "withdrawn"}
        former = {**unanswered, "status": "pending", "closed_at": None}
        for event in reversed(events):
            if event.kind in ("answered", "annotated"):
                former |= event.old
        return former

    def _was_added(self, trial: Trial) -> bool:
        """Whether a trial was added; in old journals without a history, none was."""
        return any(event.kind == "added" for event in self.history(trial.id))

    def _row_that_is(self, trial_id: int, *allowed: str) -> Row:
        row = self._row(trial_id)
        status = _make_trial(row).status
        if status not in allowed:
            raise InputDataError(
                f"Expected ``trial_id`` to be that of a trial that is "
                f"{' or '.join(allowed)}, but got {trial_id}, which is {status}."
            )
        return row

    def _amend(self, kind: str, row: Row, columns: Mapping[str, Any]) -> None:
        """Change an answer, and forget the fits that learned from it."""
        position = _make_trial(row).position
        if position is not None:
            before = self.index().num_learned_before(position)
            self._tables.delete("fits", "num_answers > ?", (before,))
        self._change(kind, row, columns)

    def _change(self, kind: str, row: Row, columns: Mapping[str, Any]) -> None:
        former = dict(zip(TABLES["trials"], row, strict=True))
        given = {name: _to_column(name, value) for name, value in columns.items()}
        changed = {name: v for name, v in given.items() if former[name] != v}
        old = {name: _from_column(name, former[name]) for name in changed}
        new = {name: _from_column(name, value) for name, value in changed.items()}
        revision = log_event(self._tables, kind, former["id"], old, new)
        row_after = {**former, **changed, "revision": revision}
        self._tables.update("trials", row, tuple(row_after.values()))


def _shown(context: Values, sides: Sequence[Values]) -> dict[str, Any]:
    return {"context": dict(context), "sides": [dict(side) for side in sides]}


def _to_column(name: str, value: Any) -> Any:
    if name in _JSON_COLUMNS:
        return None if value is None else to_json(value)
    if name == "reaction_time":
        return None if value is None else float(value)
    return int(value) if name == "used" else value


def _from_column(name: str, value: Any) -> Any:
    if name in _JSON_COLUMNS:
        return None if value is None else json.loads(value)
    return bool(value) if name == "used" else value


def _make_trial(row: Row) -> Trial:
    columns = {
        name: _from_column(name, value)
        for name, value in zip(TABLES["trials"], row, strict=True)
    }
    shown = columns.pop("shown")
    asked = columns.pop("asked")
    del columns["revision"]
    columns["infeasible"] = tuple(columns["infeasible"])
    return Trial(
        context=shown["context"],
        sides=tuple(shown["sides"]),
        asked=None if asked is None else join_values(asked["context"], asked["sides"]),
        **columns,
    )
