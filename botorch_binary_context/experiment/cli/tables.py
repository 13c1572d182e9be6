r"""
Trials as a table: a CSV file for any other program. It loads without torch.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import IO, Any

from botorch_binary_context.experiment.feedback import make_feedback
from botorch_binary_context.experiment.files import prepare_output
from botorch_binary_context.experiment.journal import Journal
from botorch_binary_context.experiment.trial import Trial

#: Spreadsheets take a cell that begins with one of these for a formula.
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
GUARD = "'"


def export(arguments: argparse.Namespace) -> None:
    r"""Write all trials as CSV.

    Args:
        arguments: The journal and the file, or None for the standard output.
    """
    with closing(Journal(arguments.journal)) as journal:
        trials = journal.trials()
        settings = journal.settings()
    if arguments.file is None:
        write_csv(settings, trials, sys.stdout)
        return
    prepare_output(arguments.file)
    with Path(arguments.file).open("w", newline="", encoding="utf-8") as file:
        write_csv(settings, trials, file)


def write_csv(
    settings: Mapping[str, Any], trials: Sequence[Trial], file: IO[str]
) -> None:
    r"""Write trials as CSV, with a header even if there are none.

    A text that a spreadsheet would take for a formula gets an apostrophe in front.

    Args:
        settings: What the experiment is, as its journal has it.
        trials: Its trials.
        file: Where to write.
    """
    columns = _columns(_blank_trial(settings, trials))
    writer = csv.writer(file)
    writer.writerow([_guard(name) for _, _, name in columns])
    for trial in trials:
        parts = _parts(trial)
        writer.writerow([_guard(parts[part].get(key)) for part, key, _ in columns])


def _blank_trial(settings: Mapping[str, Any], trials: Sequence[Trial]) -> Trial:
    """A trial with all names of values and of what was noted, for the header."""
    context = {table["name"]: "" for table in settings["contexts"]}
    side = {table["name"]: "" for table in settings["parameters"]}
    sides = make_feedback(settings["feedback"]).num_sides
    extra = {name: "" for trial in trials for name in trial.extra}
    return Trial(0, context, (side,) * sides, "", "", extra=extra)


def _parts(trial: Trial) -> tuple[dict[str, Any], ...]:
    """What is known about a trial, what it shows, and what else was noted."""
    about = trial.to_dict()
    if trial.asked is not None:
        about["asked"] = json.dumps(dict(trial.asked), ensure_ascii=False)
    return about, about.pop("values"), about.pop("extra")


def _columns(blank: Trial) -> list[tuple[int, str, str]]:
    """The part and the key of every column, and its name, which no other has."""
    about, values, extra = _parts(blank)
    columns = [(0, key, key) for key in about]
    taken = {*about, *values, *extra}
    for key in values:
        name = key
        while name in about or (name != key and name in taken):
            name = f"shown.{name}"
        columns.append((1, key, name))
    return columns + [(2, key, key) for key in extra]


def _guard(cell: Any) -> Any:
    """Keep a text from being taken for a formula; numbers stay as they are."""
    if isinstance(cell, str) and cell.startswith(FORMULA_SIGNS):
        return GUARD + cell
    return cell
