r"""
Saving what a handler has gathered, with the methods of PsychoPy's handlers.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from botorch_binary_context.integrations.psychopy.table_files import (
    STDOUT,
    Table,
    find_path,
    write_excel,
    write_json,
    write_text,
)


class SavingHandler:
    r"""A handler that can be saved as text, Excel file, pickle or JSON.

    Attributes:
        data: The results, one entry per trial.
        extraInfo: A dictionary that is saved with the data, or None.
    """

    data: list[int]
    extraInfo: dict[str, Any] | None  # noqa: N815

    def _table(self) -> Table:
        """The table to save, with one row per trial."""
        raise NotImplementedError

    def _content(self) -> dict[str, Any]:
        """Everything to be saved except the trials."""
        raise NotImplementedError

    def saveAsText(
        self,
        fileName: str | Path,
        delim: str | None = None,
        matrixOnly: bool = False,
        fileCollisionMethod: str = "rename",
        encoding: str = "utf-8-sig",
    ) -> Path | int | None:
        r"""Save a table as text, with one row per trial.

        Args:
            fileName: The name of the file; ".tsv" or ".csv" is added where it is
                missing.
            delim: The delimiter between values; by default a comma for ".csv",
                otherwise a tab.
            matrixOnly: Whether to leave ``extraInfo`` out.
            fileCollisionMethod: "rename", "overwrite" or "fail".
            encoding: The encoding.

        Returns:
            The path; -1 if there is no answer, and nothing is saved.
        """
        if not self.data:
            return -1
        info = self._info(matrixOnly)
        collision = fileCollisionMethod
        return write_text(self._table(), info, fileName, delim, collision, encoding)

    def printAsText(self, delim: str = "\t", matrixOnly: bool = False) -> None:
        r"""Print what :meth:`saveAsText` saves.

        Args:
            delim: The delimiter between values.
            matrixOnly: Whether to leave ``extraInfo`` out.
        """
        self.saveAsText(STDOUT, delim, matrixOnly)

    def saveAsExcel(
        self,
        fileName: str | Path,
        sheetName: str = "data",
        matrixOnly: bool = False,
        appendFile: bool = True,
        fileCollisionMethod: str = "rename",
    ) -> Path | int:
        r"""Save a table as a sheet of an Excel file; needs openpyxl.

        Args:
            fileName: The name of the file; ".xlsx" is added where it is missing.
            sheetName: The name of the sheet.
            matrixOnly: Whether to leave ``extraInfo`` out.
            appendFile: Whether to add the sheet to an existing file.
            fileCollisionMethod: "rename", "overwrite" or "fail", if it is not added.

        Returns:
            The path; -1 if there is no answer, and nothing is saved.
        """
        if not self.data:
            return -1
        info = self._info(matrixOnly)
        collision = fileCollisionMethod
        return write_excel(
            self._table(), info, fileName, sheetName, appendFile, collision
        )

    def saveAsPickle(
        self, fileName: str | Path, fileCollisionMethod: str = "rename"
    ) -> Path | int:
        r"""Save the handler as a pickle, which needs the journal when it is loaded.

        Args:
            fileName: The name of the file; ".psydat" is added where it is missing.
            fileCollisionMethod: "rename", "overwrite" or "fail".

        Returns:
            The path; -1 if there is no answer, and nothing is saved.
        """
        if not self.data:
            return -1
        path = find_path(fileName, ".psydat", fileCollisionMethod)
        path.write_bytes(pickle.dumps(self))
        return path

    def saveAsJson(
        self,
        fileName: str | Path | None = None,
        encoding: str = "utf-8-sig",
        fileCollisionMethod: str = "rename",
    ) -> Any:
        r"""Save the trials as JSON.

        Args:
            fileName: The name of the file; ".json" is added where it is missing. None
                for the text itself.
            encoding: The encoding.
            fileCollisionMethod: "rename", "overwrite" or "fail".

        Returns:
            The path or the text.
        """
        names, rows = self._table()
        trials = [dict(zip(names, row, strict=True)) for row in rows]
        content = {**self._content(), "trials": trials}
        if fileName is None or fileName == STDOUT:
            return json.dumps(content, default=str)
        return write_json(content, fileName, fileCollisionMethod, encoding)

    def _info(self, matrixOnly: bool) -> Mapping[str, Any]:
        return {} if matrixOnly else self.extraInfo or {}
