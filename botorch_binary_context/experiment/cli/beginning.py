r"""
The command that begins an experiment, from a TOML file or with an example of one.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from botorch_binary_context.errors import InputDataError
from botorch_binary_context.experiment.cli.output import show
from botorch_binary_context.experiment.cli.values import parse_notes
from botorch_binary_context.experiment.examples import read_example


def new(arguments: argparse.Namespace) -> None:
    r"""Begin an experiment, or write an example of its settings.

    Args:
        arguments: The TOML file, the journal to make, the name of an example to write
            into the TOML file first, and notes. The journal or the example may be
            missing.
    """
    if arguments.example is not None:
        _write_example(arguments)
    if arguments.journal is not None:
        _create(arguments)
    elif arguments.example is None:
        raise InputDataError(
            "Expected ``journal`` to be the file to make, but got none; it may only be "
            "left out with --example."
        )


def _write_example(arguments: argparse.Namespace) -> None:
    """Write an example, but never over another file."""
    with Path(arguments.config).open("x", encoding="utf-8") as file:
        file.write(read_example(arguments.example))
    if arguments.journal is None:
        data = {"example": arguments.example, "config": arguments.config}
        show(arguments, data, f"Made {arguments.config}.")


def _create(arguments: argparse.Namespace) -> None:
    from botorch_binary_context.experiment.experiment import Experiment
    from botorch_binary_context.experiment.settings import Settings

    settings = Settings.from_toml(arguments.config)
    notes = parse_notes("--note", arguments.note)
    with Experiment.create(arguments.journal, settings, notes) as experiment:
        data = experiment.settings.to_dict()
    show(arguments, data, f"Made {arguments.journal}.")
