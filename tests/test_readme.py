r"""The README's example runs as printed, and finds what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

README = Path(__file__).parents[1] / "README.md"


def python_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)


def test_example_finds_the_optimum() -> None:
    (block,) = python_blocks()
    names: dict[str, Any] = {}
    exec(compile(block, str(README), "exec"), names)
    assert abs(float(names["best"]) - 0.7) < 0.1


def test_names_in_the_table_exist() -> None:
    import botorch_binary_context
    from botorch_binary_context import problems

    table = README.read_text().split("## On paper, in code")[1].split("## Speed")[0]
    names = set(re.findall(r"\b[A-Z][a-z]+[A-Z]\w+", table))
    assert len(names) > 10
    assert names <= {*botorch_binary_context.__all__, *problems.__all__}
