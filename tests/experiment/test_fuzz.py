r"""Random calls, right and wrong: the journal equals a plain model of it."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botorch.exceptions import InputDataError, UnsupportedError
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from botorch_binary_context.experiment import Experiment, Trial
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
OUTCOMES = st.sampled_from([0, 1])
HANDLES = st.integers(0, 1)
DETAILS = st.fixed_dictionaries(
    {},
    optional={
        "rater": st.sampled_from(["Ada", "Böhm"]),
        "reaction_time": st.sampled_from([0.0, 0.25, 3.5]),
        "extra": st.sampled_from([{}, {"eye": "left"}, {"tired": True, "lux": 3.5}]),
    },
)


@dataclass
class Model:
    """What a trial should be."""

    values: dict[str, Any]
    status: str = "pending"
    outcome: int | None = None
    used: bool = True
    asked: dict[str, Any] | None = None
    rater: str | None = None
    reaction_time: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def before(self) -> dict[str, Any]:
        """What an answer may change."""
        return {k: v for k, v in vars(self).items() if k != "used"}


class Calls(RuleBasedStateMachine):
    """An experiment with two handles, and what should be in its journal."""

    @initialize(kind=st.sampled_from(sorted(KINDS)))
    def begin(self, kind: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "journal"
        self.settings = KINDS[kind]
        first = Experiment.create(self.path, self.settings)
        self.handles = [first, Experiment.open(self.path)]
        self.trials: list[Model] = []
        self.order: list[int] = []  # the ids in the order of the answers
        self.before: dict[int, dict[str, Any]] = {}  # what undoing restores
        self.events = ["created"]
        self.metadata: dict[str, Any] = {}
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def call(self, handle: int, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method, and remember it if it succeeds."""
        result = getattr(self.handles[handle], name)(*args, **kwargs)
        self.calls.append((name, args, kwargs))
        return result

    def draw(self, data: st.DataObject) -> tuple[int, Model]:
        """A trial that was asked, or id 0 of no trial."""
        number = data.draw(st.integers(min(1, len(self.trials)), len(self.trials)))
        return number, self.trials[number - 1] if number else Model({}, "missing")

    def refused(self, work: Callable[[], Any]) -> None:
        with pytest.raises(InputDataError, match="Expected ``trial_id`` to be"):
            work()

    @rule(handle=HANDLES, rater=st.sampled_from([None, "Ada"]))
    def ask(self, handle: int, rater: str | None) -> None:
        self.expect_asked([self.call(handle, "ask", rater=rater)], rater)

    @rule(handle=HANDLES, n=st.integers(1, 3), rater=st.sampled_from([None, "Ada"]))
    def ask_several(self, handle: int, n: int, rater: str | None) -> None:
        trials = self.call(handle, "ask", n, rater=rater)
        assert len(trials) == n
        self.expect_asked(trials, rater)

    def expect_asked(self, trials: list[Trial], rater: str | None) -> None:
        for trial in trials:
            assert trial.id == len(self.trials) + 1
            pending = [m.values for m in self.trials if m.status == "pending"]
            assert trial.values not in pending
            self.trials.append(Model(trial.values, rater=rater))
            self.events.append("asked")

    @rule(handle=HANDLES, data=st.data(), outcome=OUTCOMES, details=DETAILS)
    def tell(
        self, handle: int, data: st.DataObject, outcome: int, details: dict[str, Any]
    ) -> None:
        number, model = self.draw(data)
        if model.status != "pending":
            self.refused(lambda: self.call(handle, "tell", number, outcome))
            return
        shown = data.draw(st.sampled_from([None, {}, {"noise": 0.75}]))
        self.call(handle, "tell", number, outcome, shown=shown, **details)
        self.before[number] = model.before()
        if shown:
            model.asked, model.values = model.values, {**model.values, **shown}
        vars(model).update(details, status="answered", outcome=outcome)
        self.order.append(number)
        self.events.append("answered")

    @rule(handle=HANDLES, data=st.data())
    def withdraw(self, handle: int, data: st.DataObject) -> None:
        number, model = self.draw(data)
        if model.status != "pending":
            self.refused(lambda: self.call(handle, "withdraw", number))
            return
        self.call(handle, "withdraw", number)
        model.status = "withdrawn"
        self.events.append("withdrawn")

    @rule(handle=HANDLES, data=st.data(), outcome=OUTCOMES)
    def correct(self, handle: int, data: st.DataObject, outcome: int) -> None:
        number, model = self.draw(data)
        if model.status != "answered":
            self.refused(lambda: self.call(handle, "correct", number, outcome))
            return
        self.call(handle, "correct", number, outcome)
        model.outcome = outcome
        self.events.append("corrected")

    @rule(handle=HANDLES, data=st.data(), name=st.sampled_from(["exclude", "include"]))
    def use(self, handle: int, data: st.DataObject, name: str) -> None:
        number, model = self.draw(data)
        if model.status not in ("pending", "answered"):
            self.refused(lambda: self.call(handle, name, number))
            return
        self.call(handle, name, number)
        if model.used != (name == "include"):
            model.used = not model.used
            self.events.append(f"{name}d")

    @rule(handle=HANDLES)
    def undo(self, handle: int) -> None:
        if not self.order:
            with pytest.raises(UnsupportedError, match="an answer to undo"):
                self.call(handle, "undo")
            return
        number = self.order[-1]
        assert self.call(handle, "undo").id == number
        self.expect_undone(number)

    @rule(handle=HANDLES, data=st.data())
    def undo_one(self, handle: int, data: st.DataObject) -> None:
        number, model = self.draw(data)
        if model.status != "answered":
            self.refused(lambda: self.call(handle, "undo", number))
            return
        assert self.call(handle, "undo", number).id == number
        self.expect_undone(number)

    def expect_undone(self, number: int) -> None:
        self.order.remove(number)
        model = self.trials[number - 1]
        if number in self.before:
            vars(model).update(self.before.pop(number))
        else:  # it was added
            vars(model).update(status="withdrawn", outcome=None)
        self.events.append("undone")

    @rule(handle=HANDLES, outcome=OUTCOMES, use=st.booleans(), details=DETAILS)
    def add(
        self, handle: int, outcome: int, use: bool, details: dict[str, Any]
    ) -> None:
        side = {"gain": 2.0, "taps": 3, "window": "box"}
        starts = ("first.", "second.") if self.settings == KINDS["duels"] else ("",)
        values = {"noise": 1.2}  # not one of the levels
        values |= {f"{start}{k}": v for start in starts for k, v in side.items()}
        trial = self.call(handle, "add", values, outcome, use=use, **details)
        assert trial.id == len(self.trials) + 1
        model = Model(values, "answered", outcome, use)
        vars(model).update(details)
        self.trials.append(model)
        self.order.append(trial.id)
        self.events.append("added")

    @rule(handle=HANDLES, notes=st.sampled_from(["tired", "awake", None]))
    def describe(self, handle: int, notes: str | None) -> None:
        self.call(handle, "describe", notes=notes)
        self.metadata = {} if notes is None else {"notes": notes}
        self.events.append("described")

    @rule(handle=HANDLES, outcome=st.sampled_from(WRONG_OUTCOMES))
    def tell_nonsense(self, handle: int, outcome: Any) -> None:
        number = max(len(self.trials), 1)
        for name in ("tell", "correct"):
            with pytest.raises(InputDataError, match="Expected ``outcome`` to be"):
                self.call(handle, name, number, outcome)

    @rule(handle=HANDLES, trial_id=st.sampled_from(WRONG_IDS), ahead=st.integers(1, 3))
    def use_wrong_id(self, handle: int, trial_id: Any, ahead: int) -> None:
        for wrong in (trial_id, len(self.trials) + ahead):
            self.refused(lambda w=wrong: self.call(handle, "tell", w, 1))
            self.refused(lambda w=wrong: self.call(handle, "correct", w, 1))
            for name in ("withdraw", "exclude", "include"):
                self.refused(lambda n=name, w=wrong: self.call(handle, n, w))
            if wrong is not None:  # which is the last answer
                self.refused(lambda w=wrong: self.call(handle, "undo", w))

    @rule(handle=HANDLES)
    def reopen(self, handle: int) -> None:
        self.handles[handle].close()
        self.handles[handle] = Experiment.open(self.path)

    @rule(handle=HANDLES)
    def copy_the_file(self, handle: int) -> None:
        copy = Path(shutil.copy(self.path, self.path.with_name("copy")))
        with Experiment.open(copy) as copied:
            self.compare(copied)

    @rule(handle=HANDLES)
    def kill(self, handle: int) -> None:
        """A process dies in the middle of a change, and nothing has happened."""
        child = os.fork()
        if child == 0:
            journal = self.handles[handle]._journal
            with journal.transaction():
                if self.order:
                    journal.undo()
                journal.describe({"notes": "lost"})
                os.kill(os.getpid(), signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL

    @invariant()
    def journal_is_as_expected(self) -> None:
        for experiment in self.handles:
            self.compare(experiment)

    def compare(self, experiment: Experiment) -> None:
        trials = experiment.trials
        assert [t.id for t in trials] == list(range(1, len(self.trials) + 1))
        found = [{name: getattr(t, name) for name in vars(Model({}))} for t in trials]
        assert found == [vars(model) for model in self.trials]
        positions = {t.position: t.id for t in trials if t.position is not None}
        assert [positions[position] for position in sorted(positions)] == self.order
        assert [event.kind for event in experiment.history] == self.events
        assert experiment.metadata == self.metadata
        self.compare_counts(experiment)

    def compare_counts(self, experiment: Experiment) -> None:
        """What is known without a look at all trials."""
        answered = [self.trials[i - 1] for i in self.order]
        assert experiment.num_trials == len(self.trials)
        assert experiment.num_answers == sum(model.used for model in answered)
        pending = [i for i, m in enumerate(self.trials, 1) if m.status == "pending"]
        assert [trial.id for trial in experiment.pending] == pending
        for rater in (None, "Ada", "Böhm"):
            own = [m for m in self.trials if rater in (None, m.rater)]
            for status, number in experiment.count(rater).items():
                assert number == sum(model.status == status for model in own)
            ids = [i for i in self.order if rater in (None, self.trials[i - 1].rater)]
            last = experiment.last_answer(rater)
            assert (None if last is None else last.id) == (ids[-1] if ids else None)

    def teardown(self) -> None:
        """The same calls, without the mistakes, give the same questions."""
        if not hasattr(self, "handles"):
            return
        for experiment in self.handles:
            experiment.close()
        with Experiment.create(self.path.with_name("again"), self.settings) as again:
            for name, args, kwargs in self.calls:
                getattr(again, name)(*args, **kwargs)
            self.compare(again)
        self.folder.cleanup()


TestCalls = Calls.TestCase
TestCalls.settings = hypothesis_settings(max_examples=10, stateful_step_count=30)
