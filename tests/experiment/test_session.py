r"""Tests of the prompt, and of questions that are computed ahead."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from botorch.exceptions import InputDataError

from botorch_binary_context.experiment import Experiment
from botorch_binary_context.experiment.chooser import Chooser
from botorch_binary_context.experiment.cli import main
from botorch_binary_context.experiment.journal import Journal
from tests.experiment.simulation import FIXED, answer, duels, pass_fail, unmodeled

FAST = {"initial_trials": 3, "hyperparameters": {**FIXED, "slope": 5.0}}
LEARNING = {"initial_trials": 5, "rule": "ucb-fixed"}


def fits(experiment: Experiment) -> list[Any]:
    return [Journal(experiment.path).fit(number) for number in range(10)]


class TestPrepare:
    @pytest.mark.parametrize("arguments", [FAST, LEARNING])
    def test_same_questions(self, tmp_path: Path, arguments: dict[str, Any]) -> None:
        """Prepared for both outcomes, for the wrong one, or not at all."""
        settings = pass_fail(**arguments)
        with (
            Experiment.create(tmp_path / "plain", settings) as plain,
            Experiment.create(tmp_path / "ahead", settings) as ahead,
        ):
            for number in range(8):
                trial = plain.ask()
                assert ahead.ask().values == trial.values
                outcome = answer(trial)
                for supposed in ((1, 0), (1 - outcome,), (outcome,), ())[number % 4]:
                    ahead.prepare(trial.id, supposed)
                plain.tell(trial.id, outcome)
                ahead.tell(trial.id, outcome)
            assert fits(plain) == fits(ahead)
            assert any(fits(plain)) == (arguments is LEARNING)

    def test_nothing_is_computed_twice(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        calls = []
        by_rule = Chooser.by_rule

        def count(*arguments: Any) -> Any:
            calls.append(arguments)
            return by_rule(*arguments)

        monkeypatch.setattr(Chooser, "by_rule", count)
        settings = pass_fail(**FAST)
        with Experiment.create(tmp_path / "journal", settings) as experiment:
            for _ in range(5):
                trial = experiment.ask()
                experiment.prepare(trial.id, "pass")
                experiment.tell(trial.id, "pass")
            assert len(calls) == 3  # of five, two were before the rule's turn
            trial = experiment.ask()
            assert len(calls) == 3
            experiment.prepare(trial.id, "pass")
            experiment.tell(trial.id, "pass", shown={"gain": 1.0})
            experiment.ask()
            assert len(calls) == 5  # something else was shown than was supposed

    def test_refuses_unknown_trials_and_outcomes(self, tmp_path: Path) -> None:
        with Experiment.create(tmp_path / "journal", unmodeled()) as experiment:
            with pytest.raises(InputDataError, match="a pending trial, but got 1"):
                experiment.prepare(1, "pass")
            experiment.ask()
            with pytest.raises(InputDataError, match="``outcome``"):
                experiment.prepare(1, "maybe")


def type_in(monkeypatch: pytest.MonkeyPatch, words: Sequence[str]) -> Iterator[str]:
    """Let someone type words, and then end the input."""
    typed = iter(words)

    def read(prompt: str) -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr(builtins, "input", read)
    return typed


class TestRun:
    def test_same_as_a_program(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        tmp_path: Path,
    ) -> None:
        words = ["p", "FAIL", "pass", "f", "p", "p"]
        with Experiment.create(tmp_path / "program", pass_fail(**FAST)) as program:
            for word in words:
                program.tell(program.ask().id, word.upper()[0] == "P")
            expected = [(t.values, t.outcome) for t in program.trials]
        Experiment.create(tmp_path / "typed", pass_fail(**FAST)).close()
        type_in(monkeypatch, words)
        assert main(["run", str(tmp_path / "typed"), "--trials", "6"]) == 0
        output = capsys.readouterr().out
        assert output.startswith("\ntrial 1\n  noise = ")
        assert output.endswith("6 answers in this session\n")
        with Experiment.open(tmp_path / "typed") as experiment:
            assert [(t.values, t.outcome) for t in experiment.trials] == expected

    def test_undo_and_quit(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        tmp_path: Path,
    ) -> None:
        path = tmp_path / "journal"
        Experiment.create(path, unmodeled()).close()
        type_in(monkeypatch, ["u", "p", "p", "u", "x", "f", "p", "q"])
        assert main(["run", str(path)]) == 0
        output = capsys.readouterr().out
        assert "nothing to undo in this session" in output
        assert "please type one of pass, fail, undo, quit" in output
        assert "3 answers in this session" in output
        with Experiment.open(path) as experiment:
            assert [t.outcome for t in experiment.trials] == [1, 0, 1, None]
        # The one that was left is shown first the next time.
        type_in(monkeypatch, ["f"])
        assert main(["run", str(path)]) == 0
        assert capsys.readouterr().out.startswith("\ntrial 4\n")
        with Experiment.open(path) as experiment:
            assert [t.outcome for t in experiment.trials] == [1, 0, 1, 0, None]

    def test_several_experiments(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        tmp_path: Path,
    ) -> None:
        paths = [str(tmp_path / name) for name in ("left", "right", "both")]
        Experiment.create(paths[0], unmodeled()).close()
        Experiment.create(paths[1], unmodeled(seed=1)).close()
        Experiment.create(paths[2], duels(initial_trials=100)).close()
        # The second "undo" takes back the answer of another experiment.
        type_in(monkeypatch, ["p", "f", "second", "u", "first", "p", "u", "f"])
        assert main(["run", *paths]) == 0
        titles = [
            line.removeprefix("trial ")
            for line in capsys.readouterr().out.splitlines()
            if line.startswith("trial ")
        ]
        first = ["1 of left", "1 of right", "1 of both"]
        assert titles[:5] == [*first, "2 of left", "1 of both"]
        outcomes = []
        for path in paths:
            with Experiment.open(path) as experiment:
                outcomes.append([t.outcome for t in experiment.trials])
        assert outcomes == [[1, 0], [0, None], [1]]

    def test_random_order(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        tmp_path: Path,
    ) -> None:
        """In every round each has its turn."""
        paths = [str(tmp_path / name) for name in "abc"]
        for path in paths:
            Experiment.create(path, unmodeled()).close()
        type_in(monkeypatch, ["p"] * 12)
        assert main(["run", *paths, "--order", "random", "--trials", "12"]) == 0
        lines = capsys.readouterr().out.splitlines()
        shown = [line.split()[-1] for line in lines if line.startswith("trial ")]
        for start in range(0, 12, 3):
            assert sorted(shown[start : start + 3]) == ["a", "b", "c"]

    def test_interrupt_is_one_line_and_exit_code_130(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        tmp_path: Path,
    ) -> None:
        def interrupt(prompt: str) -> str:
            raise KeyboardInterrupt

        path = str(tmp_path / "journal")
        Experiment.create(path, unmodeled()).close()
        monkeypatch.setattr(builtins, "input", interrupt)
        assert main(["run", path]) == 130
        assert capsys.readouterr().err == "binary-context: interrupted\n"
