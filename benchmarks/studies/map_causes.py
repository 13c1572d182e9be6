r"""
``python -m benchmarks map-causes``: why may chosen trials end behind Sobol points?

The observers of the study ``map`` that have two alternatives are asked by ``bald`` on
Laplace's method, and then again with one thing changed at a time: who estimates, who
chooses, whether trials may be repeated, whether the hyperparameters are known, and the
criterion.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

import polars as pl
import torch
from torch import Tensor

from benchmarks.studies import maps
from benchmarks.studies.experiment import derive_seed
from benchmarks.studies.table_study import Job, TableStudy
from benchmarks.tables import format_mean, format_table
from botorch_binary_context.acquisition.analytic import BernoulliMutualInformation
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.rules import Rule, Selection, suggest

NAME = "map-causes"
FUNCTIONS = ("contrast", "detection", "discrimination")
TRIALS = 100
CHECKPOINTS = (50, 100)
SEEDS = 10
# The smallest distance between trials that are not repeats, in the box from -1 to 1,
# and the number of trials from which known hyperparameters are learned.
APART = 0.1
MANY = 600


def bald_apart(selection: Selection) -> Tensor:
    """The most informative trial that does not repeat an earlier one."""
    model = selection.model
    acqf = BernoulliMutualInformation(model)
    known = model.original_datapoints.unsqueeze(-2)  # seeds x n x 1 x 2

    def score(X: Tensor) -> Tensor:
        distance = (X.unsqueeze(-3) - known).norm(dim=-1).amin(dim=(-2, -1))
        return torch.where(distance >= APART, acqf.evaluate(X), distance - APART)

    return selection.maximize_trial(score)


@dataclass(frozen=True)
class Variant:
    r"""How trials are chosen.

    Attributes:
        name: What is changed.
        rule: How trials are chosen; None for Sobol points.
        inference: The name of the inference with which they are chosen.
        known: Whether the hyperparameters are those of many trials.
    """

    name: str
    rule: str | Rule | None
    inference: str = "laplace"
    known: bool = False


VARIANTS = (
    Variant("Sobol points", None),
    Variant("bald", "bald"),
    Variant("bald, chosen by expectation propagation", "bald", "ep"),
    Variant("bald without repeats", bald_apart),
    Variant("bald, known hyperparameters", "bald", known=True),
    Variant("Sobol points, known hyperparameters", None, known=True),
    Variant("another criterion, straddle", "map-straddle"),
)


def run_variant(function: str, variant: Variant, seeds: int) -> pl.DataFrame:
    r"""Run the experiments of a variant, and estimate by either inference.

    Args:
        function: The name of the latent function.
        variant: How trials are chosen.
        seeds: The number of repetitions.

    Returns:
        A row for every seed, checkpoint and inference of the estimates.
    """
    torch.set_num_threads(1)
    task = maps.Task(function, 2, variant.inference, variant.name, seeds)
    trials, noise = maps.draw_randomness(task)
    first = maps.FIRST_TRIALS
    outcomes = maps.answer(task, trials[:, :first], noise[:, :first])
    model = maps.make_model(task, trials[:, :first], outcomes)
    if variant.known:
        model.load_state_dict(_know(task).state_dict(), strict=False)
    frames = []
    for i in range(first, TRIALS):
        trial = trials[:, i : i + 1]
        if variant.rule is not None:
            seed = derive_seed(NAME, function, variant.name, i)
            trial = suggest(model, maps.SPACE, variant.rule, maps.SEARCH, seed)
        answer = maps.answer(task, trial, noise[:, i : i + 1])
        model = model.condition_on_observations(trial, answer)
        if i + 1 in maps.LEARN_AT and not variant.known:
            maps.learn(model)
        if i + 1 in CHECKPOINTS:
            frames += [_estimate(task, model, name) for name in maps.INFERENCES]
    return pl.concat(frames)


def _know(task: maps.Task) -> LatentGP:
    """A model that has learned from many trials, for each seed."""
    draw = torch.Generator().manual_seed(derive_seed(NAME, task.function))
    X = 2 * torch.rand(task.seeds, MANY, 2, generator=draw, dtype=torch.double) - 1
    noise = torch.rand(task.seeds, MANY, generator=draw, dtype=torch.double)
    model = maps.make_model(task, X, maps.answer(task, X, noise))
    maps.learn(model)
    return model


def _estimate(task: maps.Task, model: LatentGP, inference: str) -> pl.DataFrame:
    """The errors of the estimates that an inference makes from the trials."""
    trials = model.original_datapoints
    number = trials.shape[-2]
    with torch.no_grad():
        estimate = model.with_inference(maps.INFERENCES[inference]()).eval()
        distance = torch.cdist(trials, trials) + torch.eye(number)
        repeats = (distance.amin(dim=-1) < APART).double().mean(dim=-1)
    frame = maps.measure(task, estimate, number)
    return frame.with_columns(
        pl.lit(inference).alias("estimated"), pl.Series("repeats", repeats.tolist())
    )


def jobs(seeds: int) -> Iterator[Job]:
    r"""Every variant on every function.

    Args:
        seeds: The number of repetitions.

    Yields:
        The jobs.
    """
    for function, variant in product(FUNCTIONS, VARIANTS):
        name = f"{function} {variant.name}"
        yield name, partial(run_variant, function, variant, seeds)


def _describe(frame: pl.DataFrame) -> list[str]:
    """The sections of the report."""
    return [
        "# Why chosen trials may end behind Sobol points\n\nThe error of the threshold "
        "in percent of the range of the context, with two alternatives, "
        f"{frame['seed'].n_unique()} seeds with standard errors, estimated by "
        "Laplace's method and by expectation propagation from the same trials. Repeats "
        f"are trials with another one within {APART:g}. Trials are chosen with "
        f"Laplace's method unless stated otherwise. `python -m benchmarks {NAME}` "
        "makes it.",
        *(_format(frame, function) for function in FUNCTIONS),
    ]


def _format(frame: pl.DataFrame, function: str) -> str:
    """The table of a function; empty if it has no results."""
    rows = []
    for variant in VARIANTS:
        group = frame.filter(function=function, rule=variant.name)
        if group.is_empty():
            continue
        cells = [
            format_mean(
                50 * group.filter(trials=number, estimated=name)["threshold"], 1
            )
            for name, number in product(("laplace", "ep"), CHECKPOINTS)
        ]
        repeats = group.filter(trials=TRIALS)["repeats"].mean()
        rows.append([variant.name, *cells, f"{100 * repeats:.0f} %"])  # pyright: ignore
    if not rows:
        return ""
    numbers = [f"{name}, {n}" for name in ("Laplace", "EP") for n in CHECKPOINTS]
    header = ["trials", *numbers, "repeats"]
    return f"## {function.capitalize()}\n\n" + format_table(header, rows)


STUDY = TableStudy(NAME, "why chosen trials may end behind", SEEDS, jobs, _describe)
