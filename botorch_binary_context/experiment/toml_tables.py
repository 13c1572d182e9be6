r"""
Tables of settings: dictionaries with known keys, as TOML files and journals have them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from botorch_binary_context.errors import InputDataError, quote

T = TypeVar("T")


def choose(kinds: Mapping[str, T], name: Any, key: str) -> T:
    r"""The object that a name stands for.

    Args:
        kinds: What can be chosen, by its names.
        name: One of the names.
        key: The key whose value the name is, for the message.
    """
    if not isinstance(name, str) or name not in kinds:
        raise InputDataError(
            f"Expected ``{key}`` to be one of {', '.join(kinds)}, but got "
            f"{quote(name)}{_suggest(name, kinds)}."
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
            f"{quote(found)}."
        )
    return found


def table_of(found: Any, key: str) -> dict[str, Any]:
    r"""Check that something is one table.

    Args:
        found: The value of the key.
        key: The key, for the message.
    """
    if not isinstance(found, dict):
        raise InputDataError(
            f"Expected ``{key}`` to be a table, [{key}] in a TOML file, but got "
            f"{quote(found)}."
        )
    return found


def make(kind: type[T], arguments: Mapping[str, Any], where: str) -> T:
    r"""Make a dataclass from a table.

    Args:
        kind: The dataclass.
        arguments: The table; an error names keys that are unknown or missing.
        where: What the table describes, for the message.
    """
    known: Any = fields(kind)  # pyright: ignore[reportArgumentType]
    needed = [
        f.name for f in known if f.default is MISSING and f.default_factory is MISSING
    ]
    check_keys(arguments, [f.name for f in known], needed, where)
    return kind(**arguments)


def check_keys(
    table: Mapping[str, Any], known: Sequence[str], needed: Sequence[str], where: str
) -> None:
    r"""Raise an error that names the keys of a table that are unknown or missing.

    Args:
        table: The table.
        known: The keys it may have.
        needed: The keys it must have.
        where: What the table describes, for the message.
    """
    unknown = sorted(str(key) for key in table if key not in known)
    missing = [key for key in needed if key not in table]
    if unknown or missing:
        complaint = "unknown" if unknown else "missing"
        wrong = ", ".join(quote(key)[1:-1] for key in unknown or missing)
        hint = _suggest(unknown[0], known) if unknown else ""
        raise InputDataError(
            f"Expected {where} to have the keys {', '.join(known)}, but got "
            f"{complaint} {wrong}{hint}."
        )


def _suggest(name: Any, names: Iterable[str]) -> str:
    """The name that was probably meant, as the end of a message."""
    if not isinstance(name, str):
        return ""
    near = difflib.get_close_matches(name[:50], names, n=1)
    return f" (did you mean {near[0]}?)" if near else ""
