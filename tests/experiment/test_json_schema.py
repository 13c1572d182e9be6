r"""Tests of the JSON schema of settings, and of the examples."""

from __future__ import annotations

import copy
import json
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from botorch_binary_context.experiment import Experiment, Real, Settings
from botorch_binary_context.experiment.cli import main
from botorch_binary_context.experiment.examples import EXAMPLES, read_example
from botorch_binary_context.experiment.json_schema import (
    PATH,
    describe_attributes,
    settings_schema,
    to_text,
)
from botorch_binary_context.experiment.settings import KEYS
from tests.experiment.test_hostile_settings import DOCUMENTS

KINDS: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
}


def is_valid(value: Any, schema: dict[str, Any]) -> bool:
    """What the keywords mean that the schema uses."""
    if "oneOf" in schema:
        return sum(is_valid(value, choice) for choice in schema["oneOf"]) == 1
    choices = schema.get("anyOf", [])
    if choices and not any(is_valid(value, choice) for choice in choices):
        return False
    if "const" in schema:
        return value == schema["const"]
    if "type" not in schema:
        return "required" not in schema or set(schema["required"]) <= set(value)
    if not isinstance(value, KINDS[schema["type"]]):
        return False
    if isinstance(value, list):
        return all(is_valid(item, schema["items"]) for item in value)
    if isinstance(value, dict):
        rest = schema["additionalProperties"]
        tables = schema.get("properties", {})
        return set(schema.get("required", ())) <= set(value) and all(
            is_valid(v, tables.get(k, rest)) if rest or k in tables else False
            for k, v in value.items()
        )
    return value in schema.get("enum", [value])


def test_file_is_up_to_date() -> None:
    """If not: python -m scripts.write_settings_schema."""
    assert PATH.read_text(encoding="utf-8") == to_text(settings_schema())


def test_schema_has_the_keys_of_settings() -> None:
    schema = settings_schema()
    assert set(schema["properties"]) == set(KEYS)
    kinds = schema["properties"]["parameters"]["items"]["oneOf"]
    assert set(kinds[0]["properties"]) == {"type", *(f.name for f in fields(Real))}


def test_every_key_is_described() -> None:
    def check(schema: Any) -> None:
        if isinstance(schema, dict) and "properties" in schema:
            for name, value in schema["properties"].items():
                nested = {"const", "oneOf", "items"} & set(value)
                assert nested or value["description"], name
        for value in schema.values() if isinstance(schema, dict) else []:
            for item in value if isinstance(value, list) else [value]:
                check(item)

    check(settings_schema())
    assert describe_attributes(Real)["low"].startswith("The lower bound")


@pytest.mark.parametrize("text", [*DOCUMENTS, *map(read_example, EXAMPLES)])
def test_settings_are_valid(text: str) -> None:
    schema = json.loads(PATH.read_text(encoding="utf-8"))
    content = tomllib.loads(text)
    assert is_valid(content, schema)
    assert not is_valid({"rule": "bald"}, schema)  # nothing to vary
    for key, value in (
        ("nonsense", 1),
        ("rule", "best"),
        ("seed", "a"),
        ("parameters", [{"low": 0, "high": 1}]),
        ("parameters", [{"name": "x", "low": 0, "high": 1, "harder": "up"}]),
        ("feedback", {"kind": "duels", "guess_rate": 0.1}),
        ("feedback", {"kind": "duels", "alternatives": 2}),
        ("feedback", {"alternatives": "26"}),
    ):
        assert not is_valid({**copy.deepcopy(content), key: value}, schema), key


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_makes_an_experiment_but_replaces_no_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    config, journal = tmp_path / f"{name}.toml", tmp_path / "journal"
    assert main(["new", "--example", name, str(config)]) == 0
    assert capsys.readouterr().out == f"Made {config}.\n"
    assert main(["new", "--example", name, str(config)]) == 2  # never over a file
    assert "File exists" in capsys.readouterr().err
    settings = Settings.from_toml(config)
    with Experiment.create(journal, settings) as experiment:
        trial = experiment.ask()
        experiment.tell(trial.id, settings.feedback.outcomes[1])


def test_example_and_journal_at_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config, journal = tmp_path / "eye.toml", tmp_path / "journal"
    assert main(["new", "--example", "eye", str(config), str(journal)]) == 0
    assert config.is_file()
    assert journal.is_file()
    assert main(["new", str(config)]) == 2
    assert "Expected ``journal`` to be" in capsys.readouterr().err
