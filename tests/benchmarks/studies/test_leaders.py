r"""Tests of the comparison of the leading rules of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest

from benchmarks.studies import store
from benchmarks.studies.analysis import analyze
from benchmarks.studies.definitions import STUDIES
from benchmarks.studies.leaders import describe, signed_rank
from tests.benchmarks.studies.small_studies import fake_results, make_task

STUDY = STUDIES["fresh-duels"]
FUNCTIONS = ("Ackley", "Levy", "Shekel", "Trid", "Rosenbrock")


def section(root: Path, regrets: Mapping[str, Sequence[float]]) -> str:
    """The section on rules with these regrets on each function, of every seed."""
    for rule, values in regrets.items():
        for function, regret in zip(FUNCTIONS, values, strict=False):
            task = make_task(STUDY.name, function, rule, seeds=20, iterations=2)
            score = STUDY.optimum(function) - regret
            score = pl.lit(score, pl.Float32)
            frame = fake_results(task).with_columns(score=score)
            store.save(frame, store.result_path(root / STUDY.name, function, rule))
    analysis = analyze(STUDY, root)
    ranking = analysis.rank(analysis.rules)
    assert ranking is not None
    return describe(analysis, ranking)


def rows_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| `")]


class TestSignedRank:
    def test_always_better(self) -> None:
        """Of the 32 ways to give five ranks a sign, two are as far from even."""
        first, second = [1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 5.0, 10.0, 30.0, 50.0]
        assert signed_rank(first, second) == pytest.approx(2 / 32)
        assert signed_rank(second, first) == pytest.approx(2 / 32)

    def test_ranks_follow_the_ratios(self) -> None:
        """Not the differences: of 16 ways, 7 have a sum of at most 4 at one side."""
        first, second = [1.0, 10.0, 100.0, 0.32], [2.0, 40.0, 800.0, 0.01]
        assert signed_rank(first, second) == pytest.approx(2 * 7 / 16)

    def test_a_zero_has_the_largest_ratio(self) -> None:
        """In place of 0.01, whose ratio is the largest anyway."""
        first, second = [1.0, 10.0, 100.0, 0.32], [2.0, 40.0, 800.0, 0.0]
        assert signed_rank(first, second) == pytest.approx(2 * 7 / 16)

    def test_equal_regrets_do_not_count(self) -> None:
        first = [1.0, 10.0, 100.0, 0.32]
        second = [2.0, 40.0, 800.0, 0.01]
        for same in (0.0, 3.0):
            p = signed_rank([*first, same], [*second, same])
            assert p == pytest.approx(2 * 7 / 16)

    def test_the_same_everywhere(self) -> None:
        assert signed_rank([0.0, 2.0], [0.0, 2.0]) == 1.0


class TestDescribe:
    def test_pairs_of_the_best_three(self, tmp_path: Path) -> None:
        text = section(
            tmp_path,
            {
                "random": [9.0, 9.0, 9.0, 9.0, 9.0],
                "muc-ald": [2.0, 2.0, 2.0, 2.0, 2.0],
                "eubo-ald": [1.0, 1.1, 1.2, 1.3, 1.4],
                "kss-ald": [4.0, 4.1, 4.2, 4.3, 0.5],
            },
        )
        assert text.startswith("## The leading rules\n\n")
        assert "of the 5 functions" in text
        assert "zero" not in text
        # 2, 4 and 20 of the 32 ways to give five ranks a sign are as far from even.
        assert rows_of(text) == [
            "| `eubo-ald` against `muc-ald` | 5 | 0 | 0.062 |",
            "| `eubo-ald` against `kss-ald` | 4 | 1 | 0.12 |",
            "| `muc-ald` against `kss-ald` | 4 | 1 | 0.62 |",
        ]

    def test_zero_regrets_are_said(self, tmp_path: Path) -> None:
        regrets = {"muc-ald": [0.0, 1.0], "eubo-ald": [2.0, 0.0], "random": [3.0, 3.0]}
        text = section(tmp_path, regrets)
        assert "On 2 of the functions a mean regret is zero" in text
        assert len(rows_of(text)) == 3

    @pytest.mark.parametrize(
        "regrets",
        [
            {"muc-ald": [1.0], "eubo-ald": [2.0], "random": [3.0]},
            {"muc-ald": [1.0, 1.0], "random": [3.0, 3.0]},
            {"muc-ald": [1.0, -1.0], "eubo-ald": [2.0, 2.0], "random": [3.0, 3.0]},
        ],
        ids=["one function", "two rules", "negative regret"],
    )
    def test_nothing_to_compare(
        self, regrets: Mapping[str, Sequence[float]], tmp_path: Path
    ) -> None:
        assert section(tmp_path, regrets) == ""
