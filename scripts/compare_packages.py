r"""
The same small jobs in this package and in others, with errors and times side by side.

    .venv/bin/python -m scripts.compare_packages

A threshold is found in a number of trials by PsychoPy's QUEST, by questplus and by this
package, each through the same loop; and the better of two settings is preferred, to
find the best one, by BoTorch's ``PairwiseGP`` with EUBO and by this package. The other
packages are looked for in ``.venv/peers``, where ``make test`` puts them. Times are of
the processor, for each trial.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from statistics import NormalDist, fmean
from typing import Any

import torch
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from botorch.fit import fit_gpytorch_mll
from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
from botorch.optim import optimize_acqf

from botorch_binary_context.experiment import (
    Duels,
    Experiment,
    NamedSpace,
    Real,
    Settings,
)
from botorch_binary_context.integrations.psychopy import quest_handler
from botorch_binary_context.integrations.questplus import QuestPlusExperiment

LOW, HIGH, SPREAD = -40.0, 0.0, 3.0
GUESS, LAPSE = 0.5, 0.02
SENSITIVITY = 4.0
#: A job: the number of trials and a seed to an error.
Job = Callable[[int, int], float]


def passes(intensity: float, threshold: float, generator: random.Random) -> int:
    """The answer of a simulated person."""
    chance = NormalDist(threshold, SPREAD).cdf(intensity)
    return int(generator.random() < GUESS + (1.0 - GUESS - LAPSE) * chance)


def person(seed: int) -> tuple[float, random.Random]:
    generator = random.Random(seed)
    return generator.uniform(-32.0, -8.0), generator


def run_quest(loop: Any, seed: int) -> float:
    """The error of a handler of PsychoPy, or of ours."""
    threshold, generator = person(seed)
    for intensity in loop:
        loop.addResponse(passes(intensity, threshold, generator))
    return abs(loop.mean() - threshold)


def psychopy_quest(trials: int, seed: int) -> float:
    data = import_module("psychopy.data")
    # Its steepest slope, beta ln(10) / e, is that of the person, 1 / (sqrt(2 pi) sd).
    loop = data.QuestHandler(
        -20.0,
        12.0,
        pThreshold=GUESS + 0.5 * (1.0 - GUESS - LAPSE),
        nTrials=trials,
        beta=0.471 / SPREAD,
        gamma=GUESS,
        delta=LAPSE / (1.0 - GUESS),
        grain=0.1,
        range=HIGH - LOW,
        minVal=LOW,
        maxVal=HIGH,
    )
    return run_quest(loop, seed)


def our_quest(trials: int, seed: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        loop = quest_handler(
            Path(folder) / "journal",
            -20.0,
            12.0,
            pThreshold=GUESS + 0.5 * (1.0 - GUESS - LAPSE),
            nTrials=trials,
            gamma=GUESS,
            delta=LAPSE / (1.0 - GUESS),
            minVal=LOW,
            maxVal=HIGH,
            seed=seed,
        )
        error = run_quest(loop, seed)
        loop.experiment.close()
        return error


def domains() -> dict[str, Any]:
    values = [LOW + i for i in range(int(HIGH - LOW) + 1)]
    rates = {"lower_asymptote": [GUESS], "lapse_rate": [LAPSE]}
    spreads = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0]
    return {
        "stim_domain": {"intensity": values},
        "param_domain": {"mean": values, "sd": spreads, **rates},
        "outcome_domain": {"response": ["Yes", "No"]},
    }


def run_questplus(qp: Any, trials: int, seed: int) -> float:
    """The error of questplus, or of our adapter."""
    threshold, generator = person(seed)
    for _ in range(trials):
        stim = qp.next_stim
        passed = passes(stim["intensity"], threshold, generator)
        qp.update(stim=stim, outcome={"response": "Yes" if passed else "No"})
    return abs(qp.param_estimate["mean"] - threshold)


def questplus(trials: int, seed: int) -> float:
    QuestPlus = import_module("questplus").QuestPlus
    qp = QuestPlus(**domains(), func="norm_cdf", stim_scale="linear")
    return run_questplus(qp, trials, seed)


def our_questplus(trials: int, seed: int) -> float:
    qp = QuestPlusExperiment.from_domains(**domains(), seed=seed)
    return run_questplus(qp, trials, seed)


def taste(x: Sequence[float], seed: int) -> float:
    """How good a setting of two numbers in [0, 1] is; the best is 0."""
    generator = random.Random(seed)
    best = [generator.uniform(0.2, 0.8) for _ in range(2)]
    return -SENSITIVITY * sum((a - b) ** 2 for a, b in zip(x, best, strict=True))


def prefers(first: Sequence[float], second: Sequence[float], seed: int) -> bool:
    """Whether the first is preferred, with a little noise of its own."""
    generator = random.Random(repr((tuple(first), tuple(second), seed)))
    noise = generator.gauss(0.0, 0.1)
    return taste(first, seed) + noise > taste(second, seed)


def pairwise_eubo(trials: int, seed: int) -> float:
    """BoTorch's own loop; the first five duels are random, as ours are."""
    torch.manual_seed(seed)
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
    points = torch.empty(0, 2, dtype=torch.double)
    comparisons: list[list[int]] = []
    model = None
    for trial in range(trials):
        if model is None or trial < 5:
            pair = torch.rand(2, 2, dtype=torch.double)
        else:
            acqf = AnalyticExpectedUtilityOfBestOption(pref_model=model)
            pair, _ = optimize_acqf(acqf, bounds, q=2, num_restarts=4, raw_samples=64)
        first = prefers(pair[0].tolist(), pair[1].tolist(), seed)
        points = torch.cat([points, pair])
        winner, loser = (2 * trial, 2 * trial + 1)[:: 1 if first else -1]
        comparisons.append([winner, loser])
        model = PairwiseGP(points, torch.tensor(comparisons))
        if trial >= 4:
            fit_gpytorch_mll(
                PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model)
            )
    assert model is not None
    grid = torch.rand(2000, 2, dtype=torch.double)
    posterior: Any = model.posterior(grid)
    best = grid[posterior.mean.argmax()]
    return -taste(best.tolist(), seed)


