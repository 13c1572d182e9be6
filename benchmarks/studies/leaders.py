r"""
How the leading rules of a study compare with one another.

A ranking puts rules in an order even if no data set could tell the first ones apart. So
each pair of them is compared on every function by itself, and over all functions.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import wilcoxon

from benchmarks.studies.analysis import Analysis
from benchmarks.studies.ranking import Ranking
from benchmarks.tables import format_table

LEADERS = 3
# Scores are stored in single precision, so smaller regrets are zero.
ROUNDING = 1e-6


def describe(analysis: Analysis, ranking: Ranking) -> str:
    r"""The pairs of leading rules.

    Args:
        analysis: The results.
        ranking: The ranking of all their rules.

    Returns:
        A section of the report; empty with one function, with fewer than three rules,
        or if a mean regret of a leading rule is negative.
    """
    rules = analysis.rules
    count = len(analysis.functions)
    if count < 2 or len(rules) < LEADERS:
        return ""
    best = sorted(range(len(rules)), key=lambda i: ranking.rank[i])[:LEADERS]
    regrets = analysis.last_regrets(rules)
    regrets = np.where(np.abs(regrets) < ROUNDING, 0.0, regrets)
    if (regrets[best] < 0).any():
        return ""
    rows = []
    for i, j in combinations(best, 2):
        wins = [round(count * ranking.last_wins[pair]) for pair in ((i, j), (j, i))]
        p = signed_rank(regrets[i], regrets[j])
        rows.append([f"`{rules[i]}` against `{rules[j]}`", *wins, f"{p:.2g}"])
    header = ["", "better at the end", "worse at the end", "p over the functions"]
    zeros = int((regrets[best] == 0).any(axis=0).sum())
    return _explain(count, zeros) + format_table(header, rows)


def _explain(count: int, zeros: int) -> str:
    text = (
        "## The leading rules\n\nThe best three rules by Borda score, in pairs: on how "
        f"many of the {count} functions the first is significantly better and worse at "
        "the end, by the tests of the ranking, and over all functions the p-value of "
        "Wilcoxon's signed-rank test of the logarithms of the ratios of their mean "
        "regrets at the end. Where it is large, the two cannot be told apart over all "
        "functions."
    )
    if zeros:
        text += (
            f" On {zeros} of the functions a mean regret is zero: the ratio to another "
            "one counts as the largest, and two that are zero count as equal."
        )
    return f"{text}\n\n"


def signed_rank(first: ArrayLike, second: ArrayLike) -> float:
    r"""The p-value of Wilcoxon's signed-rank test of the logarithms of ratios.

    Only the order of the logarithms matters, so one of them may be infinite.

    Args:
        first: The mean regrets of a rule on each function, not negative.
        second: Those of another rule.

    Returns:
        The p-value, two-sided; 1 if the rules are equal on every function.
    """
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    differ = a != b
    if not differ.any():
        return 1.0
    with np.errstate(divide="ignore"):
        logs = np.log(a[differ]) - np.log(b[differ])
    test: Any = wilcoxon(logs)
    return float(test.pvalue)
