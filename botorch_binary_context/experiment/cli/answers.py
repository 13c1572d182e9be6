r"""
Commands about answers. They compute nothing and load without torch.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from botorch_binary_context.experiment.cli.output import describe, show
from botorch_binary_context.experiment.cli.values import parse_notes, parse_values
from botorch_binary_context.experiment.events import Event
from botorch_binary_context.experiment.feedback_base import Feedback
from botorch_binary_context.experiment.logbook import Logbook
from botorch_binary_context.experiment.stopping import Stop
from botorch_binary_context.experiment.trial import Trial

# The fields of a trial whose changes the history shows.
_CHANGES = ("outcome", "infeasible", "used", "extra", "shown")


def tell(arguments: argparse.Namespace) -> None:
    r"""Write an answer down.

    Args:
        arguments: The journal, the id of a pending trial and its outcome; if given,
            what was not feasible in spite of the answer, what was shown instead, and
            notes.
    """
    with Logbook.open(arguments.journal) as logbook:
        shown = _parse_shown("--shown", arguments.shown, logbook) or None
        details = _details(arguments)
        logbook.tell(arguments.id, arguments.outcome, shown=shown, **details)
        _show_outcome(arguments, logbook)


def add(arguments: argparse.Namespace) -> None:
    r"""Write down a trial that was not asked for.

    Args:
        arguments: The journal, the outcome and what was shown; if given, what was not
            feasible in spite of the answer, whether the model learns from it, and
            notes.
    """
    with Logbook.open(arguments.journal) as logbook:
        values = _parse_shown("values", arguments.values, logbook)
        use = not arguments.unused
        trial = logbook.add(values, arguments.outcome, use=use, **_details(arguments))
        words = _name_outcome(trial, logbook.feedback)
    show(arguments, trial.to_dict(), f"trial {trial.id}: added, {words}")


def _parse_shown(option: str, pairs: Sequence[str], logbook: Logbook) -> dict[str, Any]:
    if not pairs:
        return {}
    from botorch_binary_context.experiment.rows import value_names

    return parse_values(option, pairs, value_names(logbook.settings))


def _details(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "infeasible": arguments.infeasible,
        "rater": arguments.rater,
        "reaction_time": arguments.reaction_time,
        "extra": parse_notes("--note", arguments.note) or None,
    }


def describe_(arguments: argparse.Namespace) -> None:
    r"""Change the notes about the experiment, or show them.

    Args:
        arguments: The journal and the notes; a note without a text is removed.
    """
    with Logbook.open(arguments.journal) as logbook:
        changes = parse_notes("notes", arguments.notes)
        if changes:
            logbook.describe(**changes)
        metadata = logbook.metadata
    lines = [f"{name}: {value}" for name, value in metadata.items()]
    show(arguments, metadata, *(lines or ["nothing is noted"]))


def history(arguments: argparse.Namespace) -> None:
    r"""Show what happened, in order.

    Args:
        arguments: The journal.
    """
    with Logbook.open(arguments.journal) as logbook:
        events = logbook.history
    lines = [_describe_event(event) for event in events]
    show(arguments, [asdict(event) for event in events], *lines)


def _describe_event(event: Event) -> str:
    what = "" if event.trial is None else f" trial {event.trial}"
    changes = [
        f"{name} {event.old.get(name)} -> {event.new.get(name)}"
        for name in dict.fromkeys((*event.old, *event.new))
        if name in _CHANGES or event.trial is None
    ]
    who = event.environment.get("user", "someone")
    tail = f": {', '.join(changes)}" if changes else ""
    return f"{event.at} {event.kind}{what} by {who}{tail}"


def correct(arguments: argparse.Namespace) -> None:
    r"""Change an answer.

    Args:
        arguments: The journal, the id of an answered trial, its outcome, and what was
            not feasible in spite of it.
    """
    with Logbook.open(arguments.journal) as logbook:
        infeasible = arguments.infeasible
        logbook.correct(arguments.id, arguments.outcome, infeasible=infeasible)
        _show_outcome(arguments, logbook)


def undo(arguments: argparse.Namespace) -> None:
    r"""Take back an answer.

    Args:
        arguments: The journal, and the id of a trial if it is not the last answer.
    """
    with Logbook.open(arguments.journal) as logbook:
        trial = logbook.undo(arguments.id)
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
    r"""Keep a trial, but do not let the model learn from it.

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
    trial = logbook.trial(arguments.id)
    data: dict[str, Any] = {"id": trial.id}
    data["outcome"] = feedback.outcomes[trial.outcome or 0]
    if feedback.infeasible is not None:
        data["infeasible"] = list(trial.infeasible)
    show(arguments, data, f"trial {trial.id}: {_name_outcome(trial, feedback)}")


def _name_outcome(trial: Trial, feedback: Feedback) -> str:
    """What was told about a trial, in words."""
    return ", ".join([feedback.outcomes[trial.outcome or 0], *trial.infeasible])


def status(arguments: argparse.Namespace) -> None:
    r"""Count trials, list the pending ones, and say when to stop.

    Args:
        arguments: The journal.
    """
    with Logbook.open(arguments.journal) as logbook:
        trials = logbook.trials
        number = logbook.num_answers
    names = logbook.feedback.outcomes
    counts = Counter(trial.status for trial in trials)
    outcomes = Counter(names[t.outcome] for t in trials if t.outcome is not None)
    outcomes.update(name for trial in trials for name in trial.infeasible)
    names = names[::-1]
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
        "stop": _ends(logbook.stop, number),
    }
    tally = ", ".join(f"{outcomes[name]} {name}" for name in names)
    excluded = f", {data['excluded']} excluded" if data["excluded"] else ""
    show(
        arguments,
        data,
        f"{data['feedback']}, rule {data['rule']}",
        f"{counts['answered']} answered ({tally}), {len(pending)} pending, "
        f"{counts['withdrawn']} withdrawn{excluded}",
        *(_describe_end(end) for end in data["stop"]),
        *(line for trial in pending for line in describe(trial)),
    )


def _ends(stop: Stop | None, answers: int) -> list[dict[str, Any]]:
    """When to stop, with progress where that needs no computation."""
    if stop is None:
        return []
    limits = {f.name: getattr(stop, f.name) for f in fields(stop)}
    return [
        {
            "criterion": name,
            "limit": limit,
            "now": answers if name == "answers" else None,
        }
        for name, limit in limits.items()
        if limit is not None
    ]


def _describe_end(end: dict[str, Any]) -> str:
    name = end["criterion"].replace("_", " ")
    if end["now"] is None:
        return f"stops at a {name} of {end['limit']:g}: `recommend` tells how far it is"
    return f"stops at {end['limit']:g} {name}: {end['now']} now"
