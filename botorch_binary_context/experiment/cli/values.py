r"""
Values that options give as NAME=VALUE.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from botorch_binary_context.errors import InputDataError


def parse_values(
    option: str, pairs: Sequence[str], variables: Mapping[str, Any]
) -> dict[str, Any]:
    r"""Read values of variables; this loads torch unless there are none.

    Args:
        option: The option, for the message.
        pairs: Texts such as "size=0.3".
        variables: The parameters or contexts that may be named.
    """
    texts = _split(option, pairs, list(variables))
    if not texts:
        return {}
    from botorch_binary_context.experiment.rows import read_value

    return {name: read_value(variables[name], text) for name, text in texts.items()}


def parse_notes(option: str, pairs: Sequence[str]) -> dict[str, Any]:
    r"""Read numbers and texts with free names.

    Args:
        option: The option, for the message.
        pairs: Texts such as "confidence=3".

    Returns:
        The values by their names; None for those without a text.
    """
    texts = _split(option, pairs, None)
    return {name: _read_number(text) if text else None for name, text in texts.items()}


def _split(
    option: str, pairs: Sequence[str], names: Sequence[str] | None
) -> dict[str, str]:
    texts: dict[str, str] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator or (not name if names is None else name not in names):
            among = "" if names is None else f" with a name among {names}"
            raise InputDataError(
                f"Expected ``{option}`` to be NAME=VALUE{among}, but got {pair!r}."
            )
        texts[name] = text
    return texts


def _read_number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if math.isfinite(number):
            return number
    return text
