r"""
The command line: ``binary-context new eye.toml eye.journal``, ``binary-context ask …``.

Every command opens the journal, does one thing and closes it. Errors are one line on
stderr and the exit code 2.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from botorch.exceptions.errors import BotorchError, InputDataError

from botorch_binary_context.experiment.demo import (
    NEEDED,
    run_demo,
    smallest_letters,
)
from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.experiment.recommendation import (
    Recommendation,
    Threshold,
)
from botorch_binary_context.experiment.settings import Settings
from botorch_binary_context.experiment.trial import Trial
from botorch_binary_context.experiment.variables import Value

PROGRAM = "binary-context"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, as for all errors."""
        self.exit(2, f"{self.prog}: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    r"""Run a command.

    Args:
        argv: The arguments, by default those of the process.

    Returns:
        The exit code.
    """
    arguments = _make_parser().parse_args(argv)
    try:
        arguments.command(arguments)
    except (BotorchError, OSError) as error:
        print(f"{PROGRAM}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


def _make_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=PROGRAM, description="Run an experiment, trial by trial.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Any, description: str, *names: str) -> _Parser:
        sub = commands.add_parser(name, help=description, description=description)
        for positional in names:
            sub.add_argument(positional)
        sub.set_defaults(command=command)
        return sub

    scripted = [
        add("new", _new, "begin an experiment", "config", "journal"),
        add("ask", _ask, "get the next trial", "journal"),
        tell := add("tell", _tell, "give the answer of a trial", "journal"),
        withdraw := add("withdraw", _withdraw, "give up a trial", "journal"),
        add("status", _status, "count trials, list pending ones", "journal"),
        advice := add("recommend", _recommend, "show the best parameters", "journal"),
        demo := add("demo", _demo, "run an experiment with a simulated person"),
    ]
    for sub in scripted:
        sub.add_argument("--json", action="store_true", help="print JSON, for scripts")
    for sub in (tell, withdraw):
        sub.add_argument("id", type=int)
    tell.add_argument("outcome", help="pass or fail; of duels, first or second")
    advice.add_argument(
        "--context",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="where to predict success; by default at the reference",
    )
    demo.add_argument("journal", nargs="?", help="a file to make and keep")
    demo.add_argument("--trials", type=int, default=50)
    add("plot", _plot, "save a picture", "journal", "figure")
    export = add("export", _export, "write all trials as CSV", "journal")
    export.add_argument("file", nargs="?", help="by default the standard output")
    return parser


def _print(arguments: argparse.Namespace, data: Any, *lines: str) -> None:
    """The data for scripts, or the lines for people."""
    if arguments.json:
        print(json.dumps(data, ensure_ascii=False))
    else:
        print("\n".join(lines))


def _describe(trial: Trial) -> list[str]:
    shown = [f"  {name} = {value}" for name, value in trial.values.items()]
    return [f"trial {trial.id}", *shown]


def _new(arguments: argparse.Namespace) -> None:
    settings = Settings.from_toml(arguments.config)
    Experiment.create(arguments.journal, settings).close()
    _print(arguments, settings.to_dict(), f"Made {arguments.journal}.")


def _ask(arguments: argparse.Namespace) -> None:
    with Experiment.open(arguments.journal) as experiment:
        trial = experiment.ask()
    _print(arguments, trial.to_dict(), *_describe(trial))


def _tell(arguments: argparse.Namespace) -> None:
    with Experiment.open(arguments.journal) as experiment:
        experiment.tell(arguments.id, arguments.outcome)
        name = experiment.settings.feedback.outcomes[
            experiment.settings.feedback.parse(arguments.outcome)
        ]
    data = {"id": arguments.id, "outcome": name}
    _print(arguments, data, f"trial {arguments.id}: {name}")


def _withdraw(arguments: argparse.Namespace) -> None:
    with Experiment.open(arguments.journal) as experiment:
        experiment.withdraw(arguments.id)
    data = {"id": arguments.id, "status": "withdrawn"}
    _print(arguments, data, f"trial {arguments.id}: withdrawn")


def _status(arguments: argparse.Namespace) -> None:
    with Experiment.open(arguments.journal) as experiment:
        trials, settings = experiment.trials, experiment.settings
    counts = Counter(trial.status for trial in trials)
    names = settings.feedback.outcomes
    outcomes = Counter(names[t.outcome] for t in trials if t.outcome is not None)
    pending = [trial for trial in trials if trial.status == "pending"]
    data = {
        "feedback": settings.feedback.kind,
        "rule": settings.rule,
        "asked": len(trials),
        "answered": counts["answered"],
        "withdrawn": counts["withdrawn"],
        "outcomes": {name: outcomes[name] for name in reversed(names)},
        "pending": [trial.to_dict() for trial in pending],
    }
    tally = ", ".join(f"{outcomes[name]} {name}" for name in reversed(names))
    _print(
        arguments,
        data,
        f"{settings.feedback.kind}, rule {settings.rule}",
        f"{counts['answered']} answered ({tally}), {len(pending)} pending, "
        f"{counts['withdrawn']} withdrawn",
        *(line for trial in pending for line in _describe(trial)),
    )


def _recommend(arguments: argparse.Namespace) -> None:
    with Experiment.open(arguments.journal) as experiment:
        best = experiment.recommend()
        context = experiment.settings.space.reference_context()
        context |= _parse_context(arguments.context)
        sees_level = experiment.settings.feedback.functional.sees_level
        graded = [c.name for c in experiment.settings.space.contexts if c.harder]
    estimate = best.success_probability(context) if sees_level else None
    thresholds = {
        name: best.threshold(name, context=context)
        for name in (graded if sees_level else [])
    }
    data = {
        "parameters": dict(best.parameters),
        "uncertainty": best.uncertainty,
        "num_answers": best.num_answers,
        "context": context,
        "success_probability": estimate and estimate._asdict(),
        "thresholds": {name: _to_json(t) for name, t in thresholds.items()},
    }
    lines = _describe_best(best)
    if estimate is not None:
        where = ", ".join(f"{name} = {value}" for name, value in context.items())
        lines.append(
            f"success probability{' at ' if where else ''}{where}: "
            f"{estimate.mean:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"
        )
    lines += [_describe_threshold(name, t) for name, t in thresholds.items()]
    _print(arguments, data, *lines)


def _to_json(threshold: Threshold) -> dict[str, float | None]:
    """JSON has no infinity."""
    items = threshold._asdict().items()
    return {name: value if math.isfinite(value) else None for name, value in items}


def _describe_threshold(name: str, threshold: Threshold) -> str:
    median, low, high = (
        f"{value:.4g}" if math.isfinite(value) else "out of range"
        for value in threshold
    )
    return f"threshold of {name}: {median} ({low} to {high})"


def _parse_context(pairs: Sequence[str]) -> dict[str, Value]:
    context: dict[str, Value] = {}
    for pair in pairs:
        name, _, text = pair.rpartition("=")
        try:
            context[name] = float(text)
        except ValueError:
            raise InputDataError(
                f"Expected ``--context`` to be NAME=NUMBER, but got {pair!r}."
            ) from None
    return context


def _describe_best(best: Recommendation) -> list[str]:
    lines = [f"after {best.num_answers} answers"]
    for name, value in best.parameters.items():
        spread = best.uncertainty[name]
        if isinstance(spread, dict):
            among = ", ".join(f"{v} {share:.0%}" for v, share in spread.items())
        else:
            among = f"{spread[0]:.6g} to {spread[1]:.6g}"
        lines.append(f"  {name} = {value} ({among})")
    return lines


def _plot(arguments: argparse.Namespace) -> None:
    # The other commands do without matplotlib, which takes long to import.
    from botorch_binary_context.experiment.figure import draw_experiment

    with Experiment.open(arguments.journal) as experiment:
        draw_experiment(experiment, arguments.figure)
    print(f"Made {arguments.figure}.")


def _export(arguments: argparse.Namespace) -> None:
    with Experiment.open(arguments.journal) as experiment:
        trials = experiment.trials
    if arguments.file is None:
        _write_csv(trials, sys.stdout)
        return
    with Path(arguments.file).open("w", newline="", encoding="utf-8") as file:
        _write_csv(trials, file)


def _write_csv(trials: Sequence[Trial], file: Any) -> None:
    writer = csv.writer(file)
    for trial in trials:
        row = trial.to_dict()
        values = row.pop("values")
        if trial.id == 1:
            writer.writerow([*row, *values])
        writer.writerow([*row.values(), *values.values()])


def _demo(arguments: argparse.Namespace) -> None:
    report = (lambda line: None) if arguments.json else print
    with tempfile.TemporaryDirectory() as folder:
        journal = arguments.journal or Path(folder) / "demo.journal"
        best = run_demo(journal, arguments.trials, report)
    acuity, threshold = smallest_letters(best.parameters), best.threshold()
    data = {
        "parameters": dict(best.parameters),
        "uncertainty": best.uncertainty,
        "threshold": _to_json(threshold),
        "needed": NEEDED,
        "smallest_letters": acuity,
    }
    needed = ", ".join(f"{name} {value}" for name, value in NEEDED.items())
    _print(
        arguments,
        data,
        "",
        *_describe_best(best),
        _describe_threshold("letter size", threshold),
        f"needed: {needed}",
        f"smallest letters read, in logMAR: {acuity:.2f} (best possible: 0)",
    )
