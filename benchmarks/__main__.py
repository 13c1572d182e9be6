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
    map_causes,
    maps,
    refraction,
    report,
    runner,
    searches,
    store,
)

COMMANDS = (
    speed,
    hyperparameters,
    refraction,
    runner,
    report,
    store,
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
