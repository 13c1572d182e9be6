r"""Broken settings: each is refused in one line, or good for an experiment."""

from __future__ import annotations

import copy
import json
import random
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botorch.exceptions.errors import BotorchError, InputDataError, UnsupportedError

from botorch_binary_context.experiment import Experiment, Settings
from botorch_binary_context.experiment.cli import main
from botorch_binary_context.experiment.surrogate import Surrogate
from tests.experiment.test_settings import TOML

LENS = """
combinations = [[1.0, 0.5], [0.0, 0.5]]
initial_trials = 2

[[parameters]]
name = "sphere"
low = -4
high = 4

[[parameters]]
name = "cylinder"
low = -3
high = 0

[[contexts]]
name = "size"
low = -0.3
high = 1.2
reference = 0.0
harder = "down"

[hyperparameters]
slope = 5.0
"""
DUELS = """
rule = "muc-ald"
kernel = "product"
inference = "laplace"
initial_trials = 2

[feedback]
kind = "duels"

[[parameters]]
name = "gain"
low = 0.1
high = 10
scale = "log"

[[parameters]]
name = "taps"
type = "integer"
low = 1
high = 5

[[contexts]]
name = "noise"
levels = [0.0, 1.0, 2.0]
reference = 1.0

[hyperparameters]
outputscale = 4.0
lengthscale = 0.3
context_lengthscale = 1.0
"""
DOCUMENTS = (TOML, LENS, DUELS)
NAN = float("nan")
INF = float("inf")
NUMBERS: list[Any] = [0, -1, 1, 1.5, 10**18, 2**64, 10**400, 10**5000, -0.0]
NUMBERS += [1e308, -1e308, 5e-324, 1e100, 1e-100, 1e16, 1e-16, NAN, INF, -INF]
TEXTS = ["", "x", "1/26", "a=b", "\x00", "two\nlines", "é" * 500, "log", "integer"]
TEXTS += ["categorical", "up", "duels", "product", "multiplicative", "laplace", "cbkg"]
LISTS: list[Any] = [[], [1], [1, 1], [1, 1.0], ["a", 1], [True, False], [NAN, 1.0]]
LISTS += [[INF, 1.0], [1e308, -1e308], [[1, 2], [3, 4]], [[1e300, 0], [0, 1e300]]]
LISTS += [[[[1]]], [{}], [{"name": "x"}], list(range(30000))]
OTHERS = [None, True, False, {}, {"a": 1}, {"name": "x"}]
VALUES = [*NUMBERS, *TEXTS, *LISTS, *OTHERS]
KEYS = ["rule", "space", "levels", "values", "type", "scale", "constant", "nonsense"]
NUM_DICTIONARIES, NUM_TEXTS = 600, 300
MAX_MESSAGE = 1000


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to everything in a document."""
    items = enumerate(node) if isinstance(node, list) else dict.items(node)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, list | dict):
            yield from places(value, (*path, key))


def mutate(content: dict[str, Any], generator: random.Random) -> dict[str, Any]:
    """A copy with one to three values replaced, taken away, added or doubled."""
    content = copy.deepcopy(content)
    for _ in range(generator.choice([1, 1, 2, 3])):
        *path, key = generator.choice(list(places(content)))
        parent: Any = content
        for step in path:
            parent = parent[step]
        action = generator.random()
        if action < 0.7:
            parent[key] = generator.choice(VALUES)
        elif action < 0.8 and len(content) > 1:
            del parent[key]
        elif isinstance(parent, dict):
            parent[generator.choice(KEYS)] = generator.choice(VALUES)
        else:
            parent.append(parent[key])
        content = copy.deepcopy(content)  # no value twice in one document
    return content


def test_mutated_dictionaries_are_refused_or_sound() -> None:
    messages: list[str] = []
    for seed in range(NUM_DICTIONARIES):
        generator = random.Random(seed)
        content = mutate(tomllib.loads(generator.choice(DOCUMENTS)), generator)
        try:
            settings = Settings.from_dict(content)
            Surrogate(settings)
        except BotorchError as error:
            messages.append(str(error))
        else:
            saved = json.loads(json.dumps(settings.to_dict(), allow_nan=False))
            assert Settings.from_dict(saved) == settings
    assert NUM_DICTIONARIES / 2 < len(messages) < NUM_DICTIONARIES
    assert all(message.startswith("Expected ") for message in messages)
    assert max(map(len, messages)) < MAX_MESSAGE


def test_mutated_texts_are_refused_or_sound(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    refused = 0
    for seed in range(NUM_TEXTS):
        generator = random.Random(seed)
        text = generator.choice(DOCUMENTS).encode()
        start = generator.randrange(len(text))
        stop = start + generator.choice([0, 1, 1, 5, 50])
        noise = generator.choice([b"", b"9", b"[", b'"', b"\xff", b"=", b"\n", b"e9"])
        path.write_bytes(text[:start] + noise + text[stop:])
        try:
            Surrogate(Settings.from_toml(path))
        except BotorchError:
            refused += 1
    assert NUM_TEXTS / 4 < refused < NUM_TEXTS


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0.04", '"1/0"', "``guess_rate`` to be in [0, 1), a number or a text"),
        ("0.04", "true", "``guess_rate`` to be in [0, 1)"),
        ("0.04", "0.04\nalternatives = 26", "one of the two, but got 0.04 and 26"),
        ("0.04", "0\nalternatives = 26", "one of the two, but got 0 and 26"),
        ("0.02", '"lerned"', "such as '1/26', or 'learned', but got 'lerned'"),
        ("9", "9" * 4301, "``path`` to be a TOML file"),
        ("9", "9" * 400, "``high`` of 'taps' to be a finite number"),
        ("high = 9", "high = 1e17", "a whole number of at most 9007199254740992"),
        ("high = 10", "high = 1e308", "the largest is 1e+100"),
        ("low = 0.1", "low = 1e-200", "positive on a log scale, at least 1e-100"),
        ("high = 10", "high = 0.1000000000001", "further apart than rounding errors"),
        ('"hann"', "nan", "different texts or finite numbers"),
        ('"hann"', '["hann"]', "different texts or finite numbers"),
        ("[0.0, 1.0,", "[[0.0], 1.0,", "``levels`` of 'noise' to be a finite number"),
        ("levels = [", "levels = " + "[" * 5000, "``path`` to be a TOML file"),
        ("[hyperparameters]", "[[hyperparameters]]", "to be a Mapping"),
        ("outputscale = 4.0", 'outputscale = "4"', "above 1e-06 and below 1e+06"),
        ("outputscale = 4.0", "outputscale = {a = 1}", "1 positive numbers"),
        ("lengthscale = [0.3,", "lengthscale = [0.01,", "above 0.025 and below"),
        ("harder", "hardr", "unknown hardr (did you mean harder?)"),
        ("seed", "space", "unknown space"),
        ("seed", "sed", "unknown sed (did you mean seed?)"),
        ("rule =", "rule = ['x']\n#", "a rule for pass/fail"),
        ("type = ", "type = 'intger' #", "'intger' (did you mean integer?)"),
        ("gain", "ga\\nin", "a text of one line"),
        ('"flat"', ",".join(f'"{i}"' for i in range(30000)), "at most 500 columns"),
    ],
)
def test_broken_settings_are_refused_in_one_short_line(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    old: str,
    new: str,
    message: str,
) -> None:
    path = tmp_path / "settings.toml"
    assert old in TOML
    path.write_text(TOML.replace(old, new, 1))
    assert main(["new", str(path), str(tmp_path / "journal")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert len(error) < MAX_MESSAGE
    assert not (tmp_path / "journal").exists()


def test_rates_may_be_fractions_in_a_text(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(TOML.replace("0.04", '"1/26"').replace("0.02", '"0.02"'))
    settings = Settings.from_toml(path)
    assert settings.to_dict()["feedback"]["guess_rate"] == 1 / 26
    assert settings.feedback.likelihood().guess_rate == 1 / 26


def test_alternatives_are_kept_as_the_guess_rate(tmp_path: Path) -> None:
    """They are kept as the guess rate, as in journals of old."""
    path = tmp_path / "settings.toml"
    path.write_text(TOML.replace("guess_rate = 0.04", "alternatives = 26"))
    settings = Settings.from_toml(path)
    old = Settings.from_dict(tomllib.loads(TOML.replace("0.04", '"1/26"')))
    assert settings == old
    assert settings.to_dict() == old.to_dict()
    kept = {"kind": "pass/fail", "guess_rate": 1 / 26, "lapse_rate": 0.02}
    assert settings.to_dict()["feedback"] == kept


def test_learned_lapse_rate() -> None:
    settings = Settings.from_dict(tomllib.loads(TOML.replace("0.02", '"learned"')))
    assert settings.to_dict()["feedback"]["lapse_rate"] == "learned"
    assert Settings.from_dict(settings.to_dict()) == settings


def test_refuses_combinations_that_cannot_be_inverted() -> None:
    content = tomllib.loads(LENS)
    for rows in ([[1e300, 0], [0, 1e300]], [[1e-9, 0], [0, 1]], [[1, 2], [2, 4]]):
        content["combinations"] = rows
        with pytest.raises(InputDataError, match="``combinations`` to be an invert"):
            Settings.from_dict(content)


def test_refuses_arguments_of_a_wrong_type() -> None:
    wrong: Any = 5
    settings = Settings.from_dict(tomllib.loads(DUELS))
    with pytest.raises(InputDataError, match="``content`` to be a dictionary"):
        Settings.from_dict(wrong)
    with pytest.raises(InputDataError, match="``space`` to be a NamedSpace"):
        Settings(wrong)
    with pytest.raises(InputDataError, match="``feedback`` to be a Feedback"):
        Settings(settings.space, wrong)
    with pytest.raises(UnsupportedError, match="a rule for duels"):
        Settings(settings.space, settings.feedback, rule=wrong)


def test_context_named_like_a_side() -> None:
    content = tomllib.loads(DUELS)
    content["contexts"][0]["name"] = "second.taps"
    with pytest.raises(InputDataError, match="begin with first and second, but got"):
        Settings.from_dict(content)


@pytest.mark.parametrize(
    ("document", "old", "new"),
    [
        (TOML, "low = 0.1\nhigh = 10", "low = 1e-100\nhigh = 1e100"),
        (TOML, "low = 1\nhigh = 9", "low = -9007199254740992\nhigh = 9007199254740992"),
        (LENS, "low = -4\nhigh = 4", "low = -1e5\nhigh = 1e-5"),
        (LENS, "low = -0.3\nhigh = 1.2", "low = -1e100\nhigh = 1e100"),
        (DUELS, "[0.0, 1.0, 2.0]", "[-1e100, 1e-100, 1.0]"),
        (DUELS, "lengthscale = 0.3", "lengthscale = 9e5"),
        (DUELS, "lengthscale = 0.3", "lengthscale = 0.026"),
        (DUELS, "outputscale = 4.0", "outputscale = 1.1e-6"),
    ],
)
def test_extremes_that_are_accepted_work(
    tmp_path: Path, document: str, old: str, new: str
) -> None:
    assert old in document
    content = tomllib.loads(document.replace(old, new, 1)) | {"initial_trials": 2}
    settings = Settings.from_dict(content)
    with Experiment.create(tmp_path / "journal", settings) as experiment:
        for number in range(3):
            trial = experiment.ask()
            json.dumps(trial.to_dict(), allow_nan=False)
            experiment.tell(trial.id, number % 2)
