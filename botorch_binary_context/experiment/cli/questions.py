r"""
Commands about questions and their result: they compute, and load torch.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from botorch.exceptions.errors import InputDataError

from botorch_binary_context.experiment.cli.output import describe, show
from botorch_binary_context.experiment.demo import (
    NEEDED,
    run_demo,
    smallest_letters,
)
from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.experiment.recommendation import Recommendation
from botorch_binary_context.experiment.summary import summarize, threshold_to_json
from botorch_binary_context.experiment.variables import Value


def ask(arguments: argparse.Namespace) -> None:
    r"""Show the next trial.

    Args:
        arguments: The journal.
    """
    with Experiment.open(arguments.journal) as experiment:
        trial = experiment.ask()
    show(arguments, trial.to_dict(), *describe(trial))


def recommend(arguments: argparse.Namespace) -> None:
    r"""Show the best parameters.

    Args:
        arguments: The journal, and contexts to predict success in.
    """
    with Experiment.open(arguments.journal) as experiment:
        best = experiment.recommend()
        data = summarize(experiment, best, _parse_context(arguments.context))
    lines = _describe_best(best)
    estimate, loss = data["success_probability"], data["expected_loss"]
    if estimate is not None:
        where = ", ".join(f"{name} = {v}" for name, v in data["context"].items())
        lines.append(
            f"success probability{' at ' if where else ''}{where}: "
            f"{estimate['mean']:.3f} ({estimate['low']:.3f} to {estimate['high']:.3f})"
        )
    lines += [_describe_threshold(name, t) for name, t in data["thresholds"].items()]
    if loss is not None:
        lines.append(_describe_loss(loss))
    lines += [_describe_end(end) for end in data["progress"]]
    show(arguments, data, *lines)


def _describe_threshold(name: str, threshold: Mapping[str, float | None]) -> str:
    median, low, high = (
        "out of range" if value is None else f"{value:.4g}"
        for value in threshold.values()
    )
    return f"threshold of {name}: {median} ({low} to {high})"


def _describe_loss(loss: Mapping[str, Any]) -> str:
    unit = "the latent function" if loss["unit"] is None else loss["unit"]
    return (
        f"expected loss against the best possible: {loss['mean']:.2g} of {unit} "
        f"(90 %: below {loss['high']:.2g})"
    )


def _describe_end(end: Mapping[str, Any]) -> str:
    verdict = "reached: it can stop" if end["reached"] else "not reached"
    now = "not known" if end["now"] is None else f"{end['now']:.3g}"
    name = end["criterion"].replace("_", " ")
    return f"{name}: {now} of {end['limit']:g}, {verdict}"


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
        spread = best.local_uncertainty[name]
        if isinstance(spread, dict):
            among = ", ".join(f"{v} {share:.0%}" for v, share in spread.items())
        else:
            among = f"{spread[0]:.6g} to {spread[1]:.6g}"
        lines.append(f"  {name} = {value} ({among})")
    return lines


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
        *_describe_best(best),
        _describe_threshold("letter size", threshold),
        f"needed: {needed}",
        f"smallest letters read, in logMAR: {acuity:.2f} (best possible: 0)",
    )
