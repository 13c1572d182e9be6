r"""Tests of when experiments stop."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context.experiment import (
    Context,
    Duels,
    Experiment,
    NamedSpace,
    PassFail,
    Real,
    Settings,
    Stop,
)
from botorch_binary_context.experiment.cli import main
from botorch_binary_context.experiment.stopping import measure_progress

SPACE = NamedSpace(
    [Real("gain", 0, 1)],
    [Context("noise", reference=1.0, low=0.0, high=4.0, harder="up")],
)


def run(path: Path, stop: Stop | None, answers: int) -> Experiment:
    """An experiment whose tests are passed up to a noise of 3, less far from 0.5."""
    settings = Settings(SPACE, PassFail(), seed=0, stop=stop)
    experiment = Experiment.create(path, settings)
    for _ in range(answers):
        trial = experiment.ask()
        gain, noise = (float(trial.values[name]) for name in ("gain", "noise"))
        experiment.tell(trial.id, noise < 3 - 8 * (gain - 0.5) ** 2)
    return experiment


class TestProgress:
    def test_every_end(self, tmp_path: Path) -> None:
        stop = Stop(answers=12, loss=0.1, threshold_width=1.0, value=0.05)
        with run(tmp_path / "j", stop, 12) as experiment:
            ends = {end.criterion: end for end in experiment.progress()}
            best = experiment.recommend()
        assert list(ends) == ["answers", "loss", "threshold_width", "value"]
        assert ends["answers"] == ("answers", 12, 12, True)
        assert ends["loss"].now == pytest.approx(best.expected_loss().mean)
        threshold = best.threshold()
        assert ends["threshold_width"].now == pytest.approx(
            threshold.high - threshold.low
        )
        assert ends["value"].now == pytest.approx(best.value_of_next_trial())
        assert all(end.reached == (end.now <= end.limit) for end in ends.values())

    def test_before_the_first_answer(self, tmp_path: Path) -> None:
        with run(tmp_path / "j", Stop(loss=0.1), 0) as experiment:
            assert experiment.progress() == [("loss", math.inf, 0.1, False)]
            assert not experiment.should_stop()

    def test_no_end(self, tmp_path: Path) -> None:
        with run(tmp_path / "j", None, 2) as experiment:
            assert experiment.progress() == []
            assert not experiment.should_stop()

    def test_order_does_not_need_a_recommendation(self) -> None:
        (end,) = measure_progress(Stop(answers=3), 2, None)
        assert end == ("answers", 2, 3, False)


class TestShouldStop:
    def test_stops_once_the_loss_is_within_the_tolerance(self, tmp_path: Path) -> None:
        with run(tmp_path / "j", None, 10) as experiment:
            loss = experiment.recommend().expected_loss().mean
            assert experiment.should_stop(1.01 * loss)
            assert not experiment.should_stop(0.99 * loss)

    def test_stops_after_the_given_number_of_answers(self, tmp_path: Path) -> None:
        with run(tmp_path / "j", Stop(answers=2), 1) as experiment:
            assert not experiment.should_stop()
            experiment.tell(experiment.ask().id, True)
            assert experiment.should_stop()


class TestSettings:
    def test_round_trip(self) -> None:
        settings = Settings(SPACE, stop=Stop(loss=0.02, answers=100))
        content = json.loads(json.dumps(settings.to_dict()))
        assert content["stop"] == {"loss": 0.02, "answers": 100}
        assert Settings.from_dict(content) == settings
        content["stop"] = None
        assert Settings.from_dict(content).stop is None

    @pytest.mark.parametrize(
        ("table", "message"),
        [
            ({}, "at least one of answers, loss, threshold_width, value"),
            (
                {"loss": 0.0},
                "``loss`` of ``stop`` to be a positive number",
            ),
            ({"answers": 2.5}, "``answers`` of ``stop`` to be a positive whole number"),
            ({"loss": "a"}, "but got 'a'"),
            ({"value": math.inf}, "but got inf"),
            ({"lost": 1.0}, "did you mean loss"),
            ([1], "``stop`` to be a table"),
        ],
    )
    def test_refuses_wrong_tables_of_when_to_stop(
        self, table: Any, message: str
    ) -> None:
        content = Settings(SPACE).to_dict()
        with pytest.raises(InputDataError, match=message):
            Settings.from_dict({**content, "stop": table})


def test_ends_that_cannot_be_measured() -> None:
    with pytest.raises(InputDataError, match="``stop`` to be a Stop or None"):
        Settings(SPACE, stop="soon")  # pyright: ignore
    narrow = Stop(threshold_width=0.1)
    with pytest.raises(UnsupportedError, match="but got duels"):
        Settings(SPACE, Duels(), stop=narrow)
    with pytest.raises(UnsupportedError, match=r"contexts \[\]"):
        Settings(NamedSpace(SPACE.parameters), stop=narrow)


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "j"
    run(path, Stop(answers=5, loss=1e-6), 5).close()
    assert main(["recommend", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "answers: 5 of 5, reached: it can stop" in shown
    assert "of 1e-06, not reached" in shown
    assert "expected loss against the best possible" in shown
    assert main(["recommend", str(path), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [end["reached"] for end in data["progress"]] == [True, False]
    assert data["expected_loss"]["unit"] == "noise"
