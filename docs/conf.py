"""Settings of the documentation: ``make docs`` builds it. No step needs the network."""

from __future__ import annotations

import ast
import base64
import builtins
import importlib
import inspect
import json
import pkgutil
import re
import shutil
import tomllib
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
NOTEBOOKS = sorted((ROOT / "tutorials").glob("*.ipynb"))

with (ROOT / "pyproject.toml").open("rb") as file:
    _project = tomllib.load(file)["project"]

project = _project["name"]
author = copyright = _project["authors"][0]["name"]
version = release = _project["version"]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
# A module may define a label that only its comments cite.
suppress_warnings = ["ref.citation"]

html_theme = "furo"
html_title = f"{project} {version}"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_js_files = ["figures.js"]
html_extra_path = ["llms.txt"]
html_copy_source = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"
nb_merge_streams = True

autoclass_content = "both"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
add_module_names = False

# Of a module the reference shows what a package exports in its ``__all__``, the base
# classes of this, and the types that its signatures mention. Everything else is a
# helper, even if its name has no underscore.

PACKAGE = "botorch_binary_context"
WORD = re.compile(r"[A-Za-z]\w*")


@cache
def all_modules() -> list[ModuleType]:
    """The package and all modules in it."""
    package = importlib.import_module(PACKAGE)
    found = pkgutil.walk_packages(package.__path__, f"{PACKAGE}.")
    return [package, *(importlib.import_module(info.name) for info in found)]


def exported_names() -> Iterator[tuple[str, Any]]:
    """What packages export, and what a module defines that is exported itself."""
    for package in all_modules():
        for name in getattr(package, "__all__", ()):
            value = getattr(package, name)
            yield name, value
            if inspect.ismodule(value) and not hasattr(value, "__all__"):
                for member, defined in vars(value).items():
                    is_own = getattr(defined, "__module__", None) == value.__name__
                    if is_own and not member.startswith("_"):
                        yield member, defined


def is_type(value: Any) -> bool:
    """Whether a value is a class of the package, or a name for a composed type."""
    if inspect.isclass(value):
        return value.__module__.partition(".")[0] == PACKAGE
    return typing.get_origin(value) is not None


@cache
def types_by_name() -> dict[str, list[Any]]:
    """The types that the modules of the package define."""
    types: dict[str, list[Any]] = {}
    for module in all_modules():
        for name, value in vars(module).items():
            if is_type(value):
                types.setdefault(name, []).append(value)
    return types


def annotations_of(value: Any) -> Iterator[Any]:
    """The annotations of a function, or of the public fields and methods of a class."""
    if not inspect.isclass(value):
        yield from getattr(value, "__annotations__", {}).values()
        return
    for name, annotation in vars(value).get("__annotations__", {}).items():
        if not name.startswith("_"):
            yield annotation
    for name, member in vars(value).items():
        if name == "__init__" or not name.startswith("_"):
            for wrapped in ("fget", "func", "__func__"):  # of properties, class methods
                member = getattr(member, wrapped, member)
            if inspect.isfunction(member):
                yield from annotations_of(member)


def mentioned_types(value: Any) -> Iterator[tuple[str, Any]]:
    """The base classes of a class, and the types that signatures mention."""
    for base in value.__bases__ if inspect.isclass(value) else ():
        if is_type(base):
            yield base.__name__, base
    if inspect.isclass(value) or inspect.isfunction(value):
        for annotation in annotations_of(value):
            for word in WORD.findall(str(annotation)):
                yield from ((word, found) for found in types_by_name().get(word, ()))


@cache
def public_names() -> dict[str, list[Any]]:
    """What the reference shows, by name: modules may use a name for several things."""
    names: dict[str, list[Any]] = {}
    new = list(exported_names())
    while new:
        name, value = new.pop()
        known = names.setdefault(name, [])
        if not any(value is other for other in known):
            known.append(value)
            new += mentioned_types(value)
    return names


def is_public(name: str, value: Any) -> bool:
    """Whether the reference shows what a module calls by a name."""
    return any(value is other for other in public_names().get(name, ()))


def skip_helpers(app: Any, what: str, name: str, obj: Any, *rest: Any) -> bool | None:
    """Leave helpers of a module out; what to show of a class is not decided here."""
    return True if what == "module" and not is_public(name, obj) else None


# Citations. A module's docstring defines the labels of the works that it is based on,
# and any docstring may cite them. On the site all definitions stand on one page.

REFERENCES = "references"
DEFINITION = re.compile(r"^\.\. \[(?P<label>\w+)\]\s*(?P<rest>.*)$")


