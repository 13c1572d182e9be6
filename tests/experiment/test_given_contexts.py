r"""Tests of given contexts, and of several trials asked at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context.experiment import (
    Context,
    Experiment,
    NamedSpace,
    Real,
    Settings,
    Trial,
)
from tests.experiment.simulation import (
    FIXED,
    MIXED,
    answer,
    duels,
    pass_fail,
)

TWO_CONTEXTS = NamedSpace(
    [Real("gain", 0.1, 10.0, "log")],
    [
        Context("noise", 2.0, low=0.0, high=4.0, harder="up"),
        Context("size", 1.0, levels=[0.5, 1.0, 2.0], harder="down"),
    ],
)


def begin(path: Path, settings: Settings, num_answers: int = 4) -> Experiment:
    """An experiment in which it is the rule's turn."""
    experiment = Experiment.create(path, settings)
    for _ in range(num_answers):
        trial = experiment.ask()
        experiment.tell(trial.id, answer(trial))
    return experiment


def shown(trial: Trial) -> tuple[Any, ...]:
    return trial.context, trial.sides, trial.chosen_by, trial.used


class TestSeveral:
    @pytest.mark.parametrize(
        "settings",
        [
            pass_fail(initial_trials=4, hyperparameters=FIXED),
            pass_fail(rule="bald", initial_trials=4, hyperparameters=FIXED),
            duels(MIXED, initial_trials=4, hyperparameters=FIXED),
            pass_fail(
                initial_trials=4,
                hyperparameters=FIXED,
                easy_rate=0.3,
                catch_rate=0.2,
                catch={"noise": 4.0},
                seed=2,
            ),
        ],
        ids=["ucb", "bald", "duels", "in between"],
    )
    def test_as_so_many_calls(self, tmp_path: Path, settings: Settings) -> None:
        with begin(tmp_path / "one", settings) as one:
            singles = [one.ask() for _ in range(4)]
        with begin(tmp_path / "two", settings) as two:
            four = two.ask(4)
            assert [t.status for t in two.trials[4:]] == ["pending"] * 4
        assert [shown(t) for t in four] == [shown(t) for t in singles]
        assert [t.id for t in four] == [5, 6, 7, 8]

    def test_before_the_model(self, tmp_path: Path) -> None:
        with begin(tmp_path / "one", pass_fail(), 0) as experiment:
            trials = experiment.ask(n=3, rater="ann")
        assert [t.chosen_by for t in trials] == ["quasi-random"] * 3
        assert {t.rater for t in trials} == {"ann"}
        assert len({str(t.values) for t in trials}) == 3

    @pytest.mark.parametrize("n", [0, -1, True, 2.0, "3", 10**6])
    def test_refuses_wrong_numbers_of_trials(self, tmp_path: Path, n: Any) -> None:
        with (
            begin(tmp_path / "one", pass_fail(), 0) as experiment,
            pytest.raises(InputDataError, match="``n`` to be a whole number from 1"),
        ):
            experiment.ask(n)
        assert experiment.read_only is False


class TestGiven:
    @pytest.mark.parametrize("make", [pass_fail, duels])
    @pytest.mark.parametrize("num_answers", [0, 4])
    def test_all_contexts(self, tmp_path: Path, make: Any, num_answers: int) -> None:
        """Also one between two levels, before and after the rule's turn."""
        settings = make(MIXED, initial_trials=4, hyperparameters=FIXED, easy_rate=0.5)
        with begin(tmp_path / "one", settings, num_answers) as experiment:
            noise: Any = np.float32(0.75)
            trials = experiment.ask(3, context={"noise": noise})
            experiment.tell(trials[0].id, True)
            free = experiment.ask()
        assert [t.context for t in trials] == [{"noise": 0.75}] * 3
        assert all(type(t.context["noise"]) is float for t in trials)
        assert "easy" not in {t.chosen_by for t in trials}
        assert len({str(t.sides) for t in trials}) == 3
        assert free.context["noise"] in (0.0, 1.0, 1.5, 2.5, 4.0)

    @pytest.mark.parametrize("num_answers", [0, 4])
    @pytest.mark.parametrize("rule", ["ucb99-ald", "ucb-target", "bald", "mkg"])
    def test_one_of_two(self, tmp_path: Path, rule: str, num_answers: int) -> None:
        settings = pass_fail(
            TWO_CONTEXTS, rule=rule, initial_trials=4, hyperparameters=FIXED
        )
        with begin(tmp_path / "one", settings, num_answers) as experiment:
            fixed = experiment.ask(context={"noise": 1.25})
            sized = experiment.ask(context={"size": 0.7})
        assert fixed.context["noise"] == 1.25
        assert fixed.context["size"] in (0.5, 1.0, 2.0)
        assert sized.context["size"] == 0.7
        assert 0.0 <= float(sized.context["noise"]) <= 4.0

    def test_what_is_best_there(self, tmp_path: Path) -> None:
        """The parameters are chosen for the given context, not for the reference."""
        context = Context("noise", 0.0, low=0.0, high=1.0)
        space = NamedSpace([Real("gain", 0.0, 1.0)], [context])
        settings = Settings(space, kernel="product", rule="ucb-ald", seed=0)
        with Experiment.create(tmp_path / "one", settings) as experiment:
            for noise in (0.0, 1.0):
                for step in range(11):
                    is_good = abs(step / 10 - noise) < 0.25
                    experiment.add({"noise": noise, "gain": step / 10}, is_good)
            asked = [
                float(experiment.ask(context={"noise": s}).parameters["gain"])
                for s in (0.0, 1.0)
            ]
        assert asked[0] < 0.4 < 0.6 < asked[1]

    def test_nothing_is_left(self, tmp_path: Path) -> None:
        space = NamedSpace([], TWO_CONTEXTS.contexts)
        given = {"size": 0.7, "noise": 3}
        for num_answers in (0, 4):
            settings = pass_fail(space, initial_trials=3, hyperparameters={"slope": 6})
            path = tmp_path / str(num_answers)
            with Experiment.create(path, settings) as experiment:
                for _ in range(num_answers):
                    experiment.tell(experiment.ask().id, True)
                trial = experiment.ask(context=given)
                assert trial.values == {"noise": 3, "size": 0.7}
                assert trial.chosen_by == "given"
                with pytest.raises(UnsupportedError, match="that is not pending"):
                    experiment.ask(context=given)

    @pytest.mark.parametrize(
        ("context", "message"),
        [
            ({"noise": 5.0}, "noise"),
            ({"nois": 1.0}, r"among \['noise', 'size'\], but got \['nois'\]"),
            ({"gain": 1.0}, "but got"),
            ({"noise": "loud"}, "noise"),
            ({"noise": float("nan")}, "noise"),
            (0.3, "among .* but got 0.3"),
        ],
    )
    def test_refuses_wrong_contexts_and_asks_nothing(
        self, tmp_path: Path, context: Any, message: str
    ) -> None:
        with begin(tmp_path / "one", pass_fail(TWO_CONTEXTS), 0) as experiment:
            with pytest.raises(InputDataError, match=message):
                experiment.ask(context=context)
            assert experiment.trials == []
