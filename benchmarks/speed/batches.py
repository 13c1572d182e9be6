r"""
Many experiments at once, single precision, and how often a suggestion waits.

On a GPU every read of a number by the host waits until the device is done. The number
of such reads in one suggestion is counted here on the CPU, where they cost nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.speed.suggestions import binary_model, preference_model, space
from benchmarks.tables import format_table
from botorch_binary_context import suggest
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.optim import CHECK_EVERY

SIZES = (1, 8, 40, 256, 1024)
NUM_TRIALS = 40
RULE = "ucb-ald"
WAITING_RULES = ("ucb-ald", "ucb99-ald", "bald", "mkg")
WAITING_DUEL_RULES = ("muc-ald", "eubo-ald")


@dataclass(frozen=True)
class BatchCost:
    r"""The cost of one of many experiments.

    Attributes:
        size: The number of experiments at once.
        seconds: The processor time per experiment, conditioning and one suggestion.
        single: The same in single precision.
        difference: The largest difference of latent means in single precision, in
            posterior standard deviations.
    """

    size: int
    seconds: float
    single: float
    difference: float


class CountWaits(TorchDispatchMode):
    r"""Counts how often the host reads a number of a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = func.overloadpacket.__name__
        self.count += name in ("_local_scalar_dense", "nonzero", "is_nonzero", "equal")
        return func(*args, **(kwargs or {}))


def measure_batches(sizes: Iterable[int] = SIZES) -> list[BatchCost]:
    r"""The cost of an experiment in batches of several sizes.

    Args:
        sizes: The numbers of experiments at once.
    """
    return [_measure_batch(size) for size in sizes]


def _measure_batch(size: int) -> BatchCost:
    double = binary_model(size, NUM_TRIALS).eval()
    single = binary_model(size, NUM_TRIALS).eval()
    single.set_train_data(double.train_inputs, double.train_targets, strict=False)
    single = single.float()
    repeats = 5 if size <= 40 else 1
    X = torch.rand(16, size, 1, 4, dtype=torch.double)
    with torch.no_grad():
        known = double.posterior(X)
        found = single.posterior(X.float())
    difference = (found.mean - known.mean).abs() / known.variance.sqrt()
    return BatchCost(
        size,
        median(_cost(double) for _ in range(repeats)) / size,
        median(_cost(single) for _ in range(repeats)) / size,
        difference.max().item(),
    )


def _cost(model: LatentGP) -> float:
    model.train()  # drops what was computed
    box = space().to(model.train_targets)
    start = time.process_time()
    suggest(model.eval(), box, RULE)
    return time.process_time() - start


def format_batches(costs: Iterable[BatchCost]) -> str:
    r"""Costs as a Markdown table.

    Args:
        costs: The costs.
    """
    header = ["experiments at once", "each", "each, float32", "float32 is off by"]
    rows = [
        [
            f"{cost.size}",
            f"{cost.seconds * 1e3:.2f} ms",
            f"{cost.single * 1e3:.2f} ms",
            f"{cost.difference:.1e} sd",
        ]
        for cost in costs
    ]
    return format_table(header, rows)


def count_waits(n: int = 60) -> dict[str, int]:
    r"""How often one suggestion reads a number of a tensor, by rule.

    Args:
        n: The number of trials so far.
    """
    counts = {}
    box = space()
    for rules, model in (
        (WAITING_RULES, binary_model(n)),
        (WAITING_DUEL_RULES, preference_model(n)),
    ):
        model.eval().approximation  # noqa: B018
        for rule in rules:
            suggest(model, box, rule, seed=0)
            # As on a GPU, where searches check less often whether they are done.
            with mock.patch.dict(CHECK_EVERY, cpu=4), CountWaits() as waits:
                suggest(model, box, rule, seed=1)
            counts[rule] = waits.count
    return counts
