r"""
``binary-context export`` and ``import``: the trials of a journal as a CSV file.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from botorch_binary_context.experiment.cli.output import show
from botorch_binary_context.experiment.csv_files import read_csv, write_csv
from botorch_binary_context.experiment.files import prepare_output
from botorch_binary_context.experiment.logbook import Logbook


def export(arguments: argparse.Namespace) -> None:
    r"""Write all trials as CSV.

    Args:
        arguments: The journal and the file, or None for the standard output.
    """
    with Logbook.open(arguments.journal) as logbook:
        trials = logbook.trials
        blank = logbook.blank_trial()
        feedback = logbook.feedback
    if arguments.file is None:
        write_csv(feedback, blank, trials, sys.stdout)
        return
    prepare_output(arguments.file)
    with Path(arguments.file).open("w", newline="", encoding="utf-8") as file:
        write_csv(feedback, blank, trials, file)


def import_(arguments: argparse.Namespace) -> None:
    r"""Add the trials of a CSV file, all or none.

    Args:
        arguments: The journal and the file.
    """
    with Logbook.open(arguments.journal) as logbook:
        rows = read_csv(logbook.blank_trial(), arguments.file)
        trials = logbook.import_table(rows)
    data = {"added": [trial.id for trial in trials]}
    show(arguments, data, f"added {len(trials)} trials")
