r"""The same small jobs in other packages and in this one run side by side."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import ModuleType

import pytest

from scripts.compare_packages import JOBS, compare


@pytest.mark.slow
def test_every_job(peer: Callable[[str], ModuleType]) -> None:
    for name in ("psychopy.data", "questplus"):
        peer(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the other packages
        rows = [line.strip("| ").split(" | ") for line in compare(6, 1)][2:]
    assert [cells[1] for cells in rows] == [
        name for jobs in JOBS.values() for name in jobs
    ]
    for cells in rows:
        assert 0.0 <= float(cells[3]) < 40.0
