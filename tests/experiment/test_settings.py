r"""Tests of the settings of an experiment, and of TOML files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context.experiment import (
    Confidence,
    Context,
    Duels,
    Experiment,
    NamedSpace,
    PassFail,
    Real,
    Settings,
)
from botorch_binary_context.problems import POWER_VECTOR
from tests.experiment.simulation import CONTINUOUS, MIXED, duels, pass_fail

PLAIN = NamedSpace([Real("x", 0, 1)])

TOML = """
rule = "ts-ald"
seed = 7

[feedback]
kind = "pass/fail"
guess_rate = 0.04
lapse_rate = 0.02

[[parameters]]
name = "gain"
low = 0.1
high = 10
scale = "log"

[[parameters]]
name = "taps"
type = "integer"
low = 1
high = 9

[[parameters]]
name = "window"
type = "categorical"
values = ["hann", "box", "flat"]

[[contexts]]
name = "noise"
levels = [0.0, 1.0, 1.5, 2.5, 4.0]
reference = 2.0
harder = "up"

[hyperparameters]
outputscale = 4.0
lengthscale = [0.3, 0.4]
"""


class TestDefaults:
    def test_pass_fail(self) -> None:
        settings = pass_fail()
        assert (settings.rule, settings.kernel) == ("ucb99-ald", "additive")
        assert settings.initial_trials == 6  # two for each variable

    def test_duels_have_a_rule_and_a_kernel_of_their_own(self) -> None:
        settings = duels()
        assert (settings.rule, settings.kernel) == ("muc-target", "product")

    def test_alternatives_give_the_guess_rate(self) -> None:
        feedback = PassFail(lapse_rate=0.02, alternatives=26)
        assert feedback == PassFail(1 / 26, 0.02)
        assert replace(feedback, lapse_rate=0.0) == PassFail(1 / 26)
        assert replace(PassFail(), alternatives=2) == PassFail(0.5)

    def test_lapse_rate(self) -> None:
        assert PassFail() == PassFail(0.0, 0.0)
        assert PassFail(0.5) == PassFail(0.5, 0.0)
        assert PassFail(alternatives=26) == PassFail(1 / 26, "learned")
        assert PassFail(alternatives=2) == PassFail(0.5, 0.02)
        assert PassFail(lapse_rate=0.0, alternatives=26) == PassFail(1 / 26, 0.0)
        # A journal holds what it was begun with.
        kept = replace(pass_fail(), feedback=PassFail(alternatives=3)).to_dict()
        assert kept["feedback"]["lapse_rate"] == "learned"
        kept["feedback"]["lapse_rate"] = 0.0
        assert Settings.from_dict(kept).feedback == PassFail(1 / 3)

    def test_no_contexts(self) -> None:
        settings = Settings(PLAIN)
        assert settings.kernel is None
        assert settings.initial_trials == 5


class TestErrors:
    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: pass_fail(rule="muc-ald"), "a rule for pass/fail, one of ucb-ald"),
            (lambda: duels(rule="ucb"), "a rule for duels, one of .* but got 'ucb'"),
            (
                lambda: pass_fail(kernel="sum"),
                "one of additive, multiplicative, produc",
            ),
            (lambda: duels(kernel="additive"), "which cancels between the two sides"),
            (lambda: Settings(PLAIN, kernel="product"), "left out without contexts"),
            (
                lambda: Settings(
                    NamedSpace([Real("x", 0, 1)], [Context("s", 1, 1, 2, scale="log")]),
                    kernel="multiplicative",
                ),
                "'multiplicative' ``kernel``, but got s on a log scale",
            ),
        ],
    )
    def test_refuses_rules_and_kernels_that_do_not_fit(
        self, make: Any, message: str
    ) -> None:
        with pytest.raises(UnsupportedError, match=message):
            make()

    @pytest.mark.parametrize("value", [-1, 1.5, "a", True])
    def test_refuses_counts_that_are_not_whole_numbers(self, value: Any) -> None:
        for name in ("seed", "initial_trials"):
            with pytest.raises(InputDataError, match=f"``{name}`` to be a whole"):
                pass_fail(**{name: value})

    def test_refuses_a_guess_rate_of_one(self) -> None:
        with pytest.raises(InputDataError, match="``guess_rate`` to be in"):
            PassFail(guess_rate=1.0)

    @pytest.mark.parametrize("number", [1, 0, -26, 26.0, "26", True, [26]])
    def test_refuses_wrong_numbers_of_alternatives(self, number: Any) -> None:
        message = "``alternatives`` to be a whole number of at least 2, but got"
        with pytest.raises(InputDataError, match=message):
            PassFail(alternatives=number)

    def test_alternatives_and_guess_rate(self) -> None:
        with pytest.raises(InputDataError, match="two, but got 0.5 and 26"):
            PassFail(0.5, alternatives=26)

    def test_only_lapses_of_passes_and_fails_can_be_learned(self) -> None:
        """Only lapses of passes and fails can be learned."""
        with pytest.raises(InputDataError, match="``guess_rate`` to be in"):
            PassFail(guess_rate="learned")
        for kind in (Duels, Confidence):
            with pytest.raises(InputDataError, match="``lapse_rate`` to be in"):
                kind(lapse_rate="learned")


class TestOutcomes:
    @pytest.mark.parametrize(
        "outcome",
        [True, 1, 1.0, "pass", " PASS ", "1", np.bool_(True), torch.tensor(1)],
    )
    def test_every_form_of_a_pass_is_one(self, outcome: Any) -> None:
        assert PassFail().parse(outcome) == 1

    @pytest.mark.parametrize("outcome", [False, 0, "fail", "0", np.int64(0)])
    def test_every_form_of_a_fail_is_zero(self, outcome: Any) -> None:
        assert PassFail().parse(outcome) == 0

    def test_first_side_is_one_and_second_is_zero(self) -> None:
        assert Duels().parse("first") == 1
        assert Duels().parse("second") == 0

    @pytest.mark.parametrize(
        "outcome", ["first", "", None, 2, -1, 0.5, float("nan"), [1, 0], object()]
    )
    def test_refuses_what_is_neither_a_pass_nor_a_fail(self, outcome: Any) -> None:
        message = "Expected ``outcome`` to be 'pass' or 1, or 'fail' or 0, but got"
        with pytest.raises(InputDataError, match=message):
            PassFail().parse(outcome)


class TestPlainData:
    @pytest.mark.parametrize(
        "settings",
        [
            pass_fail(),
            pass_fail(MIXED, hyperparameters={"lengthscale": 0.3}, seed=3),
            duels(MIXED, kernel="multiplicative", rule="cjes"),
            Settings(PLAIN, PassFail(0.1, 0.05), initial_trials=0),
        ],
    )
    def test_there_and_back(self, settings: Settings) -> None:
        content = json.loads(json.dumps(settings.to_dict()))
        assert Settings.from_dict(content) == settings

    def test_toml_file_gives_the_settings(self, tmp_path: Path) -> None:
        path = tmp_path / "experiment.toml"
        path.write_text(TOML)
        assert Settings.from_toml(path) == Settings(
            MIXED,
            PassFail(0.04, 0.02),
            rule="ts-ald",
            seed=7,
            hyperparameters={
                "outputscale": 4.0,
                "lengthscale": [0.3, 0.4],
            },
        )

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ('rule = "ts-ald"', 'role = "ts-ald"', "the settings .* got unknown role"),
            ("low = 1\n", "", "``low`` of 'taps' to be a finite number, but got None"),
            ('type = "integer"', 'type = "int"', "``type`` to be one of real, integer"),
            (
                'kind = "pass/fail"',
                'kind = "votes"',
                "one of pass/fail, duels, duels with ties, ",
            ),
            ("guess_rate", "guessrate", "feedback .* got unknown guessrate"),
            ("reference = 2.0", "", "contexts .* got missing reference"),
            ("[feedback]", "[[feedback]]", "``feedback`` to be a table"),
            ("[[contexts]]", "[contexts]", r"``contexts`` to be tables, \[\[contexts"),
            ("seed = 7", "seed 7", "to be a TOML file, but got .*experiment.toml"),
        ],
    )
    def test_refuses_wrong_keys_and_values_of_a_toml_file(
        self, tmp_path: Path, old: str, new: str, message: str
    ) -> None:
        path = tmp_path / "experiment.toml"
        assert old in TOML
        path.write_text(TOML.replace(old, new))
        with pytest.raises(InputDataError, match=message):
            Settings.from_toml(path)

    def test_not_text(self, tmp_path: Path) -> None:
        path = tmp_path / "experiment.toml"
        path.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(InputDataError, match="to be a TOML file"):
            Settings.from_toml(path)


def test_multiplicative_contexts_keep_their_zero() -> None:
    settings = pass_fail(CONTINUOUS, kernel="multiplicative")
    assert settings.encoder().context_space.bounds[:, 0].tolist() == [0.0, 1.0]
    assert pass_fail().encoder().context_space.bounds[:, 0].tolist() == [-1.0, 1.0]


LENS = NamedSpace(
    [Real("sphere", -4, 4), Real("cylinder", -3, 0)],
    [Context("size", reference=0.0, levels=(-0.5, 0.0, 0.5, 1.0), harder="down")],
)


class TestCombinations:
    def test_round_trip(self) -> None:
        settings = Settings(LENS, combinations=[[1, 0.5], [0, 0.5]])
        assert settings.combinations == POWER_VECTOR
        content = json.loads(json.dumps(settings.to_dict()))
        assert Settings.from_dict(content) == settings
        del content["combinations"]  # as in journals from before there were any
        assert Settings.from_dict(content).combinations is None

    def test_coordinates_are_those_of_the_users_units(self) -> None:
        settings = Settings(LENS, combinations=POWER_VECTOR)
        transform = settings.coordinates()
        encoder = settings.encoder()
        assert transform is not None
        lenses = [(-4.0, -3.0), (1.0, -1.0), (4.0, 0.0)]
        rows = [
            encoder.encode({"size": 0.0}, [{"sphere": s, "cylinder": c}])
            for s, c in lenses
        ]
        found = transform(torch.cat(rows))
        power = torch.tensor([(s + c / 2, c / 2) for s, c in lenses]).double()
        expected = (power - power[0]) / (8.0 * 3.0) ** 0.5
        assert torch.allclose(found[:, 1:] - found[0, 1:], expected)
        assert torch.allclose(found[:, 0], torch.cat(rows)[:, 0])
        assert Settings(LENS).coordinates() is None

    @pytest.mark.parametrize(
        ("space", "arguments", "message"),
        [
            (LENS, {"combinations": [[1.0, 0.5]]}, "``combinations``.*2 x 2"),
            (MIXED, {"combinations": POWER_VECTOR}, "linear scale"),
            (
                LENS,
                {"combinations": POWER_VECTOR, "kernel": "multiplicative"},
                "kernel",
            ),
        ],
    )
    def test_refuses_wrong_shapes_scales_and_kernels(
        self, space: NamedSpace, arguments: dict[str, Any], message: str
    ) -> None:
        with pytest.raises((InputDataError, UnsupportedError), match=message):
            Settings(space, **arguments)

    def test_experiment_keeps_them_and_recommends(self, tmp_path: Path) -> None:
        settings = Settings(LENS, combinations=POWER_VECTOR, seed=0, initial_trials=2)
        with Experiment.create(tmp_path / "journal", settings) as experiment:
            for i in range(7):
                experiment.tell(experiment.ask().id, i % 2)
        with Experiment.open(tmp_path / "journal") as experiment:
            assert experiment.settings == settings
            assert experiment.ask().context["size"] in (-0.5, 0.0, 0.5, 1.0)
            best = experiment.recommend()
        assert -4 <= float(best.parameters["sphere"]) <= 4
        assert all(float(low) < float(high) for low, high in best.uncertainty.values())
