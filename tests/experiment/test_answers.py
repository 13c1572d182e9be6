r"""Experiments whose answers are ties, ratings or graded by confidence."""

from __future__ import annotations

import csv
import io
import warnings
from pathlib import Path
from typing import Any

import pytest
from botorch.exceptions import InputDataError

from botorch_binary_context.experiment import (
    BestOf,
    Confidence,
    Context,
    Duels,
    DuelsWithTies,
    Experiment,
    Logbook,
    NamedSpace,
    Ratings,
    Real,
    Settings,
)
from botorch_binary_context.experiment.cli import main
from botorch_binary_context.experiment.csv_files import write_csv
from botorch_binary_context.experiment.feedback import FEEDBACKS
from botorch_binary_context.experiment.feedback_base import Feedback
from botorch_binary_context.experiment.figure import draw_experiment
from botorch_binary_context.experiment.surrogate import Surrogate

KINDS: dict[str, Feedback] = {
    "ties": DuelsWithTies(),
    "ratings": Ratings(4),
    "confidence": Confidence("1/4"),
    "best of three": BestOf(3),
    "feasible": Ratings(3, infeasible="unpleasant"),
}
LEARNING = ("ties", "ratings", "confidence")
WORDS = {
    "ties": ("tie", "t"),
    "ratings": ("4", "4"),
    "confidence": ("sure-pass", "sp"),
    "best of three": ("third", "t"),
    "feasible": ("unpleasant", "unpleasant"),
}
every_kind = pytest.mark.parametrize("name", KINDS)


def make_settings(feedback: Feedback, **kwargs: Any) -> Settings:
    contexts = [Context("size", low=0, high=1, reference=0.5, harder="down")]
    return Settings(NamedSpace([Real("gain", 0, 1)], contexts), feedback, **kwargs)


def answer_some(path: Path, feedback: Feedback, number: int = 6) -> None:
    """A journal of quasi-random trials, with every outcome in turn."""
    with Experiment.create(
        path, make_settings(feedback, initial_trials=10)
    ) as experiment:
        for i in range(number):
            outcome = feedback.outcomes[i % len(feedback.outcomes)]
            experiment.tell(experiment.ask().id, outcome)


@pytest.mark.parametrize(
    ("feedback", "meant"),
    [
        (
            DuelsWithTies(),
            {"second": 0, " Tie ": 1, "first": 2, 0: 0, 0.5: 1, 1: 2, "0.5": 1},
        ),
        (Ratings(4), {1: 0, "4": 3, 4.0: 3, "2": 1}),
        (Confidence(), {"sure-fail": 0, "unsure-pass": 2, "SURE-PASS": 3}),
        (Duels(), {"first": 1, "0": 0, True: 1}),
        (BestOf(3), {"first": 0, "third": 2, 1: 0, 3: 2}),
        (Ratings(3, infeasible="bad"), {3: 2, "bad": 3}),
        (Duels(infeasible="bad"), {1: 1, "bad-first": 2, "bad-second": 3}),
    ],
)
def test_what_answers_mean(feedback: Feedback, meant: dict[Any, int]):
    assert {word: feedback.parse(word) for word in meant} == meant
    for label, name in enumerate(feedback.outcomes):
        assert feedback.parse(name) == feedback.parse(feedback.show(label)) == label


@pytest.mark.parametrize(
    ("feedback", "outcome", "message"),
    [
        (DuelsWithTies(), "both", "'first' or 1, or 'tie' or 0.5, or 'second' or 0"),
        (DuelsWithTies(), True, "'first' or 1"),
        (Ratings(4), 0, "a rating from 1 to 4, but got 0"),
        (Ratings(4), 5, "a rating from 1 to 4, but got 5"),
        (Ratings(4), True, "a rating from 1 to 4"),
        (Ratings(4, infeasible="bad"), "good", "a rating from 1 to 4, or 'bad'"),
        (BestOf(3), 0, "'third' or 3, or 'second' or 2, or 'first' or 1"),
        (Confidence(), "pass", "'sure-pass', or 'unsure-pass', or 'unsure-fail', or"),
        (Confidence(), 1, "'sure-pass', or 'unsure-pass'"),
        (Confidence(), None, "'sure-pass', or 'unsure-pass'"),
    ],
)
def test_what_answers_do_not_mean(feedback: Feedback, outcome: Any, message: str):
    with pytest.raises(InputDataError, match=f"Expected ``outcome`` to be {message}"):
        feedback.parse(outcome)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ratings(1), "``best`` to be a whole number from 2 to 20, but got 1"),
        (lambda: BestOf(1), "``options`` to be a whole number from 2 to 8, but got 1"),
        (lambda: BestOf(9), "``options`` to be a whole number from 2 to 8, but got 9"),
        (lambda: Duels(infeasible="tie-"), "``infeasible`` to be a word of its own"),
        (lambda: Duels(infeasible="first"), "``infeasible`` to be a word of its own"),
        (lambda: Ratings(True), "``best`` to be a whole number"),
        (lambda: Ratings(4, 0.8), r"``lapse_rate`` to be in \[0, 0.75\)"),
        (lambda: Duels(0.5), r"``lapse_rate`` to be in \[0, 0.5\)"),
        (lambda: Confidence(0.5, 0.5), "``guess_rate`` and ``lapse_rate`` to sum to"),
    ],
)
def test_refuses_wrong_arguments_of_feedback(make: Any, message: str):
    with pytest.raises(InputDataError, match="Expected " + message):
        make()


