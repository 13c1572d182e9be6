r"""
The JSON schema of settings, generated from their classes, for editors of TOML files.

The package contains it as ``settings.schema.json``. After a change of the classes,
``python -m scripts.write_settings_schema`` writes it again.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from botorch_binary_context.experiment.feedback import FEEDBACKS
from botorch_binary_context.experiment.goal import GOALS, NamedGoal
from botorch_binary_context.experiment.mean_function import MeanFunction
from botorch_binary_context.experiment.ranges import SCALES
from botorch_binary_context.experiment.settings import PARAMETER_TYPES, Settings
from botorch_binary_context.experiment.settings_checks import (
    INFERENCES,
    KERNELS,
    PRIORS,
    SETTING_TABLES,
)
from botorch_binary_context.experiment.stopping import Stop
from botorch_binary_context.experiment.variables import Context

PATH = Path(__file__).with_name("settings.schema.json")
DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]

_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string"}
# Keys whose values are among a few names.
_CHOICES = {
    "scale": list(SCALES),
    "harder": ["up", "down"],
    "kernel": list(KERNELS),
    "inference": list(INFERENCES),
    "priors": list(PRIORS),
}
_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def settings_schema() -> Schema:
    r"""The schema of a TOML file of settings."""
    rules = sorted({rule for kind in FEEDBACKS.values() for rule in kind().rules})
    schema = _table(Settings, leave_out=("space", "feedback", *SETTING_TABLES))
    schema["properties"] |= {
        "rule": {**schema["properties"]["rule"], "enum": rules},
        "feedback": {"oneOf": [_kind(k, "kind", n) for n, k in FEEDBACKS.items()]},
        "parameters": {
            "type": "array",
            "items": {
                "oneOf": [_kind(k, "type", n) for n, k in PARAMETER_TYPES.items()]
            },
        },
        "contexts": {"type": "array", "items": _table(Context)},
        "stop": _table(Stop),
        "goal": _goal(),
        "mean_function": _table(MeanFunction),
    }
    del schema["required"]
    schema["anyOf"] = [{"required": [key]} for key in ("parameters", "contexts")]
    return {"$schema": DIALECT, "title": "Settings of an experiment", **schema}


def _goal() -> Schema:
    """The table of a goal, whose kinds have names of their own."""
    schema = _table(NamedGoal)
    schema["properties"]["kind"]["enum"] = list(GOALS)
    return schema


def _kind(kind: type, key: str, name: str) -> Schema:
    """A table with a key that says of which kind it is; the first kind needs none."""
    schema = _table(kind)
    schema["properties"] = {key: {"const": name}, **schema["properties"]}
    first = next(iter(FEEDBACKS if key == "kind" else PARAMETER_TYPES))
    if name != first:
        schema["required"] = [key, *schema["required"]]
    return schema


def _table(kind: Any, leave_out: Sequence[str] = ()) -> Schema:
    """The table that a dataclass is made from."""
    hints = get_type_hints(kind)
    known = [field for field in fields(kind) if field.name not in leave_out]
    texts = describe_attributes(kind)
    return {
        "type": "object",
        "description": (kind.__doc__ or "").strip().partition("\n")[0],
        "properties": {
            field.name: {
                "description": texts.get(field.name, ""),
                **_value(hints[field.name]),
                **({"enum": _CHOICES[field.name]} if field.name in _CHOICES else {}),
            }
            for field in known
        },
        "required": [
            field.name
            for field in known
            if field.default is MISSING and field.default_factory is MISSING
        ],
        "additionalProperties": False,
    }


def describe_attributes(kind: type) -> dict[str, str]:
    r"""What the docstrings of a class and its bases say about its attributes.

    Args:
        kind: The class.

    Returns:
        A text for each attribute, by its name.
    """
    described: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        _, _, text = (base.__doc__ or "").partition("Attributes:\n")
        text = re.sub(r"^ {4}(?= )", "", text, flags=re.MULTILINE)
        for name, words in _ATTRIBUTE.findall(text):
            described[name] = " ".join(words.replace("``", "`").split())
    return described


def _value(hint: Any) -> Schema:
    """What a type is called in JSON; None is a key that is left out."""
    if hint in _NAMES:
        return {"type": _NAMES[hint]}
    arguments = [a for a in get_args(hint) if a is not types.NoneType]
    if get_origin(hint) in (types.UnionType, Union):
        choices = [_value(argument) for argument in arguments]
        return choices[0] if len(choices) == 1 else {"anyOf": choices}
    if get_origin(hint) is Sequence:
        return {"type": "array", "items": _value(arguments[0])}
    if get_origin(hint) is Mapping:
        return {"type": "object", "additionalProperties": _value(arguments[1])}
    raise TypeError(f"Expected a type that TOML knows, but got {hint}.")


def to_text(schema: Schema) -> str:
    r"""A schema as the text of its file.

    Args:
        schema: The schema.

    Returns:
        JSON with an indent of two spaces and a line break at the end.
    """
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
