r"""
Whether ``torch.compile`` pays for acquisition functions on the device at hand.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.speed.suggestions import binary_model
from benchmarks.speed.timing import measure
from benchmarks.tables import format_table
from botorch_binary_context import BernoulliMutualInformation
from botorch_binary_context.numerics.optim import (
    FEWEST_POINTS,
    POINTS_AT_ONCE,
    SearchOptions,
)

# The numbers of experiments at once, each with this many trials.
SIZES = (1, 40, 256)
NUM_TRIALS = 40


@dataclass(frozen=True)
class CompiledCost:
    r"""The cost of an evaluation, as it is and compiled.

    Attributes:
        size: The number of experiments at once.
        job: What is evaluated.
        plain: The time of an evaluation, in seconds.
        compiled: The time of a compiled evaluation.
        compilation: The time of the first compiled evaluation.
    """

    size: int
    job: str
    plain: float
    compiled: float
    compilation: float


def can_compile() -> bool:
    """Whether there is a C++ compiler, which PyTorch needs on a CPU."""
    return any(shutil.which(name) for name in ("c++", "g++", "clang++"))


def measure_compiled(
    sizes: Iterable[int] = SIZES, backend: str = "inductor"
) -> list[CompiledCost]:
    r"""The costs of values, and of values with gradients.

    Args:
        sizes: The numbers of experiments at once.
        backend: The compiler.
    """
    # Takes a second, and is imported by ``torch.compile`` anyway.
    from torch._inductor import config  # noqa: PLC0415

    jobs = (("values", _values), ("gradients", _gradients))
    # What was compiled before must not count as compiled in no time.
    with config.patch(force_disable_caches=True):
        return [
            _compare(size, job, evaluate, backend)
            for size in sizes
            for job, evaluate in jobs
        ]


def _compare(
    size: int, job: str, evaluate: Callable[..., object], backend: str
) -> CompiledCost:
    torch.compiler.reset()
    model = binary_model(size, NUM_TRIALS).eval()
    acqf = BernoulliMutualInformation(model)
    X = torch.rand(_count_candidates(size, job), size, 1, 4, dtype=torch.double)
    plain = measure(lambda: evaluate(acqf.evaluate, X))
    compiled = torch.compile(acqf.evaluate, backend=backend)
    start = time.perf_counter()
    evaluate(compiled, X)
    compilation = time.perf_counter() - start
    seconds = measure(lambda: evaluate(compiled, X))
    return CompiledCost(size, job, plain, seconds, compilation)


def _count_candidates(size: int, job: str) -> int:
    """The candidates of an experiment that a search evaluates in one call."""
    options = SearchOptions()
    if job == "gradients":
        return options.num_restarts
    return min(options.raw_samples, max(FEWEST_POINTS, POINTS_AT_ONCE // size))


def _values(function: Callable[[Tensor], Tensor], X: Tensor) -> Tensor:
    with torch.no_grad():
        return function(X)


def _gradients(function: Callable[[Tensor], Tensor], X: Tensor) -> tuple[Tensor, ...]:
    X = X.clone().requires_grad_()
    return torch.autograd.grad(function(X).sum(), X)


def format_compiled(costs: Iterable[CompiledCost]) -> str:
    r"""Costs as a Markdown table.

    Args:
        costs: The costs.
    """
    header = [
        "experiments at once",
        "evaluation",
        "plain",
        "compiled",
        "plain / compiled",
        "compilation",
    ]
    rows = [
        [
            f"{cost.size}",
            cost.job,
            f"{cost.plain * 1e3:.2f} ms",
            f"{cost.compiled * 1e3:.2f} ms",
            f"{cost.plain / cost.compiled:.2f}",
            f"{cost.compilation:.0f} s",
        ]
        for cost in costs
    ]
    return format_table(header, rows)
