r"""
The common part of studies whose results are a table for each of several jobs.

A job's table is a file in the folder of the study. A run computes those that are
missing; the report is made of all of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import polars as pl

from benchmarks.studies import store
from benchmarks.studies.report_file import read_conclusions, write_sections

#: The name of a job, unique in its study, and the function that computes its table.
Job = tuple[str, Callable[[], pl.DataFrame]]


def run_missing(folder: Path, jobs: Iterable[Job]) -> None:
    r"""Compute the tables that are missing, and report each when it is done.

    Args:
        folder: The folder of the study, which has the study's name.
        jobs: All jobs of the study.
    """
    for name, compute in jobs:
        path = store.result_path(folder, name, folder.name)
        if store.read_table(path) is None:
            store.save(compute(), path)
            print(f"{folder.name}: {name} is finished", flush=True)


def write_tables(
    folder: Path, describe: Callable[[pl.DataFrame], Iterable[str]]
) -> Path:
    r"""Write the report of a study that has results.

    Args:
        folder: The folder of the study.
        describe: Makes the sections of the report from a table of all results;
            conclusions follow the first section.

    Returns:
        The path of the Markdown file.
    """
    first, *others = describe(store.require_tables(folder))
    return write_sections(folder, [first, read_conclusions(folder), *others])


def add_study(
    commands: argparse._SubParsersAction,
    name: str,
    description: str,
    seeds: int,
    jobs: Callable[[int], Iterable[Job]],
    write_report: Callable[[Path], Path],
) -> None:
    r"""Add a command that runs a study and writes its report.

    Args:
        commands: Where to add it.
        name: The name of the study.
        description: What it shows.
        seeds: The default number of repetitions.
        jobs: Its jobs, for a number of repetitions.
        write_report: Writes its report into the folder of all results.
    """
    parser = commands.add_parser(name, help=description)
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--output", type=Path, default=store.RESULTS)
    parser.set_defaults(run=partial(_run, name, jobs, write_report))


def _run(
    name: str,
    jobs: Callable[[int], Iterable[Job]],
    write_report: Callable[[Path], Path],
    arguments: argparse.Namespace,
) -> None:
    run_missing(arguments.output / name, jobs(arguments.seeds))
    print(write_report(arguments.output))
