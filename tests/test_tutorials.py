r"""Every tutorial runs, in its fast mode, and its notebook is up to date."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TUTORIALS = sorted((Path(__file__).parents[1] / "tutorials").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorial_runs_without_warnings(path: Path, tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env={
            **os.environ,
            "SMOKE_TEST": "1",
            "MPLBACKEND": "Agg",
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "Warning" not in result.stderr, result.stderr


def as_percent_format(cell: dict[str, Any]) -> str:
    """A cell of a notebook as its source has it."""
    text = "".join(cell["source"])
    if cell["cell_type"] == "code":
        return f"# %%\n{text}\n"
    lines = (f"# {line}".rstrip() for line in text.split("\n"))
    return "\n".join(["# %% [markdown]", *lines, ""])


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_notebook_is_that_of_its_source(path: Path) -> None:
    """After a change of a source, ``make tutorials`` is due."""
    source = path.read_text(encoding="utf-8")
    notebook = json.loads(path.with_suffix(".ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        assert as_percent_format(cell) in source
    assert len(notebook["cells"]) == source.count("# %%")
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in code)
