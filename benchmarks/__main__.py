r"""The command line of the benchmarks: ``python -m benchmarks --help``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from botorch.exceptions import InputDataError

from benchmarks.speed import command as speed
from benchmarks.studies import (
    duel_priors,
    hyperparameters,
    information,
    job_tables,
    map_causes,
    maps,
    paper_surrogate,
    report,
    runner,
    searches,
)

COMMANDS = (
    speed,
    hyperparameters,
    paper_surrogate,
    runner,
    report,
    job_tables,
    maps.STUDY,
    map_causes.STUDY,
    information.STUDY,
    duel_priors,
    searches,
)


def main(argv: Sequence[str] | None = None) -> None:
    r"""Run a benchmark.

    Args:
        argv: The arguments, by default those of the process.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for command in COMMANDS:
        command.add_command(commands)
    arguments = parser.parse_args(argv)
    try:
        arguments.run(arguments)
    except InputDataError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
