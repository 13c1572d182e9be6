r"""
Results of studies whose jobs make a table each: a file for every job, or all in one.

``python -m benchmarks pack STUDY`` puts the tables of a study into one file, in which
the column ``file`` says where each of them was. A file of its own takes precedence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.studies import store
from benchmarks.studies.definitions import STUDIES

#: The column that names the file of a packed table.
FILE = "file"


def find_table(path: Path) -> pl.DataFrame | None:
    r"""The table of a job.

    Args:
        path: Its file, if it is not packed.

    Returns:
        The table; ``None`` if the job is not finished.
    """
    table = store.read_table(path)
    return _unpack(path.parent).get(path.name) if table is None else table


def read_tables(folder: Path) -> pl.DataFrame:
    r"""All tables of a study as one.

    Args:
        folder: The folder of the study.
    """
    tables = _read_all(folder)
    if not tables:
        raise store.without_results(folder)
    return pl.concat(tables.values())


def pack_tables(folder: Path) -> Path:
    r"""Put the tables of all jobs into one file, in place of many.

    Args:
        folder: The folder of the study.

    Returns:
        The path of the file.
    """
    tables = _read_all(folder)
    if not tables:
        raise store.without_results(folder)
    path = folder / store.PACKED
    named = [table.with_columns(pl.lit(n).alias(FILE)) for n, table in tables.items()]
    store.save(pl.concat(named), path)
    for other in set(folder.glob("*.parquet")) - {path}:
        other.unlink()
    return path


def _read_all(folder: Path) -> dict[str, pl.DataFrame]:
    """The tables by the names of their files."""
    tables = _unpack(folder)
    for path in set(folder.glob("*.parquet")) - {folder / store.PACKED}:
        table = store.read_table(path)
        if table is not None:
            tables[path.name] = table
    return dict(sorted(tables.items()))


def _unpack(folder: Path) -> dict[str, pl.DataFrame]:
    packed = store.read_table(folder / store.PACKED)
    if packed is None:
        return {}
    parts = packed.partition_by(FILE, as_dict=True, include_key=False)
    return {str(name): table for (name,), table in parts.items()}


def add_command(commands: Any) -> None:
    r"""Add ``pack`` to the command line.

    Args:
        commands: The result of ``add_subparsers``.
    """
    parser = commands.add_parser("pack", help="put the results of a study in one file")
    parser.add_argument("study")
    parser.add_argument("--output", type=Path, default=store.RESULTS)
    parser.set_defaults(run=_run)


def _run(arguments: Any) -> None:
    pack = store.pack if arguments.study in STUDIES else pack_tables
    print(pack(arguments.output / arguments.study))
