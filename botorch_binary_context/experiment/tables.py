r"""
Tables of settings: dictionaries with known keys, as TOML files and journals have them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from botorch_binary_context.errors import InputDataError

T = TypeVar("T")
# What is repeated of a wrong value in a message.
MAX_LENGTH = 200


def shorten(value: Any) -> str:
    r"""A value as a message quotes it.

    Args:
        value: Any value.

    Returns:
        Its ``repr``, without its middle if it is long.
    """
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "a number of thousands of digits"
    if len(text) <= MAX_LENGTH:
        return text
    return f"{text[: MAX_LENGTH // 2]} … {text[-MAX_LENGTH // 4 :]}"


def choose(kinds: Mapping[str, T], name: Any, key: str) -> T:
    r"""What a name stands for.

    Args:
        kinds: What can be chosen, by its names.
        name: One of the names.
        key: The key whose value the name is, for the message.

    Returns:
        The choice.
    """
    if not isinstance(name, str) or name not in kinds:
        raise InputDataError(
            f"Expected ``{key}`` to be one of {', '.join(kinds)}, but got "
            f"{shorten(name)}{_suggest(name, kinds)}."
        )
    return kinds[name]


def tables(content: dict[str, Any], key: str) -> list[dict[str, Any]]:
    r"""Take a list of tables out of some content.

    Args:
        content: The content, which loses the key.
        key: The key.

    Returns:
        The tables; none if there is no such key.
    """
    found = content.pop(key, [])
    if not isinstance(found, list) or any(not isinstance(t, dict) for t in found):
        raise InputDataError(
            f"Expected ``{key}`` to be tables, [[{key}]] in a TOML file, but got "
            f"{shorten(found)}."
        )
    return found


def make(kind: type[T], arguments: Mapping[str, Any], where: str) -> T:
    r"""Make a dataclass from a table.

    Args:
        kind: The dataclass.
        arguments: The table; an error names keys that are unknown or missing.
        where: What the table describes, for the message.

    Returns:
        The object.
    """
    known: Any = fields(kind)  # pyright: ignore[reportArgumentType]
    names = [f.name for f in known]
    unknown = sorted(set(arguments) - set(names))
    needed = {
        f.name for f in known if f.default is MISSING and f.default_factory is MISSING
    }
    missing = sorted(needed - set(arguments))
    if unknown or missing:
        complaint = "unknown" if unknown else "missing"
        hint = _suggest(unknown[0], names) if len(unknown) == 1 else ""
        raise InputDataError(
            f"Expected {where} to have the keys {', '.join(names)}, but got "
            f"{complaint} {shorten(', '.join(unknown or missing))[1:-1]}{hint}."
        )
    return kind(**arguments)


def _suggest(name: Any, names: Iterable[str]) -> str:
    """The name that was probably meant, as the end of a message."""
    near = difflib.get_close_matches(str(name)[:MAX_LENGTH], names, n=1)
    return f" (did you mean {near[0]}?)" if near else ""
