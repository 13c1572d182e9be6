r"""Rules of other packages are found by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """
from botorch_binary_context.functionals import VALUE


class Middle:
    functional = VALUE

    def __call__(self, selection):
        return selection.space.bounds.mean(dim=0, keepdim=True)


middle = Middle()
nothing = None
"""
ENTRY_POINTS = """
[botorch_binary_context.rules]
middle = a_lab:middle
nothing = a_lab:nothing
"""
SCRIPT = """
import torch
from botorch.exceptions import UnsupportedError
from botorch_binary_context import BINARY_RULES, DUEL_RULES, BinaryGP, ContextSpace
from botorch_binary_context import suggest
from botorch_binary_context.experiment import Context, Experiment, NamedSpace
from botorch_binary_context.experiment import PassFail, Real, Settings

X = torch.rand(4, 2, dtype=torch.double)
space = ContextSpace(torch.tensor([[0.0, 2.0], [1.0, 4.0]]).double(), [0], [0.5])
model = BinaryGP(X, (X[:, 1:] > 0.5).double())
assert "middle" in BINARY_RULES and "middle" not in DUEL_RULES
assert "middle" not in list(BINARY_RULES) and "other" not in BINARY_RULES
assert suggest(model, space, "middle").tolist() == [[0.5, 3.0]]
named = NamedSpace([Real("x", 0, 1)], [Context("s", reference=0.5, low=0, high=1)])
settings = Settings(named, PassFail(), rule="middle", initial_trials=0)
with Experiment.create("experiment.journal", settings) as experiment:
    experiment.add({"s": 0.2, "x": 0.1}, True)
    trial = experiment.ask()
    assert trial.values == {"s": 0.5, "x": 0.5}, trial
try:
    suggest(model, space, "nothing")
except UnsupportedError as error:
    print(error)
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with a package that was installed into it."""
    (tmp_path / "a_lab.py").write_text(MODULE)
    info = tmp_path / "a_lab-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: a-lab\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return tmp_path


def test_rule_of_another_package_in_a_fresh_process(installed: Path) -> None:
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(installed), str(root)])
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        env={**os.environ, "PYTHONPATH": path},
        cwd=installed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "Expected the entry point 'nothing' of" in result.stdout
    assert "but got None" in result.stdout
