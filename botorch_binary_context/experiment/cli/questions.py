r"""
Commands about questions and their result: they compute, and load torch.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from botorch.exceptions.errors import InputDataError

from botorch_binary_context.experiment.cli.output import describe, show
from botorch_binary_context.experiment.demo import (
    NEEDED,
    run_demo,
    smallest_letters,
)
from botorch_binary_context.experiment.estimates import Loss, Threshold
from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.experiment.recommendation import Recommendation
from botorch_binary_context.experiment.stopping import Progress
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
        ends = experiment.progress(best)
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
        "local_uncertainty": best.local_uncertainty,
        "expected_loss": best.expected_loss()._asdict() if best.is_graded else None,
        "num_answers": best.num_answers,
        "context": context,
        "success_probability": estimate and estimate._asdict(),
        "thresholds": {name: _to_json(t) for name, t in thresholds.items()},
        "progress": [_end_to_json(end) for end in ends],
    }
    lines = _describe_best(best)
    if estimate is not None:
        where = ", ".join(f"{name} = {value}" for name, value in context.items())
        lines.append(
            f"success probability{' at ' if where else ''}{where}: "
            f"{estimate.mean:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"
        )
    lines += [_describe_threshold(name, t) for name, t in thresholds.items()]
    if best.is_graded:
        lines.append(_describe_loss(best.expected_loss()))
    lines += [_describe_end(end) for end in ends]
    show(arguments, data, *lines)


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


def _describe_loss(loss: Loss) -> str:
    unit = "of the latent function" if loss.unit is None else f"of {loss.unit}"
    return (
        f"expected loss against the best possible: {loss.mean:.2g} {unit} "
        f"(90 %: below {loss.high:.2g})"
    )


def _end_to_json(end: Progress) -> dict[str, Any]:
    data = end._asdict()
    return data if math.isfinite(end.now) else {**data, "now": None}


def _describe_end(end: Progress) -> str:
    verdict = "reached: it can stop" if end.reached else "not reached"
    now = f"{end.now:.3g}" if math.isfinite(end.now) else "not known"
    return f"{end.criterion.replace('_', ' ')}: {now} of {end.limit:g}, {verdict}"


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
    acuity, threshold = smallest_letters(best.parameters), best.threshold()
    data = {
        "parameters": dict(best.parameters),
        "uncertainty": best.uncertainty,
        "threshold": _to_json(threshold),
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
