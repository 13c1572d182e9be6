r"""
The common part of studies whose results are a table for each of several jobs.

A job's table is a file in the folder of the study. A run computes those that are
missing; the report is made of all of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from benchmarks.studies import store
from benchmarks.studies.job_tables import find_table, read_tables
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
        if find_table(path) is None:
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
    first, *others = describe(read_tables(folder))
    return write_sections(folder, [first, read_conclusions(folder), *others])


@dataclass(frozen=True)
class TableStudy:
    r"""A study whose results are a table for each of several jobs.

    Attributes:
        name: Its name, which is also the name of its folder and of its command.
        shows: What it shows, in a few words.
        seeds: How many repetitions it has unless told otherwise.
        jobs: Its jobs, for a number of repetitions.
        describe: The sections of its report on a table of all results.
    """

    name: str
    shows: str
    seeds: int
    jobs: Callable[[int], Iterable[Job]]
    describe: Callable[[pl.DataFrame], Iterable[str]]

    def run(self, arguments: argparse.Namespace) -> None:
        r"""Run the jobs that are not finished.

        Args:
            arguments: The parsed command line.
        """
        jobs = self.jobs(arguments.seeds or self.seeds)
        run_missing(arguments.output / self.name, jobs)

    def write_report(self, root: Path) -> Path:
        r"""Write the report.

        Args:
            root: The folder of all results.

        Returns:
            The path of the Markdown file.
        """
        return write_tables(root / self.name, self.describe)

    def add_command(self, commands: argparse._SubParsersAction) -> None:
        r"""Add a command that runs the study and writes its report.

        Args:
            commands: Where to add it.
        """
        parser = commands.add_parser(self.name, help=self.shows)
        parser.add_argument("--seeds", type=int, default=self.seeds)
        parser.add_argument("--output", type=Path, default=store.RESULTS)
        parser.set_defaults(run=self._run_and_report)

    def _run_and_report(self, arguments: argparse.Namespace) -> None:
        self.run(arguments)
        print(self.write_report(arguments.output))
