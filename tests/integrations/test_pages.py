r"""The code of the pages about other programs, as it is."""

from __future__ import annotations

import csv
from collections.abc import Callable
from types import ModuleType

import pytest

from tests.test_docs_code import run_page

Peer = Callable[[str], ModuleType]


def test_psychopy(peer: Peer) -> None:
    peer("psychopy.data")
    names = run_page("psychopy.md")
    low, high = names["staircase"].confInterval()
    assert low < 0.3 < high
    with (names["folder"] / "P08.csv").open(encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 20
    assert {"size", "sphere", "letters.response"} <= set(rows[0])
    assert -3.0 <= names["best"].parameters["sphere"] <= 3.0
    assert -40.0 < names["qp"].param_estimate["mean"] < 0.0


@pytest.mark.usefixtures("aepsych_client")
def test_aepsych() -> None:
    names = run_page("aepsych.md")
    names["client"].socket.close()
    names["endpoint"].server_close()
    assert 20.0 < names["threshold"]["x"]["level"][0] < 45.0
