r"""Tests of experiments without parameters: a threshold is all there is to learn."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest
from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context.experiment import (
    Context,
    Duels,
    Experiment,
    NamedSpace,
    PassFail,
    Recommendation,
    Settings,
    Stop,
)
from botorch_binary_context.experiment.cli import main
from botorch_binary_context.experiment.figure import draw_experiment

LEVEL = Context("level", reference=20.0, low=-10.0, high=90.0, harder="down")
GRID = Context("level", reference=20.0, low=-10.0, high=90.0, harder="down", step=5)
THRESHOLD, SLOPE = 33.0, 0.2
TOML = """
seed = 3
[feedback]
guess_rate = "1/2"
[[contexts]]
name = "level"
reference = 20.0
low = -10.0
high = 90.0
harder = "down"
[stop]
threshold_width = 40.0
"""


def settings(context: Context = LEVEL, **kwargs: Any) -> Settings:
    feedback = PassFail(guess_rate=0.5, lapse_rate=0.02)
    return Settings(NamedSpace([], [context]), feedback, **{"seed": 3, **kwargs})


def hears(level: float, number: int) -> bool:
    """An answer by chance, whose probability is halfway at the threshold."""
    luck = (number * 0.618034) % 1.0
    return luck < 0.5 + 0.48 * NormalDist().cdf(SLOPE * (level - THRESHOLD))


def run(experiment: Experiment, num_trials: int) -> None:
    for _ in range(num_trials):
        trial = experiment.ask()
        assert trial.parameters == {}
        experiment.tell(trial.id, hears(float(trial.values["level"]), trial.id))


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An experiment of thirty answers."""
    path = tmp_path_factory.mktemp("ear") / "ear.journal"
    with Experiment.create(path, settings()) as experiment:
        run(experiment, 30)
        yield experiment


@pytest.fixture(scope="module")
def best(answered: Experiment) -> Recommendation:
    return answered.recommend()


def test_threshold_is_found(answered: Experiment, best: Recommendation) -> None:
    median, low, high = best.threshold()
    assert abs(median - THRESHOLD) < 6.0
    assert low < THRESHOLD < high < low + 30.0
    assert best.parameters == best.uncertainty == best.local_uncertainty == {}
    easy, hard = (best.success_probability({"level": x}).mean for x in (80.0, -5.0))
    assert hard < 0.6 < 0.9 < easy
    asked = [abs(float(t.values["level"]) - THRESHOLD) for t in answered.trials]
    assert sum(asked[20:]) < sum(asked[:10])  # it asks where it is not sure


def test_no_best(best: Recommendation) -> None:
    assert not best.is_graded
    for call in (
        best.expected_loss,
        best.value_of_next_trial,
        lambda: best.region(0.1),
    ):
        with pytest.raises(
            UnsupportedError, match="parameters to optimize, but got none"
        ):
            call()


def test_stops_when_the_threshold_is_known_to_the_tolerance(
    answered: Experiment,
) -> None:
    assert not answered.should_stop(tolerance=0.5)
    assert answered.should_stop(tolerance=90.0)


def test_experiment_opened_again_asks_the_same_questions(tmp_path: Path) -> None:
    """Levels, and the same questions whether the file was closed or not."""
    paths = [tmp_path / "one", tmp_path / "two"]
    asked = []
    for path in paths:
        Experiment.create(path, settings(GRID, rule="map-mi")).close()
        with Experiment.open(path) as experiment:
            run(experiment, 6)
            if path == paths[0]:
                run(experiment, 2)
        if path == paths[1]:
            with Experiment.open(path) as experiment:
                run(experiment, 2)
        with Experiment.open(path) as experiment:
            asked.append([float(t.values["level"]) for t in experiment.trials])
    assert asked[0] == asked[1]
    assert all(level % 5 == 0 for level in asked[0])


def test_two_contexts_work_with_either_kernel(tmp_path: Path) -> None:
    """Two contexts, of which one has no direction, and the freer kernel."""
    pitch = Context("pitch", 1000.0, low=125.0, high=8000.0, scale="log")
    space = NamedSpace([], [LEVEL, pitch])
    for kernel in ("additive", "product"):
        chosen = Settings(space, kernel=kernel, initial_trials=5, seed=0)
        assert chosen.rule == "bald"
        with Experiment.create(tmp_path / kernel, chosen) as experiment:
            run(experiment, 7)
            best = experiment.recommend()
        at = {"level": 20.0, "pitch": 4000.0}
        assert best.threshold("level", context=at).median < 90.0


def test_settings_and_figure(tmp_path: Path) -> None:
    """Settings survive a round trip; catch trials and additions work."""
    chosen = settings(easy_rate=0.3, stop=Stop(answers=9, threshold_width=3.0))
    assert Settings.from_dict(chosen.to_dict()) == chosen
    with Experiment.create(tmp_path / "ear", chosen) as experiment:
        experiment.add({"level": 50.0}, True)
        run(experiment, 8)
        assert "easy" in {t.chosen_by for t in experiment.trials}
        assert experiment.should_stop()
        draw_experiment(experiment, tmp_path / "ear.png")
    assert (tmp_path / "ear.png").stat().st_size > 10_000


def test_refuses_what_needs_parameters() -> None:
    with pytest.raises(InputDataError, match="at least one variable, but got none"):
        NamedSpace([])
    with pytest.raises(UnsupportedError, match="something to compare in duels, but"):
        Settings(NamedSpace([], [LEVEL]), Duels())
    wrong: dict[str, Any]
    for wrong, message in (
        ({"rule": "ucb-ald"}, "without parameters to be one of bald, map-mi"),
        ({"kernel": "multiplicative"}, "'additive' or 'product', but got 'mult"),
        ({"combinations": "power-vector"}, "what ``combinations`` combine"),
        (
            {"stop": Stop(loss=0.1, answers=3)},
            "only ``answers`` or .* optimized, but got loss",
        ),
        ({"stop": Stop(value=0.1)}, "nothing is optimized, but got value"),
    ):
        with pytest.raises(UnsupportedError, match=message):
            settings(**wrong)


def test_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config, journal = tmp_path / "ear.toml", str(tmp_path / "ear.journal")
    config.write_text(TOML)
    assert main(["new", str(config), journal]) == 0
    with Experiment.open(journal) as experiment:
        run(experiment, 7)
    assert main(["ask", journal]) == 0
    assert main(["tell", journal, "8", "pass"]) == 0
    capsys.readouterr()
    assert main(["recommend", journal]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "after 8 answers"
    assert lines[1].startswith("success probability at level = 20.0: ")
    assert lines[2].startswith("threshold of level: ")
    assert lines[3].startswith("threshold width: ")
    assert main(["recommend", journal, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["parameters"] == {}
    assert result["expected_loss"] is None
    assert set(result["thresholds"]) == {"level"}
    assert main(["export", journal]) == 0
    assert ",level" in capsys.readouterr().out.splitlines()[0]
    config.write_text("seed = 3\n")
    assert main(["new", str(config), str(tmp_path / "other")]) == 2
    assert "at least one variable, but got none" in capsys.readouterr().err
