r"""The API reference: how its pages begin, and which names they show.

The decisions of ``docs/conf.py`` are tested without building the documentation.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PACKAGE = "botorch_binary_context"
PAGES = [page for page in sorted(DOCS.glob("api/*.md")) if page.stem != "index"]
GUIDES = [*DOCS.glob("*.md"), *DOCS.glob("howto/*.md"), *ROOT.glob("tutorials/*.py")]

BEGINNING = re.compile(
    r"# [^\n]+\n\n(?P<sentence>[^\n]+)\n\n```python\n(?P<code>.*?)```\n", re.DOTALL
)
AUTOMODULE = re.compile(r"^\.\. automodule:: (\S+)\n((?: +:.+\n)*)", re.MULTILINE)
BY_NAME = re.compile(r"^\.\. auto(?:class|function):: (\S+)", re.MULTILINE)
MAX_LINES = 20
HELPERS = [
    "acquisition.entropy_search.KnownOptima",
    "ax.trials.check_contexts",
    "errors.quote",
    "experiment.events.now",
    "experiment.space.Snap",
    "goals.sampled.joint_root",
    "inference.gaussian.matvec",
    "inference.laplace.find_mode",
    "numerics.optim.maximize",
    "plotting.slices.finish",
    "web.guard.Guard",
]
SHOWN = [
    "acquisition.knowledge_gradient.KnowledgeGradientBase",  # a base class
    "experiment.examples.EXAMPLES",  # an exported constant
    "experiment.variables.Value",  # signatures mention it
    "goals.linear.LinearGoal",  # exported by a part of the package
    "models.conditioning.ConditionedModel",  # the base class of a base class
    "numerics.optim.SearchOptions",  # exported by the package itself
    "probability.probit_mean",  # of an exported module
]


@cache
def settings() -> Any:
    """The settings of Sphinx; they import every module of the package."""
    pytest.importorskip("ax")
    pytest.importorskip("starlette")
    path = DOCS / "conf.py"
    spec = importlib.util.spec_from_file_location("settings_of_sphinx", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def find(name: str) -> Any:
    module, _, member = name.rpartition(".")
    return getattr(importlib.import_module(module), member)


def listed_modules() -> list[str]:
    """The modules whose members the pages show."""
    found = [entry for page in PAGES for entry in AUTOMODULE.findall(read(page))]
    return [name for name, options in found if ":no-members:" not in options]


def listed_names() -> list[str]:
    """What the pages show by name."""
    return [name for page in PAGES for name in BY_NAME.findall(read(page))]


def shown_members(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The functions and classes of a module that the reference shows."""
    for name, value in vars(module).items():
        is_member = inspect.isfunction(value) or inspect.isclass(value)
        if is_member and value.__module__ == module.__name__:
            skipped = settings().skip_helpers(None, "module", name, value, False, None)
            if not skipped and not name.startswith("_"):
                yield name, value


class TestBeginnings:
    @pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
    def test_page_begins_with_a_sentence_and_a_short_example(self, page: Path) -> None:
        beginning = BEGINNING.match(read(page))
        assert beginning, "Expected a title, an introduction and a block of Python."
        assert re.match(r"[A-Z`{]", beginning["sentence"])
        assert beginning["code"].count("\n") <= MAX_LINES
        assert PACKAGE in beginning["code"]

    @pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
    def test_what_is_shown_is_decided_by_exports_alone(self, page: Path) -> None:
        for _, options in AUTOMODULE.findall(read(page)):
            assert options in ("", "   :no-members:\n")


class TestNames:
    @pytest.mark.parametrize("name", HELPERS)
    def test_helpers_are_left_out(self, name: str) -> None:
        value = find(f"{PACKAGE}.{name}")
        member = name.rpartition(".")[2]
        assert not settings().is_public(member, value)
        assert settings().skip_helpers(None, "module", member, value, False, None)

    @pytest.mark.parametrize("name", SHOWN)
    def test_what_users_meet_is_shown(self, name: str) -> None:
        value = find(f"{PACKAGE}.{name}")
        member = name.rpartition(".")[2]
        assert settings().is_public(member, value)
        assert not settings().skip_helpers(None, "module", member, value, False, None)

    def test_members_of_classes_are_not_decided_on(self) -> None:
        assert settings().skip_helpers(None, "class", "x", object(), True, None) is None

    def test_a_name_alone_does_not_make_a_helper_public(self) -> None:
        assert settings().is_public("recommend", find(f"{PACKAGE}.rules.recommend"))
        assert not settings().is_public("recommend", object())

    def test_every_function_that_is_shown_is_exported(self) -> None:
        exported = set()
        for module in settings().all_modules():
            for name in getattr(module, "__all__", ()):
                value = getattr(module, name)
                exported.add(id(value))
                if inspect.ismodule(value):
                    exported |= {id(member) for member in vars(value).values()}
        helpers = [
            f"{module}.{name}"
            for module in listed_modules()
            for name, value in shown_members(importlib.import_module(module))
            if inspect.isfunction(value) and id(value) not in exported
        ]
        assert not helpers

    def test_every_module_that_is_listed_shows_something(self) -> None:
        for name in listed_modules():
            assert list(shown_members(importlib.import_module(name))), name

    def test_base_classes_are_in_the_reference(self) -> None:
        modules = set(listed_modules())
        missing = {
            f"{base.__module__}.{base.__name__} of {name}"
            for name, value in settings().exported_names()
            if inspect.isclass(value)
            for base in value.__mro__
            if base.__module__.startswith(PACKAGE) and base.__name__[0] != "_"
            if base.__module__ not in modules
            if f"{base.__module__}.{base.__name__}" not in listed_names()
        }
        assert not missing

    @pytest.mark.parametrize("name", listed_names())
    def test_what_is_shown_by_name_is_exported_or_used_by_a_guide(
        self, name: str
    ) -> None:
        module, _, member = name.rpartition(".")
        line = re.compile(rf"from {re.escape(module)} import .*\b{member}\b")
        is_used = any(line.search(read(guide)) for guide in GUIDES)
        assert is_used or settings().is_public(member, find(name))
