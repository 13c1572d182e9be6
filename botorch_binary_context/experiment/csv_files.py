r"""
Trials as a CSV file, which spreadsheets and other programs read and write.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from botorch_binary_context.errors import InputDataError
from botorch_binary_context.experiment.feedback_base import Feedback
from botorch_binary_context.experiment.notes import write_note
from botorch_binary_context.experiment.trial import ASKED, Trial

#: Spreadsheets take a cell that begins with one of these for a formula.
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
GUARD = "'"

Cells = dict[Any, Any]


def write_csv(
    feedback: Feedback, blank: Trial, trials: Sequence[Trial], file: IO[str]
) -> None:
    r"""Write trials as CSV, with a header even if there are none.

    No two columns have the same name: if a variable has the name of another column, its
    column begins with "shown.". Text that a spreadsheet would take for a formula is
    preceded by an apostrophe. Notes are read back unchanged.

    Args:
        feedback: The kind of feedback; outcomes are written as it shows them.
        blank: A trial with the names of all values.
        trials: The trials.
        file: Where to write.
    """
    rows = [_to_cells(trial, feedback) for trial in trials]
    blank_row = _to_cells(blank, feedback)
    header = dict.fromkeys(key for row in (blank_row, *rows) for key in row)
    writer = csv.writer(file)
    writer.writerow([_guard(name) for name in header])
    for row in rows:
        writer.writerow([_guard(row.get(name)) for name in header])


def read_csv(blank: Trial, path: str | Path) -> Iterator[Cells]:
    r"""Read what :func:`write_csv` or another program has written.

    Args:
        blank: A trial with the names of all values.
        path: The file.

    Yields:
        The cells of each row, by the names that ``import_table`` takes.
    """
    columns = _value_columns(blank)
    names = {column: name for name, column in columns.items()}
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            for row in csv.DictReader(file, strict=True):
                yield {
                    names.get(key, key): _unguard(cell)
                    for key, cell in ((_unguard(k), v) for k, v in row.items())
                    if cell is not None and (key in names or key not in columns)
                }
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputDataError(
            f"Expected ``path`` to be a CSV file, but got {path}: {error}"
        ) from error


def _to_cells(trial: Trial, feedback: Feedback) -> Cells:
    """The cells of a trial by the names of their columns."""
    about = trial.to_dict()
    if trial.outcome is not None:
        about["outcome"] = feedback.show(trial.outcome)
    infeasible = about.pop("infeasible")
    if feedback.infeasible is not None:
        about["infeasible"] = " ".join(infeasible)
    values = about.pop("values")
    asked = about.pop(ASKED) or {}
    extra = about.pop("extra")
    columns = _value_columns(trial)
    cells = {**about, **{columns[name]: value for name, value in values.items()}}
    cells |= {f"{ASKED}.{name}": value for name, value in asked.items()}
    for name, value in extra.items():
        cells[_free_name(name, cells, "extra")] = write_note(value)
    return cells


def _value_columns(trial: Trial) -> dict[str, str]:
    """The column of each value of a trial."""
    about = trial.to_dict()
    taken = {*about, *trial.values}
    return {
        name: _free_name(name, taken, "shown") if name in about else name
        for name in trial.values
    }


def _free_name(name: str, taken: Any, beginning: str) -> str:
    while name in taken:
        name = f"{beginning}.{name}"
    return name


def _guard(cell: Any) -> Any:
    """Protect a text from being taken for a formula; numbers stay as they are."""
    if isinstance(cell, str) and cell.startswith((*FORMULA_SIGNS, GUARD)):
        return GUARD + cell
    return cell


def _unguard(cell: Any) -> Any:
    """The inverse of :func:`_guard`."""
    signs = tuple(GUARD + sign for sign in (*FORMULA_SIGNS, GUARD))
    if isinstance(cell, str) and cell.startswith(signs):
        return cell[len(GUARD) :]
    return cell
