r"""Tests of answers: told, corrected, added, imported, described."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context.experiment import Experiment, Logbook
from tests.experiment.simulation import MIXED, answer, duels, pass_fail, run, unmodeled

VALUES = {"noise": 1.2, "gain": 2.0, "taps": 3, "window": "box"}
LEARNING = pass_fail(rule="random", initial_trials=5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def experiment(path: Path) -> Iterator[Experiment]:
    settings = pass_fail(MIXED, initial_trials=10**6)
    with Experiment.create(path, settings) as experiment:
        yield experiment


def test_pending_and_numbers(experiment: Experiment) -> None:
    first, second, third, fourth = experiment.ask(n=4)
    for trial in (first, second):
        experiment.tell(trial.id, 1)
    experiment.exclude(first.id)
    experiment.withdraw(third.id)
    assert experiment.pending == [fourth]
    assert (experiment.num_trials, experiment.num_answers) == (4, 1)
    copied: Any = experiment.pending[0].context
    copied.clear()
    assert experiment.pending == [fourth]


class TestTell:
    def test_rater_reaction_time_and_extra_values_are_stored(
        self, experiment: Experiment
    ) -> None:
        trial = experiment.ask(rater="Ada")
        assert trial.rater == "Ada"
        experiment.tell(trial.id, 1, reaction_time=1, extra={"eye": "left", "lux": 3})
        experiment.tell(experiment.ask().id, 0, rater="Böhm")
        first, second = experiment.trials
        assert (first.rater, first.reaction_time) == ("Ada", 1.0)
        assert first.extra == {"eye": "left", "lux": 3}
        assert (second.rater, second.reaction_time, second.extra) == ("Böhm", None, {})

    def test_what_was_really_shown(self, experiment: Experiment) -> None:
        trial = experiment.ask()
        shown: Any = {"noise": np.float64(0.77), "taps": np.int64(4)}
        experiment.tell(trial.id, 1, shown=shown)
        (told,) = experiment.trials
        assert told.values == {**trial.values, "noise": 0.77, "taps": 4}
        assert told.asked == trial.values
        row = experiment.model().train_inputs[0]
        expected = experiment.encoder.encode(told.context, told.sides)
        assert torch.equal(row, expected)
        same = experiment.ask()
        experiment.tell(same.id, 1, shown=same.values)
        assert experiment.trials[1].asked is None

    @pytest.mark.parametrize(
        ("details", "message"),
        [
            ({"shown": {"noise": 9.0}}, "'noise' to be from 0.0 to 4.0, but got 9.0"),
            ({"shown": {"taps": 2.5}}, "'taps' to be a whole number.*, but got 2.5"),
            ({"shown": {"window": "x"}}, "'window' to be one of 'hann', 'box', 'flat'"),
            ({"shown": {"size": 1.0}}, "``shown`` to give a value for each of"),
            ({"rater": 7}, "``rater`` to be a text, but got 7"),
            ({"rater": " "}, "``rater`` to be a text, but got ' '"),
            ({"reaction_time": -1}, "``reaction_time`` to be a number of seconds"),
            ({"reaction_time": float("nan")}, "``reaction_time`` to be a number of"),
            ({"reaction_time": "soon"}, "``reaction_time`` to be a number of seconds"),
            ({"extra": [1]}, "``extra`` to give values to names"),
            ({"extra": {1: 2}}, "``extra`` to give values to names"),
            ({"extra": {"a": object()}}, "``extra`` to give 'a' a text, a finite"),
            ({"extra": {"a": [float("inf")]}}, "``extra`` to give 'a' a text, a fin"),
            ({"extra": {"noise": 1}}, "``extra`` to have names of its own, .* noise"),
            ({"extra": {"outcome": 1}}, "``extra`` to have names of its own"),
        ],
    )
    def test_refuses_wrong_details_and_stores_nothing(
        self, experiment: Experiment, details: dict[str, Any], message: str
    ) -> None:
        trial = experiment.ask()
        with pytest.raises(InputDataError, match=message):
            experiment.tell(trial.id, 1, **details)
        assert experiment.trials == [trial]

    def test_wrong_rater_of_a_question(self, experiment: Experiment) -> None:
        rater: Any = 3
        with pytest.raises(InputDataError, match="``rater`` to be a text"):
            experiment.ask(rater=rater)
        assert experiment.trials == []

    def test_times_have_milliseconds_and_a_zone(self, experiment: Experiment) -> None:
        """Milliseconds, with a zone."""
        experiment.tell(experiment.ask().id, 1)
        (trial,) = experiment.trials
        for text in (trial.asked_at, trial.closed_at, experiment.history[-1].at):
            assert text is not None
            assert re.fullmatch(r"\d{4}(-\d\d){2}T\d\d(:\d\d){2}\.\d{3}\+00:00", text)
            age = datetime.now().astimezone() - datetime.fromisoformat(text)
            assert timedelta(seconds=-1) < age < timedelta(minutes=1)


class TestCorrections:
    def test_history_has_the_old_and_the_new_values(
        self, experiment: Experiment
    ) -> None:
        experiment.tell(experiment.ask().id, 1, reaction_time=0.5)
        experiment.correct(1, "fail")
        experiment.exclude(1)
        experiment.undo()
        kinds = [event.kind for event in experiment.history]
        assert kinds == [
            "created",
            "asked",
            "answered",
            "corrected",
            "excluded",
            "undone",
        ]
        answered, corrected, excluded, undone = experiment.history[2:]
        assert answered.new["outcome"] == 1
        assert (corrected.old, corrected.new) == ({"outcome": 1}, {"outcome": 0})
        assert (excluded.old, excluded.new) == ({"used": True}, {"used": False})
        assert undone.old["outcome"] == 0
        assert undone.new["outcome"] is None
        assert undone.old["reaction_time"] == 0.5
        assert all(event.trial == 1 for event in experiment.history[1:])

    def test_who_and_with_what(self, experiment: Experiment) -> None:
        (created,) = experiment.history
        assert created.environment["torch"] == torch.__version__
        assert created.environment["python"].startswith("3.")
        assert set(created.environment) == {
            "user",
            "host",
            "package",
            "torch",
            "python",
            "platform",
        }

    def test_undo_restores_the_question(self, experiment: Experiment) -> None:
        asked = experiment.ask(rater="Ada")
        details: dict[str, Any] = {"rater": "Böhm", "extra": {"eye": "left"}}
        experiment.tell(asked.id, 1, shown={"noise": 0.3}, reaction_time=1.0, **details)
        assert experiment.undo() == asked
        assert experiment.trials == [asked]
        with pytest.raises(UnsupportedError, match="an answer to undo, but got none"):
            experiment.undo()

    def test_notes_after_the_answer(self, experiment: Experiment) -> None:
        asked = experiment.ask()
        experiment.annotate(asked.id, room=1)
        experiment.tell(asked.id, 1, extra={"eye": "left"})
        experiment.annotate(asked.id, eye="right", key="k")
        noted = {"eye": "right", "key": "k"}
        assert experiment.trials[0].extra == noted
        last = experiment.history[-1]
        assert (last.kind, last.new) == ("annotated", {"extra": noted})
        assert experiment.undo().extra == {"room": 1}
        with pytest.raises(InputDataError, match="names of its own, but got noise"):
            experiment.annotate(asked.id, noise=1)
        with pytest.raises(InputDataError, match="from 1 to 1, but got 2"):
            experiment.annotate(2, key="k")

    def test_undo_of_an_added_trial(self, experiment: Experiment) -> None:
        experiment.add(VALUES, 1)
        assert experiment.undo().status == "withdrawn"
        assert experiment.ask().id == 2

    def test_only_answers_can_be_corrected(self, experiment: Experiment) -> None:
        experiment.ask()
        experiment.withdraw(experiment.ask().id)
        for number, status in ((1, "pending"), (2, "withdrawn")):
            message = f"that is answered, but got {number}, which is {status}"
            with pytest.raises(InputDataError, match=message):
                experiment.correct(number, 1)
        with pytest.raises(InputDataError, match="pending or answered, but got 2"):
            experiment.exclude(2)

    def test_what_was_learned_from_a_mistake_is_forgotten(self, path: Path) -> None:
        run(path, LEARNING, 9)
        with Experiment.open(path) as experiment:
            experiment.ask()

            def fits() -> list[int]:
                return [n for n in range(12) if experiment._journal.fit(n)]

            assert fits() == [5, 6, 7, 8, 9]
            experiment.correct(7, 1 - int(experiment.trials[6].outcome or 0))
            assert fits() == [5, 6]
            experiment.ask()
            assert fits() == [5, 6, 9]
            experiment.exclude(9)
            assert fits() == [5, 6]
            experiment.include(9)
            experiment.exclude(2)
            assert fits() == []

    def test_as_if_it_had_never_happened(self, tmp_path: Path) -> None:
        """After a correction the model is that of the right answers."""
        outcomes = [answer(trial) for trial in run(tmp_path / "right", LEARNING, 8)]
        with (
            Experiment.open(tmp_path / "right") as right,
            Experiment.create(tmp_path / "wrong", LEARNING) as wrong,
        ):
            for i, outcome in enumerate(outcomes):
                values = right.trials[i].values
                wrong.add(values, outcome if i != 3 else not outcome)
                wrong.add(values, not outcome, use=False)
                wrong.recommend()
            wrong.correct(7, outcomes[3])
            states = [e.model().state_dict() for e in (right, wrong)]
        assert all(torch.equal(v, states[1][k]) for k, v in states[0].items())


class TestAdd:
    def test_used_or_not(self, experiment: Experiment) -> None:
        used = experiment.add(VALUES, "pass", rater="Ada")
        unused = experiment.add(VALUES, "fail", use=False, extra={"catch": True})
        assert (used.chosen_by, used.status, used.outcome) == ("added", "answered", 1)
        assert (used.used, unused.used) == (True, False)
        assert used.values == unused.values == VALUES
        assert experiment.trials == [used, unused]
        assert experiment.recommend().num_answers == 1

    def test_duels_need_the_values_of_both_sides(self, path: Path) -> None:
        with Experiment.create(path, duels()) as experiment:
            values = {"noise": 1.0, "first.gain": 1.0, "first.shift": 0.0}
            with pytest.raises(InputDataError, match="each of .*'second.shift'"):
                experiment.add(values, "first")
            values |= {"second.gain": 2.0, "second.shift": 0.5}
            trial = experiment.add(values, "first")
            assert (trial.values, trial.outcome) == (values, 1)
            assert trial.second == {"gain": 2.0, "shift": 0.5}

    @pytest.mark.parametrize("values", [{}, None, [1], {**VALUES, "more": 1}])
    def test_wrong_names(self, experiment: Experiment, values: Any) -> None:
        with pytest.raises(InputDataError, match="``values`` to give a value for each"):
            experiment.add(values, 1)

    def test_counts_as_an_initial_trial(self, path: Path) -> None:
        with Experiment.create(path, pass_fail(rule="random", initial_trials=2)) as e:
            values = {"noise": 1.0, "gain": 1.0, "shift": 0.0}
            e.add(values, 1)
            e.add(values, 1, use=False)
            assert e.ask().chosen_by == "quasi-random"
            e.add(values, 0)
            assert e.ask().chosen_by == "random"


class TestImport:
    def test_texts_of_a_csv_file_are_parsed(self, experiment: Experiment) -> None:
        """As they come from a CSV file."""
        table = [
            "outcome,window,taps,gain,noise,use,rater,reaction_time,asked_at,eye",
            "pass,box,3,2.0,1.2,yes,Ada,0.75,2026-01-31T12:30:00+01:00,left",
            "0,hann,9,0.1,4,False,,,,",
        ]
        first, second = experiment.import_table(csv.DictReader(table))
        assert first.values == VALUES
        assert (first.outcome, first.used, first.rater) == (1, True, "Ada")
        assert first.reaction_time == 0.75
        assert first.asked_at == "2026-01-31T11:30:00.000+00:00"
        assert first.extra == {"eye": "left"}
        assert second.values == {"noise": 4, "gain": 0.1, "taps": 9, "window": "hann"}
        assert (second.outcome, second.used, second.rater) == (0, False, None)
        assert experiment.trials == [first, second]

    def test_table_of_another_experiment(self, experiment: Experiment) -> None:
        """What was answered there, whatever else happened."""
        details = {"reaction_time": 2.0, "rater": "Ada", "extra": {"eye": None}}
        experiment.tell(experiment.ask().id, 1, shown={"noise": 0.75}, **details)
        experiment.ask()
        rows = [
            {**(row := t.to_dict()).pop("values"), **row} for t in experiment.trials
        ]
        (trial,) = experiment.import_table(json.loads(json.dumps(rows)))
        (original, *_) = experiment.trials
        assert trial == replace(original, id=3, position=2)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"outcome": ""}, "In row 2: Expected a column ``outcome``"),
            ({"outcome": "perhaps"}, "In row 2: Expected ``outcome`` to be 'pass' or"),
            ({"gain": "much"}, "In row 2: .*'gain' to be a finite number, but got 'm"),
            ({"taps": "2.5"}, "In row 2: .*'taps' to be a whole number.*, but got 2.5"),
            ({"window": "tent"}, "In row 2: .*'window' to be one of"),
            ({"use": "perhaps"}, "In row 2: Expected ``use`` to be true or false"),
            ({"asked_at": "noon"}, "In row 2: Expected ``asked_at`` to be a time as"),
            ({"reaction_time": "x"}, "In row 2: Expected ``reaction_time`` to be"),
            ({"chosen_by": 3}, "In row 2: Expected ``chosen_by`` to be a text"),
            ({"asked.noise": 1.0}, "In row 2: Expected ``asked`` to give a value for"),
            ({None: ["more"]}, "In row 2: Expected a name for each cell"),
        ],
    )
    def test_all_or_nothing(
        self, experiment: Experiment, change: Any, message: str
    ) -> None:
        row = {**VALUES, "outcome": 1}
        with pytest.raises(InputDataError, match=message):
            experiment.import_table([row, {**row, **change}, row])
        assert experiment.trials == []
        assert len(experiment.import_table([row, row])) == 2

    def test_missing_column(self, experiment: Experiment) -> None:
        with pytest.raises(InputDataError, match="In row 1: .* each of .*'window'"):
            experiment.import_table([{"outcome": 1, "noise": 1.0}])


class TestMetadata:
    def test_changes_are_kept_with_the_old_values(self, path: Path) -> None:
        about = {"subject": "P07", "age": 41}
        with Experiment.create(path, unmodeled(), about) as experiment:
            assert experiment.metadata == about
            experiment.describe(notes="wears größere lenses", age=None)
            experiment.describe(notes="none")
        with Logbook.open(path) as logbook:
            assert logbook.metadata == {"subject": "P07", "notes": "none"}
            created, *changes = logbook.history
        assert created.new == about
        assert changes[0].old == {"notes": None, "age": 41}
        assert changes[1].old == {"notes": "wears größere lenses"}
        assert changes[1].new == {"notes": "none"}

    def test_refuses_values_that_cannot_be_stored(self, path: Path) -> None:
        about: Any = {"subject": object()}
        with pytest.raises(InputDataError, match="``metadata`` to give 'subject' a te"):
            Experiment.create(path, unmodeled(), about)
        assert not path.exists()
        with Experiment.create(path, unmodeled()) as experiment:
            with pytest.raises(InputDataError, match="``metadata`` to give 'x' a text"):
                experiment.describe(x=float("nan"))
            assert experiment.metadata == {}


class TestTrials:
    def test_are_copies(self, experiment: Experiment) -> None:
        """Nobody can change what was shown by changing a trial."""
        experiment.tell(experiment.ask().id, 1, extra={"eyes": ["left"]})
        (trial,) = experiment.trials
        trial.context["noise"] = 99.0  # pyright: ignore[reportIndexIssue]
        trial.extra["eyes"].append("right")
        (again,) = experiment.trials
        assert again.context["noise"] != 99.0
        assert again.extra == {"eyes": ["left"]}