def our_eubo(trials: int, seed: int) -> float:
    space = NamedSpace([Real("a", 0.0, 1.0), Real("b", 0.0, 1.0)])
    settings = Settings(space, Duels(), rule="eubo-ald", seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        with Experiment.create(Path(folder) / "journal", settings) as experiment:
            for _ in range(trials):
                trial = experiment.ask()
                sides = [[float(side["a"]), float(side["b"])] for side in trial.sides]
                experiment.tell(trial.id, prefers(sides[0], sides[1], seed))
            best = experiment.recommend().parameters
        return -taste([float(best["a"]), float(best["b"])], seed)


#: The jobs: what is measured, and who does it.
JOBS: dict[str, dict[str, Job]] = {
    "threshold, error in dB (spread 3 dB)": {
        "PsychoPy QuestHandler": psychopy_quest,
        "ours, quest_handler": our_quest,
        "questplus": questplus,
        "ours, QuestPlusExperiment": our_questplus,
    },
    "best of two numbers by duels, loss": {
        "BoTorch PairwiseGP, EUBO": pairwise_eubo,
        "ours, eubo-ald": our_eubo,
    },
}


def measure(job: Job, trials: int, people: int) -> tuple[float, float]:
    """The mean error, and milliseconds for each trial."""
    job(2, 0)  # loads what is loaded once
    start = time.process_time()
    errors = [job(trials, 1000 + number) for number in range(people)]
    seconds = time.process_time() - start
    return fmean(errors), 1000.0 * seconds / (trials * people)


def row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def compare(trials: int, people: int) -> Iterator[str]:
    """The rows of a table; a package that is not installed has none."""
    names = ("job", "package", "trials", "mean error", "ms a trial")
    yield row(names)
    yield row(["---"] * len(names))
    for title, jobs in JOBS.items():
        for name, job in jobs.items():
            try:
                error, milliseconds = measure(job, trials, people)
            except ImportError as problem:
                print(f"{name} is left out: {problem}", file=sys.stderr)
                continue
            cells = (title, name, str(trials), f"{error:.3g}", f"{milliseconds:.0f}")
            yield row(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--people", type=int, default=20)
    arguments = parser.parse_args()
    sys.path.append(str(Path(sys.prefix) / "peers"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for line in compare(arguments.trials, arguments.people):
            print(line, flush=True)


if __name__ == "__main__":
    main()
