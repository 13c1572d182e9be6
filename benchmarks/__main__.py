r"""The command line of the benchmarks: ``python -m benchmarks --help``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchmarks import speed


def main(argv: Sequence[str] | None = None) -> None:
    r"""Run a benchmark.

    Args:
        argv: The arguments, by default those of the process.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    speed.add_command(commands)
    arguments = parser.parse_args(argv)
    arguments.run(arguments)


if __name__ == "__main__":
    main()