@every_kind
def test_settings_come_back(name: str):
    settings = make_settings(KINDS[name])
    assert Settings.from_dict(settings.to_dict()).feedback == KINDS[name]
    assert KINDS[name].kind in FEEDBACKS


def test_duels_of_old_journals_have_no_lapses():
    content = make_settings(Duels()).to_dict()
    del content["feedback"]["lapse_rate"]
    assert Settings.from_dict(content).feedback == Duels()


@every_kind
def test_tables_have_names_and_come_back(name: str, tmp_path: Path):
    feedback = KINDS[name]
    answer_some(tmp_path / "one.db", feedback)
    file = io.StringIO(newline="")
    with Logbook.open(tmp_path / "one.db") as logbook:
        trials = logbook.trials
        write_csv(feedback, logbook.blank_trial(), trials, file)
    rows = list(csv.DictReader(io.StringIO(file.getvalue())))
    assert [row["outcome"] for row in rows] == [
        feedback.outcomes[trial.outcome or 0] for trial in trials
    ]
    assert feedback.num_sides < 3 or "third.gain" in rows[0]
    with Experiment.create(tmp_path / "two.db", make_settings(feedback)) as other:
        added = other.import_table(
            {key: cell for key, cell in row.items() if cell} for row in rows
        )
    assert [t.outcome for t in added] == [t.outcome for t in trials]


@pytest.mark.parametrize("name", LEARNING)
def test_widths_are_learned_and_kept(name: str, tmp_path: Path):
    answer_some(tmp_path / "one.db", KINDS[name], 10)
    with Experiment.open(tmp_path / "one.db") as experiment:
        surrogate = Surrogate(experiment.settings)
        learned = surrogate.fit(experiment.trials)
        assert learned is not None
        model = surrogate.predicting_model(experiment.trials, learned)
        found: Any = model.likelihood
        assert found.widths.flatten().tolist() == pytest.approx(learned["widths"])
        assert learned["widths"] != [1.0] * len(found.widths)
    fixed = make_settings(KINDS[name], hyperparameters={"widths": 0.8})
    model = Surrogate(fixed).predicting_model([], {})
    likelihood: Any = model.likelihood
    assert likelihood.widths.flatten().tolist() == pytest.approx(
        [0.8] * likelihood.widths.numel()
    )


@every_kind
def test_command_line(name: str, tmp_path: Path, capsys: Any):
    journal, feedback = str(tmp_path / "one.db"), KINDS[name]
    Experiment.create(journal, make_settings(feedback)).close()
    word, _ = WORDS[name]
    main(["ask", journal])
    main(["tell", journal, "1", word])
    main(["status", journal])
    assert f"1 {word}" in capsys.readouterr().out
    assert main(["correct", journal, "1", "perhaps"]) == 2
    assert "Expected ``outcome`` to be" in capsys.readouterr().err


@every_kind
def test_recommendations_and_figures(name: str, tmp_path: Path):
    feedback = KINDS[name]
    answer_some(tmp_path / "one.db", feedback)
    with Experiment.open(tmp_path / "one.db") as experiment, warnings.catch_warnings():
        warnings.simplefilter("error")
        advice = experiment.recommend()
        if feedback.num_sides == 1:
            estimate = advice.success_probability()
        else:
            estimate = advice.preference_probability({"gain": 0.2})
        assert 0 <= estimate.low <= estimate.mean <= estimate.high <= 1
        draw_experiment(experiment, tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size > 1000


@every_kind
def test_sessions_take_first_letters(name: str, tmp_path: Path, monkeypatch: Any):
    journal, feedback = str(tmp_path / "one.db"), KINDS[name]
    Experiment.create(journal, make_settings(feedback)).close()
    word, short = WORDS[name]
    typed = iter([short, "q"])
    monkeypatch.setattr("builtins.input", lambda _: next(typed))
    main(["run", journal])
    with Logbook.open(journal) as logbook:
        label = logbook.trials[0].outcome
    assert label is not None
    assert feedback.outcomes[label] == word
