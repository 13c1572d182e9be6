r"""
What a recommendation says, for people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from botorch.exceptions import InputDataError

from botorch_binary_context.experiment.recommendation import Recommendation
from botorch_binary_context.experiment.rows import read_value
from botorch_binary_context.experiment.space import Values
from botorch_binary_context.experiment.variables import Value


def parse_values(
    option: str, pairs: Sequence[str], variables: Mapping[str, Any]
) -> dict[str, Value]:
    r"""The values that an option gives.

    Args:
        option: The option, for the message.
        pairs: Texts such as "size=0.3".
        variables: The parameters or contexts that may be named.

    Returns:
        The values by their names.
    """
    values: dict[str, Value] = {}
    for pair in pairs:
        name, separator, text = pair.rpartition("=")
        if not separator or name not in variables:
            raise InputDataError(
                f"Expected ``{option}`` to be NAME=VALUE with a name among "
                f"{list(variables)}, but got {pair!r}."
            )
        values[name] = read_value(variables[name], text)
    return values


def describe_summary(best: Recommendation, data: Mapping[str, Any]) -> list[str]:
    r"""All that is known, for people.

    Args:
        best: The recommendation.
        data: What :func:`.summarize` makes of it.

    Returns:
        The lines.
    """
    lines = describe_best(best)
    estimate, loss, at = data["success_probability"], data["expected_loss"], data["at"]
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
    return lines + [describe_end(end) for end in data["progress"]]


def describe_best(best: Recommendation) -> list[str]:
    r"""The recommended parameters, for people.

    Args:
        best: The recommendation.

    Returns:
        A line about the answers, and one for each parameter.
    """
    lines = [f"after {best.num_answers} answers"]
    for name, value in best.parameters.items():
        spread = best.local_uncertainty[name]
        if isinstance(spread, dict):
            among = ", ".join(f"{v} {share:.0%}" for v, share in spread.items())
        else:
            among = f"{spread[0]:.6g} to {spread[1]:.6g}"
        lines.append(f"  {name} = {value} ({among})")
    return lines


def describe_threshold(
    name: str, threshold: Mapping[str, float | None], at: Values
) -> str:
    r"""A threshold, for people.

    Args:
        name: The name of the context.
        threshold: The median and the ends of the interval, None if out of range.
        at: The parameters it is told for, as far as they are not the recommended ones.

    Returns:
        A line.
    """
    median, low, high = (
        "out of range" if value is None else f"{value:.4g}"
        for value in threshold.values()
    )
    where = f" at {_describe_values(at)}" if at else ""
    return f"threshold of {name}{where}: {median} ({low} to {high})"


def describe_end(end: Mapping[str, Any]) -> str:
    r"""How far it is to an end, for people.

    Args:
        end: The fields of :class:`.Progress`, None for what is not known.

    Returns:
        A line.
    """
    verdict = "reached: it can stop" if end["reached"] else "not reached"
    now = "not known" if end["now"] is None else f"{end['now']:.3g}"
    name = end["criterion"].replace("_", " ")
    return f"{name}: {now} of {end['limit']:g}, {verdict}"


def _describe_loss(loss: Mapping[str, Any]) -> str:
    unit = "the latent function" if loss["unit"] is None else loss["unit"]
    return (
        f"expected loss against the best possible: {loss['mean']:.2g} of {unit} "
        f"(90 %: below {loss['high']:.2g})"
    )


def _describe_values(values: Values) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())
