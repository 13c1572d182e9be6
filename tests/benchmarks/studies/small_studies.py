r"""A tiny study for tests, and hyperparameters that need no data file."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import polars as pl

from benchmarks.studies import store
from benchmarks.studies.definitions import STUDIES
from benchmarks.studies.experiment import SCHEMA, Task, run_task
from benchmarks.studies.hyperparameters import Hyperparameters
from benchmarks.studies.runner import run_study
from botorch_binary_context.problems import BENCHMARKS

FUNCTIONS = ("Forrester et al (2008)", "Levy")
RULES = ("ucb-ald", "ts-random")
TINY = STUDIES["binary"].subset(FUNCTIONS, RULES, seeds=3, iterations=3)
ROOT = Path(__file__).parents[3]


def stub_hyperparameters(name: str) -> Hyperparameters:
    """A smooth kernel for any function."""
    lengthscales = (0.3,) * BENCHMARKS[name].dim
    return Hyperparameters("SE-ARD", lengthscales, 1.0, 0.0, {})


def make_task(
    study: str = "binary",
    function: str = "Levy",
    rule: str = "ucb-ald",
    seeds: int = 3,
    iterations: int = 3,
) -> Task:
    """A short task."""
    hyperparameters = stub_hyperparameters(function)
    return Task(study, function, rule, seeds, iterations, hyperparameters)


@contextmanager
def stubbed() -> Iterator[None]:
    """Tasks are made with the stub."""
    with mock.patch("benchmarks.studies.hyperparameters.load", stub_hyperparameters):
        yield


def command(arguments: Sequence[str]) -> list[str]:
    """The command line of the benchmarks in another process, with the stub."""
    program = (
        "from tests.benchmarks.studies.small_studies import stubbed\n"
        "from benchmarks.__main__ import main\n"
        f"with stubbed(): main({list(arguments)!r})"
    )
    return [sys.executable, "-c", program]


def tiny_arguments(output: Path, iterations: int = 3) -> list[str]:
    """The arguments that run the tiny study."""
    return [
        *("run", "binary", "--functions", *FUNCTIONS, "--rules", *RULES),
        *("--seeds", "3", "--iterations", str(iterations), "--output", str(output)),
    ]


def without_times(frame: pl.DataFrame) -> pl.DataFrame:
    """What must be the same in every run."""
    return frame.drop("seconds")


def fake_results(task: Task, score: float = 0.0) -> pl.DataFrame:
    """Results of a task that nobody computed, around a score."""
    steps = [(s, i) for s in range(task.seeds) for i in range(1, task.iterations + 1)]
    return pl.DataFrame(
        [
            (task.study, task.function, task.rule, s, i, score + 0.01 * s, 0.5, 0.1)
            for s, i in steps
        ],
        schema=SCHEMA,
        orient="row",
    )


def compute_here(tasks: Sequence[Task]) -> Generator[tuple[Task, Future]]:
    """Compute tasks in this process, the shortest first."""
    for task in reversed(tasks):
        future: Future = Future()
        future.set_result(run_task(task))
        yield task, future


def read_all(folder: Path) -> pl.DataFrame:
    """What is stored, without the times."""
    frame = without_times(store.load(folder))
    return frame.sort("function", "rule", "seed", "iteration")


@cache
def tiny_results() -> pl.DataFrame:
    """The results of the tiny study, computed in this process."""
    with TemporaryDirectory() as directory, stubbed():
        run_study(TINY, Path(directory), compute_here)
        return read_all(Path(directory))
