r"""
How a study compares with another one of the same rules and functions.

The other study has other seeds, or the same seeds and another inference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.studies import store
from benchmarks.studies.analysis import Analysis, analyze
from benchmarks.studies.definitions import STUDIES
from benchmarks.studies.ranking import SIGNIFICANCE, pairwise_wins
from benchmarks.tables import format_table


def describe(analysis: Analysis, root: Path) -> list[str]:
    r"""Comparisons with the studies that a study names.

    Args:
        analysis: The results.
        root: The folder of all results.

    Returns:
        Sections of the report: one for each of the other studies that has results.
    """
    study = analysis.study
    sections = []
    if study.repeats is not None and _has_results(study.repeats, root):
        sections.append(_compare_seeds(analysis, study.repeats, root))
    if study.reinfers is not None and _has_results(study.reinfers, root):
        sections.append(_compare_inferences(analysis, study.reinfers, root))
    return sections


def _has_results(name: str, root: Path) -> bool:
    return not store.load(root / name).is_empty()


def share(first: Analysis, second: Analysis) -> tuple[Analysis, Analysis]:
    r"""The rules and functions that two studies have in common.

    Args:
        first: The results of a study.
        second: Those of another one.

    Returns:
        Both on the common rules and functions, with as many seeds and iterations as
        both have.
    """
    rules = tuple(rule for rule in first.rules if rule in second.rules)
    functions = tuple(name for name in first.functions if name in second.functions)
    seeds = min(first.seeds, second.seeds)
    iterations = min(first.iterations, second.iterations)

    def part(analysis: Analysis) -> Analysis:
        frame = analysis.frame.filter(
            pl.col("rule").is_in(list(rules)),
            pl.col("function").is_in(list(functions)),
            pl.col("seed") < seeds,
            pl.col("iteration") <= iterations,
        )
        return replace(analysis, frame=frame, rules=rules, functions=functions)

    return part(first), part(second)


def _compare_seeds(analysis: Analysis, name: str, root: Path) -> str:
    """The ranking of the common rules on both sets of seeds."""
    here, there = share(analysis, analyze(STUDIES[name], root))
    intro = (
        f"## On other seeds\n\n`{name}` has the same functions on the seeds that "
        f"defaults were tuned on. Both ranked among the {len(here.rules)} rules and on "
        f"the {len(here.functions)} functions that both have; there the best "
        "parameters are inferred after every trial, here after every "
        f"{analysis.study.measure_every}.\n\n"
    )
    places = [_places(part) for part in (here, there)]
    if not all(places):
        return f"{intro}They have nothing in common yet."
    rows = [
        [f"`{rule}`", *(entry for part in places for entry in part[rule])]
        for rule in sorted(here.rules, key=lambda rule: places[0][rule])
    ]
    header = ["rule"]
    for seeds in ("fresh seeds", "tuned on"):
        header += [f"{column}, {seeds}" for column in ("rank", "Borda", "regret")]
    return intro + format_table(header, rows)


def _places(analysis: Analysis) -> dict[str, tuple[int, int, str]]:
    """Rank, Borda score and relative regret of each rule."""
    ranking = analysis.rank(analysis.rules)
    if ranking is None:
        return {}
    regret = analysis.relative_regret()
    return {
        rule: (rank, borda, f"{regret[rule]:.2f}" if regret else "")
        for rule, rank, borda in zip(
            analysis.rules, ranking.rank, ranking.borda, strict=True
        )
    }


def _compare_inferences(analysis: Analysis, name: str, root: Path) -> str:
    """How each rule fares by another inference, on the same seeds."""
    here, there = share(analysis, analyze(STUDIES[name], root))
    count = len(here.functions)
    header = ["rule", "ahead", "better at the end", "worse at the end"]
    header += ["better on the mean", "worse on the mean", "regret here", "regret there"]
    intro = (
        f"## By another inference\n\nEach rule here and in `{name}`, which has the "
        f"same {here.seeds} seeds: on how many of {count} functions it ends ahead "
        "here, by the mean of the seeds, and on how many it is significantly better "
        f"or worse, by one-sided Mann-Whitney tests at {SIGNIFICANCE:g} on the last "
        "value and on the mean of the curve; and the mean regret at the end.\n\n"
    )
    if not count:
        return f"{intro}They have nothing in common yet."
    return intro + format_table(header, _count_wins(here, there))


def _count_wins(here: Analysis, there: Analysis) -> list[Sequence[object]]:
    """A row for each rule."""
    scores = [part.scores(part.rules) for part in (here, there)]
    ends = [values[..., -1] for values in scores]
    rows: list[Sequence[object]] = []
    for i, rule in enumerate(here.rules):
        counts: list[object] = []
        for summaries in (ends, [values.mean(axis=-1) for values in scores]):
            both = np.stack([values[i] for values in summaries])
            wins = pairwise_wins(both).sum(axis=0)
            counts += [int(wins[0, 1]), int(wins[1, 0])]
        ahead = int((ends[0][i].mean(-1) > ends[1][i].mean(-1)).sum())
        regret = [f"{_last_regret(part, rule):.3f}" for part in (here, there)]
        rows.append([f"`{rule}`", ahead, *counts, *regret])
    return rows


def _last_regret(analysis: Analysis, rule: str) -> float:
    """The mean regret of a rule at the end, over functions and seeds."""
    last = analysis.frame.filter(
        pl.col("rule") == rule, pl.col("iteration") == analysis.iterations
    )
    return float(last["regret"].to_numpy().mean())
