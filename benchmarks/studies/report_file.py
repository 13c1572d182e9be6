r"""
The file of a report: its sections, and conclusions that a person has written.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def read_conclusions(folder: Path) -> str:
    r"""The conclusions that a person has written about a study.

    Args:
        folder: The folder of the study.

    Returns:
        The text of its ``conclusions.md``, empty if there is none.
    """
    path = folder / "conclusions.md"
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""


def write_sections(folder: Path, sections: Iterable[str]) -> Path:
    r"""Write a report.

    Args:
        folder: The folder of the study.
        sections: The sections, in order; empty ones are left out.

    Returns:
        The path of the Markdown file.
    """
    path = folder / "report.md"
    path.write_text("\n\n".join(filter(None, sections)) + "\n", encoding="utf-8")
    return path
