"""Make notebooks of the tutorials and execute them: what ``make tutorials`` runs.

The sources are Python files in percent format, ``tutorials/*.py``; the notebooks, with
their outputs, are stored beside them. With ``SMOKE_TEST`` in the environment, which the
tutorials read to do less, nothing is stored. Notebooks run in a folder of their own
that is deleted afterwards: files that they write do not stay.
"""

# The extra ``tutorials`` installs what type checkers may not find.
# pyright: reportMissingImports=false

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = ROOT / "tutorials"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def make_notebook(source: Path) -> Any:
    """The notebook of a source; the same source gives the same notebook."""
    notebook = jupytext.read(source)
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL})
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
        cell["metadata"].pop("lines_to_next_cell", None)
    return notebook


def execute(notebook: Any) -> None:
    """Execute a notebook, and store the outputs in it."""
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(
            notebook, timeout=None, record_timing=False, resources=resources
        ).execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "text" in output:  # such as the place of a warning
                output["text"] = output["text"].replace(f"{ROOT}{os.sep}", "")


def main() -> None:
    """Execute the tutorials that are named on the command line, by default all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="*", type=Path)
    sources = parser.parse_args().sources or sorted(TUTORIALS.glob("*.py"))
    store = not os.environ.get("SMOKE_TEST")
    for source in sources:
        start = time.perf_counter()
        notebook = make_notebook(source)
        try:
            execute(notebook)
        except CellExecutionError as error:
            sys.exit(f"{source.name}: {error}")
        if store:
            nbformat.write(notebook, source.with_suffix(".ipynb"))
        print(f"{source.name}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
