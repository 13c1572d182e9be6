r"""A module imports only from modules of its own part and from the layers below."""

from __future__ import annotations

import ast
from collections.abc import Sequence
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
    ("column_kernels", "kernels", "likelihoods", "means", "peaks"),
    ("inference", "posteriors"),
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