def split_citations(lines: list[str]) -> tuple[list[str], dict[str, str]]:
    """The lines of a docstring without the definitions of labels, and these."""
    kept: list[str] = []
    works: dict[str, str] = {}
    label = None
    for line in lines:
        found = DEFINITION.match(line)
        if found:
            label = found["label"]
            works[label] = found["rest"]
        elif label is not None and line.startswith(" "):
            works[label] = f"{works[label]} {line.strip()}".strip()
        else:
            label = None
            kept.append(line)
    return kept, works


def collect_citations() -> dict[str, str]:
    """The works that the docstrings of the package's modules define labels for."""
    works: dict[str, str] = {}
    for path in sorted((ROOT / "botorch_binary_context").rglob("*.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        works |= split_citations((docstring or "").splitlines())[1]
    return works


def add_citations(app: Any, docname: str, source: list[str]) -> None:
    """Put the definitions of all labels on the page of references."""
    if docname == REFERENCES:
        # An initial at the beginning would be taken for the number of a list.
        works = {k: v.replace(".", r"\.", 1) for k, v in collect_citations().items()}
        lines = [f".. [{label}] {works[label]}" for label in sorted(works)]
        source[0] += "\n".join(["\n```{eval-rst}", *lines, "```\n"])


# The keys of settings, from the JSON schema that the package carries.

SETTINGS = "settings"
NESTED = ("feedback", "parameters", "contexts")
SCHEMA = ROOT / "botorch_binary_context" / "experiment" / "settings.schema.json"


def describe_type(schema: dict[str, Any]) -> str:
    """What a key may be, in a few words."""
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(describe_type(choice) for choice in schema["anyOf"])
    if schema["type"] == "array":
        return f"array of {describe_type(schema['items'])}"
    words = {"object": "table", "integer": "whole number", "string": "text"}
    return words.get(schema["type"], str(schema["type"]))


def key_table(title: str, table: dict[str, Any]) -> list[str]:
    """A section with the keys of a table of settings."""
    lines = ["", f"## {title}", "", table["description"], ""]
    lines += ["| key | value | meaning |", "|---|---|---|"]
    for key, schema in table["properties"].items():
        needed = " (needed)" if key in table.get("required", ()) else ""
        if "properties" not in schema and "oneOf" not in schema:
            meaning = schema.get("description", "which kind it is")
            lines.append(f"| `{key}`{needed} | {describe_type(schema)} | {meaning} |")
    return lines


def settings_tables() -> list[str]:
    """All tables of settings."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    nested = {key: schema["properties"].pop(key) for key in NESTED}
    lines = key_table("The settings themselves", schema)
    for kind in nested["feedback"]["oneOf"]:
        name = kind["properties"]["kind"]["const"]
        lines += key_table(f"`[feedback]`: {name}", kind)
    for kind in nested["parameters"]["items"]["oneOf"]:
        name = kind["properties"]["type"]["const"]
        lines += key_table(f"`[[parameters]]`: {name}", kind)
    lines += key_table("`[[contexts]]`", nested["contexts"]["items"])
    for name in ("stop", "goal"):
        lines += key_table(f"`[{name}]`", schema["properties"][name])
    return lines


def add_settings(app: Any, docname: str, source: list[str]) -> None:
    """Put the tables of settings on their page."""
    if docname == SETTINGS:
        source[0] += "\n".join([*settings_tables(), ""])


# Test functions write their formula as an indented block, which reStructuredText would
# take for prose with substitutions and footnotes.
FORMULA = re.compile(r"^ +f\(x\) = ")


def edit_docstring(app: Any, what: str, name: str, obj: Any, *rest: Any) -> None:
    """Take definitions of labels out of a docstring, and set formulas verbatim."""
    lines: list[str] = rest[-1]
    kept, _ = split_citations(lines)
    edited: list[str] = []
    for line in kept:
        if FORMULA.match(line):
            edited += ["::", ""]
        edited.append(line)
    lines[:] = edited


def protect_summary(app: Any, what: str, name: str, obj: Any, *rest: Any) -> None:
    """Keep Napoleon from taking a colon in the summary of a property for a type."""
    if what in ("attribute", "data", "property"):
        rest[-1][:0] = ["..", ""]


def find(doctree: Any, tag: str) -> list[Any]:
    """The nodes of a kind."""
    return list(doctree.findall(lambda node: node.tagname == tag))


def tidy_types(app: Any, doctree: Any) -> None:
    """Show types by their last name; those of Python lead nowhere in the package."""
    for node in find(doctree, "pending_xref"):
        target = node["reftarget"]
        if node.get("reftype") == "class" and hasattr(builtins, target):
            node.replace_self(node.children)
        elif "." in target and node.astext() == target:
            (text,) = find(node, "#text")
            text.parent.replace(text, type(text)(target.rpartition(".")[2]))


def tidy_data(app: Any, doctree: Any) -> None:
    """Leave out values that do not fit on a line, such as tables."""
    for node in find(doctree, "desc_annotation"):
        if node.astext().startswith(" = ") and len(node.astext()) > 80:
            node.parent.remove(node)
    for node in find(doctree, "field_name"):
        if node.astext() == "Variables":
            node[:] = [type(node[0])("Attributes")]


# Copies of what lies elsewhere in the project: executed notebooks and reports.


def stage(target: Path, source: Path) -> None:
    """Copy a file unless the copy is there, and as old as the original."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists() or target.stat().st_mtime != source.stat().st_mtime:
        shutil.copy2(source, target)


def stage_all(app: Any) -> None:
    """Copy the tutorials and the reports that exist, and drop copies of others."""
    reports = sorted((ROOT / "benchmarks" / "results").glob("*/report.md"))
    figures = [path for report in reports for path in report.parent.glob("*.png")]
    copies = {
        DOCS / "studies" / path.parent.name / path.name: path
        for path in (*reports, *figures)
    }
    for path in NOTEBOOKS:
        copies[DOCS / "tutorials" / path.name] = path
    for target, source in copies.items():
        stage(target, source)
    stale = {*DOCS.glob("studies/*/*"), *DOCS.glob("tutorials/*.ipynb")} - set(copies)
    for path in stale:
        path.unlink()


STUDIES = "studies"
TUTORIALS = "tutorials/index"


def toctree(pages: list[str], *options: str) -> list[str]:
    """A list of pages."""
    return ["```{toctree}", *options, "", *pages, "```"]


def add_studies(app: Any, docname: str, source: list[str]) -> None:
    """List the reports at the end of their page."""
    if docname == STUDIES:
        paths = sorted(DOCS.glob("studies/*/report.md"))
        pages = [f"/{path.relative_to(DOCS).with_suffix('')}" for path in paths]
        listed = toctree(pages, ":maxdepth: 1") if pages else ["(None yet.)"]
        source[0] += "\n".join(["", *listed, ""])


# The list of tutorials: title, first picture and first paragraph of each.


def first_picture(notebook: dict[str, Any]) -> bytes | None:
    """The first picture among the outputs."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                return base64.b64decode(output["data"]["image/png"])
    return None


def tutorial_entry(path: Path) -> list[str]:
    """What the list says about a notebook."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    first, *rest = "".join(notebook["cells"][0]["source"]).split("\n\n")
    title = first.removeprefix("# ")
    lines = ["", f"## [{title}]({path.name})", ""]
    picture = first_picture(notebook)
    if picture is not None:
        target = DOCS / "tutorials" / "pictures" / f"{path.stem}.png"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(picture)
        lines += [f"```{{image}} pictures/{path.stem}.png", ":alt:", "```", ""]
    return [*lines, rest[0], "", f"{{download}}`Download <{path.name}>`", ""]


def add_tutorials(app: Any, docname: str, source: list[str]) -> None:
    """List the tutorials on their page."""
    if docname == TUTORIALS:
        lines = [line for path in NOTEBOOKS for line in tutorial_entry(path)]
        lines += toctree([f"/tutorials/{path.stem}" for path in NOTEBOOKS], ":hidden:")
        source[0] += "\n".join([*lines, ""])


def always_read(app: Any, env: Any, *changes: Any) -> list[str]:
    """Pages with parts from elsewhere are read anew in every build."""
    return [STUDIES, TUTORIALS, REFERENCES, SETTINGS]


def setup(app: Any) -> None:
    """Have Sphinx take the steps above."""
    app.connect("builder-inited", stage_all)
    app.connect("env-get-outdated", always_read)
    app.connect("source-read", add_studies)
    app.connect("source-read", add_tutorials)
    app.connect("source-read", add_citations)
    app.connect("source-read", add_settings)
    app.connect("autodoc-skip-member", skip_helpers)
    # Napoleon's own step has the priority 500.
    app.connect("autodoc-process-docstring", protect_summary, priority=400)
    app.connect("autodoc-process-docstring", edit_docstring, priority=600)
    app.connect("doctree-read", tidy_types)
    app.connect("doctree-read", tidy_data)
