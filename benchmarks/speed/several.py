r"""
What several trials at once cost: a table of ``python -m benchmarks speed``.

Processor time, in one run, of one suggestion of four trials and of single suggestions
by the same rule for the same model.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from statistics import median

from benchmarks.speed.suggestions import binary_model, preference_model, space
from botorch_binary_context import BINARY_RULES, DUEL_RULES, suggest
from botorch_binary_context.models.latent_gp import LatentGP

NUM_TRIALS = 60
SEVERAL = 4
REPEATS = 5
#: Several trials may cost at most this many single suggestions.
AIM = 4.0


@dataclass(frozen=True)
class Cost:
    r"""The cost of a rule.

    Attributes:
        kind: The kind of trials.
        rule: The name of the rule.
        single: Processor time of one trial, in seconds.
        several: Processor time of several trials at once.
    """

    kind: str
    rule: str
    single: float
    several: float

    @property
    def ratio(self) -> float:
        """How many single suggestions several trials cost."""
        return self.several / self.single


def measure_costs(repeats: int = REPEATS) -> list[Cost]:
    r"""Measure all rules.

    Args:
        repeats: The number of times each suggestion is made; the median counts.
    """
    kinds: list[tuple[str, LatentGP, list[str]]] = [
        ("pass/fail", binary_model(NUM_TRIALS), list(BINARY_RULES)),
        ("duels", preference_model(NUM_TRIALS), list(DUEL_RULES)),
    ]
    return [
        Cost(kind, rule, *_measure(model, rule, repeats))
        for kind, model, rules in kinds
        for rule in rules
    ]


def _measure(model: LatentGP, rule: str, repeats: int) -> tuple[float, float]:
    """Times of one and of several trials, taken in turn."""
    times: dict[int, list[float]] = {1: [], SEVERAL: []}
    choose = partial(suggest, model, space(), rule)
    for q in times:  # prepare what a process computes only once
        choose(seed=0, q=q)
    for seed in range(repeats):
        for q, measured in times.items():
            start = time.process_time()
            choose(seed=seed, q=q)
            measured.append(time.process_time() - start)
    return median(times[1]), median(times[SEVERAL])


def format_costs(costs: list[Cost]) -> str:
    r"""The costs as a Markdown table.

    Args:
        costs: The result of :func:`measure_costs`.
    """
    lines = [f"| trials | rule | one | {SEVERAL} at once | in single suggestions |"]
    lines += ["|---|---|---:|---:|---:|"]
    for cost in costs:
        times = f"{1000 * cost.single:.0f} ms | {1000 * cost.several:.0f} ms"
        lines.append(f"| {cost.kind} | `{cost.rule}` | {times} | {cost.ratio:.1f} |")
    return "\n".join(lines)
