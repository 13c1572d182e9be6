r"""Tests of goals over contexts, and of maps, in experiments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context.experiment import (
    Context,
    Experiment,
    NamedGoal,
    NamedSpace,
    Real,
    Settings,
    Stop,
)
from botorch_binary_context.experiment.cli import main
from botorch_binary_context.experiment.figure import draw_experiment
from botorch_binary_context.experiment.journal import Journal
from botorch_binary_context.goals import (
    AverageSuccess,
    ContextAverage,
    ContextCVaR,
    ContextQuantile,
    ThresholdMap,
    WorstContext,
)
from tests.experiment.simulation import CONTINUOUS, FIXED, MIXED, duels, pass_fail

GAIN = Real("gain", 0.0, 1.0)
NOISE = Context("noise", reference=0.0, low=0.0, high=1.0)
SPACE = NamedSpace([GAIN], [NOISE])
ENDS = [{"noise": 0.0}, {"noise": 1.0}]
TONE = Context("level", reference=20.0, low=-10.0, high=90.0, harder="down")
PITCH = Real("pitch", 125.0, 8000.0, "log")


def fill(experiment: Experiment) -> None:
    """What is good without noise is 0.2, with noise 0.8, and 0.5 is fair in both."""
    for noise in (0.0, 0.5, 1.0):
        for step in range(11):
            gain = step / 10
            is_good = abs(gain - 0.2 - 0.6 * noise) < 0.35
            experiment.add({"noise": noise, "gain": gain}, is_good)


class TestMake:
    def test_every_kind_becomes_a_goal_in_units_of_the_box(self) -> None:
        """The contexts are in the units of the box."""
        encoder = pass_fail(SPACE).encoder()
        ends = encoder.encode_context(ENDS[0]), encoder.encode_context(ENDS[1])
        rows = torch.stack(ends)
        made: Any
        made = NamedGoal("average", ENDS, weights=[1, 3]).make(encoder)
        assert isinstance(made, ContextAverage)
        assert made.weights == (0.25, 0.75)
        torch.testing.assert_close(made.contexts, rows)
        kind: Any
        for goal, kind in (
            (NamedGoal("worst", ENDS), WorstContext),
            (NamedGoal("average success", ENDS), AverageSuccess),
            (NamedGoal("quantile", ENDS, share=0.1), ContextQuantile),
            (NamedGoal("cvar", ENDS, share=0.5), ContextCVaR),
        ):
            made = goal.make(encoder)
            assert isinstance(made, kind)
            torch.testing.assert_close(made.contexts, rows)
            assert goal.share is None or made.share == goal.share
        assert NamedGoal("map", probability=0.7).make(encoder) == ThresholdMap(0.7)

    def test_contexts_by_default_are_levels_or_an_even_grid(self) -> None:
        """Levels where there are some, otherwise evenly on the scale."""
        made: Any = NamedGoal("worst").make(pass_fail(MIXED).encoder())
        assert len(made.contexts) == 5
        made = NamedGoal("worst", points=3).make(pass_fail(CONTINUOUS).encoder())
        assert sorted(made.contexts.flatten().tolist()) == [-1.0, 0.0, 1.0]
        two = NamedSpace([GAIN], [NOISE, TONE])
        made = NamedGoal("average", points=4).make(pass_fail(two).encoder())
        assert made.contexts.shape == (16, 2)

    def test_round_trip(self) -> None:
        for goal in (
            NamedGoal("average", ENDS, weights=[1, 3]),
            NamedGoal("map", probability=0.7),
        ):
            rule = None if goal.kind != "map" else "map-eavc"
            settings = pass_fail(SPACE, goal=goal, rule=rule)
            content = json.loads(json.dumps(settings.to_dict()))
            assert Settings.from_dict(content) == settings
        assert Settings.from_dict(pass_fail(SPACE).to_dict()).goal is None


@pytest.mark.parametrize(
    "goal",
    [
        NamedGoal("quantile", ENDS, share=0.7),
        NamedGoal("cvar", points=3, share=0.7),
        NamedGoal("map", probability=0.7),
    ],
)
def test_goal_with_a_level(tmp_path: Path, goal: NamedGoal) -> None:
    """Settings of journals from before its share or probability had that name."""
    settings = pass_fail(SPACE, goal=goal, rule="bald")
    content = settings.to_dict()
    rest = {k: v for k, v in content["goal"].items() if v != 0.7}
    content["goal"] = {**rest, "level": 0.7}
    path = tmp_path / "journal"
    Journal.create(path, content).close()
    assert main(["status", str(path)]) == 0
    with Experiment.open(path) as experiment:
        assert experiment.settings == settings


class TestErrors:
    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"kind": "best"}, "``kind`` to be one of average, average success"),
            ({"kind": "quantile"}, "``share`` of ``goal`` to be a number"),
            ({"kind": "cvar", "share": 2}, "from 0 to 1, but got 2"),
            ({"kind": "cvar", "share": "a"}, "from 0 to 1, but got 'a'"),
            (
                {"kind": "map", "probability": 2},
                "``probability`` .* from 0 to 1, but got 2",
            ),
            ({"kind": "worst", "share": 0.1}, "``share`` of ``goal`` to be left out"),
            ({"kind": "map", "share": 0.1}, "``share`` of ``goal`` to be left out"),
            ({"kind": "cvar", "probability": 0.1}, "``probability`` .* to be left out"),
            ({"kind": "map", "points": 3}, "``points`` of ``goal`` to be left out"),
            ({"kind": "worst", "points": 1}, "whole number from 2 to 256"),
            ({"kind": "worst", "weights": [1]}, "``weights`` of ``goal`` to be left"),
            ({"kind": "average", "contexts": ENDS, "weights": "a"}, "to be numbers"),
            ({"kind": "worst", "contexts": []}, "to be a list of tables"),
            ({"kind": "worst", "contexts": [1.0]}, "to be a list of tables"),
            ({"kind": "worst", "contexts": ENDS, "points": 3}, "to be left out"),
        ],
    )
    def test_wrong_goals(self, given: Any, message: str) -> None:
        with pytest.raises(InputDataError, match=message):
            NamedGoal(**given)

    @pytest.mark.parametrize(
        ("goal", "message"),
        [
            (NamedGoal("worst", [{"nose": 0.0}]), "a value for each of"),
            (NamedGoal("worst", [{"noise": 5.0}]), "noise"),
            (NamedGoal("worst", points=200), "at most 256 contexts, but got 40000"),
            (NamedGoal("average", ENDS, weights=[1.0]), "a positive number for each"),
            ("worst", "to be a NamedGoal or None"),
        ],
    )
    def test_wrong_contexts(self, goal: Any, message: str) -> None:
        space = SPACE
        if isinstance(goal, NamedGoal) and goal.points:
            space = NamedSpace([GAIN], [NOISE, TONE])
        with pytest.raises(InputDataError, match=message):
            pass_fail(space, goal=goal)

    @pytest.mark.parametrize(
        ("make", "space", "more", "message"),
        [
            (pass_fail, NamedSpace([GAIN]), {}, "``contexts`` with a ``goal``"),
            (duels, SPACE, {"kind": "map"}, "pass/fail outcomes with the ``goal``"),
            (duels, SPACE, {"kind": "average success"}, "pass/fail outcomes with"),
            (pass_fail, NamedSpace([], [NOISE]), {}, "'map' or left out without"),
            (pass_fail, SPACE, {"kind": "map", "rule": "mkg"}, "bald, map-mi"),
            (pass_fail, SPACE, {"rule": "map-mi"}, "'map' with the rule map-mi"),
        ],
    )
    def test_wrong_combinations(
        self, make: Any, space: NamedSpace, more: Any, message: str
    ) -> None:
        goal = NamedGoal(more.pop("kind", "worst"))
        with pytest.raises(UnsupportedError, match=message):
            make(space, goal=goal, **more)

    def test_refuses_to_stop_a_map_by_loss_or_width(self) -> None:
        for stop in (Stop(loss=0.1), Stop(threshold_width=3.0)):
            with pytest.raises(
                UnsupportedError, match="only ``answers``, since nothing"
            ):
                pass_fail(NamedSpace([PITCH], [TONE]), goal=NamedGoal("map"), stop=stop)


@pytest.mark.parametrize("goal", [None, NamedGoal("worst", ENDS)])
def test_recommends_what_is_best_for_the_goal(
    tmp_path: Path, goal: NamedGoal | None
) -> None:
    """The best without noise, or what is fair with and without."""
    settings = pass_fail(SPACE, kernel="product", goal=goal)
    with Experiment.create(tmp_path / "journal", settings) as experiment:
        fill(experiment)
        best = experiment.recommend()
        gain = float(best.parameters["gain"])
        interval: Any = best.local_uncertainty["gain"]
        low, high = interval
        assert low <= gain <= high
        assert best.expected_loss().unit is None
        region: Any = best.region(tolerance=10.0)
        assert region["gain"][0] <= gain <= region["gain"][1]
        if goal is None:
            assert gain < 0.35
        else:
            assert 0.35 < gain < 0.65


@pytest.mark.parametrize(
    ("goal", "rule"),
    [
        (NamedGoal("average"), "mkg"),
        (NamedGoal("average success"), "ucb99-ald"),
        (NamedGoal("quantile", share=0.25), "ts-ald"),
        (NamedGoal("cvar", points=3, share=0.5), "cbkg"),
    ],
)
def test_goals_ask(tmp_path: Path, goal: NamedGoal, rule: str) -> None:
    """Also in a given context; a loss of success is one of a probability."""
    settings = pass_fail(
        SPACE, initial_trials=0, hyperparameters=FIXED, goal=goal, rule=rule
    )
    with Experiment.create(tmp_path / "journal", settings) as experiment:
        experiment.add({"noise": 0.5, "gain": 0.3}, True)
        experiment.ask(2)
        assert experiment.ask(context={"noise": 0.3}).context == {"noise": 0.3}
        best = experiment.recommend()
        loss = best.expected_loss()
        if goal.kind == "average success":
            assert loss.unit == "success probability"
            assert loss.high <= 1.0
            with pytest.raises(UnsupportedError, match="the goal is a probability"):
                best.expected_loss("noise")
        draw_experiment(experiment, tmp_path / "goal.png")


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("map") / "ear.journal"
    space = NamedSpace([PITCH], [TONE])
    settings = pass_fail(space, goal=NamedGoal("map", probability=0.8))
    assert settings.rule == "bald"
    with Experiment.create(path, settings) as experiment:
        for level in range(-5, 90, 10):
            for pitch, threshold in ((200.0, 60.0), (1000.0, 20.0)):
                experiment.add({"level": level, "pitch": pitch}, level > threshold)
        experiment.ask()
    return path


class TestMap:
    def test_thresholds_are_near_the_truth_at_each_pitch(self, journal: Path) -> None:
        with Experiment.open(journal) as experiment:
            best = experiment.recommend()
        assert best.parameters == {}
        low = best.threshold(parameters={"pitch": 200.0})
        high = best.threshold(parameters={"pitch": 1000.0})
        assert 50.0 < low.median < 75.0
        assert 10.0 < high.median < 35.0
        at = best.success_probability({"level": low.median}, parameters={"pitch": 200})
        assert abs(at.mean - 0.8) < 0.1  # the probability of the goal
        distribution = best.threshold_distribution(parameters={"pitch": 200.0})
        assert abs(distribution.quantile(0.5) - low.median) < 3.0
        with pytest.raises(InputDataError, match="for each of .'pitch'., but got"):
            best.threshold()
        with pytest.raises(
            UnsupportedError, match="parameters to optimize, but got none"
        ):
            best.expected_loss()

    def test_command_line(
        self, capsys: pytest.CaptureFixture[str], journal: Path, tmp_path: Path
    ) -> None:
        assert main(["recommend", str(journal), "--at", "pitch=1000"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "after 20 answers"
        assert lines[1].startswith("threshold of level at pitch = 1000.0: ")
        assert len(lines) == 2
        assert main(["recommend", str(journal), "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)["map"]
        assert [rows[i]["parameters"]["pitch"] for i in (0, -1)] == [125.0, 8000.0]
        assert len(rows) == 9
        picture = str(tmp_path / "map.png")
        assert main(["plot", str(journal), picture]) == 0


def test_ask_on_the_command_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    journal = str(tmp_path / "journal")
    Experiment.create(journal, pass_fail(MIXED)).close()
    assert main(["ask", journal, "--context", "noise=0.75", "-n", "2", "--json"]) == 0
    trials = json.loads(capsys.readouterr().out)
    assert [t["values"]["noise"] for t in trials] == [0.75, 0.75]
    assert main(["ask", journal, "-n", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    titles = [line for line in lines if line.startswith("trial")]
    assert titles == ["trial 3", "trial 4", "trial 5"]
    for wrong, message in (
        (["-n", "0"], "whole number from 1"),
        (["-n", "x"], "argument -n"),
        (["--context", "noise"], "NAME=VALUE with a name among"),
        (["--context", "gain=1"], "NAME=VALUE with a name among ['noise']"),
        (["--context", "noise=loud"], "noise"),
        (["--context", "noise=9"], "noise"),
    ):
        try:
            code = main(["ask", journal, *wrong])
        except SystemExit as end:
            code = end.code
        assert code == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
