r"""
Studies of the settings of an experiment: problems, and ways to choose the trials.

Every problem is modeled as in an experiment with these settings, with hyperparameters
learned along the way. All seeds of a problem and a way run as one batch; the regret of
the recommendation is computed only after some of the trials.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import torch
from botorch.fit import fit_gpytorch_mll
from torch import Tensor

from benchmarks.studies import store
from benchmarks.studies.cases import Case
from benchmarks.studies.experiment import (
    FIT_OPTIONS,
    Task,
    derive_seed,
    draw_labels,
    draw_randomness,
)
from benchmarks.studies.job_tables import find_table, read_tables
from benchmarks.studies.report_file import read_conclusions, write_sections
from benchmarks.studies.study import INITIAL_TRIALS
from benchmarks.tables import format_table
from botorch_binary_context.experiment import Settings
from botorch_binary_context.experiment.coordinates import choosing_coordinates
from botorch_binary_context.experiment.prior import make_prior
from botorch_binary_context.models import ApproximateMarginalLogLikelihood, MixedGP
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.models.observations import Observations
from botorch_binary_context.numerics.optim import SearchOptions
from botorch_binary_context.problems import ContextProblem
from botorch_binary_context.rules import recommend, suggest

# For a batch of experiments: no last digits, since the answers are noisy anyway.
SEARCH = SearchOptions(2, 256, max_evaluations=20, relative_gain=1e-4)
# Hyperparameters are learned anew when the number of trials has grown by a quarter.
LEARN_AT = frozenset((10, 13, 17, 22, 28, 35, 44, 55, 69, 87, 109))


@dataclass(frozen=True)
class SettingsProblem:
    r"""A problem with the settings that are not compared.

    Attributes:
        problem: The problem, whose trials are encoded as those of the settings.
        settings: Makes the settings from those that are compared.
    """

    problem: ContextProblem
    settings: Callable[..., Settings]


@dataclass(frozen=True)
class SettingsStudy:
    r"""Problems, and settings that are compared on them.

    Attributes:
        name: The name.
        title: The text that begins the report.
        problems: Functions that make problems for a number of seeds, by name.
        ways: The settings that are compared, by their names in the report.
        seeds: The number of repetitions.
        checkpoints: The numbers of trials after which regrets are computed.
    """

    name: str
    title: str
    problems: Mapping[str, Callable[[int], SettingsProblem]]
    ways: Mapping[str, Mapping[str, Any]]
    seeds: int = 20
    checkpoints: tuple[int, ...] = (20, 40, 60)

    def run(self, arguments: argparse.Namespace) -> None:
        r"""Compute what is not finished, one after the other.

        Args:
            arguments: The parsed command line.
        """
        seeds = arguments.seeds or self.seeds
        folder = arguments.output / self.name
        for problem in arguments.functions or self.problems:
            for way in arguments.rules or self.ways:
                path = store.result_path(folder, problem, way)
                if find_table(path) is None:
                    store.save(self.simulate(problem, way, seeds), path)
                    print(f"{self.name}: {way} on {problem} is finished", flush=True)

    def simulate(self, name: str, way: str, seeds: int) -> pl.DataFrame:
        r"""Run the experiments of a problem.

        Args:
            name: The name of the problem.
            way: The name of the settings.
            seeds: The number of experiments.

        Returns:
            The regret of every seed at every checkpoint.
        """
        torch.set_num_threads(1)
        made = self.problems[name](seeds)
        settings = made.settings(**self.ways[way])
        regrets = run_experiments(
            f"{self.name}, {name}", made.problem, settings, seeds, self.checkpoints
        )
        rows = [
            {"problem": name, "way": way, "seed": s, "trials": n, "regret": regret}
            for n, column in zip(self.checkpoints, regrets, strict=True)
            for s, regret in enumerate(column.tolist())
        ]
        return pl.DataFrame(rows)

    def write_report(self, root: Path) -> Path:
        r"""Write the report.

        Args:
            root: The folder of all results.

        Returns:
            The path of the Markdown file.
        """
        folder = root / self.name
        frame = read_tables(folder)
        sections = [
            f"# The study `{self.name}`\n\n{self.title} "
            f"`python -m benchmarks run {self.name}` makes it.",
            read_conclusions(folder),
            "## Mean regret over problems\n\n" + format_means(frame, self.ways),
            "## Regret at the end, by problem\n\n" + format_problems(frame, self.ways),
        ]
        return write_sections(folder, sections)


def run_experiments(
    randomness: str,
    problem: ContextProblem,
    settings: Settings,
    seeds: int,
    checkpoints: tuple[int, ...],
) -> list[Tensor]:
    r"""Simulate experiments with the same settings.

    Args:
        randomness: The purpose for which the first trials and the noise are drawn.
        problem: The problem.
        settings: The settings.
        seeds: The number of experiments.
        checkpoints: The numbers of trials, the random ones included.

    Returns:
        The regrets of all experiments at each checkpoint.
    """
    rule = str(settings.rule)
    last = max(checkpoints)
    task = Task("", "", rule, seeds, last - INITIAL_TRIALS, None)
    case = Case(problem, lambda X, Y: make_model(settings, X, Y), randomness)
    trials, noise = draw_randomness(task, case)
    model = case.model(trials, draw_labels(problem, trials, noise[:, :INITIAL_TRIALS]))
    regrets = []
    for n in range(INITIAL_TRIALS + 1, last + 1):
        seed = derive_seed(randomness, rule, n)
        trial = suggest(model, problem.space, rule, SEARCH, seed)
        labels = draw_labels(problem, trial, noise[:, [n - 1]])
        model = model.condition_on_observations(trial, labels)
        if n in LEARN_AT:
            mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
            fit_gpytorch_mll(mll, optimizer_kwargs={"options": FIT_OPTIONS})
        if n in checkpoints:
            best = recommend(model, problem.space).unsqueeze(-2)
            regrets.append(problem.optimal_score - problem.score(best).squeeze(-1))
    return regrets


def make_model(settings: Settings, X: Tensor, Y: Tensor) -> LatentGP:
    r"""The model that an experiment makes, of a batch of experiments.

    Args:
        settings: The settings.
        X: Encoded trials, ``batch_shape x n x d`` or ``batch_shape x n x 2 x d``.
        Y: Their outcomes, ``batch_shape x n x 1``.
    """
    prior: Any = make_prior(settings, Y.shape[:-2])
    return MixedGP(
        [Observations(X, Y, settings.feedback.likelihood())],
        covar_module=prior["covariance"],
        mean_module=prior["mean"],
        input_transform=choosing_coordinates(settings),
    )


def format_means(frame: pl.DataFrame, ways: Mapping[str, Any]) -> str:
    r"""The mean regrets of each way, with standard errors over seeds.

    Args:
        frame: The results.
        ways: The ways, in the order of the table.

    Returns:
        The table in Markdown, of the problems that have results of all ways that have
        any.
    """
    finished = [way for way in ways if way in frame["way"].unique()]
    shared = common_problems(frame)
    frame = frame.filter(pl.col("problem").is_in(shared))
    checkpoints = frame["trials"].unique().sort().to_list()
    rows = []
    for way in finished:
        of_way = frame.filter(pl.col("way") == way)
        found = [of_way.filter(pl.col("trials") == n) for n in checkpoints]
        rows.append([way, *map(_mean_and_error, found), len(shared)])
    header = ["settings", *[f"after {n}" for n in checkpoints], "problems"]
    return format_table(header, rows)


def common_problems(frame: pl.DataFrame) -> list[str]:
    r"""The problems that have results of all ways.

    Args:
        frame: The results.

    Returns:
        Their names.
    """
    counts = frame.group_by("problem", maintain_order=True).agg(
        pl.col("way").n_unique().alias("ways")
    )
    everything = frame["way"].n_unique()
    return counts.filter(pl.col("ways") == everything)["problem"].to_list()


def _mean_and_error(frame: pl.DataFrame) -> str | None:
    """The mean over problems, and its standard error over seeds."""
    if frame.is_empty():
        return None
    groups = frame.group_by("problem").agg(
        pl.col("regret").mean().alias("mean"),
        (pl.col("regret").var() / pl.len()).alias("error"),
    )
    error = float(groups["error"].sum()) ** 0.5 / len(groups)
    return f"{groups['mean'].mean():.3f} ± {error:.3f}"


def format_problems(frame: pl.DataFrame, ways: Mapping[str, Any]) -> str:
    r"""The mean regrets after the last trial, a row for each problem.

    Args:
        frame: The results.
        ways: The ways, in the order of the table.
    """
    last = frame.filter(pl.col("trials") == pl.col("trials").max())
    finished = [way for way in ways if way in last["way"].unique()]
    rows = []
    for problem in last["problem"].unique(maintain_order=True):
        of_problem = last.filter(pl.col("problem") == problem)
        found = [of_problem.filter(pl.col("way") == way) for way in finished]
        rows.append([problem, *map(_mean_and_error, found)])
    return format_table(["problem", *finished], rows)
