r"""Timing two ways to do a thing in the same run, and the table of ratios."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Comparison:
    r"""One row of the table: our time and a peer's for the same job.

    Attributes:
        job: What is done.
        peer: What it is compared with.
        ours: Our time in seconds.
        theirs: The peer's time in seconds.
        aim: What the ratio should be, in words.
    """

    job: str
    peer: str
    ours: float
    theirs: float
    aim: str = ""

    @property
    def ratio(self) -> float:
        """The peer's time divided by ours."""
        return self.theirs / self.ours


def measure(job: Callable[[], object], budget: float = 1.0) -> float:
    r"""The median time of a job, after one call to warm up.

    A job that takes longer than the budget is called once, warm or not.

    Args:
        job: The job.
        budget: About how long to measure, in seconds.

    Returns:
        The median time in seconds.
    """
    times = [_time(job)]
    if times[0] < budget:
        times = [_time(job) for _ in range(max(3, min(200, int(budget / times[0]))))]
    return median(times)


def measure_processor(job: Callable[[], object], repeats: int = 9) -> float:
    r"""The median processor time of a job, after one call to warm up.

    Args:
        job: The job.
        repeats: The number of times it is done.

    Returns:
        The time in seconds.
    """
    job()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        job()
        times.append(time.process_time() - start)
    return median(times)


def _time(job: Callable[[], object]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def format_table(rows: Iterable[Comparison]) -> str:
    r"""The rows as a Markdown table.

    Args:
        rows: The comparisons.
    """
    lines = ["| job | ours | peer | peer's time | peer / ours | aim |"]
    lines += ["|---|---:|---|---:|---:|---|"]
    lines += [_format_row(row) for row in rows]
    return "\n".join(lines)


def _format_row(row: Comparison) -> str:
    ours, theirs = f"{row.ours * 1e3:.2f} ms", f"{row.theirs * 1e3:.2f} ms"
    return (
        f"| {row.job} | {ours} | {row.peer} | {theirs} | {row.ratio:.2f} | {row.aim} |"
    )
