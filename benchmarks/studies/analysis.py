r"""What the results of a study say, complete or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from botorch.exceptions import InputDataError
from numpy.typing import NDArray

from benchmarks.studies import store
from benchmarks.studies.definitions import STUDIES
from benchmarks.studies.ranking import Ranking, rank_rules
from benchmarks.studies.study import Study


@dataclass(frozen=True)
class Analysis:
    r"""The results of a study and what can be compared in them.

    Attributes:
        study: The study.
        frame: The results, on the seeds and iterations that all tasks have, with the
            column ``regret``: how far the score is below the maximum.
        rules: The rules that have results, in the order of the study.
        functions: The functions that have results of all these rules.
        missing: The functions that a rule lacks, by rule.
    """

    study: Study
    frame: pl.DataFrame
    rules: tuple[str, ...]
    functions: tuple[str, ...]
    missing: dict[str, list[str]]

    @property
    def seeds(self) -> int:
        """The number of seeds that all tasks have."""
        return self.frame["seed"].n_unique()

    @property
    def iterations(self) -> int:
        """The number of iterations that all tasks have."""
        return self.frame["iteration"].n_unique()

    def rank(self, rules: Sequence[str]) -> Ranking | None:
        r"""Rank rules on the functions that have results of all rules.

        Args:
            rules: Some of the rules.

        Returns:
            The ranking, or ``None`` if there is no such function or no rule.
        """
        if not self.functions or not rules:
            return None
        return rank_rules(self.scores(rules))

    def scores(self, rules: Sequence[str]) -> NDArray[Any]:
        r"""Scores on the functions that have results of all rules.

        Args:
            rules: Some of the rules.

        Returns:
            A ``rules x functions x seeds x iterations`` array.
        """
        order = {
            "rule": pl.Enum(list(rules)),
            "function": pl.Enum(list(self.functions)),
        }
        column = (
            self.frame.filter(
                pl.col("rule").is_in(list(rules)),
                pl.col("function").is_in(list(self.functions)),
            )
            .cast(order)  # pyright: ignore[reportArgumentType]
            .sort("rule", "function", "seed", "iteration")
            .get_column("score")
        )
        shape = (len(rules), len(self.functions), self.seeds, self.iterations)
        return column.to_numpy().reshape(shape)

    def last_regrets(self, rules: Sequence[str]) -> NDArray[Any]:
        r"""Mean regrets at the end, on the functions that have results of all rules.

        Args:
            rules: Some of the rules.

        Returns:
            A ``rules x functions`` array of means over the seeds.
        """
        last = self.frame.filter(pl.col("iteration") == self.iterations)
        means = last.group_by("rule", "function").agg(pl.col("regret").mean())
        known = {(rule, function): mean for rule, function, mean in means.iter_rows()}
        return np.array([[known[r, f] for f in self.functions] for r in rules])

    def by_rule(self) -> pl.DataFrame:
        r"""Means over functions and seeds, one row for every rule.

        Returns:
            The columns ``rule``, ``context`` and ``seconds``.
        """
        columns = pl.col("context", "seconds")
        return self.frame.group_by("rule").agg(columns.mean())

    def relative_regret(self, baseline: str = "random") -> dict[str, float]:
        r"""The regret at the end, as a fraction of the regret of a baseline.

        Functions differ by orders of magnitude in their regret, so a mean over them
        says something only relative to a baseline.

        Args:
            baseline: A rule.

        Returns:
            The mean of the fraction over the functions that have results of all
            rules, by rule; empty if the baseline has no results.
        """
        regret = (
            self.frame.filter(
                pl.col("iteration") == self.iterations,
                pl.col("function").is_in(list(self.functions)),
            )
            .group_by("function", "rule")
            .agg(pl.col("regret").mean())
        )
        of_baseline = regret.filter(rule=baseline).drop("rule")
        fraction = pl.col("regret") / pl.col("regret_baseline")
        return dict(
            regret.join(of_baseline, on="function", suffix="_baseline")
            .group_by("rule")
            .agg(fraction.mean())
            .iter_rows()
        )

    def curves(self) -> pl.DataFrame:
        r"""Regret curves at the iterations whose best parameters were inferred.

        Returns:
            For every ``function``, ``rule`` and ``iteration`` the ``mean`` of the
            regret over the seeds and its standard ``error``, zero for one seed.
        """
        regret = pl.col("regret")
        iteration = pl.col("iteration")
        measured = iteration % self.study.measure_every == 0
        return (
            self.frame.filter(measured | (iteration == self.iterations))
            .group_by("function", "rule", "iteration")
            .agg(
                mean=regret.mean(),
                error=(regret.std() / regret.len().sqrt()).fill_null(0.0),
            )
            .sort("function", "rule", "iteration")
        )


def analyze(study: Study, root: Path) -> Analysis:
    r"""Read the results of a study, and those of the study shown next to it.

    Args:
        study: The study.
        root: The folder of all results.
    """
    frame = store.load(root / study.name)
    known = study.rules
    if frame.is_empty():
        raise InputDataError(
            f"Expected ``output`` to hold results of the study {study.name!r}, but "
            f"{root / study.name} has none."
        )
    if study.beside is not None:
        frame = pl.concat([frame, store.load(root / study.beside)])
        known = STUDIES[study.beside].rules + known
    frame = _common_part(frame.filter(pl.col("function").is_in(list(study.functions))))
    have = set(frame.select("rule", "function").unique().rows())
    rules = tuple(x for x in known if x in frame["rule"])
    complete = [f for f in study.functions if all((r, f) in have for r in rules)]
    missing = {r: [f for f in study.functions if (r, f) not in have] for r in known}
    frame = _add_regret(frame, study)
    return Analysis(study, frame, rules, tuple(complete), missing)


def _common_part(frame: pl.DataFrame) -> pl.DataFrame:
    """The seeds and iterations that all tasks have."""
    last = frame.group_by("function", "rule").agg(
        pl.col("seed").max(), pl.col("iteration").max()
    )
    return frame.filter(
        pl.col("seed") <= last["seed"].min(),
        pl.col("iteration") <= last["iteration"].min(),
    )


def _add_regret(frame: pl.DataFrame, study: Study) -> pl.DataFrame:
    best = {name: study.optimum(name) for name in frame["function"].unique()}
    optimum = pl.col("function").replace_strict(best, return_dtype=pl.Float64)
    return frame.with_columns(regret=optimum - pl.col("score"))
