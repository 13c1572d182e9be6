r"""Tests of the adapter with the methods of questplus, and against questplus."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context.experiment import (
    Context,
    Experiment,
    NamedSpace,
    PassFail,
    Real,
    Settings,
)
from botorch_binary_context.integrations.questplus import QuestPlusExperiment
from tests.experiment.simulation import duels, unmodeled

DOMAINS: dict[str, Any] = {
    "stim_domain": {"intensity": [float(x) for x in range(-40, 1)]},
    "param_domain": {
        "mean": [float(x) for x in range(-40, 1)],
        "sd": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0],
        "lower_asymptote": [0.5],
        "lapse_rate": [0.02],
    },
    "outcome_domain": {"response": ["Yes", "No"]},
}
YES, NO = {"response": "Yes"}, {"response": "No"}


@pytest.fixture
def adapter() -> QuestPlusExperiment:
    return QuestPlusExperiment.from_domains(**DOMAINS, seed=0)


class TestAdapter:
    def test_settings_are_those_of_the_domains(
        self, adapter: QuestPlusExperiment
    ) -> None:
        settings = adapter.experiment.settings
        (context,) = settings.space.contexts
        levels = DOMAINS["stim_domain"]["intensity"]
        expected = Context("intensity", -40.0, levels=levels, harder="down")
        assert context == expected
        feedback: Any = settings.feedback
        assert (feedback.guess_rate, feedback.lapse_rate) == (0.5, 0.02)

    def test_learned_lapse_rate(self, tmp_path: Path) -> None:
        context = Context("noise", 2.0, low=0.0, high=4.0, harder="up")
        feedback = PassFail(0.5, "learned")
        settings = Settings(NamedSpace([], [context]), feedback, seed=0)
        with Experiment.create(tmp_path / "journal", settings) as experiment:
            found = QuestPlusExperiment(experiment)
            for noise in (0.0, 1.0, 2.0, 3.0, 4.0):
                found.update(stim={"noise": noise}, outcome=YES if noise < 3 else NO)
            estimate = found.param_estimate
            learned: Any = experiment._journal.fit(5)
        assert estimate["lower_asymptote"] == 0.5
        assert [estimate["lapse_rate"]] == pytest.approx(learned["lapse_rate"])

    def test_several_dimensions(self, tmp_path: Path) -> None:
        found = QuestPlusExperiment.from_domains(
            stim_domain={"pitch": [250, 500, 1000], "noise": [0, 1, 2, 3]},
            context="noise",
            harder="up",
            journal=tmp_path / "journal",
        )
        space = found.experiment.settings.space
        assert space.parameters == (Real("pitch", levels=[250.0, 500.0, 1000.0]),)
        noise = Context("noise", 3.0, levels=[0.0, 1.0, 2.0, 3.0], harder="up")
        assert space.contexts == (noise,)
        assert set(found.next_stim) == {"pitch", "noise"}

    def test_next_and_update(self, adapter: QuestPlusExperiment) -> None:
        stim = adapter.next_stim
        assert stim == adapter.next_stim  # until it is answered
        adapter.update(stim=stim, outcome=YES)
        adapter.next_stim  # noqa: B018
        adapter.update(stim={"intensity": -7.0}, outcome=NO)  # something else
        adapter.update(stim={"intensity": -8.0}, outcome=NO)  # nothing was asked
        assert adapter.stim_history == [stim, {"intensity": -7.0}, {"intensity": -8.0}]
        assert adapter.resp_history == [YES, NO, NO]
        trials = adapter.experiment.trials
        assert [trial.status for trial in trials] == ["answered"] * 3
        assert trials[1].asked is not None

    def test_goes_on(self, tmp_path: Path) -> None:
        with Experiment.create(tmp_path / "journal", unmodeled()) as experiment:
            stim = QuestPlusExperiment(experiment).next_stim
            assert QuestPlusExperiment(experiment).next_stim == stim

    def test_copy_from_json_asks_the_same_next_question(
        self, adapter: QuestPlusExperiment
    ) -> None:
        """The copy asks the same next question, by the rule."""
        for level in range(-40, 0, 3):
            passed = level > -20
            adapter.update(stim={"intensity": level}, outcome=YES if passed else NO)
        copy = QuestPlusExperiment.from_json(adapter.to_json())
        assert json.loads(copy.to_json()) == json.loads(adapter.to_json())
        assert copy.next_stim == adapter.next_stim
        chosen_by = copy.experiment.trials[-1].chosen_by
        assert chosen_by == copy.experiment.rule

    def test_deleted_with_the_object(self) -> None:
        adapter = QuestPlusExperiment.from_domains(**DOMAINS)
        path = adapter.experiment.path
        assert path.exists()
        del adapter
        assert not path.exists()

    def test_refuses_wrong_outcomes_stimuli_domains_and_duels(
        self, adapter: QuestPlusExperiment, tmp_path: Path
    ) -> None:
        for wrong in ({"response": "Maybe"}, {"answer": "Yes"}, {}, "Yes"):
            with pytest.raises(InputDataError, match="'response' the value 'Yes' or"):
                adapter.update(stim={"intensity": 0.0}, outcome=wrong)  # type: ignore
        with pytest.raises(InputDataError, match="a value for each of"):
            adapter.update(stim={"level": 0.0}, outcome=YES)
        for domain in ({}, {"a": ["x"]}, {"a": ["x", "x"]}, {"a": "xy", "b": "xy"}):
            with pytest.raises(UnsupportedError, match="``outcome_domain`` to give"):
                QuestPlusExperiment.from_domains(
                    stim_domain={"x": [0, 1]}, outcome_domain=domain
                )
        with pytest.raises(InputDataError, match="``context`` to be one of"):
            QuestPlusExperiment.from_domains(stim_domain={"x": [0, 1]}, context="y")
        with (
            Experiment.create(tmp_path / "journal", duels()) as experiment,
            pytest.raises(UnsupportedError, match="pass/fail outcomes, but got duels"),
        ):
            QuestPlusExperiment(experiment)


class TestAgainstQuestplus:
    @pytest.fixture
    @staticmethod
    def both(
        peer: Callable[[str], ModuleType], adapter: QuestPlusExperiment
    ) -> tuple[QuestPlusExperiment, Any]:
        module = peer("questplus")
        theirs = module.QuestPlus(**DOMAINS, func="norm_cdf", stim_scale="linear")
        return adapter, theirs

    def test_same_answers(self, both: tuple[QuestPlusExperiment, Any]) -> None:
        """The estimates of 120 answers agree within the uncertainty of theirs."""
        ours, theirs = both
        generator = random.Random(1)
        for _ in range(120):
            stim = {"intensity": float(generator.randint(-32, -8))}
            chance = 0.5 + 0.48 * NormalDist(-20.0, 4.0).cdf(stim["intensity"])
            outcome = YES if generator.random() < chance else NO
            ours.update(stim=stim, outcome=outcome)
            theirs.update(stim=stim, outcome=outcome)
        found, expected = ours.param_estimate, theirs.param_estimate
        assert set(found) == set(expected)
        marginal = theirs.marginal_posterior
        for name in ("mean", "sd"):
            values = np.array(DOMAINS["param_domain"][name])
            variance = (marginal[name] * (values - expected[name]) ** 2).sum()
            assert abs(found[name] - expected[name]) < 1.5 * variance**0.5
        assert found["lapse_rate"] == pytest.approx(expected["lapse_rate"])
        assert found["lower_asymptote"] == expected["lower_asymptote"]
        assert ours.stim_history == theirs.stim_history
        assert ours.resp_history == theirs.resp_history

    def test_one_loop_for_both(self, both: tuple[QuestPlusExperiment, Any]) -> None:
        generator = random.Random(2)
        for qp in both:
            for _ in range(8):
                stim = qp.next_stim
                chance = 0.5 + 0.48 * NormalDist(-20.0, 4.0).cdf(stim["intensity"])
                passed = generator.random() < chance
                qp.update(stim=stim, outcome=YES if passed else NO)
            assert len(qp.stim_history) == 8
            assert -40.0 <= qp.param_estimate["mean"] <= 0.0
