r"""
The study ``ax-duels``: 40 duels through Ax, by the package's rule and by Ax's default.

Ax's default for preferences is the model ``PairwiseGP`` with the acquisition function
``qExpectedUtilityOfBestOption``. It knows no contexts, so it always asks in the
reference context, which is the clearest one of these problems: what is compared is the
model and the rule, not the choice of contexts.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from scipy.stats import wilcoxon
from torch import Tensor

from benchmarks.studies.experiment import derive_seed
from benchmarks.studies.report_file import read_conclusions, write_sections
from benchmarks.tables import format_table
from botorch_binary_context.problems import DuelContextProblem, make_objective

NAME = "ax-duels"
FUNCTIONS = (
    "Forrester et al (2008)",
    "Six-Hump Camel",
    "Goldstein-Price",
    "Rosenbrock",
    "Hartmann 3-D",
    "Hartmann 4D",
)
OURS, DEFAULT = "eubo-ald", "ax-default"
WAYS = (OURS, DEFAULT)
SEEDS = 20
DUELS = 40
FIRST_DUELS = 5
CHECKPOINTS = (20, 40)
FILE = "results.jsonl"


@dataclass(frozen=True)
class Run:
    r"""One experiment.

    Attributes:
        function: The name of the function.
        way: How duels are chosen.
        seed: The number of the repetition.
        duels: The number of duels.
    """

    function: str
    way: str
    seed: int
    duels: int = DUELS


def simulate(run: Run) -> list[dict[str, Any]]:
    r"""Run an experiment.

    Args:
        run: The experiment.

    Returns:
        A row for every checkpoint.
    """
    from ax.utils.common.logger import set_ax_logger_levels

    from botorch_binary_context.ax import complete_duel, get_next_duels

    torch.set_num_threads(1)
    set_ax_logger_levels(logging.ERROR)
    problem = DuelContextProblem(make_objective(run.function))
    seed = derive_seed(NAME, run.function, run.seed)
    client = make_client(run, problem, seed)
    generator = torch.Generator().manual_seed(seed)
    noise = torch.rand(run.duels, generator=generator, dtype=torch.double)
    rows = []
    for i in range(run.duels):
        ((index, sides),) = get_next_duels(client).items()
        duel = torch.tensor([_row(side, problem) for side in sides]).double()
        first = bool(noise[i] < problem.success_probability(duel))
        complete_duel(client, index, preferred=0 if first else 1)
        if i + 1 in CHECKPOINTS:
            best = recommend_best(run.way, client, problem)
            regret = problem.optimal_score - float(problem.score(best))
            rows.append(
                {
                    "function": run.function,
                    "way": run.way,
                    "seed": run.seed,
                    "duels": i + 1,
                    "regret": regret,
                }
            )
    return rows


def _row(side: dict[str, Any], problem: DuelContextProblem) -> list[float]:
    """A row, the context first; the reference context if it is not a parameter."""
    context = side.get("s", float(problem.space.reference_context))
    names = sorted(name for name in side if name != "s")
    return [context, *(side[name] for name in names)]


def make_client(run: Run, problem: DuelContextProblem, seed: int) -> Any:
    r"""A client of an experiment.

    Args:
        run: The experiment.
        problem: The problem.
        seed: The seed.

    Returns:
        The client, with its generation strategy.
    """
    from ax.api.client import Client
    from ax.api.configs import RangeParameterConfig

    from botorch_binary_context.ax import generation_strategy

    client = Client(random_seed=seed)
    names = [f"x{i}" for i in range(problem.space.dim - 1)]
    names = ["s", *names] if run.way == OURS else names
    client.configure_experiment(
        [
            RangeParameterConfig(name=name, parameter_type="float", bounds=(0.0, 1.0))
            for name in names
        ],
        name=f"{run.way} {run.function} {run.seed}",
    )
    client.configure_optimization("pairwise_pref_query")
    if run.way == OURS:
        reference = float(problem.space.reference_context)
        strategy = generation_strategy(
            OURS,
            contexts={"s": reference},
            kernel="multiplicative",
            initial_trials=FIRST_DUELS,
            seed=seed % 1000,
        )
    else:
        strategy = default_strategy(seed)
    client.set_generation_strategy(strategy)
    return client


def default_strategy(seed: int) -> Any:
    r"""Quasi-random duels and then Ax's default.

    Args:
        seed: The seed of the quasi-random duels.

    Returns:
        A new generation strategy, which switches to the default after ``FIRST_DUELS``.
    """
    from ax.adapter.registry import Generators, MBM_X_trans_base
    from ax.generation_strategy.generation_node import GenerationNode
    from ax.generation_strategy.generation_strategy import GenerationStrategy
    from ax.generation_strategy.generator_spec import GeneratorSpec
    from ax.generation_strategy.transition_criterion import MinTrials

    enough = MinTrials(FIRST_DUELS, transition_to="MBM", use_all_trials_in_exp=True)
    sobol = GeneratorSpec(Generators.SOBOL, generator_kwargs={"seed": seed % 1000})
    # Other transforms need a metric in addition to the preferences.
    modular = GeneratorSpec(
        Generators.BOTORCH_MODULAR, generator_kwargs={"transforms": MBM_X_trans_base}
    )
    nodes = [
        GenerationNode("Sobol", [sobol], transition_criteria=[enough]),
        GenerationNode("MBM", [modular]),
    ]
    return GenerationStrategy(name="default", nodes=nodes)


def recommend_best(way: str, client: Any, problem: DuelContextProblem) -> Tensor:
    r"""The parameters that the posterior mean says are best.

    Args:
        way: How duels are chosen.
        client: The client.
        problem: The problem.
    """
    if way == OURS:
        from botorch_binary_context.ax import recommend

        return torch.tensor(_row(recommend(client)[0], problem)).double()[1:]
    from botorch.acquisition.analytic import PosteriorMean
    from botorch.optim import optimize_acqf

    node = client._generation_strategy.nodes_by_name["MBM"]
    node._fit(experiment=client._experiment)
    model = node.generator_spec.fitted_adapter.generator.surrogate.model
    bounds = problem.space.parameter_bounds
    best, _ = optimize_acqf(PosteriorMean(model), bounds, 1, 4, 256)
    return best[0]


def run(arguments: argparse.Namespace) -> None:
    r"""Run what is not finished, seed by seed, and store it as it finishes.

    Args:
        arguments: The parsed command line.
    """
    path = arguments.output / NAME / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    finished = set()
    if path.exists():
        frame = read_results(path)
        finished = set(frame.select("function", "way", "seed").iter_rows())
    runs = [
        Run(function, way, seed, arguments.iterations or DUELS)
        for seed in range(arguments.seeds or SEEDS)
        for function in arguments.functions or FUNCTIONS
        for way in arguments.rules or WAYS
        if (function, way, seed) not in finished
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.workers, mp_context=context) as pool:
        futures = {pool.submit(simulate, run): run for run in runs}
        for future in as_completed(futures):
            lines = "".join(json.dumps(row) + "\n" for row in future.result())
            with path.open("a", encoding="utf-8") as file:
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
            print(f"{NAME}: {futures[future]} is finished", flush=True)


def read_results(path: Path) -> pl.DataFrame:
    r"""The results of what is finished.

    Args:
        path: The path of the file.

    Returns:
        The rows of whole experiments.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    return pl.DataFrame([json.loads(line) for line in lines if line.endswith("}")])


