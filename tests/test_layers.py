r"""A module imports only from modules of its own part and from the layers below."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "botorch_binary_context"
SOURCES = sorted((ROOT / PACKAGE).rglob("*.py"))
# From the bottom to the top. Parts of one layer do not know each other.
LAYERS = (
    ("errors", "lazy"),
    ("checks",),
    ("context", "numerics", "probability"),
    ("bivariate", "category_kernel", "functionals"),
    ("column_kernels", "kernels", "likelihoods", "means"),
    ("inference", "peaks", "posteriors"),
    ("models",),
    ("bands", "diagnostics", "pending", "sampling"),
    ("goals",),
    ("acquisition", "constraints", "psychometric_draws"),
    ("feasibility", "trials"),
    ("rules",),
    ("optima", "plotting", "problems"),
    ("experiment",),
    ("exports",),
    ("ax", "integrations", "web"),
    ("cli",),
)
HEIGHT = {part: height for height, layer in enumerate(LAYERS) for part in layer}
# Imports that lead upwards, within a function: BoTorch finds the paths of a model by a
# function that is registered with its class.
UPWARDS = {("models/matheron_paths.py", f"{PACKAGE}.sampling.paths")}
# Imports for annotations alone, from a module that would otherwise be below: settings
# and models leave some checks and some computations to functions that take them whole,
# and variables and recommendations leave them to functions that read a few attributes.
TYPES_FROM_ABOVE = {
    ("experiment/goal.py", "experiment.settings"),
    ("experiment/lens_blur.py", "experiment.settings"),
    ("experiment/ranges.py", "experiment.variables"),
    ("experiment/settings_checks.py", "experiment.settings"),
    ("experiment/stopping.py", "experiment.recommendation"),
    ("models/extension.py", "models.latent_gp"),
    ("models/functional_values.py", "models.latent_gp"),
}
# What may be used of a model: its class and its values, not how they are computed.
MODEL_SEAM = {
    "best_of_gp",
    "functional_values",
    "inference_mode",
    "latent_gp",
    "mixed_gp",
    "validation",
}
OUTSIDE = ("acquisition", "sampling", "plotting", "goals", "rules")
INTERIOR = {"covar_module", "mean_module", "sqrt_information", "train_inputs"}
# A path of the prior is drawn from the features of its kernel.
INSIDERS = {("sampling/paths.py", "covar_module")}


def part_of(names: Sequence[str]) -> str:
    """The part that a module belongs to, by its names below the package.

    A part is the module or subpackage right below the package. The command line lies in
    that of experiments, but is a part of its own, which serves pages, too.
    """
    starts = names[0] == "experiment" and names[1:2] in (["cli"], ["__main__"])
    return "cli" if starts else names[0]


def names_of(path: Path) -> list[str]:
    return list(path.relative_to(ROOT / PACKAGE).with_suffix("").parts)


def imported_modules(path: Path) -> list[str]:
    """What a file imports from the package, at its beginning or within a function."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            if node.module == PACKAGE:
                found += [f"{PACKAGE}.{alias.name}" for alias in node.names]
            elif node.module.startswith(f"{PACKAGE}."):
                found.append(node.module)
        elif isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.startswith(f"{PACKAGE}.")]
    return found


def module_of(path: Path) -> str:
    """The name of a module below the package; a subpackage is its ``__init__``."""
    names = names_of(path)
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


MODULES = {module_of(path): path for path in SOURCES}


def neighbors(path: Path) -> set[str]:
    """The modules of the same part that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            module = (node.module or "").removeprefix(PACKAGE).removeprefix(".")
            names = [f"{module}.{alias.name}".removeprefix(".") for alias in node.names]
            found |= {name if name in MODULES else module for name in names}
    part = part_of(names_of(path))
    return {name for name in found if name and part_of(name.split(".")) == part}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT / PACKAGE))


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_imports_lead_downwards(path: Path) -> None:
    part = part_of(names_of(path))
    if part == "__init__":
        return
    for module in imported_modules(path):
        if (name_of(path), module) in UPWARDS:
            continue
        target = part_of(module.split(".")[1:])
        assert target == part or HEIGHT[target] < HEIGHT[part], module


def test_modules_of_a_part_have_no_import_cycle() -> None:
    graph = {
        module: {
            name
            for name in neighbors(path)
            if (name_of(path), name) not in TYPES_FROM_ABOVE
        }
        for module, path in MODULES.items()
    }
    assert set().union(*graph.values()) <= set(graph)
    TopologicalSorter(graph).prepare()  # raises an error that names a cycle


def test_types_from_above_are_only_for_annotations() -> None:
    for name, module in TYPES_FROM_ABOVE:
        text = (ROOT / PACKAGE / name).read_text(encoding="utf-8")
        (line,) = [x for x in text.splitlines() if f"from {PACKAGE}.{module} " in x]
        assert line.startswith("    ")
        assert "if TYPE_CHECKING:" in text


def test_every_part_has_one_layer() -> None:
    parts = {part_of(names_of(path)) for path in SOURCES} - {"__init__"}
    assert sorted(part for layer in LAYERS for part in layer) == sorted(parts)


@pytest.mark.parametrize("part", OUTSIDE)
def test_models_are_used_through_their_seam(part: str) -> None:
    for path in sorted((ROOT / PACKAGE / part).rglob("*.py")):
        for module in imported_modules(path):
            if module.startswith(f"{PACKAGE}.models."):
                assert module.split(".")[2] in MODEL_SEAM, (path, module)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in INTERIOR:
                assert (name_of(path), node.attr) in INSIDERS, (path, node.lineno)


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_private_names_stay_in_their_module(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            assert not [a.name for a in node.names if a.name.startswith("_")]


@pytest.mark.parametrize("part", OUTSIDE)
def test_private_attributes_of_others_are_not_used(part: str) -> None:
    for path in sorted((ROOT / PACKAGE / part).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                owner = ast.unparse(node.value)
                is_own = owner in ("self", "cls", "super()") or node.attr[:2] == "__"
                assert is_own, (path, node.lineno)
