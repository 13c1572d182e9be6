r"""
The same small jobs in this package and in others, with errors and times side by side.

    .venv/bin/python -m scripts.compare_packages

A threshold is found by PsychoPy's QUEST, by questplus and by AEPsych, and by this
package through the same loops. The best of two numbers is found from duels by BoTorch's
``PairwiseGP`` with EUBO, by Ax, and by this package, alone and in Ax. PsychoPy and
questplus are looked for in ``.venv/peers``, where ``make test`` puts them; AEPsych
needs an environment of its own, whose interpreter ``--aepsych-python`` names. Times are
processor times per trial.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from botorch.exceptions.errors import ModelFittingError
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
from scripts.simulated_people import (
    AT_THRESHOLD,
    DEVIATION,
    GUESS,
    HIGH,
    LAPSE,
    LOW,
    passes,
    person,
    prefers,
    taste,
)

#: A job: the number of trials and a seed to an error.
Job = Callable[[int, int], float]


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
        pThreshold=AT_THRESHOLD,
        nTrials=trials,
        beta=0.471 / DEVIATION,
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
            pThreshold=AT_THRESHOLD,
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
    deviations = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0]
    return {
        "stim_domain": {"intensity": values},
        "param_domain": {"mean": values, "sd": deviations, **rates},
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
            mll = PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model)
            with suppress(ModelFittingError):  # it then keeps its hyperparameters
                fit_gpytorch_mll(mll)
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


def in_ax(strategy: Any, trials: int, seed: int) -> Any:
    """A client of Ax after some duels."""
    from ax.api.client import Client
    from ax.api.configs import RangeParameterConfig
    from ax.utils.common.logger import set_ax_logger_levels

    from botorch_binary_context.ax import complete_duel, get_next_duels

    set_ax_logger_levels(logging.ERROR)
    client = Client(random_seed=seed)
    numbers = [
        RangeParameterConfig(name=name, parameter_type="float", bounds=(0.0, 1.0))
        for name in "ab"
    ]
    client.configure_experiment(numbers, name=f"duels {seed}")
    client.configure_optimization("pairwise_pref_query")
    client.set_generation_strategy(strategy)
    for _ in range(trials):
        ((index, sides),) = get_next_duels(client).items()
        pair = [[side["a"], side["b"]] for side in sides]
        better = 0 if prefers(pair[0], pair[1], seed) else 1
        complete_duel(client, index, preferred=better)
    return client


def ax_default(trials: int, seed: int) -> float:
    """Ax with its own model and acquisition function for preferences."""
    from benchmarks.studies.ax_duels import default_strategy

    client = in_ax(default_strategy(seed), trials, seed)
    node = client._generation_strategy.nodes_by_name["MBM"]
    node._fit(experiment=client._experiment)
    model = node.generator_spec.fitted_adapter.generator.surrogate.model
    torch.manual_seed(seed)
    grid = torch.rand(2000, 2, dtype=torch.double)
    best = grid[model.posterior(grid).mean.argmax()]
    return -taste(best.tolist(), seed)


def our_ax(trials: int, seed: int) -> float:
    """Ax with this package's strategy."""
    from botorch_binary_context.ax import generation_strategy, recommend

    strategy = generation_strategy(
        "eubo-ald", model="preference", initial_trials=5, seed=seed
    )
    best, _ = recommend(in_ax(strategy, trials, seed))
    return -taste([float(best["a"]), float(best["b"])], seed)


#: The jobs: what is measured, and who does it.
JOBS: dict[str, dict[str, Job]] = {
    "threshold, error in dB": {
        "PsychoPy QuestHandler": psychopy_quest,
        "ours, quest_handler": our_quest,
        "questplus": questplus,
        "ours, QuestPlusExperiment": our_questplus,
    },
    "best of two numbers by duels, loss": {
        "BoTorch PairwiseGP, EUBO": pairwise_eubo,
        "ours, eubo-ald": our_eubo,
        "Ax, its default": ax_default,
        "ours in Ax, eubo-ald": our_ax,
    },
}


def seeds(people: int) -> list[int]:
    return [1000 + number for number in range(people)]


def measure(job: Job, trials: int, people: int) -> tuple[float, float]:
    """The mean error, and the seconds of all trials."""
    job(6, 0)  # warm-up: loads modules
    start = time.process_time()
    errors = [job(trials, seed) for seed in seeds(people)]
    return fmean(errors), time.process_time() - start


def measure_aepsych(python: Path, trials: int, people: int) -> tuple[float, float]:
    """The same for AEPsych, in its own environment."""
    script = Path(__file__).with_name("aepsych_threshold.py")
    arguments = [str(number) for number in (trials, *seeds(people))]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [str(python), str(script), *arguments],
        capture_output=True,
        text=True,
        env={**environment, "OMP_NUM_THREADS": "1"},
        cwd=tempfile.gettempdir(),  # where it writes logs
        check=False,
    )
    if done.returncode:
        raise ImportError(done.stderr.strip().splitlines()[-1])
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    return fmean(answer["errors"]), answer["seconds"]


def row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def compare(
    trials: int, people: int, aepsych_python: Path | None = None
) -> Iterator[str]:
    """The rows of a table; packages that are not installed are left out."""
    names = ("job", "package", "trials", "mean error", "ms per trial")
    yield row(names)
    yield row(["---"] * len(names))
    for title, jobs in JOBS.items():
        measurements = {name: partial(measure, job) for name, job in jobs.items()}
        if aepsych_python is not None and title.startswith("threshold"):
            measurements["AEPsych, EAVC"] = partial(measure_aepsych, aepsych_python)
        for name, measurement in measurements.items():
            try:
                error, seconds = measurement(trials, people)
            except ImportError as problem:
                print(f"{name} is left out: {problem}", file=sys.stderr)
                continue
            milliseconds = 1000.0 * seconds / (trials * people)
            cells = (title, name, str(trials), f"{error:.3g}", f"{milliseconds:.0f}")
            yield row(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--people", type=int, default=20)
    parser.add_argument("--aepsych-python", type=Path, metavar="PATH")
    arguments = parser.parse_args()
    sys.path.append(str(Path(sys.prefix) / "peers"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = compare(arguments.trials, arguments.people, arguments.aepsych_python)
        for line in rows:
            print(line, flush=True)


if __name__ == "__main__":
    main()
