r"""Tables of reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt


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


def format_mean(values: npt.ArrayLike, digits: int) -> str:
    r"""The mean of values with its standard error, such as ``0.31 ± 0.02``.

    Args:
        values: The values, at least one; of a single one the error is shown as zero.
        digits: The number of digits behind the point.
    """
    numbers = np.asarray(values)
    error = numbers.std(ddof=len(numbers) > 1) / len(numbers) ** 0.5
    return f"{numbers.mean():.{digits}f} ± {error:.{digits}f}"
