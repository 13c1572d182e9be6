r"""Whatever the signature of an exported name mentions is exported, too."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import typing
from collections.abc import Iterator
from typing import Any

import pytest

import botorch_binary_context

PACKAGE = botorch_binary_context.__name__
#: What needs packages that are not always installed.
OPTIONAL = ("ax", "web", "integrations")


def list_packages() -> list[str]:
    found = pkgutil.walk_packages(botorch_binary_context.__path__, f"{PACKAGE}.")
    names = [info.name for info in found if info.ispkg]
    parts = {name: name.split(".")[1] for name in names}
    return [PACKAGE, *(name for name in names if parts[name] not in OPTIONAL)]


def exported(package: str) -> dict[str, Any]:
    module = importlib.import_module(package)
    names = getattr(module, "__all__", [])
    return {name: getattr(module, name) for name in names}


#: What modules of one part hand to each other: no one else makes or keeps any of it.
INTERIOR = {
    "Columns",  # from the encoder of an experiment to its kernel
    "FantasyPosteriors",  # in the shared method of knowledge gradients
    "Journal",  # ``Experiment.create`` and ``Experiment.open`` make it
    "LocalPosterior",  # from the search of sites to their approximation
    "Sites",
    "SmallMode",  # from inference to fits of small models, in NumPy
    "SmallPosterior",
    "SmallProblem",
    "SmallSites",
}
PACKAGES = [package for package in list_packages() if exported(package)]
EXPORTED = {id(value) for package in PACKAGES for value in exported(package).values()}


def is_ours(value: Any) -> bool:
    return getattr(value, "__module__", "").startswith(PACKAGE)


def functions_of(value: Any) -> Iterator[Any]:
    """A function itself; of a class the public methods that are written for it."""
    if inspect.isfunction(value):
        yield value
    elif inspect.isclass(value):
        for base in filter(is_ours, value.__mro__):
            for name, member in vars(base).items():
                if name == "__init__" or not name.startswith("_"):
                    member = getattr(member, "fget", member)
                    member = getattr(member, "func", member)  # a cached property
                    member = getattr(member, "__func__", member)  # a class method
                    if inspect.isfunction(member) and is_ours(member):
                        yield member


def classes_in(annotation: Any) -> Iterator[type]:
    """The classes of the package that an annotation mentions."""
    if inspect.isclass(annotation) and is_ours(annotation):
        yield annotation
    for part in typing.get_args(annotation):
        yield from classes_in(part)


def hints_of(function: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except NameError:  # imported for the type checker only
        module = inspect.getmodule(function)
        names = {} if module is None else imports_for_types(module)
        return typing.get_type_hints(function, {**function.__globals__, **names})


def imports_for_types(module: Any) -> dict[str, Any]:
    """What a module imports under ``if TYPE_CHECKING``."""
    names = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for part in node.body:
                if isinstance(part, ast.ImportFrom) and part.module:
                    source = importlib.import_module(part.module)
                    for alias in part.names:
                        name = alias.asname or alias.name
                        names[name] = getattr(source, alias.name)
    return names


@pytest.mark.parametrize("package", PACKAGES)
def test_signatures_mention_only_what_is_exported(package: str) -> None:
    missing = {
        f"{mentioned.__module__}.{mentioned.__qualname__} of {function.__qualname__}"
        for value in exported(package).values()
        for function in functions_of(value)
        for annotation in hints_of(function).values()
        for mentioned in classes_in(annotation)
        if id(mentioned) not in EXPORTED and mentioned.__name__ not in INTERIOR
    }
    assert not missing, "\n".join(sorted(missing))


def test_what_is_interior_is_not_exported() -> None:
    names = {name for package in PACKAGES for name in exported(package)}
    assert not names & INTERIOR
