r"""
What commands print: JSON for scripts, lines for people.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botorch_binary_context.experiment.trial import Trial


def show(arguments: argparse.Namespace, data: Any, *lines: str) -> None:
    r"""Print the result of a command.

    Args:
        arguments: The arguments of the command, which say whether JSON is wanted.
        data: The result for scripts.
        lines: The result for people.
    """
    if arguments.json:
        print(json.dumps(data, ensure_ascii=False))
    else:
        print("\n".join(lines))


def describe(trial: Trial) -> list[str]:
    r"""A trial, for people.

    Args:
        trial: The trial.

    Returns:
        A line with its id, and one for each value.
    """
    shown = [f"  {name} = {value}" for name, value in trial.values.items()]
    return [f"trial {trial.id}", *shown]
