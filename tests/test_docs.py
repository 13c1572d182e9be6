r"""The pages of the documentation against the package, the studies and the paper."""

from __future__ import annotations

import ast
import importlib
import io
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks.studies.definitions import STUDIES
from benchmarks.studies.own_studies import OWN_STUDIES
from botorch_binary_context import BINARY_RULES, DUEL_RULES
from botorch_binary_context.experiment import PassFail, Settings, Trial
from botorch_binary_context.experiment.csv_files import write_csv

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PACKAGE = "botorch_binary_context"
# What the build copies into the folder is not ours to check.
PAGES = [p for p in sorted(DOCS.rglob("*.md")) if not p.is_relative_to(DOCS / "_build")]
PAGES = [page for page in PAGES if not page.is_relative_to(DOCS / "studies")]
LINKED_PAGES = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
SOURCES = sorted((ROOT / PACKAGE).rglob("*.py"))

FENCE = re.compile(r"^(`{3,}|:{3,}).*?^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
AUTOMODULE = re.compile(r"^\.\. automodule:: (\S+)\n(   :no-members:)?", re.MULTILINE)
BY_NAME = re.compile(r"^\.\. auto(?:class|function):: (\S+)", re.MULTILINE)
INCLUDE = re.compile(r"^```\{include\} (\S+)", re.MULTILINE)
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.MULTILINE | re.DOTALL)
ROLE = re.compile(r"\{py:(?:obj|mod)\}`(?:[^`<]*<)?([^`<>]+)>?`")
STUDY = re.compile(r"benchmarks (?:run|report) ([a-z][a-z-]*)")

NUM_EQUATIONS, NUM_SUPPLEMENT_EQUATIONS = 15, 43
# The labels of the paper's source, and what they are printed as.
LABELS = {
    "cBBO_problem": "(1)",
    "eq:response_prob": "(2)",
    "condition": "(3)",
    "maximu": "(6)",
    "eq:binary_UCB": "(8)",
    "eq:f": "(14)",
    "pc": "(S1)",
    "predictive": "(S3)",
    "Approximation": "(S15)",
    "KG_binary_context": "(S31)",
    "eq:preference_features": "(S40)",
    "eq:sampling_w": "(S41)",
    "eq:Decoupled_bases": "(S43)",
    "tab:cBBO_benchmarks": "Table 1",
    "tab:cPBO_benchmarks": "Table 2",
    "tab:cBBO_exp": "Table 3",
    "tab:benchmarks": "Table S1",
    "fig:cBBO": "Figure 1",
    "fig:cPBO": "Figure 2",
    "fig:VA": "Figure 3",
    "fig:cBBO_matrices": "Figure S1",
    "fig:cPBO_matrices": "Figure S2",
    "fig:loss": "Figure S3",
}


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def defined_names(tree: ast.AST, prefix: str) -> set[str]:
    """The dotted names that a module or a class defines."""
    names = set()
    for node in getattr(tree, "body", []):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(f"{prefix}.{node.name}")
        if isinstance(node, ast.ClassDef):
            names |= defined_names(node, f"{prefix}.{node.name}")
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {f"{prefix}.{t.id}" for t in targets if isinstance(t, ast.Name)}
    return names


@cache
def package_names() -> set[str]:
    names = {module_name(path) for path in SOURCES}
    for path in SOURCES:
        names |= defined_names(ast.parse(read(path)), module_name(path))
    return names


def find_names(target: str) -> set[str]:
    """What a reference may mean: a leading dot stands for any beginning."""
    if not target.startswith("."):
        return package_names() & {target}
    return {name for name in package_names() if f".{name}".endswith(target)}


def documented_modules(with_members: bool) -> list[str]:
    found = [
        m for page in DOCS.glob("api/*.md") for m in AUTOMODULE.findall(read(page))
    ]
    return [name for name, bare in found if bool(bare) != with_members]


@cache
def documented_names() -> set[str]:
    modules = set(documented_modules(True))
    names = {n for n in package_names() if n.rpartition(".")[0] in modules}
    names |= {n for p in DOCS.glob("api/*.md") for n in BY_NAME.findall(read(p))}
    return names | modules | set(documented_modules(False))


def first_cells(text: str) -> list[str]:
    return [line.split("|")[1].strip() for line in text.splitlines() if line[:1] == "|"]


class TestReference:
    def test_no_module_is_documented_twice(self) -> None:
        documented = documented_modules(True) + documented_modules(False)
        assert len(documented) == len(set(documented))
        assert set(documented) <= {module_name(path) for path in SOURCES}

    @pytest.mark.parametrize(
        "package", [module_name(p) for p in SOURCES if p.stem == "__init__"]
    )
    def test_every_public_name_is_documented(self, package: str) -> None:
        documented = documented_names()
        for name in importlib.import_module(package).__all__:
            matches = {n for n in find_names(f".{name}") if n.startswith(package)}
            assert matches & documented, name

    def test_front_page_has_every_exported_name(self) -> None:
        text = read(DOCS / "api" / "index.md")
        targets = {t.rpartition(".")[2] for t in ROLE.findall(text)}
        assert targets == set(importlib.import_module(PACKAGE).__all__)


