r"""
Commands about answers. They compute nothing and load without torch.
"""

from __future__ import annotations

import argparse
from collections import Counter
from contextlib import closing

from botorch_binary_context.experiment.cli.output import describe, show
from botorch_binary_context.experiment.feedback import make_feedback
from botorch_binary_context.experiment.journal import Journal


def tell(arguments: argparse.Namespace) -> None:
    r"""Write an answer down.

    Args:
        arguments: The journal, the id of a pending trial and its outcome.
    """
    with closing(Journal(arguments.journal)) as journal:
        feedback = make_feedback(journal.settings()["feedback"])
        outcome = feedback.parse(arguments.outcome)
        with journal.transaction():
            journal.answer(arguments.id, outcome)
    name = feedback.outcomes[outcome]
    data = {"id": arguments.id, "outcome": name}
    show(arguments, data, f"trial {arguments.id}: {name}")


def withdraw(arguments: argparse.Namespace) -> None:
    r"""Give up a trial that was not run.

    Args:
        arguments: The journal and the id of a pending trial.
    """
    with closing(Journal(arguments.journal)) as journal, journal.transaction():
        journal.withdraw(arguments.id)
    data = {"id": arguments.id, "status": "withdrawn"}
    show(arguments, data, f"trial {arguments.id}: withdrawn")


def status(arguments: argparse.Namespace) -> None:
    r"""Count trials and list the pending ones.

    Args:
        arguments: The journal.
    """
    with closing(Journal(arguments.journal)) as journal:
        trials = journal.trials()
        settings = journal.settings()
    counts = Counter(trial.status for trial in trials)
    names = make_feedback(settings["feedback"]).outcomes[::-1]
    outcomes = Counter(names[1 - t.outcome] for t in trials if t.outcome is not None)
    pending = [trial for trial in trials if trial.status == "pending"]
    data = {
        "feedback": settings["feedback"]["kind"],
        "rule": settings["rule"],
        "asked": len(trials),
        "answered": counts["answered"],
        "withdrawn": counts["withdrawn"],
        "outcomes": {name: outcomes[name] for name in names},
        "pending": [trial.to_dict() for trial in pending],
    }
    tally = ", ".join(f"{outcomes[name]} {name}" for name in names)
    show(
        arguments,
        data,
        f"{data['feedback']}, rule {data['rule']}",
        f"{counts['answered']} answered ({tally}), {len(pending)} pending, "
        f"{counts['withdrawn']} withdrawn",
        *(line for trial in pending for line in describe(trial)),
    )
