r"""The README's examples run as printed, and find what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[1] / "README.md"


def python_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)


def run_block(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(block, str(README), "exec"), names)
    return names


def test_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    loop, experiment = map(run_block, python_blocks())
    assert abs(float(loop["best"]) - 0.7) < 0.1
    best = experiment["best"]
    assert set(best.parameters) == set(best.uncertainty) == {"sphere", "cylinder"}
    assert 0 < best.success_probability({"size": 0.2}).mean < 1


def test_names_in_the_table_exist() -> None:
    import botorch_binary_context
    from botorch_binary_context import problems

    table = README.read_text().split("## On paper, in code")[1].split("## Speed")[0]
    names = set(re.findall(r"\b[A-Z][a-z]+[A-Z]\w+", table))
    assert len(names) > 10
    assert names <= {*botorch_binary_context.__all__, *problems.__all__}
