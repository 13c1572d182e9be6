r"""The same small jobs in other packages and in this one run side by side."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from scripts import compare_packages
from scripts.compare_packages import JOBS, compare, measure_aepsych


@pytest.mark.slow
def test_every_job(peer: Callable[[str], ModuleType]) -> None:
    for name in ("psychopy.data", "questplus"):
        peer(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the other packages
        for jobs in JOBS.values():
            for job in jobs.values():
                assert 0.0 <= job(6, 1000) < 40.0


def test_table_leaves_out_what_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(trials: int, seed: int) -> float:
        raise ImportError("No module named peer")

    jobs = {"ours": lambda trials, seed: float(seed % 1000), "peer": missing}
    monkeypatch.setattr(compare_packages, "JOBS", {"duels": jobs})
    rows = [line.strip("| ").split(" | ") for line in compare(6, 3)][2:]
    assert [cells[:4] for cells in rows] == [["duels", "ours", "6", "1"]]
    assert "peer is left out: No module named peer" in capsys.readouterr().err


def test_an_interpreter_without_aepsych_is_left_out(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho No module named aepsych >&2\nexit 1\n")
    python.chmod(0o700)
    with pytest.raises(ImportError, match="No module named aepsych"):
        measure_aepsych(python, trials=2, people=1)


def test_answers_of_an_interpreter_with_aepsych_are_read(tmp_path: Path) -> None:
    python = tmp_path / "python"
    answer = '{"errors": [1.0, 3.0], "seconds": 8.0}'
    python.write_text(f"#!/bin/sh\necho '{answer}'\n")
    python.chmod(0o700)
    assert measure_aepsych(python, trials=2, people=2) == (2.0, 8.0)
