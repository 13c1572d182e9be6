r"""
Mean and variance of the benchmark functions over their boxes, from a large sample.

``python -m scripts.compute_moments`` makes the data file that
:func:`~botorch_binary_context.problems.make_objective` reads.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine
from tqdm import tqdm

from botorch_binary_context.problems.registry import (
    BENCHMARKS,
    MOMENTS_PATH,
    Benchmark,
)

NUM_POINTS = 2**20
CHUNK = 2**16


def sample_values(benchmark: Benchmark, num_points: int, seed: int = 0) -> Tensor:
    r"""The function at points that fill its box evenly, a scrambled Sobol sequence.

    Args:
        benchmark: The row of the table.
        num_points: The number of points.
        seed: The seed of the scrambling.

    Returns:
        ``num_points`` values, in double precision.
    """
    function = benchmark.make_function()
    low, high = function.get_buffer("bounds")
    engine = SobolEngine(benchmark.dim, scramble=True, seed=seed)
    values = []
    for start in range(0, num_points, CHUNK):
        unit = engine.draw(min(CHUNK, num_points - start), dtype=low.dtype)
        values.append(function(torch.lerp(low, high, unit.to(low.device))))
    return torch.cat(values)


def compute_moments(
    benchmark: Benchmark, num_points: int, seed: int = 0
) -> dict[str, dict[str, float]]:
    r"""Mean and variance of the function to be maximized, before it is scaled.

    Args:
        benchmark: The row of the table.
        num_points: The number of points.
        seed: The seed of the sample.

    Returns:
        ``mean`` and ``variance`` of ``-f(x)``, as ``plain``, and, if the authors take
        the logarithm of the function, of ``-log(1 + f(x))``, as ``log1p``.
    """
    values = sample_values(benchmark, num_points, seed)
    objectives = {"plain": -values}
    if benchmark.log:
        objectives["log1p"] = -values.log1p()
    return {
        key: {"mean": y.mean().item(), "variance": y.var().item()}
        for key, y in objectives.items()
    }


def main(argv: Sequence[str] | None = None) -> None:
    r"""Write the moments of all benchmark functions.

    Args:
        argv: The arguments, by default those of the process.
    """
    parser = argparse.ArgumentParser(description="Moments of the benchmark functions.")
    parser.add_argument("--points", type=int, default=NUM_POINTS)
    parser.add_argument("--output", type=Path, default=MOMENTS_PATH)
    arguments = parser.parse_args(argv)
    moments = {
        name: compute_moments(benchmark, arguments.points)
        for name, benchmark in tqdm(BENCHMARKS.items(), unit="function")
    }
    text = json.dumps(moments, indent=2, ensure_ascii=False)
    arguments.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
