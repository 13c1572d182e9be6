r"""
The stratified ranking of selection rules by [Dewancker2016]_, as the paper uses it.

On every function, rules are compared in pairs by one-sided Mann-Whitney tests on the
last value of their curves, and ordered by the number of rules they beat. Rules that tie
are ordered among themselves in the same way by the mean of their curves, which is the
area under the curve. On each function a rule gets as many points as there are rules
below it, its Borda score; the scores of all functions are added.

.. [Dewancker2016]
    I. Dewancker, M. McCourt, S. Clark, P. Hayes, A. Johnson, and G. Ke. A stratified
    analysis of Bayesian optimization methods. 2016.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from botorch.exceptions import InputDataError
from numpy.typing import ArrayLike, NDArray
from scipy.stats import mannwhitneyu

SIGNIFICANCE = 5e-4


@dataclass(frozen=True)
class Ranking:
    r"""The ranking of rules, in the order in which they were given.

    Attributes:
        borda: The Borda score of every rule, summed over the functions.
        rank: The rank of every rule, 1 the best; equal scores share the better rank.
        last_wins: The fraction of functions on which rule ``i`` beats rule ``j`` by the
            last value, ``rules x rules``.
        mean_wins: The same by the mean of the curve.
    """

    borda: list[int]
    rank: list[int]
    last_wins: NDArray[Any]
    mean_wins: NDArray[Any]


def rank_rules(scores: ArrayLike) -> Ranking:
    r"""Rank rules by the curves of their scores.

    Args:
        scores: A ``rules x functions x repetitions x iterations`` array or tensor,
            higher is better.

    Example:
        >>> rank_rules(torch.rand(4, 34, 40, 60)).borda
    """
    curves = np.asarray(scores, dtype=float)
    if curves.ndim != 4 or 0 in curves.shape or not np.isfinite(curves).all():
        raise InputDataError(
            "Expected ``scores`` to be finite, rules x functions x repetitions x "
            f"iterations, none of them zero, but got shape {list(curves.shape)}."
        )
    by_last = pairwise_wins(curves[..., -1])
    by_mean = pairwise_wins(curves.mean(axis=-1))
    borda = np.sum(list(map(_borda, by_last, by_mean)), axis=0).tolist()
    rank = [1 + sum(other > own for other in borda) for own in borda]
    return Ranking(borda, rank, by_last.mean(axis=0), by_mean.mean(axis=0))


def pairwise_wins(values: NDArray[Any]) -> NDArray[Any]:
    r"""Which rules beat which by a one-sided Mann-Whitney test.

    The test uses the normal approximation with the correction for continuity, as the
    authors' programs do from 10 repetitions on.

    Args:
        values: A ``rules x functions x repetitions`` array.

    Returns:
        A boolean ``functions x rules x rules`` array: whether rule ``i`` beats ``j``.
    """
    num_rules, num_functions, _ = values.shape
    wins = np.zeros((num_functions, num_rules, num_rules), dtype=bool)
    for i in range(num_rules):
        for j in range(num_rules):
            if i != j:
                wins[:, i, j] = _beats(values[i], values[j])
    return wins


def _beats(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """Whether the first sample is greater, for every function."""
    test = mannwhitneyu(
        first, second, alternative="greater", method="asymptotic", axis=-1
    )
    return test.pvalue < SIGNIFICANCE


def _borda(by_last: NDArray[Any], by_mean: NDArray[Any]) -> NDArray[Any]:
    """The number of rules below each rule on one function."""
    wins = by_last.sum(axis=-1)
    tied = wins[:, None] == wins[None, :]
    mean_wins = (by_mean & tied).sum(axis=-1)  # only against rules that tie
    above = wins[:, None] > wins[None, :]
    return (above | tied & (mean_wins[:, None] > mean_wins[None, :])).sum(axis=-1)
