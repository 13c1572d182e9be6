r"""
``python -m benchmarks run answers``: how well answers of real people are predicted.

Every model learns from ``n`` answers of a public set and predicts others of it; this is
repeated with other answers. The sets are named in ``answer_sets``, the models in
``answer_models``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace
from pathlib import Path

import polars as pl
import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from benchmarks.studies import store
from benchmarks.studies.answer_models import DUEL_MODELS, PASS_FAIL_MODELS
from benchmarks.studies.answer_sets import HELD_OUT, PASS_FAIL, SETS, TUNING, Answers
from benchmarks.studies.public_data import PACKAGES
from benchmarks.studies.report_file import read_conclusions, write_sections
from benchmarks.tables import format_mean, format_table

NAME = "answers"
SIZES = (25, 50, 100, 200, 400)
SEEDS = 6
TEST = 500
NUM_BINS = 10
LEAST = 1e-6  # of a probability
# The maximum number of repetitions of long fits, some of which take minutes.
REPETITIONS = {400: 3}
PEERS = ("PairwiseGP", "Bradley-Terry")


def split(
    answers: Answers, n: int, seeds: int, first_seed: int = 0
) -> tuple[Answers, Tensor, Tensor]:
    r"""Answers to learn from and others to predict, for every repetition.

    Args:
        answers: All answers of a set.
        n: The number of answers to learn from.
        seeds: The number of repetitions.
        first_seed: The seed of the first of them.

    Returns:
        The training answers, the trials to predict, and their outcomes,
        ``seeds x t``.
    """
    number = min(TEST, len(answers.X) - n)
    orders = torch.stack(
        [
            torch.randperm(len(answers.X), generator=torch.Generator().manual_seed(s))
            for s in range(first_seed, first_seed + seeds)
        ]
    )
    known, asked = orders[:, :n], orders[:, n : n + number]
    train = replace(answers, X=answers.X[known], Y=answers.Y[known])
    return train, answers.X[asked], answers.Y[asked, 0]


def log_loss(p: Tensor, outcomes: Tensor) -> Tensor:
    r"""The mean negative log probability of the outcomes, for every repetition.

    Args:
        p: ``r x t`` probabilities of a pass.
        outcomes: ``r x t`` outcomes.

    Returns:
        A tensor of ``r`` numbers.
    """
    p = p.clamp(LEAST, 1 - LEAST)
    return -torch.where(outcomes > 0, p.log(), (-p).log1p()).mean(dim=-1)


def calibration_error(p: Tensor, outcomes: Tensor) -> Tensor:
    r"""How far shares of passes are from the predicted ones, over ten bins.

    Args:
        p: ``r x t`` probabilities of a pass.
        outcomes: ``r x t`` outcomes.

    Returns:
        A tensor of ``r`` numbers.
    """
    bins = (p * NUM_BINS).long().clamp(0, NUM_BINS - 1)
    one_hot = torch.nn.functional.one_hot(bins, NUM_BINS).to(p)  # r x t x bins
    gaps = (one_hot * (p - outcomes).unsqueeze(-1)).sum(dim=-2).abs()
    return gaps.sum(dim=-1) / p.shape[-1]


def compare(name: str, n: int, model: str, seeds: int = SEEDS) -> pl.DataFrame:
    r"""How well a model predicts a set.

    Args:
        name: The name of the set.
        n: The number of answers it learns from.
        model: The name of the model.
        seeds: The number of repetitions.

    Returns:
        A row for every repetition.
    """
    answers = SETS[name]()
    models = DUEL_MODELS if answers.are_duels else PASS_FAIL_MODELS
    train, trials, outcomes = split(answers, n, seeds)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from fits of the other packages
        p = models[model](train, trials)
    seconds = (time.process_time() - start) / seeds
    return pl.DataFrame(
        {
            "set": [name] * seeds,
            "n": [n] * seeds,
            "model": [model] * seeds,
            "seed": list(range(seeds)),
            "log_loss": log_loss(p, outcomes).tolist(),
            "calibration": calibration_error(p, outcomes).tolist(),
            "seconds": [seconds] * seeds,
        }
    )


def run(arguments: argparse.Namespace) -> None:
    r"""Compute what is not finished, print it, and write the table.

    Args:
        arguments: The parsed command line; ``--functions`` names sets, ``--rules``
            names models.
    """
    torch.set_num_threads(1)
    names = arguments.functions or list(SETS)
    unknown = [name for name in names if name not in SETS]
    if unknown:
        raise InputDataError(
            f"Expected sets among {', '.join(SETS)}, but got {', '.join(unknown)}."
        )
    path = _path(arguments.output)
    seeds = arguments.seeds or SEEDS
    for n in SIZES:
        for name in names:
            for model in _models_of(name):
                if not arguments.rules or model in arguments.rules:
                    number = min(seeds, REPETITIONS.get(n, seeds))
                    _add(path, name, n, model, number)
    table = store.read_table(path)
    if table is not None:
        for part in _split_by_kind(names):
            print(f"\nLog loss:\n\n{format_losses(table, part)}")
            print(f"\nMeans over these sets:\n\n{format_summary(table, part)}")


def _split_by_kind(names: list[str]) -> list[list[str]]:
    """Sets of duels and sets of pass/fail outcomes, which have other models."""
    duels = [name for name in names if name not in PASS_FAIL]
    rest = [name for name in names if name in PASS_FAIL]
    return [part for part in (duels, rest) if part]


def _models_of(name: str) -> list[str]:
    return list(PASS_FAIL_MODELS if name in PASS_FAIL else DUEL_MODELS)


def _path(root: Path) -> Path:
    return root / NAME / "results.parquet"


def _add(path: Path, name: str, n: int, model: str, seeds: int) -> None:
    """Compute the rows of a set and a model, unless the table has them."""
    table = store.read_table(path)
    key = (pl.col("set") == name) & (pl.col("n") == n) & (pl.col("model") == model)
    if table is not None and not table.filter(key).is_empty():
        return
    rows = compare(name, n, model, seeds)
    store.save(rows if table is None else pl.concat([table, rows]), path)
    print(
        f"{NAME}: {model} after {n} of {name}: log loss "
        f"{rows['log_loss'].mean():.3f}, {rows['seconds'].mean():.2f} s",
        flush=True,
    )


def write_report(root: Path) -> Path:
    r"""Write the report.

    Args:
        root: The folder of all results.

    Returns:
        The path of the Markdown file.
    """
    table = store.require_table(_path(root))
    packages = "\n".join(f"- `{p.name}` {p.version}: {p.license}" for p in PACKAGES)
    groups = {
        "Duels, held out": list(HELD_OUT),
        "Duels on which the priors were chosen": list(TUNING),
        "Pass or fail": list(PASS_FAIL),
    }
    sections = [
        f"# The benchmark `{NAME}`\n\nLog loss of predicted answers (± standard error "
        "over repetitions), lower is better; always saying 1/2 is 0.693. "
        f"`python -m benchmarks run {NAME}` makes it. The data come from packages:",
        packages,
        read_conclusions(root / NAME),
        *[
            f"## {title}\n\n{format_losses(table, names)}"
            for title, names in groups.items()
        ],
        "## Means over the held out sets\n\n" + format_summary(table, list(HELD_OUT)),
        "## Means over the sets of passes and fails\n\n"
        + format_summary(table, list(PASS_FAIL)),
    ]
    return write_sections(root / NAME, sections)


def format_losses(table: pl.DataFrame, names: list[str]) -> str:
    r"""The log losses, a row for each set and number of answers.

    Args:
        table: The results.
        names: The sets.
    """
    table = table.filter(pl.col("set").is_in(names))
    models = table["model"].unique(maintain_order=True).to_list()
    rows = []
    for name in names:
        for n in SIZES:
            cells = [
                _cell(
                    table.filter(
                        (pl.col("set") == name)
                        & (pl.col("n") == n)
                        & (pl.col("model") == model)
                    )
                )
                for model in models
            ]
            if any(cells):
                rows.append([name, n, *cells])
    return format_table(["set", "n", *models], rows)


def _cell(rows: pl.DataFrame) -> str:
    return "" if rows.is_empty() else format_mean(rows["log_loss"], 3)


def format_summary(table: pl.DataFrame, names: list[str]) -> str:
    r"""Means over some sets: log loss, calibration, CPU time.

    Args:
        table: The results.
        names: The sets.

    Returns:
        The table in Markdown, with the sets of duels on which a model has a log loss no
        higher than the best of :data:`PEERS`.
    """
    table = table.filter(pl.col("set").is_in(names))
    losses = table.group_by("n", "set", "model").agg(pl.col("log_loss").mean())
    best = (
        losses.filter(pl.col("model").is_in(PEERS))
        .group_by("n", "set")
        .agg(pl.col("log_loss").min().alias("peer"))
    )
    wins = (
        losses.join(best, ["n", "set"])
        .filter(pl.col("log_loss") <= pl.col("peer"))
        .group_by("n", "model")
        .agg(pl.len().alias("wins"))
    )
    means = table.group_by("n", "model", maintain_order=True).agg(
        pl.col("log_loss", "calibration", "seconds").mean(),
        pl.col("set").n_unique().alias("sets"),
    )
    has_peers = not best.is_empty()
    rows = [
        [
            row["n"],
            row["model"],
            f"{row['log_loss']:.3f}",
            f"{row['calibration']:.3f}",
            f"{row['seconds']:.2g}",
            *([f"{row['wins'] or 0} of {row['sets']}"] if has_peers else []),
        ]
        for row in means.join(wins, ["n", "model"], how="left").sort("n").to_dicts()
    ]
    header = ["n", "model", "log loss", "calibration error", "CPU s per fit"]
    if has_peers:
        header.append("no worse than the best peer")
    return format_table(header, rows)
