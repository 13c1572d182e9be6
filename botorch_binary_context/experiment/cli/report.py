r"""
A recommendation as text for people.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from botorch_binary_context.experiment.recommendation import Recommendation
from botorch_binary_context.experiment.space import Values
from botorch_binary_context.experiment.stopping import Progress


def describe_summary(best: Recommendation, data: Mapping[str, Any]) -> list[str]:
    r"""All that is known, for people.

    Args:
        best: The recommendation.
        data: Its summary, from :func:`.summarize`.
    """
    lines = describe_best(best)
    estimate = data["success_probability"]
    loss = data["expected_loss"]
    at = data["at"]
    if estimate is not None:
        where = _describe_values({**at, **data["context"]})
        lines.append(
            f"success probability{' at ' if where else ''}{where}: "
            f"{estimate['mean']:.3f} ({estimate['low']:.3f} to {estimate['high']:.3f})"
        )
    lines += [describe_threshold(n, t, at) for n, t in data["thresholds"].items()]
    lines += [
        describe_threshold(name, threshold, place["parameters"])
        for place in data["map"] or ()
        for name, threshold in place["thresholds"].items()
    ]
    if loss is not None:
        lines.append(_describe_loss(loss))
    return lines + [_describe_end(end) for end in data["progress"]]


def describe_best(best: Recommendation) -> list[str]:
    r"""The recommended parameters, for people.

    Args:
        best: The recommendation.

    Returns:
        A line about the answers, and one for each parameter.
    """
    lines = [f"after {best.num_answers} answers"]
    for name, value in best.parameters.items():
        uncertainty = best.local_uncertainty[name]
        if isinstance(uncertainty, dict):
            among = ", ".join(f"{v} {share:.0%}" for v, share in uncertainty.items())
        else:
            among = f"{uncertainty[0]:.6g} to {uncertainty[1]:.6g}"
        lines.append(f"  {name} = {value} ({among})")
    return lines


def describe_threshold(
    name: str, threshold: Mapping[str, float | None], at: Values
) -> str:
    r"""A threshold, for people.

    Args:
        name: The name of the context.
        threshold: The median and the ends of the interval, None if out of range.
        at: The parameters for which it holds, where they differ from the recommended
            ones.

    Returns:
        A line such as "threshold of size: 0.3 (0.2 to 0.4)".
    """
    median, low, high = (
        "out of range" if value is None else f"{value:.4g}"
        for value in threshold.values()
    )
    where = f" at {_describe_values(at)}" if at else ""
    return f"threshold of {name}{where}: {median} ({low} to {high})"


def _describe_end(end: Mapping[str, Any]) -> str:
    now = math.inf if end["now"] is None else end["now"]
    return str(Progress(**{**end, "now": now}))


def _describe_loss(loss: Mapping[str, Any]) -> str:
    unit = "the latent function" if loss["unit"] is None else loss["unit"]
    return (
        f"expected loss against the best possible: {loss['mean']:.2g} of {unit} "
        f"(90 %: below {loss['high']:.2g})"
    )


def _describe_values(values: Values) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())
