r"""
Checks of details of a trial or an experiment.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any

from botorch_binary_context.errors import InputDataError

#: The maximum number of trials that can be asked at once.
MAX_TRIALS = 1000


def check_id(trial_id: Any) -> int:
    r"""Check an id.

    Args:
        trial_id: The id to check.
    """
    try:
        if isinstance(trial_id, bool):
            raise TypeError
        return operator.index(trial_id)
    except TypeError:
        raise InputDataError(
            f"Expected ``trial_id`` to be a whole number, but got {trial_id!r}."
        ) from None


def check_number(name: str, number: Any) -> int:
    r"""Check how many trials are wanted.

    Args:
        name: What to call the number in a message.
        number: The number to check.
    """
    is_whole = isinstance(number, int) and not isinstance(number, bool)
    if not is_whole or not 1 <= number <= MAX_TRIALS:
        raise InputDataError(
            f"Expected ``{name}`` to be a whole number from 1 to {MAX_TRIALS}, but got "
            f"{number!r}."
        )
    return number


def check_rater(rater: Any) -> str | None:
    r"""Check the name of a rater.

    Args:
        rater: The name to check, or None.

    Returns:
        The name, or None.
    """
    return None if rater is None else check_text("rater", rater)


def check_text(name: str, text: Any) -> str:
    r"""Check a text.

    Args:
        name: What to call it in a message.
        text: The text to check.
    """
    if not isinstance(text, str) or not text.strip():
        raise InputDataError(f"Expected ``{name}`` to be a text, but got {text!r}.")
    return text


def check_time(reaction_time: Any) -> float:
    r"""Check a reaction time.

    Args:
        reaction_time: The time to check, in seconds.
    """
    try:
        seconds = float(reaction_time)
    except (TypeError, ValueError):
        seconds = math.nan
    if not 0.0 <= seconds < math.inf:
        raise InputDataError(
            "Expected ``reaction_time`` to be a number of seconds, but got "
            f"{reaction_time!r}."
        )
    return seconds


def check_metadata(content: Any, argument: str = "metadata") -> None:
    r"""Check free keys and values.

    Args:
        content: The mapping to check.
        argument: What to call it in a message.
    """
    names = list(content) if isinstance(content, Mapping) else [None]
    if not all(isinstance(name, str) and name.strip() for name in names):
        raise InputDataError(
            f"Expected ``{argument}`` to give values to names, but got {content!r}."
        )
    for name, value in content.items():
        if not _is_plain(value):
            raise InputDataError(
                f"Expected ``{argument}`` to give {name!r} a text, a finite number or "
                f"other plain data, but got {value!r}."
            )


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(k, str) and _is_plain(v) for k, v in value.items())
    if isinstance(value, list | tuple):
        return all(_is_plain(item) for item in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str | int | bool)
