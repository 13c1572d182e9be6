r"""
The study ``ax-readme``: 25 trials of the README's example through Ax.

How near to the optimum, 0.7, is what is recommended? Beside it stands what the true
parabola says if its optimum, height and slope are fitted to the same answers: more than
that the answers do not say.
"""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import log_ndtr

from benchmarks.studies.ax_duels import read_results
from benchmarks.studies.experiment import derive_seed
from benchmarks.studies.report_file import read_conclusions, write_sections
from benchmarks.tables import format_table

NAME = "ax-readme"
RULES = ("ucb-ald", "ucb99-ald", "mkg", "cjes", "ts-ald", "bald")
SEEDS = 10
TRIALS = 25
FIRST_TRIALS = 5
OPTIMUM = 0.7
NEAR = 0.03
FILE = "results.jsonl"


def simulate(rule: str, seed: int, trials: int) -> dict[str, Any]:
    r"""Run an experiment.

    Args:
        rule: The name of the rule.
        seed: The number of the repetition.
        trials: The number of trials.

    Returns:
        The row of results.
    """
    from ax.api.client import Client
    from ax.api.configs import RangeParameterConfig
    from ax.utils.common.logger import set_ax_logger_levels

    from botorch_binary_context.ax import generation_strategy, recommend

    set_ax_logger_levels(logging.ERROR)
    torch.set_num_threads(1)
    own = derive_seed(NAME, seed)
    rng = np.random.default_rng(own)
    client = Client(random_seed=own)
    client.configure_experiment(
        [
            RangeParameterConfig(name="s", parameter_type="float", bounds=(-2.0, 2.0)),
            RangeParameterConfig(name="x", parameter_type="float", bounds=(0.0, 1.0)),
        ],
        name=f"{NAME} {rule} {seed}",
    )
    client.configure_optimization("passed")
    strategy = generation_strategy(
        rule, {"s": 0.5}, harder="up", initial_trials=FIRST_TRIALS, seed=own % 1000
    )
    client.set_generation_strategy(strategy)
    rows = []
    for _ in range(trials):
        ((index, trial),) = client.get_next_trials(1).items()
        s = float(trial["s"])
        x = float(trial["x"])
        passed = rng.random() < np.exp(log_ndtr(_latent(s, x, OPTIMUM, 1.0, 4.0)))
        client.complete_trial(index, {"passed": float(passed)})
        rows.append((s, x, float(passed)))
    return {
        "rule": rule,
        "seed": seed,
        "error": abs(recommend(client)[0]["x"] - OPTIMUM),
        "parabola": abs(fit_parabola(np.array(rows)) - OPTIMUM),
    }


def _latent(s: Any, x: Any, optimum: float, height: float, slope: float) -> Any:
    return slope * (height - 9 * (x - optimum) ** 2 - s)


def fit_parabola(rows: np.ndarray) -> float:
    r"""The optimum of the true parabola, fitted to answers by maximum likelihood.

    Args:
        rows: ``n x 3``: difficulty, setting, outcome.

    Returns:
        The optimum, within the box.
    """
    s, x, passed = rows.T
    sign = 2 * passed - 1

    def loss(p: np.ndarray) -> float:
        return -log_ndtr(sign * _latent(s, x, *p)).sum()

    bounds = [(0.0, 1.0), (-3.0, 3.0), (0.5, 20.0)]
    starts = [(start, 1.0, 4.0) for start in np.linspace(0.05, 0.95, 10)]
    fits = [minimize(loss, start, bounds=bounds) for start in starts]
    return float(min(fits, key=lambda fit: fit.fun).x[0])


def run(arguments: argparse.Namespace) -> None:
    r"""Run what is not finished.

    Args:
        arguments: The parsed command line.
    """
    path = arguments.output / NAME / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    finished = set()
    if path.exists():
        finished = set(read_results(path).select("rule", "seed").iter_rows())
    for rule in arguments.rules or RULES:
        for seed in range(arguments.seeds or SEEDS):
            if (rule, seed) not in finished:
                row = simulate(rule, seed, arguments.iterations or TRIALS)
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(f"{NAME}: {row}", flush=True)


def write_report(root: Path) -> Path:
    r"""Write the report.

    Args:
        root: The folder of all results.

    Returns:
        The path of the Markdown file.
    """
    folder = root / NAME
    frame = read_results(folder / FILE)
    rows = []
    for (rule,), group in frame.group_by("rule", maintain_order=True):
        cells = []
        for column in ("error", "parabola"):
            near = int((group[column] <= NEAR).sum())
            cells.append(
                f"{near} of {len(group)}, at most {group[column].max():.3f}, "
                f"median {group[column].median():.3f}"
            )
        rows.append([f"`{rule}`", *cells])
    title = " ".join((__doc__ or "").split("\n\n")[1].split())
    sections = [
        f"# The study `{NAME}`\n\nWithin {NEAR} of the optimum after {TRIALS} trials. "
        f"{title} `python -m benchmarks run {NAME}` makes it.",
        read_conclusions(folder),
        format_table(["rule", "recommended", "the true parabola, fitted"], rows),
    ]
    return write_sections(folder, sections)
