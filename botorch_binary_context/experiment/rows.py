r"""
Trials as rows of a table, for example of a CSV file.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from botorch.exceptions import InputDataError

from botorch_binary_context.experiment.notes import read_note
from botorch_binary_context.experiment.settings import Settings
from botorch_binary_context.experiment.space import Values
from botorch_binary_context.experiment.trial import ASKED, SIDE_NAMES
from botorch_binary_context.experiment.variables import Categorical, Integer, Value

_TRUE = ("1", "true", "yes")
_FALSE = ("0", "false", "no")
# Columns of an answer that are taken as they are.
_TEXTS = ("rater", "reaction_time", "chosen_by")
#: Columns of an exported table that mean nothing in another experiment.
_DROPPED = ("id", "status", "asked", "extra")


def value_names(settings: Settings) -> dict[str, Any]:
    r"""The names of ``trial.values``.

    Args:
        settings: The settings of the experiment.

    Returns:
        The variables by these names, in their order.
    """
    named: dict[str, Any] = {c.name: c for c in settings.space.contexts}
    number = settings.feedback.num_sides
    several = [f"{side}." for side in SIDE_NAMES[:number]]
    for start in several if number > 1 else [""]:
        named |= {f"{start}{p.name}": p for p in settings.space.parts}
    return named


def split_values(
    settings: Settings, values: Any, argument: str = "values"
) -> tuple[dict[str, Value], tuple[dict[str, Value], ...]]:
    r"""The context and the sides of a trial; the inverse of ``trial.values``.

    Args:
        settings: The settings of the experiment.
        values: A value for each of the names.
        argument: What to call them in a message.

    Returns:
        The context, and the parameters of each side.
    """
    named = value_names(settings)
    if not isinstance(values, Mapping) or set(values) != set(named):
        got = list(values) if isinstance(values, Mapping) else repr(values)
        raise InputDataError(
            f"Expected ``{argument}`` to give a value for each of {list(named)}, but "
            f"got {got}."
        )
    numbers = iter(_plain(named[name], values[name]) for name in named)
    context = {c.name: next(numbers) for c in settings.space.contexts}
    sides = [
        {p.name: next(numbers) for p in settings.space.parts}
        for _ in range(settings.feedback.num_sides)
    ]
    return context, tuple(sides)


def read_given(settings: Settings, given: Any) -> dict[str, Value]:
    r"""The values of contexts that are given.

    Args:
        settings: The settings of the experiment.
        given: Values by the names of contexts, or None for none.

    Returns:
        The values in the order of the contexts, checked.
    """
    contexts = settings.space.contexts
    names = [context.name for context in contexts]
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not set(given) <= set(names):
        got = list(given) if isinstance(given, Mapping) else repr(given)
        raise InputDataError(
            f"Expected ``context`` to give values of contexts among {names}, but got "
            f"{got}."
        )
    values = {c.name: _plain(c, given[c.name]) for c in contexts if c.name in given}
    reference = settings.space.reference_context()
    settings.encoder().encode_context({**reference, **values})
    return values


def _plain(variable: Any, value: Any) -> Any:
    """A number of any library as a Python number; anything else unchanged."""
    if isinstance(variable, Categorical):
        return value
    number: Any = value.item() if hasattr(value, "item") else value
    whole = isinstance(variable, Integer) and isinstance(number, float)
    return int(number) if whole and number.is_integer() else number


def read_row(
    settings: Settings, row: Mapping[str, Any]
) -> tuple[Values, dict[str, Any], dict[str, Any]]:
    r"""What a row of a table says.

    Args:
        settings: The settings of the experiment.
        row: Texts or values by the names of columns.

    Returns:
        The values; the columns of the answer, of which "outcome", "rater",
        "reaction_time" and "chosen_by" are as they were given, and "infeasible" is a
        list of names; and all other columns that are not empty.
    """
    named = value_names(settings)
    asked = {f"{ASKED}.{name}": name for name in named}
    rest: dict[Any, Any] = {
        k: v
        for k, v in row.items()
        if k not in named and k not in _DROPPED and k not in asked
    }
    values = {k: read_value(v, row[k]) for k, v in named.items() if k in row}
    if rest.get("outcome") in (None, ""):
        raise InputDataError("Expected a column ``outcome``, but got none or no value.")
    if None in rest:
        raise InputDataError(f"Expected a name for each cell, but got {rest[None]}.")
    answer = {name: rest.pop(name, None) for name in _TEXTS}
    answer = {name: None if v == "" else v for name, v in answer.items()}
    answer["infeasible"] = _read_infeasible(rest.pop("infeasible", None))
    answer[ASKED] = _read_asked(settings, row)
    answer["outcome"] = rest.pop("outcome")
    answer["used"] = _read_flag(rest.pop("use", rest.pop("used", True)))
    for name in ("asked_at", "closed_at"):
        if rest.get(name):
            answer[name] = _read_moment(name, rest[name])
        rest.pop(name, None)
    noted = {name: read_note(cell) for name, cell in rest.items() if cell != ""}
    if isinstance(row.get("extra"), Mapping) and "extra" not in named:
        noted |= row["extra"]
    return values, answer, noted


def _read_infeasible(given: Any) -> Any:
    """Names in one text, or true or false; anything else is returned unchanged."""
    if not isinstance(given, str):
        return given
    text = given.strip().lower()
    if text in (*_TRUE, *_FALSE):
        return text in _TRUE
    return text.split() or None


def _read_asked(settings: Settings, row: Mapping[str, Any]) -> dict[str, Any] | None:
    """What should have been shown, if a row says that something else was."""
    named = value_names(settings)
    asked: Any = {
        name: row[f"{ASKED}.{name}"]
        for name in named
        if row.get(f"{ASKED}.{name}") not in (None, "")
    }
    if isinstance(row.get(ASKED), Mapping) and ASKED not in named:
        asked = row[ASKED]
    if not asked:
        return None
    asked = {k: read_value(named[k], v) if k in named else v for k, v in asked.items()}
    context, sides = split_values(settings, asked, ASKED)
    settings.encoder().encode(context, sides)
    return {"context": context, "sides": list(sides)}


def read_value(variable: Any, given: Any) -> Any:
    r"""The value that a text stands for.

    Args:
        variable: A parameter or a context.
        given: A text, or the value itself.

    Returns:
        The value; the text itself if it stands for none.
    """
    if not isinstance(given, str):
        return given
    if isinstance(variable, Categorical):
        named = {str(value): value for value in variable.values}
        return named.get(given.strip(), given)
    try:
        return float(given)
    except ValueError:
        return given


def _read_flag(given: Any) -> bool:
    text = str(given).strip().lower()
    if text not in (*_TRUE, *_FALSE):
        raise InputDataError(
            f"Expected ``use`` to be true or false, but got {given!r}."
        )
    return text in _TRUE


def _read_moment(name: str, given: Any) -> str:
    """A time stamp in UTC; one without a time zone counts as local."""
    try:
        moment = datetime.fromisoformat(str(given))
    except ValueError:
        raise InputDataError(
            f"Expected ``{name}`` to be a time as in 2026-01-31T12:30:00+00:00, but "
            f"got {given!r}."
        ) from None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")
