r"""Random sequences of calls, right and wrong: what must always hold of a journal."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import pytest
from botorch.exceptions import InputDataError
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from botorch_binary_context.experiment import Experiment
from tests.experiment.simulation import FIXED, MIXED, duels, pass_fail

WRONG_OUTCOMES: list[Any] = ["", "maybe", None, 2, -1, 0.5, float("nan"), [], object()]
WRONG_IDS: list[Any] = [0, -1, 10**30, "1", 1.0, None, True]

KINDS = {
    "pass/fail": pass_fail(
        MIXED, rule="random", initial_trials=2, hyperparameters={**FIXED, "slope": 5.0}
    ),
    "duels": duels(
        MIXED,
        rule="random",
        initial_trials=2,
        hyperparameters={**FIXED, "context_lengthscale": 1.0},
    ),
}


class Calls(RuleBasedStateMachine):
    """An experiment, and what should be in its journal."""

    @initialize(kind=st.sampled_from(sorted(KINDS)))
    def begin(self, kind: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "journal"
        self.settings = KINDS[kind]
        self.experiment = Experiment.create(self.path, self.settings)
        self.shown: list[dict[str, Any]] = []
        self.status: list[str] = []
        self.outcomes: dict[int, int] = {}  # in the order of the answers
        self.calls: list[tuple[Any, ...]] = []

    @rule()
    def ask(self) -> None:
        trial = self.experiment.ask()
        assert trial.id == len(self.shown) + 1
        assert trial.status == "pending"
        self.shown.append(trial.values)
        self.status.append("pending")
        self.calls.append(("ask",))

    @rule(data=st.data(), outcome=st.sampled_from([0, 1]))
    def tell(self, data: st.DataObject, outcome: int) -> None:
        if not self.shown:
            return
        trial_id = data.draw(st.integers(1, len(self.shown)))
        if self.status[trial_id - 1] == "pending":
            self.experiment.tell(trial_id, outcome)
            self.status[trial_id - 1] = "answered"
            self.outcomes[trial_id] = outcome
            self.calls.append(("tell", trial_id, outcome))
        else:
            with pytest.raises(InputDataError, match="to be that of a pending trial"):
                self.experiment.tell(trial_id, outcome)

    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        if not self.shown:
            return
        trial_id = data.draw(st.integers(1, len(self.shown)))
        if self.status[trial_id - 1] == "pending":
            self.experiment.withdraw(trial_id)
            self.status[trial_id - 1] = "withdrawn"
            self.calls.append(("withdraw", trial_id))
        else:
            with pytest.raises(InputDataError, match="to be that of a pending trial"):
                self.experiment.withdraw(trial_id)

    @rule(outcome=st.sampled_from(WRONG_OUTCOMES))
    def tell_nonsense(self, outcome: Any) -> None:
        with pytest.raises(InputDataError, match="Expected ``outcome`` to be"):
            self.experiment.tell(max(len(self.shown), 1), outcome)

    @rule(trial_id=st.sampled_from(WRONG_IDS), ahead=st.integers(1, 3))
    def use_wrong_id(self, trial_id: Any, ahead: int) -> None:
        for wrong in (trial_id, len(self.shown) + ahead):
            with pytest.raises(InputDataError, match="Expected ``trial_id`` to be"):
                self.experiment.tell(wrong, 1)
            with pytest.raises(InputDataError, match="Expected ``trial_id`` to be"):
                self.experiment.withdraw(wrong)

    @rule()
    def reopen(self) -> None:
        self.experiment.close()
        self.experiment = Experiment.open(self.path)

    @rule()
    def replace_without_closing(self) -> None:
        former, self.experiment = self.experiment, Experiment.open(self.path)
        former.close()

    @invariant()
    def journal_is_as_expected(self) -> None:
        trials = self.experiment.trials
        assert [t.id for t in trials] == list(range(1, len(self.shown) + 1))
        assert [t.values for t in trials] == self.shown
        assert [t.status for t in trials] == self.status
        told = {t.id: t.outcome for t in trials if t.status == "answered"}
        assert told == self.outcomes
        assert all(t.outcome is None for t in trials if t.id not in self.outcomes)

    @invariant()
    def answers_count_once_in_their_order(self) -> None:
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            rows = connection.execute(
                "SELECT position, id FROM trials WHERE outcome IS NOT NULL "
                "ORDER BY position"
            ).fetchall()
        assert rows == list(enumerate(self.outcomes, start=1))

    def teardown(self) -> None:
        """The same calls, without the mistakes, give the same questions."""
        if not hasattr(self, "experiment"):
            return
        self.experiment.close()
        with Experiment.create(self.path.with_name("again"), self.settings) as again:
            for name, *arguments in self.calls:
                getattr(again, name)(*arguments)
            assert [trial.values for trial in again.trials] == self.shown
        self.folder.cleanup()


TestCalls = Calls.TestCase
TestCalls.settings = hypothesis_settings(max_examples=12, stateful_step_count=25)