def write_report(root: Path) -> Path:
    r"""Write the report.

    Args:
        root: The folder of all results.

    Returns:
        The path of the Markdown file.
    """
    folder = root / NAME
    frame = read_results(folder / FILE)
    pairs = pair_regrets(frame)
    wins = [
        name
        for (name,), group in pairs.filter(duels=DUELS).group_by("function")
        if group[OURS].mean() < group[DEFAULT].mean()  # pyright: ignore
    ]
    sections = [
        f"# The study `{NAME}`\n\nRegrets of what is recommended after {DUELS} duels "
        "through Ax, in standard deviations of the function. "
        f"`python -m benchmarks run {NAME}` makes it. {__doc__.split(chr(10) * 2)[1]}",  # pyright: ignore
        f"`{OURS}` has the lower mean regret after {DUELS} duels on {len(wins)} of "
        f"{pairs['function'].n_unique()} functions.",
        read_conclusions(folder),
        *(_format(pairs.filter(duels=n), n) for n in CHECKPOINTS),
    ]
    return write_sections(folder, sections)


def pair_regrets(frame: pl.DataFrame) -> pl.DataFrame:
    r"""The regrets of both ways side by side, where both are finished.

    Args:
        frame: A row for every experiment and checkpoint.

    Returns:
        A column for each way.
    """
    keys = ["function", "seed", "duels"]
    wide = frame.unique([*keys, "way"]).pivot("way", index=keys, values="regret")
    return wide.drop_nulls().sort(keys)


def _format(pairs: pl.DataFrame, duels: int) -> str:
    """A table of the regrets after some duels."""
    rows = []
    groups = [(name, pairs.filter(function=name)) for name in FUNCTIONS]
    for name, group in [*groups, ("all", pairs)]:
        ours = group[OURS].to_numpy()
        theirs = group[DEFAULT].to_numpy()
        if len(ours) > 0:
            test: Any = wilcoxon(ours, theirs) if np.any(ours != theirs) else None
            rows.append(
                [
                    name,
                    len(ours),
                    f"{ours.mean():.3f} (median {np.median(ours):.3f})",
                    f"{theirs.mean():.3f} (median {np.median(theirs):.3f})",
                    "" if test is None else f"{test.pvalue:.3f}",
                ]
            )
    header = ["function", "seeds", f"`{OURS}`", "Ax's default", "p (Wilcoxon)"]
    return f"## After {duels} duels\n\n" + format_table(header, rows)
