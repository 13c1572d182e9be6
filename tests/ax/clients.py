r"""Small Ax experiments, and the simulated answers of the README's example."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.utils.common.logger import set_ax_logger_levels
from torch import Tensor

from botorch_binary_context.ax import generation_strategy
from botorch_binary_context.numerics.optim import SearchOptions

set_ax_logger_levels(logging.ERROR)

OPTIMUM = 0.7
QUICK = SearchOptions(num_restarts=2, raw_samples=32, max_evaluations=15)
#: As in the README: difficulty and setting.
README = [
    RangeParameterConfig(name="s", parameter_type="float", bounds=(-2.0, 2.0)),
    RangeParameterConfig(name="x", parameter_type="float", bounds=(0.0, 1.0)),
]


#: Two contexts that make tests harder in opposite directions, and a setting.
OPPOSITE = {"noise": (-2.0, 2.0), "size": (-1.0, 1.0), "x": (0.0, 1.0)}


def make_client(
    parameters: Sequence[RangeParameterConfig | ChoiceParameterConfig] = README,
    metric: str = "passed",
    name: str = "test",
    constraints: Sequence[str] | None = None,
    client: Client | None = None,
    **options: Any,
) -> Client:
    """A client whose trials are chosen by the package, with small searches."""
    client = Client(random_seed=0) if client is None else client
    client.configure_experiment(parameters, constraints, name=name)
    client.configure_optimization(metric)
    options = {"rule": "ucb-ald", "search": QUICK, "initial_trials": 3, **options}
    client.set_generation_strategy(generation_strategy(**options))
    return client


def success(s: float, x: float) -> float:
    """The success probability of the README's example."""
    f = torch.tensor(4 * (1 - 9 * (x - OPTIMUM) ** 2 - s), dtype=torch.double)
    return float(torch.special.ndtr(f))


def answer(client: Client, trials: dict[int, Any], noise: Tensor) -> None:
    """Answer trials of the README's example; each takes the noise of its index."""
    for index, trial in trials.items():
        passed = float(noise[index] < success(trial["s"], trial["x"]))
        client.complete_trial(index, {"passed": passed})


def run_readme(client: Client, number: int, seed: int = 0) -> None:
    """Ask and answer trials one by one."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.rand(1000, generator=generator, dtype=torch.double)
    for _ in range(number):
        answer(client, client.get_next_trials(1), noise)


def opposite_client() -> Client:
    """With four answers; tests become harder with more noise and smaller letters."""
    client = make_client(
        [
            RangeParameterConfig(name=name, parameter_type="float", bounds=bounds)
            for name, bounds in OPPOSITE.items()
        ],
        contexts={"size": 0.5, "noise": 0.0},
        harder={"noise": "up", "size": "down"},
        initial_trials=4,
    )
    for _ in range(4):
        for index, trial in client.get_next_trials(1).items():
            passed = float(trial["size"] > trial["noise"])  # pyright: ignore
            client.complete_trial(index, {"passed": passed})
    return client


def table(client: Client, names: Sequence[str] = ("s", "x")) -> tuple[Tensor, Tensor]:
    """The answered trials, by default of the README's example, and their outcomes."""
    experiment = client._experiment
    rows, outcomes = [], []
    df: Any = experiment.lookup_data().df
    for _, row in df.sort_values("trial_index").iterrows():
        parameters: Any = experiment.trials[int(row["trial_index"])].arms[0].parameters
        rows.append([parameters[name] for name in names])
        outcomes.append([row["mean"]])
    return torch.tensor(rows).double(), torch.tensor(outcomes).double()
