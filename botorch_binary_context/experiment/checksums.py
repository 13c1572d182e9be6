r"""
Tables that detect damage: a changed bit, a lost row, an outdated row.

Every row has a checksum of its table and its values. The seal is the exclusive or of
the checksums of all rows, so it detects missing and outdated rows, and can be updated
in one step when a row changes.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Row = tuple[Any, ...]
#: Runs a statement with values.
Execute = Callable[..., sqlite3.Cursor]
_SIZE = 16


class DamageError(sqlite3.DatabaseError):
    r"""The content of a database is not as it was written."""


def row_checksum(table: str, row: Sequence[Any]) -> str:
    r"""A checksum of a row.

    Args:
        table: The name of the table.
        row: Texts, numbers and None.

    Returns:
        A text of 32 hexadecimal digits.
    """
    content = json.dumps([table, *row], default=repr)
    return hashlib.blake2b(content.encode(), digest_size=_SIZE).hexdigest()


def combine(first: str, second: str) -> str:
    r"""Add a checksum to a seal, or take it out again.

    Args:
        first: A seal.
        second: A checksum.

    Returns:
        The new seal, 32 hexadecimal digits.
    """
    return f"{int(first, 16) ^ int(second, 16):0{2 * _SIZE}x}"


class SealedTables:
    r"""Writes rows with checksums, and checks them when reading."""

    def __init__(self, execute: Execute, tables: Mapping[str, Sequence[str]]) -> None:
        r"""
        Args:
            execute: Runs a statement of the database, within a transaction.
            tables: The columns of each table except the checksum; the first is the key.
        """
        self._execute = execute
        self._tables = tables

    def begin(self) -> None:
        r"""Seal tables that are empty."""
        self._execute("INSERT INTO seal VALUES (?)", ("0" * 2 * _SIZE,))

    def select(
        self, table: str, condition: str = "TRUE", values: Sequence[Any] = ()
    ) -> list[Row]:
        r"""Read rows.

        Args:
            table: The name of the table.
            condition: The SQL condition of the rows; by default all rows.
            values: The values of the condition.

        Returns:
            The rows without their checksums, in the order of their keys.
        """
        columns = self._tables[table]
        found = self._execute(
            f"SELECT {', '.join(columns)}, checksum FROM {table} "
            f"WHERE {condition} ORDER BY {columns[0]}",
            values,
        )
        return [self._check(table, row) for row in found]

    def _check(self, table: str, row: Row) -> Row:
        *content, checksum = row
        if row_checksum(table, content) != checksum:
            raise DamageError(f"a row of the table {table!r} does not fit its checksum")
        return tuple(content)

    def insert(self, table: str, row: Sequence[Any]) -> None:
        r"""Write a new row.

        Args:
            table: The name of the table.
            row: The values of its columns.
        """
        checksum = row_checksum(table, row)
        marks = ", ".join("?" * (len(row) + 1))
        self._execute(f"INSERT INTO {table} VALUES ({marks})", (*row, checksum))
        self._reseal(checksum)

    def update(self, table: str, old: Sequence[Any], new: Sequence[Any]) -> None:
        r"""Replace a row.

        Args:
            table: The name of the table.
            old: The row as it was read.
            new: The row that replaces it.
        """
        columns = self._tables[table]
        checksum = row_checksum(table, new)
        changes = ", ".join(f"{column} = ?" for column in (*columns, "checksum"))
        self._execute(
            f"UPDATE {table} SET {changes} WHERE {columns[0]} = ?",
            (*new, checksum, old[0]),
        )
        self._reseal(row_checksum(table, old), checksum)

    def delete(self, table: str, condition: str, values: Sequence[Any]) -> None:
        r"""Delete rows.

        Args:
            table: The name of the table.
            condition: The SQL condition of the rows.
            values: The values of the condition.
        """
        gone = self.select(table, condition, values)
        self._execute(f"DELETE FROM {table} WHERE {condition}", values)
        self._reseal(*(row_checksum(table, row) for row in gone))

    def _reseal(self, *changes: str) -> None:
        seal = self._read_seal()
        for change in changes:
            seal = combine(seal, change)
        self._execute("UPDATE seal SET digest = ?", (seal,))

    def _read_seal(self) -> str:
        rows = self._execute("SELECT digest FROM seal").fetchall()
        try:
            ((seal,),) = rows
            int(seal, 16)
        except (TypeError, ValueError):
            raise DamageError("its seal is missing or broken") from None
        return seal

    def verify(self) -> None:
        r"""Check that no row is missing, added or outdated."""
        expected = "0" * 2 * _SIZE
        for table in self._tables:
            for row in self.select(table):
                expected = combine(expected, row_checksum(table, row))
        if self._read_seal() != expected:
            raise DamageError("its rows do not fit their seal")
