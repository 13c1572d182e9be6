r"""
Commands about questions and their result: they compute, and load torch.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from botorch_binary_context.experiment.cli.output import describe, show
from botorch_binary_context.experiment.cli.report import (
    describe_best,
    describe_summary,
    describe_threshold,
)
from botorch_binary_context.experiment.cli.values import parse_values
from botorch_binary_context.experiment.demo import (
    NEEDED,
    run_demo,
    smallest_letters,
)
from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.experiment.summary import summarize, threshold_to_json


def ask(arguments: argparse.Namespace) -> None:
    r"""Show the next trial, or the next ones.

    Args:
        arguments: The journal, given contexts, and the number of trials if it is not
            one.
    """
    with Experiment.open(arguments.journal) as experiment:
        names = {c.name: c for c in experiment.settings.space.contexts}
        context = parse_values("--context", arguments.context, names) or None
        if arguments.n is None:
            trial = experiment.ask(context=context)
            show(arguments, trial.to_dict(), *describe(trial))
            return
        trials = experiment.ask(arguments.n, context=context)
    lines = [line for trial in trials for line in describe(trial)]
    show(arguments, [trial.to_dict() for trial in trials], *lines)


def recommend(arguments: argparse.Namespace) -> None:
    r"""Show the best parameters, or a map of thresholds.

    Args:
        arguments: The journal, and contexts and parameters to predict success for.
    """
    with Experiment.open(arguments.journal) as experiment:
        space = experiment.settings.space
        names = {c.name: c for c in space.contexts}
        given = parse_values("--context", arguments.context, names)
        parts = {part.name: part for part in space.parts}
        at = parse_values("--at", arguments.at, parts)
        best = experiment.recommend()
        data = summarize(experiment, best, given, at)
    show(arguments, data, *describe_summary(best, data))


def plot(arguments: argparse.Namespace) -> None:
    r"""Save a picture.

    Args:
        arguments: The journal and the picture.
    """
    # The other commands do without matplotlib, which takes long to import.
    from botorch_binary_context.experiment.figure import draw_experiment

    with Experiment.open(arguments.journal) as experiment:
        draw_experiment(experiment, arguments.figure)
    print(f"Made {arguments.figure}.")


def demo(arguments: argparse.Namespace) -> None:
    r"""Run an experiment with a simulated person.

    Args:
        arguments: The journal to make, if any, and the number of trials.
    """
    if arguments.page:
        from botorch_binary_context.experiment.cli.serving import serve_demo

        serve_demo(arguments)
        return
    report = (lambda line: None) if arguments.json else print
    with tempfile.TemporaryDirectory() as folder:
        journal = arguments.journal or Path(folder) / "demo.journal"
        best = run_demo(journal, arguments.trials, report)
    acuity = smallest_letters(best.parameters)
    threshold = threshold_to_json(best.threshold())
    data = {
        "parameters": dict(best.parameters),
        "uncertainty": best.uncertainty,
        "threshold": threshold,
        "needed": NEEDED,
        "smallest_letters": acuity,
    }
    needed = ", ".join(f"{name} {value}" for name, value in NEEDED.items())
    show(
        arguments,
        data,
        "",
        *describe_best(best),
        describe_threshold("letter size", threshold, {}),
        f"needed: {needed}",
        f"smallest letters read, in logMAR: {acuity:.2f} (best possible: 0)",
    )