class TestLinks:
    @pytest.mark.parametrize("page", LINKED_PAGES, ids=lambda p: p.stem)
    def test_relative_links_lead_to_files(self, page: Path) -> None:
        for link in LINK.findall(FENCE.sub("", read(page))):
            path = link.partition("#")[0]
            if path and not re.match(r"[a-z]+:", path):
                assert (page.parent / path).exists(), link

    @pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
    def test_included_files_and_listed_pages_exist(self, page: Path) -> None:
        text = read(page)
        for path in INCLUDE.findall(text):
            assert (page.parent / path).is_file(), path
        for block in TOCTREE.findall(text):
            entries = [e for e in block.splitlines() if e and not e.startswith(":")]
            assert entries
            for entry in entries:
                assert (page.parent / f"{entry}.md").is_file(), entry

    def test_every_page_is_listed(self) -> None:
        listed = {DOCS / "index"}
        for page in PAGES:
            for block in TOCTREE.findall(read(page)):
                listed |= {page.parent / entry for entry in block.splitlines() if entry}
        assert {page.with_suffix("") for page in PAGES} <= listed

    @pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
    def test_references_to_code_mean_one_thing(self, page: Path) -> None:
        for target in ROLE.findall(read(page)):
            assert len(find_names(target)) == 1, (target, find_names(target))


def test_first_optimization_is_that_of_the_readme() -> None:
    """Which ``tests/test_readme.py`` runs."""
    (block,) = re.findall(
        r"```python\n(.*?)```", read(DOCS / "installation.md"), flags=re.DOTALL
    )
    assert (
        block
        == re.findall(
            r"```python\n(.*?)```", read(ROOT / "README.md"), flags=re.DOTALL
        )[0]
    )


def test_extras_are_those_of_the_project() -> None:
    """Every extra has a row, and the row of the benchmarks names what they install."""
    table = read(DOCS / "installation.md").split("## Optional parts")[1]
    project = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]
    extras = project["optional-dependencies"]
    assert {cell.strip("`") for cell in first_cells(table)[2:]} == set(extras)
    (row,) = (line for line in table.splitlines() if "| `benchmarks` |" in line)
    names = [re.split(r"[<>=]", name)[0] for name in extras["benchmarks"]]
    assert row.strip("| ").split(" | ")[-1].split(", ") == names


def test_code_for_those_who_come_from_elsewhere_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = read(DOCS / "coming_from.md")
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(block, "coming_from.md", "exec"), names)
    assert " dB (" in capsys.readouterr().out
    assert 10.0 < names["threshold"].median < 50.0  # it is 30
    assert names["duel"].shape == (1, 2, 2)
    assert abs(float(names["best"]) - 0.7) < 0.3


def test_transcripts_of_the_lab_are_those_of_the_program() -> None:
    """The prompt and the header are as today: scripts/run_lab.py writes them."""
    folder = DOCS / "_static" / "lab"
    assert "pass (p), fail (f), undo (u), quit (q): u" in read(folder / "run.txt")
    blank = Trial(0, {"letter size": ""}, ({"sphere": "", "cylinder": ""},), "", "")
    written = io.StringIO()
    write_csv(PassFail(), blank, [], written)
    assert read(folder / "export.txt").splitlines()[0] == written.getvalue().strip()


class TestPaper:
    def test_every_equation_has_a_row(self) -> None:
        cells = first_cells(read(DOCS / "paper.md"))
        numbers = [f"({i})" for i in range(1, NUM_EQUATIONS + 1)]
        numbers += [f"(S{i})" for i in range(1, NUM_SUPPLEMENT_EQUATIONS + 1)]
        assert [cell for cell in cells if cell in numbers] == numbers

    @pytest.mark.parametrize("label", LABELS)
    def test_every_label_has_one_row(self, label: str) -> None:
        assert first_cells(read(DOCS / "paper.md")).count(LABELS[label]) == 1

    def test_every_rule_has_a_row(self) -> None:
        text = read(DOCS / "paper.md")
        rows = text[text.index("## Rules") : text.index("## Differences")]
        named = set(re.findall(r"`([a-z\d]+(?:-[a-z]+)*)`", rows))
        assert named == {*BINARY_RULES, *DUEL_RULES}


class TestStudies:
    def test_every_study_has_a_row(self) -> None:
        table = read(DOCS / "studies.md").split("\n## ")[0]
        cells = first_cells(table)
        assert [cell.strip("`") for cell in cells[2:]] == list(STUDIES)

    @pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
    def test_commands_name_studies(self, page: Path) -> None:
        assert set(STUDY.findall(read(page))) <= {*STUDIES, *OWN_STUDIES}


def test_example_of_the_experiment_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(
        r"```python\n(.*?)```", read(DOCS / "api/experiment.md"), re.S
    )
    names: dict[str, Any] = {}
    exec(compile(block, "experiment.md", "exec"), names)
    assert "sphere" in capsys.readouterr().out
    assert names["trial"].id == 2


def test_settings_of_the_experiment_page(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", read(DOCS / "api/experiment.md"), re.S)
    path = tmp_path / "eye.toml"
    path.write_text(text, encoding="utf-8")
    settings = Settings.from_toml(path)
    names = [variable.name for variable in settings.space.parameters]
    assert names == ["sphere", "cylinder"]
    assert settings.rule == "ucb99-ald"
