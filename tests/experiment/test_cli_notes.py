r"""Tests of what can be noted on the command line, and of the history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from botorch_binary_context.experiment import (
    Experiment,
    Logbook,
    NamedSpace,
    Periodic,
    Stop,
)
from botorch_binary_context.experiment.cli import main
from botorch_binary_context.experiment.figure import draw_experiment
from botorch_binary_context.experiment.journal import Journal
from tests.experiment.simulation import FIXED, duels, pass_fail, unmodeled

TOML = """
[[parameters]]
name = "gain"
low = 0
high = 1
[[contexts]]
name = "noise"
low = 0
high = 1
reference = 0
"""


@pytest.fixture
def journal(tmp_path: Path) -> str:
    path = str(tmp_path / "journal")
    Experiment.create(path, unmodeled(stop=Stop(answers=9, loss=0.1))).close()
    return path


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: Any, code: int = 0) -> str:
        assert main([str(word) for word in words]) == code
        output = capsys.readouterr()
        return output.err if code else output.out

    return run


def test_tell_stores_notes_and_refuses_wrong_ones(call: Any, journal: str) -> None:
    call("ask", journal)
    words = ("--rater", "ann", "--reaction-time", "0.42", "--shown", "noise=3.5")
    call("tell", journal, 1, "pass", *words, "--note", "sure=3", "--note", "why=a=b")
    with Logbook.open(journal) as logbook:
        (trial,) = logbook.trials
    assert (trial.rater, trial.reaction_time) == ("ann", 0.42)
    assert trial.extra == {"sure": 3, "why": "a=b"}
    assert trial.values["noise"] == 3.5
    assert trial.asked is not None
    call("ask", journal)
    for wrong, message in (
        (("--shown", "nose=1"), "with a name among ['noise', 'gain', 'shift']"),
        (("--shown", "noise=99"), "noise"),
        (("--note", "sure"), "NAME=VALUE, but got 'sure'"),
        (("--note", "noise=1"), "names of its own"),
        (("--reaction-time", "-1"), "number of seconds"),
        (("--rater", " "), "``rater``"),
    ):
        error = call("tell", journal, 2, "pass", *wrong, code=2)
        assert message in error
        assert error.count("\n") == 1


def test_add_stores_values_use_and_notes(call: Any, journal: str) -> None:
    values = ("noise=1", "gain=2", "shift=-0.5")
    assert "trial 1: added, fail" in call("add", journal, "fail", *values)
    call("add", journal, "pass", *values, "--unused", "--note", "kind=warm-up")
    with Logbook.open(journal) as logbook:
        first, second = logbook.trials
    assert first.values == {"noise": 1.0, "gain": 2.0, "shift": -0.5}
    assert (first.used, second.used) == (True, False)
    assert second.extra == {"kind": "warm-up"}
    assert "a value for each of" in call("add", journal, "pass", "noise=1", code=2)


def test_describe_adds_shows_and_removes_notes(
    call: Any, journal: str, tmp_path: Path
) -> None:
    assert call("describe", journal) == "nothing is noted\n"
    assert call("describe", journal, "subject=P07", "age=31") == (
        "subject: P07\nage: 31\n"
    )
    assert json.loads(call("describe", journal, "age=", "--json")) == {"subject": "P07"}
    config, other = tmp_path / "a.toml", tmp_path / "other"
    config.write_text(TOML)
    call("new", config, other, "--note", "subject=P08")
    assert call("describe", other) == "subject: P08\n"
    assert "self: 1" in call("describe", other, "self=1")


def test_history_lists_every_event_and_what_it_changed(call: Any, journal: str) -> None:
    call("ask", journal)
    call("tell", journal, 1, "pass")
    call("correct", journal, 1, "fail")
    lines = call("history", journal).splitlines()
    kinds = ["created", "asked trial 1", "answered trial 1", "corrected trial 1"]
    assert [any(kind in line for line in lines) for kind in kinds] == [True] * 4
    assert "outcome 1 -> 0" in lines[-1]
    events = json.loads(call("history", journal, "--json"))
    assert [event["kind"] for event in events][-1] == "corrected"


def test_undo_of_any_answer(call: Any, journal: str) -> None:
    call("ask", journal, "-n", 3)
    for number in (1, 2, 3):
        call("tell", journal, number, "pass")
    assert call("undo", journal, 2) == "trial 2: pending again\n"
    assert "which is pending" in call("undo", journal, 2, code=2)
    assert "but got 9" in call("undo", journal, 9, code=2)
    call("tell", journal, 2, "fail")
    with Experiment.open(journal) as experiment:
        assert [t.outcome for t in experiment.trials] == [1, 0, 1]
        in_order = sorted(experiment.trials, key=lambda trial: trial.position or 0)
        assert [t.id for t in in_order] == [1, 3, 2]
        assert experiment.undo().id == 2


def test_status_says_when_to_stop(call: Any, journal: str) -> None:
    call("ask", journal)
    call("tell", journal, 1, "pass")
    text = call("status", journal)
    assert "stops at 9 answers: 1 now" in text
    assert "stops at a loss of 0.1: `recommend` tells how far it is" in text
    ends = json.loads(call("status", journal, "--json"))["stop"]
    assert ends[0] == {"criterion": "answers", "limit": 9, "now": 1}


def test_plot_says_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles = []
    monkeypatch.setattr(
        "matplotlib.figure.Figure.suptitle",
        lambda self, text, **style: titles.append(text),
    )
    settings = pass_fail(stop=Stop(answers=9), hyperparameters=FIXED)
    with Experiment.create(tmp_path / "journal", settings) as experiment:
        experiment.add({"noise": 1.0, "gain": 2.0, "shift": 0.0}, True)
        draw_experiment(experiment, tmp_path / "plot.png")
    assert titles == ["answers: 1 of 9, not reached"]


def test_export_and_import_keep_notes(call: Any, journal: str, tmp_path: Path) -> None:
    notes = {"sure": 3, "fast": True, "why": "=a", "codes": [1, "b"], "text": "3a"}
    with Experiment.open(journal) as experiment:
        values = {"noise": 1.0, "gain": 2.0, "shift": 0.0}
        experiment.add(values, True, extra=notes, rater="ann", reaction_time=0.25)
    table, other = tmp_path / "trials.csv", tmp_path / "other"
    call("export", journal, table)
    Experiment.create(other, unmodeled()).close()
    call("import", other, table)
    with Logbook.open(other) as logbook:
        (trial,) = logbook.trials
    assert trial.extra == notes
    assert (trial.rater, trial.reaction_time) == ("ann", 0.25)


def test_duels_that_stop_at_a_threshold(tmp_path: Path) -> None:
    """Settings of journals from before that was refused."""
    content = duels().to_dict()
    content["stop"] = {"threshold_width": 0.1, "answers": 30}
    path = tmp_path / "journal"
    Journal.create(path, content, {}).close()
    with Experiment.open(path) as experiment:
        assert experiment.settings.stop == experiment.stop == Stop(answers=30)


def test_circle_that_is_good_all_around(tmp_path: Path) -> None:
    space = NamedSpace([Periodic("axis", 0, 180)], [])
    settings = pass_fail(space, hyperparameters={"outputscale": 1.0})
    with Experiment.create(tmp_path / "journal", settings) as experiment:
        experiment.add({"axis": 90.0}, True)
        best = experiment.recommend()
        region: Any = best.region(best.expected_loss().mean + 100.0)
    assert region["axis"] == (0.0, 180.0)
