r"""
The trials of a journal in memory, indexed for quick access at every answer.

Adding a trial takes no longer after two thousand answers than after ten; neither do
counting trials and finding the last answer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from operator import attrgetter

from botorch_binary_context.experiment.trial import Trial

#: The possible statuses of a trial.
STATUSES = ("answered", "pending", "withdrawn")


class TrialIndex:
    r"""Trials by their ids, their status and the order of their answers."""

    def __init__(self) -> None:
        self._trials: dict[int, Trial] = {}  # in the order of the ids
        self._pending: dict[int, Trial] = {}
        self._answers = _Answers()
        self._learned = _Answers()
        self._counts: Counter[tuple[str | None, str]] = Counter()
        self._totals: Counter[str] = Counter()

    def put(self, trial: Trial) -> None:
        r"""Add or update a trial; a new one has the next id.

        Args:
            trial: The trial.
        """
        former = self._trials.get(trial.id)
        if former is not None:
            self._count(former, -1)
            self._take_out(former)
        self._trials[trial.id] = trial
        self._count(trial, 1)
        if trial.status == "pending":
            self._pending[trial.id] = trial
        elif trial.status == "answered":
            self._answers.insert(trial)
            if trial.used:
                self._learned.insert(trial)

    def _take_out(self, former: Trial) -> None:
        self._pending.pop(former.id, None)
        if former.status == "answered":
            self._answers.remove(former)
            if former.used:
                self._learned.remove(former)

    def _count(self, trial: Trial, change: int) -> None:
        self._counts[trial.rater, trial.status] += change
        self._totals[trial.status] += change

    @property
    def num_trials(self) -> int:
        """The number of all trials."""
        return len(self._trials)

    @property
    def trials(self) -> list[Trial]:
        """All trials in the order of their ids."""
        return list(self._trials.values())

    @property
    def pending(self) -> list[Trial]:
        """The pending trials in the order of their ids."""
        return [self._pending[i] for i in sorted(self._pending)]

    @property
    def answered(self) -> list[Trial]:
        """The answered trials in the order of the answers."""
        return list(self._answers.trials)

    @property
    def learned(self) -> list[Trial]:
        """The answered trials that the model uses, in the order of the answers."""
        return list(self._learned.trials)

    @property
    def num_learned(self) -> int:
        """The number of answers that the model uses."""
        return len(self._learned.trials)

    @property
    def last_position(self) -> int:
        """The position of the last answer; 0 if there is none."""
        answers = self._answers.trials
        return _position(answers[-1]) if answers else 0

    def num_learned_before(self, position: int) -> int:
        r"""The number of answers that the model uses before a given one.

        Args:
            position: The position of an answer.
        """
        return self._learned.place(position)

    def last_answer(self, rater: str | None) -> Trial | None:
        r"""The last answer of someone.

        Args:
            rater: Who it is; None for anybody.

        Returns:
            The trial, or None if there is none.
        """
        if rater is not None and not self._counts[rater, "answered"]:
            return None
        latest = reversed(self._answers.trials)
        return next((t for t in latest if rater in (None, t.rater)), None)

    def counts(self, rater: str | None) -> dict[str, int]:
        r"""The numbers of trials by their status.

        Args:
            rater: Whose trials; None for all.

        Returns:
            A number for each of ``STATUSES``.
        """
        if rater is None:
            return {status: self._totals[status] for status in STATUSES}
        return {status: self._counts[rater, status] for status in STATUSES}


class _Answers:
    """Answered trials in the order of their positions."""

    def __init__(self) -> None:
        self.trials: list[Trial] = []

    def place(self, position: int) -> int:
        return bisect_left(self.trials, position, key=_position)

    def insert(self, trial: Trial) -> None:
        self.trials.insert(self.place(_position(trial)), trial)

    def remove(self, trial: Trial) -> None:
        del self.trials[self.place(_position(trial))]


_position = attrgetter("position")
