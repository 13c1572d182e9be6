r"""Experiments that learn which trials are feasible, and those of contests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from botorch.exceptions import UnsupportedError

from botorch_binary_context.experiment import (
    BestOf,
    Context,
    Duels,
    Experiment,
    NamedGoal,
    NamedSpace,
    PassFail,
    Real,
    Settings,
)
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
        refused = [
            t
            for t in experiment.trials
            if feedback.infeasible_side(t.outcome or 0) is not None
        ]
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
