r"""
The state of a journal at one moment, as far as the next question depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from botorch_binary_context.experiment.trial import Trial


@dataclass(frozen=True)
class State:
    r"""The state of a journal at one moment.

    Attributes:
        num_trials: The number of all trials.
        pending: The trials that wait for their answers, in the order of their ids.
        told: The trials with outcomes that models use, in the order of the outcomes.
        revision: The revision of the journal; None if some answers are only supposed.
        num_labels: The number of labels that are answers; higher labels mark infeasible
            trials.
    """

    num_trials: int
    pending: Sequence[Trial]
    told: Sequence[Trial]
    revision: int | None
    num_labels: int

    @property
    def answered(self) -> list[Trial]:
        """The trials whose outcomes are answers, in the order of the answers."""
        labels = range(self.num_labels)
        return [trial for trial in self.told if trial.outcome in labels]

    def has_answers(self, number: int) -> bool:
        r"""Whether there are at least this many answers.

        Args:
            number: The number of answers.

        Returns:
            Whether :attr:`answered` has at least this many trials.
        """
        return len(self.told) >= number and len(self.answered) >= number

    @property
    def waiting(self) -> list[Trial]:
        """The pending trials whose answers the model will use."""
        return [trial for trial in self.pending if trial.used]

    @property
    def is_supposed(self) -> bool:
        """Whether some of the answers have not been given."""
        return self.revision is None

    @property
    def next_number(self) -> int:
        """The number of the next trial."""
        return self.num_trials + 1

    @property
    def signature(self) -> tuple[Any, ...]:
        """Everything that the next question depends on."""
        pending = [(t.id, t.context, t.sides) for t in self.waiting]
        infeasible = [t.infeasible for t in self.told]
        return answers_of(self.told), infeasible, pending, self.next_number

    def suppose(self, trial_id: int, outcome: int) -> State:
        r"""The state after an answer that has not been given.

        Args:
            trial_id: The id of a pending trial.
            outcome: Its outcome.
        """
        rest = [trial for trial in self.pending if trial.id != trial_id]
        new = [
            replace(trial, status="answered", outcome=outcome)
            for trial in self.pending
            if trial.id == trial_id and trial.used
        ]
        return replace(self, pending=rest, told=[*self.told, *new], revision=None)

    def suppose_asked(self, trial: Trial) -> State:
        r"""The state after a trial that may be asked.

        Args:
            trial: The pending trial.
        """
        pending = [*self.pending, trial]
        return replace(self, num_trials=self.num_trials + 1, pending=pending)


def answers_of(trials: Sequence[Trial]) -> list[tuple[Any, ...]]:
    r"""What the model learns from trials.

    Args:
        trials: The trials.

    Returns:
        A tuple for each trial.
    """
    return [(t.id, t.outcome, t.context, t.sides) for t in trials]
