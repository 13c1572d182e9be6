r"""Tests of catch trials and easy trials in between."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context.experiment import (
    Categorical,
    Context,
    Duels,
    Experiment,
    NamedSpace,
    PassFail,
    Real,
    Settings,
)
from botorch_binary_context.experiment.interleaving import (
    choose_kind,
    make_catch,
    make_easy,
)

SPACE = NamedSpace(
    [Real("gain", 0.0, 1.0), Categorical("display", ["on", "off"])],
    [
        Context("noise", reference=2.0, low=0.0, high=4.0, harder="up"),
        Context("size", reference=0.5, levels=[0.0, 0.5, 1.0], harder="down"),
        Context("color", reference=0.0, low=0.0, high=1.0),
    ],
)
BLANK = {"display": "off", "noise": 4.0}


def settings(**kwargs: Any) -> Settings:
    return Settings(SPACE, PassFail(), seed=3, **kwargs)


class TestChoice:
    def test_rates_are_met_and_the_choice_repeats_itself(self) -> None:
        """About as many as wanted, and always the same ones."""
        kinds = [choose_kind(5, n, 0.1, 0.2) for n in range(1, 4001)]
        counts = Counter(kinds)
        assert abs(counts["catch"] - 400) < 5 * 19  # five standard deviations
        assert abs(counts["easy"] - 800) < 5 * 25
        assert kinds == [choose_kind(5, n, 0.1, 0.2) for n in range(1, 4001)]
        assert kinds != [choose_kind(6, n, 0.1, 0.2) for n in range(1, 4001)]

    def test_never_the_first_or_without_a_rate(self) -> None:
        assert {choose_kind(s, 1, 0.5, 0.5) for s in range(50)} == {None}
        assert {choose_kind(0, n, 0.0, 0.0) for n in range(50)} == {None}

    def test_easy_trials_have_the_easiest_context_and_the_same_sides(self) -> None:
        """Contexts without a direction stay."""
        context = {"noise": 3.0, "size": 0.0, "color": 0.3}
        found, sides = make_easy(context, [{"gain": 0.1}], SPACE)
        assert found == {"noise": 0.0, "size": 1.0, "color": 0.3}
        assert sides == ({"gain": 0.1},)


class TestExperiment:
    @pytest.mark.parametrize("kept_out", [(), ("catch",), ("catch", "easy")])
    def test_in_between(self, tmp_path: Path, kept_out: Any) -> None:
        wanted = settings(
            catch_rate=0.25,
            catch=BLANK,
            easy_rate=0.25,
            kept_out=kept_out,
            initial_trials=100,
        )
        with Experiment.create(tmp_path / "journal", wanted) as experiment:
            for _ in range(40):
                experiment.tell(experiment.ask().id, 1)
            trials = experiment.trials
        expected = [
            choose_kind(3, n, 0.25, 0.25) or "quasi-random" for n in range(1, 41)
        ]
        assert [trial.chosen_by for trial in trials] == expected
        assert len(set(expected)) == 3
        for trial in trials:
            assert trial.used == (trial.chosen_by not in kept_out)
            if trial.chosen_by == "catch":
                assert BLANK.items() <= trial.values.items()
            if trial.chosen_by == "easy":
                assert (trial.context["noise"], trial.context["size"]) == (0.0, 1.0)

    def test_the_others_stay_as_they_were(self, tmp_path: Path) -> None:
        """Ordinary trials do not depend on those in between."""

        def ask(name: str, **kwargs: Any) -> list[Any]:
            chosen = settings(initial_trials=100, **kwargs)
            with Experiment.create(tmp_path / name, chosen) as experiment:
                for _ in range(12):
                    experiment.tell(experiment.ask().id, 1)
                return experiment.trials

        plain = ask("plain")
        mixed = ask("mixed", catch_rate=0.3, catch=BLANK)
        same = [
            a.values == b.values
            for a, b in zip(plain, mixed, strict=True)
            if b.chosen_by != "catch"
        ]
        assert all(same)
        assert len(same) < 12

    def test_by_the_rule_and_duels(self, tmp_path: Path) -> None:
        """After the first trials, too; the model does not learn from what is out."""
        wanted = Settings(
            SPACE, Duels(), seed=0, catch_rate=0.4, catch=BLANK, initial_trials=5
        )
        with Experiment.create(tmp_path / "journal", wanted) as experiment:
            for i in range(14):
                experiment.tell(experiment.ask().id, i % 2)
            trials, model = experiment.trials, experiment.model()
        used = [trial for trial in trials if trial.chosen_by != "catch"]
        assert 5 < len(used) < 14
        assert model.train_targets.shape[-1] == len(used)
        assert used[-1].chosen_by == wanted.rule


def test_round_trip() -> None:
    chosen = settings(catch_rate=0.1, catch=BLANK, easy_rate=0.05, kept_out=["easy"])
    assert Settings.from_dict(chosen.to_dict()) == chosen
    old = settings().to_dict()
    for key in ("catch_rate", "catch", "easy_rate", "kept_out"):
        del old[key]
    assert Settings.from_dict(old) == settings()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"catch_rate": 0.1}, "``catch`` to say what catch trials show"),
        ({"catch_rate": 0.7, "catch": BLANK}, "from 0 to 0.5, but got 0.7"),
        ({"easy_rate": 0.4, "catch_rate": 0.2}, "sum to at most 0.5, but got 0.2 and"),
        ({"easy_rate": "often"}, "``easy_rate`` to be a number .* but got 'often'"),
        ({"catch": {"nois": 1}}, "``catch`` to have names .* but got 'nois'"),
        ({"catch": {"noise": 9}}, "``value`` of 'noise' to be from 0.* but got 9"),
        ({"catch": [1]}, "``catch`` to be a table of values"),
        ({"kept_out": ["hard"]}, r"``kept_out`` to be a list of catch, easy"),
    ],
)
def test_refuses_wrong_rates_and_wrong_catch_trials(
    arguments: Any, message: str
) -> None:
    with pytest.raises(InputDataError, match=message):
        settings(**arguments)


def test_easy_needs_a_direction() -> None:
    with pytest.raises(UnsupportedError, match="context with ``harder`` for easy"):
        Settings(NamedSpace(SPACE.parameters), easy_rate=0.1)


def test_a_catch_duel_has_two_sides() -> None:
    """Values of all parameters are those of the first side."""
    sides = ({"x": 1, "y": 2}, {"x": 3, "y": 4})
    assert make_catch({}, sides, {"x": 9})[1] == ({"x": 9, "y": 2}, {"x": 9, "y": 4})
    assert make_catch({}, sides, {"x": 9, "y": 8})[1] == ({"x": 9, "y": 8}, sides[1])
