r"""The code of the pages about other programs, as it is."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.test_docs_code import DOCS, run_page

Peer = Callable[[str], ModuleType]


def test_psychopy_page_runs_and_finds_what_it_says(peer: Peer) -> None:
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


def test_questplus_and_an_experiment_find_the_same_threshold(peer: Peer) -> None:
    peer("questplus")
    text = (DOCS / "coming_from.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```py(?:thon)?\n(.*?)```", text, flags=re.DOTALL)
    theirs = next(block for block in blocks if "QuestPlus(" in block)
    names: dict[str, Any] = {}
    for block in blocks[: blocks.index(theirs) + 2]:  # ours is the next one
        exec(compile(block, "coming_from.md", "exec"), names)
    assert abs(names["qp"].param_estimate["mean"] - 30.0) < 10.0
    assert abs(names["threshold"].median - 30.0) < 10.0


@pytest.mark.usefixtures("aepsych_client")
def test_aepsych_page_runs_and_finds_the_threshold() -> None:
    names = run_page("aepsych.md")
    names["client"].socket.close()
    names["endpoint"].server_close()
    assert 20.0 < names["threshold"]["x"]["level"][0] < 45.0
