r"""A module imports only from modules of its own part and from the layers below."""

from __future__ import annotations

import ast
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
    ("inference", "posteriors"),
    ("models",),
    ("bands", "diagnostics", "pending", "sampling"),
    ("goals",),
    ("acquisition", "constraints", "psychometric_draws"),
    ("feasibility", "trials"),
    ("rules",),
    ("optima", "plotting", "problems"),
    ("demo", "experiment"),
    ("exports",),
    ("ax", "integrations", "web"),
)
LEVEL = {part: level for level, layer in enumerate(LAYERS) for part in layer}
# What may be used of a model: its class and its values, not how they are computed.
MODEL_SEAM = {
    "best_of_gp",
    "functional_values",
    "latent_gp",
    "mixed_gp",
    "validation",
}
OUTSIDE = ("acquisition", "sampling", "plotting", "goals", "rules")
INTERIOR = {"sqrt_information"}


def part_of(path: Path) -> str:
    """The module or subpackage right below the package that a file belongs to."""
    return path.relative_to(ROOT / PACKAGE).parts[0].removesuffix(".py")


def imported_modules(path: Path) -> list[str]:
    """What a file imports from the package when it is imported itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = []
    for node in tree.body:
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
    part = part_of(path)
    if part == "__init__":
        return
    for module in imported_modules(path):
        target = module.split(".")[1]
        assert target == part or LEVEL[target] < LEVEL[part], module


def test_every_part_has_one_layer() -> None:
    parts = {part_of(path) for path in SOURCES} - {"__init__"}
    assert sorted(part for layer in LAYERS for part in layer) == sorted(parts)


@pytest.mark.parametrize("part", OUTSIDE)
def test_models_are_used_through_their_seam(part: str) -> None:
    for path in sorted((ROOT / PACKAGE / part).rglob("*.py")):
        for module in imported_modules(path):
            if module.startswith(f"{PACKAGE}.models."):
                assert module.split(".")[2] in MODEL_SEAM, (path, module)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                assert node.attr not in INTERIOR, (path, node.lineno)
