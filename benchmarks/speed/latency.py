r"""
How long an experimenter waits: a row and a table of ``python -m benchmarks speed``.
"""

from __future__ import annotations

import multiprocessing
import re
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import PairwiseGP
from botorch.models.pairwise_gp import PairwiseLaplaceMarginalLogLikelihood

from benchmarks.speed.data import DIM, duels, index_pairs, performance
from benchmarks.speed.suggestions import suggest_by_eubo
from benchmarks.speed.timing import Comparison, measure
from botorch_binary_context.experiment import (
    Context,
    Experiment,
    NamedSpace,
    PassFail,
    Real,
    Settings,
    Trial,
)
from botorch_binary_context.web.ahead import Ahead
from botorch_binary_context.web.desk import Desk
from botorch_binary_context.web.ending import Ending
from botorch_binary_context.web.reporter import Reporter

# The number of consecutive questions, over which hyperparameters are learned twice.
NUM_QUESTIONS = 11
# The numbers of answers at which the latency is measured, and the aims for ``ask``.
LATENCY_AIMS = {100: 0.05, 300: 0.08, 1000: 0.3}
HYPERPARAMETERS = {"outputscale": 4.0, "lengthscale": 0.4, "slope": 3.0}


@dataclass(frozen=True)
class Latency:
    r"""How long one trial takes after some answers.

    Attributes:
        num_answers: The number of answers.
        ask: The processor time of the next question, in seconds, without a fit.
        tell: The time to write an answer down, in seconds, until it is on disk.
        memory: The memory of the process, in MB.
    """

    num_answers: int
    ask: float
    tell: float
    memory: float


def measure_latencies(sizes: Iterable[int] = tuple(LATENCY_AIMS)) -> list[Latency]:
    r"""How long a trial takes as one experiment grows.

    Args:
        sizes: The numbers of answers to measure at, growing.

    Returns:
        The latencies, measured in a fresh process.
    """
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_measure_latencies, (list(sizes),))


def _measure_latencies(sizes: list[int]) -> list[Latency]:
    torch.set_num_threads(1)
    settings = _make_settings(initial_trials=0, hyperparameters=HYPERPARAMETERS)
    with (
        tempfile.TemporaryDirectory() as directory,
        Experiment.create(Path(directory) / "journal", settings) as experiment,
    ):
        return [_measure_latency(experiment, size) for size in sizes]


def _measure_latency(experiment: Experiment, size: int) -> Latency:
    """Fill an experiment up with random trials, and time the next ones."""
    luck = torch.Generator().manual_seed(size)
    missing = size - NUM_QUESTIONS // 2 - len(experiment.trials)
    rows = torch.rand(missing, DIM + 1, generator=luck, dtype=torch.double)
    names = [*(f"x{i}" for i in range(DIM)), "difficulty"]
    experiment.import_table(
        {**dict(zip(names, row, strict=True)), "outcome": sum(row) > 0.5 * len(row)}
        for row in rows.tolist()
    )
    asks, tells = [], []
    for i in range(NUM_QUESTIONS):
        begin = time.process_time()
        trial = experiment.ask()
        asks.append(time.process_time() - begin)
        begin = time.perf_counter()
        experiment.tell(trial.id, answer(trial, i))
        tells.append(time.perf_counter() - begin)
    return Latency(size, median(asks), median(tells), _memory())


def _memory() -> float:
    status = Path("/proc/self/status").read_text()
    (kilobytes,) = re.findall(r"VmRSS:\s*(\d+) kB", status)
    return int(kilobytes) / 1024


def format_latencies(rows: Iterable[Latency]) -> str:
    r"""Latencies as a Markdown table.

    Args:
        rows: The latencies.
    """
    lines = ["| answers | ask (processor) | aim | tell | memory |"]
    lines += ["|---:|---:|---:|---:|---:|"]
    lines += [
        f"| {row.num_answers} | {row.ask * 1e3:.0f} ms "
        f"| {LATENCY_AIMS.get(row.num_answers, 0.0) * 1e3:.0f} ms "
        f"| {row.tell * 1e3:.0f} ms | {row.memory:.0f} MB |"
        for row in rows
    ]
    return "\n".join(lines)


