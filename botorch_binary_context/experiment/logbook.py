r"""
The answers of an experiment: telling, correcting, adding and describing.

None of this needs a model, so it takes milliseconds. Only methods that check values of
variables load torch.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from botorch_binary_context.errors import InputDataError, quote
from botorch_binary_context.experiment.details import (
    check_id,
    check_metadata,
    check_rater,
    check_text,
    check_time,
)
from botorch_binary_context.experiment.events import Event
from botorch_binary_context.experiment.feedback import make_feedback
from botorch_binary_context.experiment.feedback_base import Feedback
from botorch_binary_context.experiment.journal import Journal
from botorch_binary_context.experiment.stopping import Stop
from botorch_binary_context.experiment.toml_tables import make, table_of
from botorch_binary_context.experiment.trial import Trial

if TYPE_CHECKING:
    from botorch_binary_context.experiment.settings import Settings
    from botorch_binary_context.experiment.space import Values


class Logbook:
    r"""An experiment's settings, trials and history, without questions and models.

    :class:`~botorch_binary_context.experiment.Experiment` is a logbook that can ask.
    Any thread may use it, and a process that was forked.
    """

    def __init__(self, journal: Journal) -> None:
        r"""
        Args:
            journal: The journal; usually you call :meth:`open` instead.
        """
        self._journal = journal
        try:
            # Journals from before there was a choice.
            former = {"inference": "laplace", "priors": "separate"}
            self._content = {**former, **journal.settings()}
            self.feedback: Feedback = make_feedback(self._content.get("feedback"))
            self._content["stop"] = self._former_stop(self._content.get("stop"))
            self._content["goal"] = _former_goal(self._content.get("goal"))
        except BaseException:
            journal.close()
            raise

    def _former_stop(self, table: Any) -> Any:
        """Drop the threshold of duels, which old journals may have, from a table."""
        if self.feedback.num_sides == 1 or not isinstance(table, Mapping):
            return table
        rest = {k: v for k, v in table.items() if k != "threshold_width"}
        return rest or None

    @cached_property
    def settings(self) -> Settings:
        """The settings of the experiment. Checking them loads torch."""
        from botorch_binary_context.experiment.lens import spell_out_combinations
        from botorch_binary_context.experiment.settings import Settings

        return Settings.from_dict(spell_out_combinations(self._content))

    @property
    def stop(self) -> Stop | None:
        """When to stop, if the settings say so."""
        table = self._content.get("stop")
        return None if table is None else make(Stop, table_of(table, "stop"), "stop")

    @property
    def rule(self) -> str:
        """The name of the rule that chooses trials."""
        return self._content["rule"]

    @classmethod
    def open(cls, path: str | Path, timeout: float = 30.0) -> Self:
        r"""Resume an experiment.

        If the file or its folder is read-only, the experiment can be read and exported,
        but not changed.

        Args:
            path: The journal file.
            timeout: The number of seconds to wait while another process makes a change.
        """
        return cls(Journal(path, timeout))

    def close(self) -> None:
        r"""Close the journal. Nothing is lost without it."""
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        place = f"{type(self).__name__}({str(self._journal.path)!r}"
        kind = f"{self.feedback.kind}, {self.rule}"
        from botorch.exceptions import InputDataError

        try:
            counts = self.count()
        except InputDataError:
            return f"{place}, {kind}, closed)"
        numbers = [f"{number} {status}" for status, number in counts.items()]
        return f"{place}, {kind}: {', '.join(numbers)})"

    @property
    def path(self) -> Path:
        """The journal file."""
        return self._journal.path

    @property
    def read_only(self) -> bool:
        """Whether nothing can be changed."""
        return self._journal.read_only

    @property
    def trials(self) -> list[Trial]:
        """All trials, in the order they were asked or added."""
        # Copies, so that the journal's own objects cannot be changed.
        return [_copy(trial) for trial in self._journal.trials()]

    @property
    def pending(self) -> list[Trial]:
        """The trials that wait for their answers, in the order they were asked."""
        with self._journal.reading():
            return [_copy(trial) for trial in self._journal.index().pending]

    @property
    def num_trials(self) -> int:
        """The number of trials, which is the last id."""
        with self._journal.reading():
            return self._journal.index().num_trials

    @property
    def num_answers(self) -> int:
        """The number of answers that the model learns from."""
        with self._journal.reading():
            index = self._journal.index()
            if self.feedback.infeasible is None:
                return index.num_learned
            labels = range(len(self.feedback.answers))
            return sum(trial.outcome in labels for trial in index.learned)

    def count(self, rater: str | None = None) -> dict[str, int]:
        r"""The numbers of trials by their status.

        Args:
            rater: Whose trials to count; by default everybody's.

        Returns:
            The numbers of trials that are "answered", "pending" and "withdrawn".
        """
        with self._journal.reading():
            return self._journal.index().counts(rater)

    def last_answer(self, rater: str | None = None) -> Trial | None:
        r"""The trial that was answered last.

        Args:
            rater: Whose answers; by default everybody's.

        Returns:
            The trial, or None if there is none.
        """
        with self._journal.reading():
            trial = self._journal.index().last_answer(rater)
            return None if trial is None else _copy(trial)

    def trial(self, trial_id: int) -> Trial:
        r"""One trial.

        Args:
            trial_id: Its id.
        """
        return self._journal.trial(check_id(trial_id))

    @property
    def revision(self) -> int:
        """A number that every change of a trial raises."""
        return self._journal.revision()

    def blank_trial(self) -> Trial:
        r"""A trial that shows nothing, for the names of all values.

        Returns:
            The trial, whose values are empty texts.
        """
        if self.num_trials:
            context = self.trial(1).context
            sides = self.trial(1).sides
        else:  # loads torch
            context = self.settings.space.reference_context()
            side = {part.name: "" for part in self.settings.space.parts}
            sides = (side,) * self.feedback.num_sides
        blank = [dict.fromkeys(values, "") for values in (context, *sides)]
        return Trial(0, blank[0], tuple(blank[1:]), "", "")

    @property
    def history(self) -> list[Event]:
        """Everything that happened, in order."""
        return self._journal.history()

    @property
    def metadata(self) -> dict[str, Any]:
        """The notes about the experiment: "subject", "notes" and so on."""
        return self._journal.metadata()

    def describe(self, /, **changes: Any) -> None:
        r"""Change the notes about the experiment; the history keeps the old ones.

        Args:
            changes: Texts, numbers or other plain data, for example ``subject``,
                ``experimenter``, ``notes`` or any other key; None removes a key.

        Example:
            >>> experiment.describe(subject="P07", notes="wears contact lenses")
        """
        check_metadata(changes)
        with self._journal.transaction():
            self._journal.describe(changes)

    def tell(
        self,
        trial_id: int,
        outcome: Any,
        *,
        infeasible: Any = None,
        shown: Values | None = None,
        rater: str | None = None,
        reaction_time: float | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        r"""Record an answer. It is on disk when this returns.

        Args:
            trial_id: The id of a pending trial.
            outcome: True, 1 or "pass", or False, 0 or "fail"; for duels True, 1 or
                "first" if the first side is preferred, else False, 0 or "second"; or
                the settings' name for trials that are not feasible.
            infeasible: What was not feasible in spite of the answer, if the settings
                have a name for it: True, or with several sides their names, such as
                "first" or ["first", "second"].
            shown: What was actually shown, if it differs from what was asked: the
                values that differ, by the names of ``trial.values``. They must be
                within the bounds, but need not be one of the levels.
            rater: Who answered.
            reaction_time: How long the answer took, in seconds.
            extra: Anything else to note, by free names.
        """
        number = check_id(trial_id)
        label = self.feedback.parse(outcome)
        details = self._details(infeasible, rater, reaction_time, extra)
        if shown is not None:
            _check_mapping("shown", shown)
        with self._journal.transaction():
            if shown is not None:
                values = {**self._journal.trial(number).values, **shown}
                context, sides = self._check_values("shown", values)
                details["shown"] = {"context": context, "sides": list(sides)}
            self._journal.answer(number, label, details)

    def withdraw(self, trial_id: int) -> None:
        r"""Give up a trial that was not run.

        Args:
            trial_id: The id of a pending trial.
        """
        number = check_id(trial_id)
        with self._journal.transaction():
            self._journal.withdraw(number)

    def correct(self, trial_id: int, outcome: Any, *, infeasible: Any = None) -> None:
        r"""Change an answer. Hyperparameters that were learned from it are forgotten.

        Args:
            trial_id: The id of an answered trial.
            outcome: The right outcome, as in :meth:`tell`.
            infeasible: What was not feasible in spite of it, as in :meth:`tell`.
        """
        number = check_id(trial_id)
        label = self.feedback.parse(outcome)
        names = self.feedback.parse_infeasible(infeasible)
        with self._journal.transaction():
            self._journal.correct(number, label, names)

    def annotate(self, trial_id: int, **extra: Any) -> None:
        r"""Note more about a trial, for example after its answer.

        Args:
            trial_id: The id of a trial.
            extra: Anything to note, by free names, as ``extra`` of :meth:`tell`.

        Example:
            >>> experiment.annotate(trial.id, confidence=3)
        """
        number = check_id(trial_id)
        details = self._details(None, None, None, extra)
        with self._journal.transaction():
            self._journal.annotate(number, details["extra"])

    def undo(self, trial_id: int | None = None) -> Trial:
        r"""Take back an answer, so that the trial can be answered again.

        The trial is pending as it was before, with its id. A trial that was added
        without being asked is withdrawn. Corrections do not count as answers: another
        call of :meth:`correct` changes them.

        Args:
            trial_id: The id of an answered trial; by default that of the last answer.
        """
        number = None if trial_id is None else check_id(trial_id)
        with self._journal.transaction():
            return self._journal.undo(number)

    def exclude(self, trial_id: int) -> None:
        r"""Keep a trial, but do not let the model learn from it.

        Args:
            trial_id: The id of a trial that was not withdrawn.
        """
        self._use(trial_id, False)

    def include(self, trial_id: int) -> None:
        r"""Let the model learn from a trial again.

        Args:
            trial_id: The id of a trial that was not withdrawn.
        """
        self._use(trial_id, True)

    def _use(self, trial_id: int, used: bool) -> None:
        number = check_id(trial_id)
        with self._journal.transaction():
            self._journal.use(number, used)

    def add(
        self,
        values: Values,
        outcome: Any,
        *,
        infeasible: Any = None,
        use: bool = True,
        rater: str | None = None,
        reaction_time: float | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Trial:
        r"""Record a trial that the experiment did not ask for.

        Args:
            values: What was shown, by the names of ``trial.values``.
            outcome: The outcome, as in :meth:`tell`.
            infeasible: What was not feasible in spite of it, as in :meth:`tell`.
            use: Whether the model learns from it; False for catch trials and warm-up.
            rater: Who answered.
            reaction_time: How long the answer took, in seconds.
            extra: Anything else to note, by free names.
        """
        context, sides = self._check_values("values", values)
        answer = {"outcome": self.feedback.parse(outcome), "used": bool(use)}
        answer |= self._details(infeasible, rater, reaction_time, extra)
        with self._journal.transaction():
            return self._journal.add_answered(context, sides, answer)

    def import_table(self, rows: Iterable[Mapping[str, Any]]) -> list[Trial]:
        r"""Add the trials of a table, all or none.

        Args:
            rows: One mapping for each trial, as :class:`csv.DictReader` gives them: the
                names of ``trial.values`` and "outcome", and where they are known
                "infeasible", "use" or "used", "rater", "reaction_time", "chosen_by",
                "asked_at", "closed_at", and for what should have been shown "asked."
                followed by a name of ``trial.values``. Other columns are kept as
                ``extra``. If there is a column "status", the rows that are not
                "answered" are left out, so that the table of another experiment can be
                imported.

        Returns:
            The new trials, in the order of the rows.
        """
        from botorch.exceptions import InputDataError

        checked = []
        for number, row in enumerate(rows, start=1):
            if row.get("status", "answered") != "answered":
                continue
            try:
                checked.append(self._check_row(row))
            except InputDataError as error:
                raise InputDataError(f"In row {number}: {error}") from error
        with self._journal.transaction():
            return [self._journal.add_answered(*trial) for trial in checked]

    def _check_row(
        self, row: Mapping[str, Any]
    ) -> tuple[Values, tuple[Values, ...], dict[str, Any]]:
        from botorch_binary_context.experiment.rows import read_row

        values, answer, extra = read_row(self.settings, row)
        context, sides = self._check_values("values", values)
        outcome = self.feedback.parse(answer.pop("outcome"))
        infeasible = answer.pop("infeasible")
        rater = answer.pop("rater")
        reaction_time = answer.pop("reaction_time")
        chosen_by = answer.pop("chosen_by")
        if chosen_by is not None:
            answer["chosen_by"] = check_text("chosen_by", chosen_by)
        answer |= self._details(infeasible, rater, reaction_time, extra)
        return context, sides, {**answer, "outcome": outcome}

    def _details(
        self,
        infeasible: Any,
        rater: Any,
        reaction_time: Any,
        extra: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        """What was given about an answer, checked."""
        details: dict[str, Any] = {}
        if infeasible is not None:
            names = self.feedback.parse_infeasible(infeasible)
            details["infeasible"] = list(names)
        if rater is not None:
            details["rater"] = check_rater(rater)
        if reaction_time is not None:
            details["reaction_time"] = check_time(reaction_time)
        if extra is not None:
            check_metadata(extra, "extra")
            self._check_extra_names(extra)
            details["extra"] = dict(extra)
        return details

    def _check_extra_names(self, extra: Mapping[str, Any]) -> None:
        taken = {*self.blank_trial().values, *(f.name for f in fields(Trial))}
        wrong = sorted(taken & set(extra))
        if wrong:
            raise InputDataError(
                "Expected ``extra`` to have names of its own, but got "
                f"{', '.join(wrong)}, which a trial has already."
            )

    def _check_values(
        self, argument: str, values: Any
    ) -> tuple[Values, tuple[Values, ...]]:
        """The context and the sides, in their order and within their bounds."""
        from botorch_binary_context.experiment.rows import split_values

        context, sides = split_values(self.settings, values, argument)
        self.settings.encoder().encode(context, sides)
        return context, sides


def _check_mapping(name: str, values: Any) -> None:
    if not isinstance(values, Mapping):
        raise InputDataError(
            f"Expected ``{name}`` to give values to names, but got {quote(values)}."
        )


def _former_goal(table: Any) -> Any:
    """Rename the level of a goal, as old journals call its share or probability."""
    if not isinstance(table, Mapping) or "level" not in table:
        return table
    rest = {key: value for key, value in table.items() if key != "level"}
    name = "probability" if table.get("kind") == "map" else "share"
    return {**rest, name: table["level"]}


def _copy(trial: Trial) -> Trial:
    """A copy that shares nothing that can be changed; ``deepcopy`` is slow."""
    return replace(
        trial,
        context=dict(trial.context),
        sides=tuple(dict(side) for side in trial.sides),
        asked=None if trial.asked is None else dict(trial.asked),
        extra=copy.deepcopy(trial.extra) if trial.extra else {},
    )
