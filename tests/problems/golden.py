r"""The golden rows of the benchmark table, by the names of the registry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from botorch_binary_context.problems import BENCHMARKS, Benchmark
from tests.golden_numbers import load_golden

GOLDEN: dict[str, Any] = {
    row["name"].replace("$\\beta$", "β"): row
    for row in load_golden("test_functions")["functions"]
}


def rows() -> Iterator[tuple[Benchmark, Any]]:
    """Every benchmark with its golden row."""
    for name, benchmark in BENCHMARKS.items():
        yield benchmark, GOLDEN[name]


def authors_form(name: str, values: Tensor) -> Tensor:
    """Values to minimize as the authors have them, given the usual ones."""
    return (values - 2.58) / 1.94 if name == "Hartmann 6D" else values