def compare_experiment(n: int) -> Comparison:
    r"""The next question of an experiment, against BoTorch's own loop of preferences.

    Args:
        n: The number of trials so far.

    Returns:
        The median times of both, in seconds.
    """
    X, _ = duels(n)
    points = X.flatten(0, 1)
    pairs = index_pairs(n)

    def theirs() -> None:
        model = PairwiseGP(points, pairs)
        fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
        suggest_by_eubo(model)

    with tempfile.TemporaryDirectory() as directory:
        ours = median(time_questions(Path(directory) / "journal", n))
    return Comparison(
        job=f"the next question of an experiment after {n} trials, fits included",
        peer="PairwiseGP fitted, then EUBO",
        ours=ours,
        theirs=measure(theirs, budget=3.0),
        aim="ours < 300 ms",
    )


class _NotAhead(Ahead):
    """Prepares nothing in advance."""

    def prepare(self, experiment: Experiment, trials: Iterable[Any]) -> None:
        pass


def compare_ahead(n: int) -> Comparison:
    r"""From an answer to the next question, computed while a person looked or not.

    Args:
        n: The number of trials so far.

    Returns:
        The median times, each until the question is on disk.
    """
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = (
            median(_time_waits(Path(folder) / type(ahead).__name__, n, ahead))
            for ahead in (Ahead(), _NotAhead())
        )
    return Comparison(
        job=f"from answer {n} to the next question on a page, computed ahead",
        peer="computed after the answer",
        ours=ours,
        theirs=theirs,
        aim="the time of writing",
    )


def _time_waits(path: Path, n: int, ahead: Ahead) -> list[float]:
    times = []
    settings = _make_settings(initial_trials=n, hyperparameters=HYPERPARAMETERS)
    with (
        Experiment.create(path, settings) as experiment,
        ThreadPoolExecutor(1) as thread,
    ):
        desk = Desk("speed", experiment, ahead, Ending(experiment, Reporter(), thread))
        for i in range(n + NUM_QUESTIONS):
            trial = experiment.trial(desk.ask("page")["trial"]["id"])
            ahead.wait(experiment)  # someone looks at the trial
            outcome = answer(trial, i)
            start = time.perf_counter()
            desk.tell("page", trial.id, outcome, {})
            desk.ask("page")
            times.append(time.perf_counter() - start)
    ahead.close()
    return times[n:]


def time_questions(path: Path, n: int) -> list[float]:
    r"""How long each of the questions after the first ``n`` takes.

    Args:
        path: Where to keep the journal.
        n: The number of quasi-random trials before.

    Returns:
        The times in seconds.
    """
    parameters = [Real(f"x{i}", 0.0, 1.0) for i in range(DIM)]
    difficulty = Context("difficulty", reference=0.5, low=0.0, high=1.0, harder="up")
    settings = Settings(
        NamedSpace(parameters, [difficulty]), PassFail(), seed=0, initial_trials=n
    )
    times = []
    with Experiment.create(path, settings) as experiment:
        for i in range(n + NUM_QUESTIONS):
            start = time.perf_counter()
            trial = experiment.ask()
            times.append(time.perf_counter() - start)
            experiment.tell(trial.id, answer(trial, i))
    return times[n:]


def _make_settings(**kwargs: Any) -> Settings:
    parameters = [Real(f"x{i}", 0.0, 1.0) for i in range(DIM)]
    difficulty = Context("difficulty", reference=0.5, low=0.0, high=1.0, harder="up")
    space = NamedSpace(parameters, [difficulty])
    return Settings(space, PassFail(), seed=0, **kwargs)


def answer(trial: Trial, seed: int) -> bool:
    r"""Whether a simulated system passes.

    Args:
        trial: The trial.
        seed: The seed of the outcome.
    """
    x = torch.tensor(list(trial.parameters.values()), dtype=torch.double)
    difficulty = float(trial.context["difficulty"])
    margin = 4 * (performance(x).item() / 2 + 0.5 - difficulty)
    luck = torch.randn(1, generator=torch.Generator().manual_seed(seed))
    return margin + luck.item() > 0
