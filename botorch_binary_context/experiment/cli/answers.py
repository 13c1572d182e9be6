r"""
Commands about answers. They compute nothing and load without torch.
"""

from __future__ import annotations

import argparse
from collections import Counter

from botorch_binary_context.experiment.cli.output import describe, show
from botorch_binary_context.experiment.logbook import Logbook


def tell(arguments: argparse.Namespace) -> None:
    r"""Write an answer down.

    Args:
        arguments: The journal, the id of a pending trial and its outcome.
    """
    with Logbook.open(arguments.journal) as logbook:
        logbook.tell(arguments.id, arguments.outcome)
        _show_outcome(arguments, logbook)


def correct(arguments: argparse.Namespace) -> None:
    r"""Change an answer.

    Args:
        arguments: The journal, the id of an answered trial and its outcome.
    """
    with Logbook.open(arguments.journal) as logbook:
        logbook.correct(arguments.id, arguments.outcome)
        _show_outcome(arguments, logbook)


def undo(arguments: argparse.Namespace) -> None:
    r"""Take back the last answer.

    Args:
        arguments: The journal.
    """
    with Logbook.open(arguments.journal) as logbook:
        trial = logbook.undo()
    show(arguments, trial.to_dict(), f"trial {trial.id}: {trial.status} again")


def withdraw(arguments: argparse.Namespace) -> None:
    r"""Give up a trial that was not run.

    Args:
        arguments: The journal and the id of a pending trial.
    """
    with Logbook.open(arguments.journal) as logbook:
        logbook.withdraw(arguments.id)
    data = {"id": arguments.id, "status": "withdrawn"}
    show(arguments, data, f"trial {arguments.id}: withdrawn")


def exclude(arguments: argparse.Namespace) -> None:
    r"""Keep a trial, but let the model not learn from it.

    Args:
        arguments: The journal and the id of the trial.
    """
    with Logbook.open(arguments.journal) as logbook:
        logbook.exclude(arguments.id)
    data = {"id": arguments.id, "used": False}
    show(arguments, data, f"trial {arguments.id}: excluded")


def include(arguments: argparse.Namespace) -> None:
    r"""Let the model learn from a trial again.

    Args:
        arguments: The journal and the id of the trial.
    """
    with Logbook.open(arguments.journal) as logbook:
        logbook.include(arguments.id)
    data = {"id": arguments.id, "used": True}
    show(arguments, data, f"trial {arguments.id}: included")


def _show_outcome(arguments: argparse.Namespace, logbook: Logbook) -> None:
    feedback = logbook.feedback
    name = feedback.outcomes[feedback.parse(arguments.outcome)]
    data = {"id": arguments.id, "outcome": name}
    show(arguments, data, f"trial {arguments.id}: {name}")


def status(arguments: argparse.Namespace) -> None:
    r"""Count trials and list the pending ones.

    Args:
        arguments: The journal.
    """
    with Logbook.open(arguments.journal) as logbook:
        trials = logbook.trials
    names = logbook.feedback.outcomes[::-1]
    counts = Counter(trial.status for trial in trials)
    outcomes = Counter(names[1 - t.outcome] for t in trials if t.outcome is not None)
    pending = [trial for trial in trials if trial.status == "pending"]
    data = {
        "feedback": logbook.feedback.kind,
        "rule": logbook.rule,
        "asked": len(trials),
        "answered": counts["answered"],
        "withdrawn": counts["withdrawn"],
        "excluded": sum(not trial.used for trial in trials),
        "outcomes": {name: outcomes[name] for name in names},
        "pending": [trial.to_dict() for trial in pending],
    }
    tally = ", ".join(f"{outcomes[name]} {name}" for name in names)
    excluded = f", {data['excluded']} excluded" if data["excluded"] else ""
    show(
        arguments,
        data,
        f"{data['feedback']}, rule {data['rule']}",
        f"{counts['answered']} answered ({tally}), {len(pending)} pending, "
        f"{counts['withdrawn']} withdrawn{excluded}",
        *(line for trial in pending for line in describe(trial)),
    )
