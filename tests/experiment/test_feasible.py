r"""Experiments that learn which trials are feasible, and those of contests."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context.experiment import (
    BestOf,
    Context,
    Duels,
    Experiment,
    Logbook,
    NamedGoal,
    NamedSpace,
    PassFail,
    Real,
    Settings,
)
from botorch_binary_context.experiment.cli import main
from botorch_binary_context.experiment.cli.csv_files import write_csv
from botorch_binary_context.experiment.feedback_base import Feedback
from botorch_binary_context.experiment.trial import Trial
from botorch_binary_context.rules import CONTEST_RULES
from tests.experiment.test_answers import make_settings

LIMIT = 0.6  # of gains that are feasible; the best is above it
CLOSE = 0.1


def answer(values: dict[str, Any]) -> str:
    """Of somebody who likes high gains, and whom those above a limit hurt."""
    if "gain" in values:
        gain = float(values["gain"])
        if gain > LIMIT:
            return "hurts"
        return "pass" if gain > 0.5 * (1 - float(values["size"])) else "fail"
    sides = {name: float(v) for name, v in values.items() if name.endswith(".gain")}
    best = max(sides, key=sides.__getitem__)
    word = best.removesuffix(".gain")
    return f"hurts-{word}" if sides[best] > LIMIT else word


@pytest.mark.parametrize(
    ("feedback", "rule"),
    [
        (PassFail(infeasible="hurts"), "ucb-ald"),
        (Duels(infeasible="hurts"), "muc-ald"),
        (BestOf(3, infeasible="hurts"), "qeubo"),
    ],
    ids=str,
)
def test_rules_and_recommendations_avoid_what_is_not_feasible(
    feedback: Any, rule: str, tmp_path: Path
):
    settings = make_settings(feedback, rule=rule, seed=1, initial_trials=6)
    with Experiment.create(tmp_path / "one.db", settings) as experiment:
        for _ in range(13):
            trial = experiment.ask()
            experiment.tell(trial.id, answer(trial.values))
        refused = [t for t in experiment.trials if False in feedback.feasible_sides(t)]
        assert 0 < len(refused) < 7
        late = [t for t in experiment.trials[9:] if t in refused]
        assert len(late) <= 2  # at the limit, which has to be found
        assert experiment.num_answers == 13 - len(refused)
        best = experiment.recommend()
        assert float(best.parameters["gain"]) < LIMIT + CLOSE
        assert best.num_answers == experiment.num_answers
        again = experiment.ask()
    with Experiment.open(tmp_path / "one.db") as experiment:
        experiment.withdraw(again.id)
        assert experiment.feedback == feedback


@pytest.mark.parametrize("rule", CONTEST_RULES)
def test_contests_find_the_best(rule: str, tmp_path: Path):
    settings = make_settings(BestOf(3), rule=rule, seed=2, initial_trials=4)
    with Experiment.create(tmp_path / "one.db", settings) as experiment:
        for _ in range(10):
            trial = experiment.ask()
            gains = [abs(float(side["gain"]) - 0.7) for side in trial.sides]
            experiment.tell(trial.id, gains.index(min(gains)) + 1)
        assert trial.context == {"size": 0.5}  # the reference
        best = experiment.recommend()
        assert abs(float(best.parameters["gain"]) - 0.7) < 0.1
        assert best.num_answers == 10
        assert best.preference_probability({"gain": 0.1}).mean > 0.8
        given = experiment.ask(context={"size": 0.2})
        assert given.context == {"size": 0.2}
        assert len({side["gain"] for side in given.sides}) == 3
        assert experiment.ask().sides != given.sides  # which is pending


def test_goals_of_contests_are_refused():
    space = NamedSpace([Real("gain", 0, 1)], [Context("size", 0.5, 0, 1)])
    with pytest.raises(UnsupportedError, match="``goal`` to be left out with best of"):
        Settings(space, BestOf(3), goal=NamedGoal("average"))


def test_an_answer_may_be_told_with_it(tmp_path: Path):
    """Whom high gains hurt answers all the same, and is asked for them no more."""
    feedback = PassFail(infeasible="unpleasant")
    settings = make_settings(feedback, rule="ucb-ald", seed=1, initial_trials=6)
    with Experiment.create(tmp_path / "one.db", settings) as experiment:
        for _ in range(13):
            trial = experiment.ask()
            gain = float(trial.values["gain"])
            passed = gain > 0.5 * (1 - float(trial.values["size"]))
            experiment.tell(trial.id, passed, infeasible=gain > LIMIT)
        assert experiment.num_answers == 13
        hurt = [t.id for t in experiment.trials if t.infeasible]
        assert hurt == [
            t.id for t in experiment.trials if float(t.values["gain"]) > LIMIT
        ]
        assert 0 < len(hurt) < 7
        assert sum(i > 9 for i in hurt) <= 2
        best = experiment.recommend()
        assert float(best.parameters["gain"]) < LIMIT + CLOSE
        assert best.uncertainty["gain"][1] < LIMIT + CLOSE
        assert best.local_uncertainty["gain"][1] < LIMIT + CLOSE
        region = best.region(10.0)
        assert region is not None
        assert float(region["gain"][1]) < LIMIT + CLOSE
        for i in hurt:  # they were not unpleasant after all
            experiment.correct(i, experiment.trial(i).outcome)
        free = experiment.recommend()
        assert free.uncertainty["gain"][1] > LIMIT + CLOSE


@pytest.mark.parametrize(
    ("feedback", "given", "names", "feasible"),
    [
        (PassFail(infeasible="bad"), True, ("bad",), [False]),
        (PassFail(infeasible="bad"), "bad", ("bad",), [False]),
        (PassFail(infeasible="bad"), False, (), [True]),
        (PassFail(infeasible="bad"), None, (), [True]),
        (Duels(infeasible="bad"), "second", ("bad-second",), [True, False]),
        (Duels(infeasible="bad"), ["bad-second"], ("bad-second",), [True, False]),
        (BestOf(3, infeasible="bad"), [], (), [True, True, True]),
        (
            BestOf(3, infeasible="bad"),
            ["third", "first"],
            ("bad-first", "bad-third"),
            [False, True, False],
        ),
        (PassFail(), False, (), []),
    ],
)
def test_what_is_meant(
    feedback: Feedback, given: Any, names: tuple[str, ...], feasible: list[bool]
):
    assert feedback.parse_infeasible(given) == names
    trial = Trial(1, {}, (), "", "", outcome=0, infeasible=names)
    assert feedback.feasible_sides(trial) == feasible


def test_without_an_answer_nothing_is_known_of_other_sides():
    feedback = BestOf(3, infeasible="bad")
    label = feedback.parse("bad-second")
    trial = Trial(1, {}, (), "", "", outcome=label, infeasible=("bad-third",))
    assert feedback.feasible_sides(trial) == [None, False, False]


@pytest.mark.parametrize(
    ("feedback", "given", "message"),
    [
        (PassFail(), True, "left out where the settings have no name for it, but got"),
        (PassFail(infeasible="bad"), "worse", "True, False or 'bad', but got 'worse'"),
        (PassFail(infeasible="bad"), 1, "True, False or 'bad', but got 1"),
        (Duels(infeasible="bad"), True, "some of 'bad-first', 'bad-second', but got"),
        (Duels(infeasible="bad"), ["third"], "some of 'bad-first', 'bad-second', but"),
        (Duels(infeasible="bad"), [["first"]], "some of 'bad-first', 'bad-second'"),
    ],
)
def test_what_is_not_understood(feedback: Feedback, given: Any, message: str):
    with pytest.raises(InputDataError, match=f"``infeasible`` to be {message}"):
        feedback.parse_infeasible(given)


@pytest.fixture
def marked(tmp_path: Path) -> Path:
    """A journal of two duels, one of which is answered."""
    settings = make_settings(Duels(infeasible="bad"), seed=0, initial_trials=9)
    path = tmp_path / "duels.db"
    with Experiment.create(path, settings) as experiment:
        experiment.ask(2)
        experiment.tell(1, "first", infeasible="second")
    return path


def test_corrected_and_undone(marked: Path):
    with Logbook.open(marked) as logbook:
        assert logbook.trial(1).infeasible == ("bad-second",)
        logbook.correct(1, "second", infeasible=["first", "second"])
        assert logbook.trial(1).infeasible == ("bad-first", "bad-second")
        event = logbook.history[-1]
        assert event.old == {"outcome": 1, "infeasible": ["bad-second"]}
        assert logbook.undo().infeasible == ()
        logbook.tell(1, "second")
        assert logbook.trial(1).infeasible == ()
        with pytest.raises(InputDataError, match="``infeasible`` to be some of"):
            logbook.tell(2, "first", infeasible=True)
        assert logbook.trial(2).status == "pending"


def test_table_and_back(marked: Path, tmp_path: Path):
    with Logbook.open(marked) as logbook:
        logbook.tell(2, "bad-first", infeasible="second")
        file = io.StringIO()
        write_csv(logbook.feedback, logbook.blank_trial(), logbook.trials, file)
        told = [(t.outcome, t.infeasible, t.values) for t in logbook.trials]
        settings = logbook.settings
    file.seek(0)
    rows = list(csv.DictReader(file))
    assert [row["infeasible"] for row in rows] == ["bad-second", "bad-second"]
    with Experiment.create(tmp_path / "other.db", settings) as other:
        added = other.import_table(rows)
        assert [(t.outcome, t.infeasible, t.values) for t in added] == told
        one = {**rows[0], "infeasible": "no"}
        assert other.import_table([one])[0].infeasible == ()
        with pytest.raises(InputDataError, match="In row 1: Expected ``infeasible``"):
            other.import_table([{**one, "infeasible": "third"}])


def test_at_the_command_line(
    marked: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    journal = str(marked)
    typed = iter(["undo bad-first", "first second", "f bs", "quit"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    assert main(["run", journal]) == 0
    output = capsys.readouterr().out
    assert output.count("bad-first or bad-second behind an answer") == 2
    told = [journal, "2", "first", "--infeasible", "first", "--infeasible", "second"]
    assert main(["correct", *told, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    both = ["bad-first", "bad-second"]
    assert data == {"id": 2, "outcome": "first", "infeasible": both}
    assert main(["status", journal]) == 0
    status = capsys.readouterr().out
    assert "2 bad-second, 1 bad-first, 2 first, 0 second" in status
    values = ["size=0.5", "first.gain=0.2", "second.gain=0.4"]
    added = ["add", journal, "second", *values, "--infeasible", "first"]
    assert main(added) == 0
    assert capsys.readouterr().out.endswith("added, second, bad-first\n")
    assert main(["history", journal]) == 0
    assert "infeasible [] -> ['bad-second']" in capsys.readouterr().out


def test_prepared_questions_know_of_it(tmp_path: Path):
    """A question that was computed ahead is not that of an unpleasant trial."""
    settings = make_settings(PassFail(infeasible="bad"), rule="ucb-ald", seed=4)
    asked = []
    for ahead in (True, False):
        path = tmp_path / f"{ahead}.db"
        with Experiment.create(path, settings) as experiment:
            for _ in range(11):
                trial = experiment.ask()
                experiment.tell(trial.id, float(trial.values["gain"]) > 0.5)
            trial = experiment.ask()
            if ahead:
                experiment.prepare(trial.id, "pass")
            experiment.tell(trial.id, "pass", infeasible=True)
            asked.append(experiment.ask().values)
    assert asked[0] == asked[1]
