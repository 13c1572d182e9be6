r"""
Tables in files, by the conventions of PsychoPy's handlers.

The name of a file determines the delimiter and gets an extension; an existing file is
kept, and another name is used, unless it should be replaced.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from botorch_binary_context.errors import InputDataError, quote

#: A table: the names of its columns, and its rows.
Table = tuple[Sequence[str], Sequence[Sequence[Any]]]
#: The name of a file that stands for the standard output.
STDOUT = "stdout"


def find_path(file_name: str | Path, extension: str, collision: str) -> Path:
    r"""The path of a new file.

    Args:
        file_name: Its name, with or without the extension.
        extension: The extension, with a dot.
        collision: What to do if the file exists: "rename", "overwrite" or "fail".

    Returns:
        The path; if the file is renamed, with a number at the end of its name.
    """
    if collision not in ("rename", "overwrite", "fail"):
        raise InputDataError(
            "Expected ``fileCollisionMethod`` to be 'rename', 'overwrite' or 'fail', "
            f"but got {quote(collision)}."
        )
    path = Path(file_name)
    if path.suffix != extension:
        path = path.with_name(path.name + extension)
    if not path.exists() or collision == "overwrite":
        return path
    if collision == "fail":
        raise FileExistsError(f"Expected a new file, but {path} exists.")
    number = 1
    while (new := path.with_name(f"{path.stem}_{number}{extension}")).exists():
        number += 1
    return new


def write_text(
    table: Table,
    info: Mapping[str, Any],
    file_name: str | Path,
    delim: str | None,
    collision: str,
    encoding: str,
) -> Path | None:
    r"""Write a table as text.

    Args:
        table: The table.
        info: Written below it, a line for each name.
        file_name: The name of the file, or "stdout".
        delim: The delimiter between values; by default a comma for ".csv", otherwise a
            tab.
        collision: As in :func:`find_path`.
        encoding: The encoding.

    Returns:
        The path; None for the standard output.
    """
    delim = delim or ("," if str(file_name).endswith(".csv") else "\t")
    names, rows = table
    lines = [names, *rows, *([name, value] for name, value in info.items())]
    if file_name == STDOUT:
        csv.writer(sys.stdout, delimiter=delim, lineterminator="\n").writerows(lines)
        return None
    suffix = Path(file_name).suffix
    known = suffix if suffix in (".csv", ".tsv", ".txt", ".dlm") else None
    extension = known or (".csv" if delim == "," else ".tsv")
    path = find_path(file_name, extension, collision)
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=delim, lineterminator="\n").writerows(lines)
    return path


def write_excel(
    table: Table,
    info: Mapping[str, Any],
    file_name: str | Path,
    sheet: str,
    append: bool,
    collision: str,
) -> Path:
    r"""Write a table into a sheet of an Excel file.

    Args:
        table: The table.
        info: Written below it, a row for each name.
        file_name: The name of the file.
        sheet: The name of the sheet.
        append: Whether to add the sheet to an existing file.
        collision: As in :func:`find_path`, if it is not added.
    """
    try:
        from openpyxl import Workbook, load_workbook
    except ImportError as error:
        raise ImportError("openpyxl is required to save an Excel file.") from error
    path = find_path(file_name, ".xlsx", "overwrite" if append else collision)
    is_new = not (append and path.exists())
    book = Workbook() if is_new else load_workbook(path)
    page: Any = book.active if is_new else book.create_sheet()
    page.title = sheet if is_new or sheet not in book.sheetnames else f"{sheet}1"
    names, rows = table
    for row in (names, *rows, *info.items()):
        page.append([_to_cell(value) for value in row])
    book.save(path)
    return path


def _to_cell(value: Any) -> Any:
    is_plain = value is None or isinstance(value, str | int | float | bool)
    return value if is_plain else str(value)


def write_json(
    content: Mapping[str, Any], file_name: str | Path, collision: str, encoding: str
) -> Path:
    r"""Write plain data as JSON.

    Args:
        content: The data.
        file_name: The name of the file.
        collision: As in :func:`find_path`.
        encoding: The encoding.
    """
    path = find_path(file_name, ".json", collision)
    path.write_text(json.dumps(content, default=str, indent=1), encoding=encoding)
    return path
