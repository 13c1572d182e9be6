r"""Tests of contexts that cannot be shown all over their bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError

from botorch_binary_context.acquisition import BernoulliMutualInformation
from botorch_binary_context.experiment import Context, Experiment, NamedSpace
from tests.experiment.simulation import FIXED, answer, duels, pass_fail
from tests.experiment.test_given_contexts import TWO_CONTEXTS, begin

LIMITS: Any = {"noise": (0.5, 1.5), "size": (0.9, None)}


@pytest.mark.parametrize("rule", ["ucb99-ald", "ucb-target", "bald", "random"])
def test_questions_meet_them(tmp_path: Path, rule: str) -> None:
    """Quasi-random ones, those of the rule and easy ones; the reference is outside."""
    settings = pass_fail(
        TWO_CONTEXTS,
        rule=rule,
        initial_trials=4,
        easy_rate=0.2,
        hyperparameters=FIXED,
        seed=1,
    )
    with Experiment.create(tmp_path / "one", settings) as experiment:
        for _ in range(9):
            trial = experiment.ask(limits=LIMITS)
            experiment.tell(trial.id, answer(trial))
        trials = experiment.trials
        free = [experiment.ask() for _ in range(3)]
    assert {t.chosen_by for t in trials} == {"quasi-random", rule, "easy"}
    assert all(0.5 <= float(t.context["noise"]) <= 1.5 for t in trials)
    assert {t.context["size"] for t in trials} <= {1.0, 2.0}
    easy = [t.context for t in trials if t.chosen_by == "easy"]
    assert easy == [{"noise": 0.5, "size": 2.0}] * len(easy)
    # Not cut off at the end, where all would be the same.
    quasi_random = [t for t in trials if t.chosen_by == "quasi-random"]
    assert len({t.context["noise"] for t in quasi_random}) == len(quasi_random)
    outside = [t for t in free if not 0.5 <= float(t.context["noise"]) <= 1.5]
    assert outside or rule != "random"


def test_the_rule_knows_them(tmp_path: Path) -> None:
    """It takes the best of what can be shown, by a search on a fine grid."""
    context = Context("size", 0.0, low=-0.5, high=1.0, harder="down")
    settings = pass_fail(
        NamedSpace([], [context]),
        rule="bald",
        initial_trials=3,
        hyperparameters={"context_variance": 4.0, "constant": 0.5, "slope": 3.0},
    )
    asked = []
    for low in (None, 0.45, 0.7):
        with Experiment.create(tmp_path / str(low), settings) as experiment:
            for size in (-0.3, 0.0, 0.3, 0.6, 0.9):
                experiment.add({"size": size}, size > 0.2)
            trial = experiment.ask(limits={"size": (low, None)})
            asked.append(float(trial.context["size"]))
            assert trial.chosen_by == "bald"
            grid = torch.linspace(-0.5 if low is None else low, 1.0, 3001)
            sizes = grid.to(torch.float64).tolist()
            encode = experiment.encoder.encode_context
            X = torch.stack([encode({"size": min(size, 1.0)}) for size in sizes])
            with torch.no_grad():
                values = BernoulliMutualInformation(experiment.model())(X.unsqueeze(-2))
            best = sizes[int(values.argmax())]
            assert asked[-1] == pytest.approx(best, abs=2e-3)
    assert asked[0] < 0.45 - 1e-3  # what it would ask for is cut off


@pytest.mark.parametrize("make", [pass_fail, duels])
def test_the_same_questions(tmp_path: Path, make: Any) -> None:
    """Prepared or not; and limits that exclude nothing change nothing."""
    settings = make(initial_trials=3, hyperparameters=FIXED)
    limits = {"noise": (1.0, 3.0)}
    with (
        begin(tmp_path / "a", settings, 3) as plain,
        begin(tmp_path / "b", settings, 3) as ahead,
        begin(tmp_path / "c", settings, 3) as wide,
        begin(tmp_path / "d", settings, 3) as free,
    ):
        for _ in range(3):
            trials = [e.ask(limits=limits) for e in (plain, ahead)]
            assert trials[0].values == trials[1].values
            ahead.prepare(trials[1].id, 1, limits=limits)
            plain.tell(trials[0].id, 1)
            ahead.tell(trials[1].id, 1)
        everything = {"noise": (-9.0, None)}
        assert wide.ask(limits=everything).values == free.ask().values


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"gain": (1.0, 2.0)}, r"among \['noise', 'size'\], but got \['gain'\]"),
        (3, "about contexts .* but got 3"),
        ({"noise": 3.0}, "the least and the largest value, each a number or None"),
        ({"noise": (1.0, "2")}, "each a number or None"),
        ({"noise": (float("nan"), None)}, "each a number or None"),
        ({"noise": (3.0, 2.0)}, "to leave values from 0 to 4"),
        ({"noise": (5.0, None)}, "to leave values from 0 to 4"),
        ({"size": (0.6, 0.9)}, "to leave values from 0.5 to 2 that can be shown"),
    ],
)
def test_refuses_wrong_limits_and_asks_nothing(
    tmp_path: Path, limits: Any, message: str
) -> None:
    with begin(tmp_path / "one", pass_fail(TWO_CONTEXTS), 0) as experiment:
        with pytest.raises(InputDataError, match=message):
            experiment.ask(limits=limits)
        with pytest.raises(InputDataError, match="``context`` to meet ``limits``"):
            experiment.ask(context={"noise": 3.0}, limits={"noise": (None, 2.0)})
        assert experiment.trials == []
