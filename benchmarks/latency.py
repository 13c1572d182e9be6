r"""
How long an experimenter waits for the next trial: a row of ``python -m benchmarks
speed``.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median

import torch
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from botorch.fit import fit_gpytorch_mll
from botorch.models import PairwiseGP
from botorch.models.pairwise_gp import PairwiseLaplaceMarginalLogLikelihood
from botorch.optim import optimize_acqf

from benchmarks.data import DIM, duels, index_pairs, performance
from benchmarks.suggestions import RAW_SAMPLES, RESTARTS, unit_box
from benchmarks.timing import Comparison, measure
from botorch_binary_context.experiment import (
    Context,
    Experiment,
    NamedSpace,
    PassFail,
    Real,
    Settings,
    Trial,
)

# Consecutive questions, over which the schedule learns hyperparameters twice.
NUM_QUESTIONS = 11


def compare_experiment(n: int) -> Comparison:
    r"""The next question of an experiment, against BoTorch's own loop of preferences.

    Args:
        n: The number of trials so far.

    Returns:
        The median times.
    """
    X, _ = duels(n)
    points, pairs = X.flatten(0, 1), index_pairs(n)

    def theirs() -> None:
        model = PairwiseGP(points, pairs)
        fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
        optimize_acqf(
            AnalyticExpectedUtilityOfBestOption(model),
            unit_box(DIM),
            q=2,
            num_restarts=RESTARTS,
            raw_samples=RAW_SAMPLES,
        )

    with tempfile.TemporaryDirectory() as directory:
        ours = median(time_questions(Path(directory) / "journal", n))
    return Comparison(
        job=f"the next question of an experiment after {n} trials, fits included",
        peer="PairwiseGP fitted, then EUBO",
        ours=ours,
        theirs=measure(theirs, budget=3.0),
        aim="ours < 300 ms",
    )


def time_questions(path: Path, n: int) -> list[float]:
    r"""How long the questions after the first ``n`` take, each.

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


def answer(trial: Trial, seed: int) -> bool:
    r"""Whether a simulated system passes.

    Args:
        trial: The trial.
        seed: The seed of the luck.

    Returns:
        The outcome.
    """
    x = torch.tensor(list(trial.parameters.values()), dtype=torch.double)
    difficulty = float(trial.context["difficulty"])
    margin = 4 * (performance(x).item() / 2 + 0.5 - difficulty)
    luck = torch.randn(1, generator=torch.Generator().manual_seed(seed))
    return margin + luck.item() > 0
