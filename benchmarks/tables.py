r"""Tables of reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def format_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    r"""A Markdown table, the first column to the left and the others to the right.

    Args:
        header: The names of the columns.
        rows: The rows; ``None`` is an empty cell.
    """
    lines = [
        "| " + " | ".join(header) + " |",
        "|---|" + "---:|" * (len(header) - 1),
    ]
    for row in rows:
        cells = ("" if cell is None else str(cell) for cell in row)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
