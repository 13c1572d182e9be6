r"""Tests of the comparison of studies."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.studies import store
from benchmarks.studies.analysis import analyze
from benchmarks.studies.comparisons import describe, share
from benchmarks.studies.definitions import STUDIES
from tests.benchmarks.studies.small_studies import fake_results, make_task

FUNCTIONS = ("Ackley", "Levy", "Shekel")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


def add(
    root: Path,
    study: str,
    means: dict[str, float],
    functions: tuple[str, ...] = FUNCTIONS,
    seeds: int = 20,
) -> None:
    """Results of rules around a mean of the score each."""
    for rule, mean in means.items():
        for function in functions:
            task = make_task(study, function, rule, seeds=seeds, iterations=4)
            path = store.result_path(root / study, function, rule)
            store.save(fake_results(task, mean), path)


def test_only_what_both_have(root: Path) -> None:
    add(root, "fresh-binary", {"ucb-ald": 1.0, "mkg": 2.0, "random": 0.0}, seeds=30)
    add(root, "binary", {"ucb-ald": 1.0, "cjes": 1.0, "random": 0.0}, FUNCTIONS[:2])
    studies = [STUDIES[name] for name in ("fresh-binary", "binary")]
    first, second = (analyze(study, root) for study in studies)
    for part in share(first, second):
        assert part.rules == ("ucb-ald", "random")
        assert part.functions == FUNCTIONS[:2]
        assert part.seeds == 20
        assert part.frame["rule"].n_unique() == 2


def test_ranks_on_other_seeds(root: Path) -> None:
    add(root, "fresh-binary", {"ucb-ald": 1.0, "ts-ald": 2.0, "random": 0.0})
    add(root, "binary", {"ucb-ald": 3.0, "ts-ald": 2.0, "random": 0.0})
    (text,) = describe(analyze(STUDIES["fresh-binary"], root), root)
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert [row.split(" | ")[:3] for row in rows] == [
        ["| `ts-ald`", "1", "6"],
        ["| `ucb-ald`", "2", "3"],
        ["| `random`", "3", "0"],
    ]
    assert [row.split(" | ")[4:6] for row in rows] == [
        ["2", "3"],
        ["1", "6"],
        ["3", "0"],
    ]


def test_wins_over_another_inference(root: Path) -> None:
    add(root, "fresh-binary", {"ucb-ald": 1.0, "mkg": 1.0, "random": 0.0}, seeds=40)
    add(root, "fresh-binary-ep", {"ucb-ald": 2.0, "mkg": 0.0, "random": 0.0})
    (text,) = describe(analyze(STUDIES["fresh-binary-ep"], root), root)
    assert "same 20 seeds" in text
    assert "| `ucb-ald` | 3 | 3 | 0 | 3 | 0 |" in text
    assert "| `mkg` | 0 | 0 | 3 | 0 | 3 |" in text
    assert "| `random` | 0 | 0 | 0 | 0 | 0 |" in text


def test_nothing_to_compare_with(root: Path) -> None:
    add(root, "fresh-binary", {"ucb-ald": 1.0})
    analysis = analyze(STUDIES["fresh-binary"], root)
    assert describe(analysis, root) == []
    add(root, "binary", {"cbkg": 1.0})
    (text,) = describe(analysis, root)
    assert text.endswith("nothing in common yet.")
