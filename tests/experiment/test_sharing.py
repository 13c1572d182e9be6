r"""Several threads and processes on one experiment."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from botorch_binary_context.experiment import Experiment, Trial
from botorch_binary_context.experiment import experiment as module
from tests.experiment.simulation import (
    CONTINUOUS,
    FIXED,
    answer,
    pass_fail,
    run,
    unmodeled,
)

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
MODELED = pass_fail(CONTINUOUS, initial_trials=2, hyperparameters=FIXED)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def in_child(work: Callable[[], None]) -> None:
    """Run something in a forked process, which must not fail."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


class TestThreads:
    def test_any_thread(self, path: Path) -> None:
        with (
            Experiment.create(path, unmodeled()) as experiment,
            ThreadPoolExecutor(8) as pool,
        ):

            def work(_: int) -> None:
                trial = experiment.ask()
                experiment.tell(trial.id, answer(trial))

            list(pool.map(work, range(24)))
            trials = experiment.trials
        assert [trial.id for trial in trials] == list(range(1, 25))
        assert {trial.outcome for trial in trials} <= {0, 1}
        assert sorted(trial.position or 0 for trial in trials) == list(range(1, 25))
        assert len({str(trial.values) for trial in trials}) == 24

    def test_tell_does_not_wait_for_ask(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of the same handle and of another one."""
        computing = threading.Event()
        go_on = threading.Event()

        def compute(*_: Any) -> None:
            computing.set()
            assert go_on.wait(60)

        with (
            Experiment.create(path, unmodeled()) as experiment,
            Experiment.open(path, timeout=0.0) as other,
            ThreadPoolExecutor(1) as pool,
        ):
            trials = [experiment.ask(), experiment.ask(), experiment.ask()]
            monkeypatch.setattr(Experiment, "_choose", compute)
            asked = pool.submit(experiment.ask)
            assert computing.wait(60)
            experiment.tell(trials[0].id, 1)
            other.tell(trials[1].id, 0)
            other.correct(trials[0].id, 0)
            other.withdraw(trials[2].id)
            assert not asked.done()
            go_on.set()
            assert asked.result(60).id == 4
            assert [t.outcome for t in experiment.trials] == [0, 0, None, None]


class TestTogether:
    @pytest.fixture
    def pair(self, path: Path) -> Any:
        run(path, MODELED, 3)
        with Experiment.open(path) as first, Experiment.open(path) as second:
            yield first, second

    def interrupt(
        self, monkeypatch: pytest.MonkeyPatch, experiment: Experiment, by: Any
    ) -> list[int]:
        """Let something happen whenever an experiment has computed a question."""
        choose, computed = Experiment._choose, []

        def choose_slowly(self: Experiment, state: Any, given: Any) -> Any:
            question = choose(self, state, given)
            if self is experiment:
                computed.append(state.num_trials)
                by()
            return question

        monkeypatch.setattr(Experiment, "_choose", choose_slowly)
        return computed

    def test_computed_again(self, pair: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """With the question of the other one known, as if it had come first."""
        first, second = pair
        others: list[Trial] = []

        def ask_once() -> None:
            if not others:
                others.append(second.ask())

        computed = self.interrupt(monkeypatch, first, ask_once)
        mine = first.ask()
        assert computed == [3, 4]
        assert (others[0].id, mine.id) == (4, 5)
        assert mine.values != others[0].values

    def test_nobody_starves(self, pair: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Others ask again and again; every question is another one."""
        first, second = pair
        computed = self.interrupt(monkeypatch, first, lambda: second.ask())
        first.ask()
        assert len(computed) == module.MAX_REPEATS + 1
        pending = [t for t in first.trials if t.status == "pending"]
        assert len({str(trial.values) for trial in pending}) == len(pending)

    def test_the_same_question_at_once(
        self, pair: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What is written down last is replaced by a quasi-random trial."""
        first, second = pair
        monkeypatch.setattr(module, "MAX_REPEATS", 0)
        self.interrupt(monkeypatch, first, lambda: second.ask())
        mine = first.ask()
        theirs = first.trials[3]
        assert (theirs.chosen_by, mine.chosen_by) == ("ucb99-ald", "quasi-random")
        assert mine.values != theirs.values

    def test_answers_do_not_matter(
        self, pair: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A question is not computed again because an answer has come."""
        first, second = pair
        pending = first.ask()
        tell = iter([lambda: second.tell(pending.id, 1)])
        computed = self.interrupt(
            monkeypatch, first, lambda: next(tell, lambda: None)()
        )
        first.ask()
        assert computed == [4]

    def test_a_fit_from_a_mistake_is_not_kept(self, path: Path) -> None:
        """Somebody corrects an answer while hyperparameters are learned from it."""
        run(path, pass_fail(rule="random", initial_trials=5), 5)
        with Experiment.open(path) as first, Experiment.open(path) as second:
            fit = first._surrogate.fit

            def fit_slowly(trials: Any) -> Any:
                learned = fit(trials)
                second.correct(2, 1 - int(second.trials[1].outcome or 0))
                return learned

            first._surrogate.fit = fit_slowly
            first.ask()
            assert second._journal.last_fit() is None
            second.ask()
            assert second._journal.fit(5)


@needs_fork
class TestFork:
    def test_parent_and_child(self, path: Path) -> None:
        with Experiment.create(path, unmodeled()) as experiment:
            first = experiment.ask()

            def work() -> None:
                experiment.tell(first.id, 1)
                assert experiment.ask().id == 2
                experiment.close()

            in_child(work)
            assert [t.status for t in experiment.trials] == ["answered", "pending"]
            assert experiment.ask().id == 3
            in_child(lambda: experiment.tell(3, 0))
            assert experiment.trials[2].outcome == 0

    def test_while_a_thread_is_busy(self, path: Path) -> None:
        """A fork waits for the transactions of other threads."""
        with Experiment.create(path, unmodeled()) as experiment:
            stop = threading.Event()

            def work() -> None:
                while not stop.is_set():
                    experiment.tell(experiment.ask().id, 1)

            thread = threading.Thread(target=work)
            thread.start()
            try:
                for _ in range(3):
                    in_child(lambda: experiment.tell(experiment.ask().id, 0))
            finally:
                stop.set()
                thread.join()
            trials = experiment.trials
        assert [t.outcome for t in trials].count(0) == 3
        assert sorted(t.position or 0 for t in trials) == list(
            range(1, len(trials) + 1)
        )

    def test_closed_before(self, path: Path) -> None:
        experiment = Experiment.create(path, unmodeled())
        experiment.close()

        def work() -> None:
            with pytest.raises(Exception, match="closed database"):
                experiment.ask()

        in_child(work)


def test_repr_counts_trials_and_says_if_closed(path: Path) -> None:
    with Experiment.create(path, unmodeled()) as experiment:
        experiment.tell(experiment.ask().id, 1)
        experiment.ask()
        assert repr(experiment) == (
            f"Experiment({str(path)!r}, pass/fail, ucb99-ald: 1 answered, 1 pending, "
            "0 withdrawn)"
        )
    assert (
        repr(experiment) == f"Experiment({str(path)!r}, pass/fail, ucb99-ald, closed)"
    )
