r"""
``python -m benchmarks duel-priors``: which prior of duels predicts them best?

The choice is made here, on the sets of ``answer_sets.TUNING`` and on simulated raters;
the held-out sets of the benchmark ``answers`` are not looked at. Repetitions draw
other answers than those of that benchmark.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import AdditiveKernel, Kernel, LinearKernel
from gpytorch.priors import LogNormalPrior
from torch import Tensor

from benchmarks.studies import store
from benchmarks.studies.answer_models import DUEL_MODELS, Predict, average, predict
from benchmarks.studies.answer_sets import TUNING, Answers
from benchmarks.studies.answers import PEERS, log_loss, split
from benchmarks.studies.experiment import FIT_OPTIONS
from benchmarks.studies.report_file import read_conclusions, write_sections
from benchmarks.tables import format_table
from botorch_binary_context.models import ApproximateMarginalLogLikelihood, PreferenceGP
from botorch_binary_context.models.defaults import (
    default_covar_module,
    duel_covar_module,
)
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.problems import make_objective

NAME = "duel-priors"
SIZES = (25, 50, 100, 200)
SEEDS = 8
FIRST_SEED = 1000  # not used by the benchmark ``answers``
NUM_DUELS = 1200
RATERS = ("Forrester et al (2008)", "Six-Hump Camel", "Hartmann 3-D")
RATER_DEVIATION = 2.0  # the standard deviation of a simulated rater's value
LINEAR_VARIANCE, LINEAR_SPREAD = 1.0, 1.0

Kernels = Callable[[int, torch.Size], Kernel]


def _linear(batch_shape: torch.Size) -> LinearKernel:
    """The value of Bradley and Terry's model, with one variance of all weights."""
    prior = LogNormalPrior(math.log(LINEAR_VARIANCE), LINEAR_SPREAD)
    kernel = LinearKernel(variance_prior=prior, batch_shape=batch_shape)
    kernel.variance = torch.full_like(kernel.variance, LINEAR_VARIANCE)
    return kernel


def _with_linear(make: Kernels, outputscale: float) -> Kernels:
    """A linear kernel plus another one, whose output scale starts at a median."""

    def kernel(dim: int, batch_shape: torch.Size) -> Kernel:
        smooth: Any = make(dim, batch_shape)
        prior = LogNormalPrior(math.log(outputscale), 0.7)
        _, get, put = smooth._priors["outputscale_prior"]
        smooth.register_prior("outputscale_prior", prior, get, put)
        smooth.initialize(outputscale=outputscale)
        return AdditiveKernel(_linear(batch_shape), smooth)

    return kernel


def _fit(train: Answers, make: Kernels) -> LatentGP:
    kernel = make(train.X.shape[-1], train.X.shape[:-3])
    model = PreferenceGP(train.X, train.Y, covar_module=kernel.to(train.X))
    mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
    fit_gpytorch_mll(mll, optimizer_kwargs={"options": FIT_OPTIONS})
    return model.eval()


def _best(make: Kernels) -> Predict:
    return lambda train, trials: predict(_fit(train, make), trials)


def _averaged(make: Kernels) -> Predict:
    return lambda train, trials: average(_fit(train, make), trials)


_BOTH_LONG = _with_linear(duel_covar_module, 4.0)
_BOTH_SHORT = _with_linear(default_covar_module, 1.0)
#: What is compared.
CANDIDATES: Mapping[str, Predict] = {
    "short": _best(default_covar_module),
    "long": _best(duel_covar_module),
    "linear + long": _best(_BOTH_LONG),
    "linear + short": _best(_BOTH_SHORT),
    "long, averaged": _averaged(duel_covar_module),
    "linear + short, averaged": _averaged(_BOTH_SHORT),
    **{name: DUEL_MODELS[name] for name in PEERS},
}


def simulate_rater(name: str) -> Answers:
    r"""Duels that a simulated rater decides by one of the package's functions.

    Args:
        name: The name of the function.

    Returns:
        The duels, of settings all over the box.
    """
    generator = torch.Generator().manual_seed(FIRST_SEED)
    objective = make_objective(name)
    shape = NUM_DUELS, 2, objective.dim
    X = torch.rand(shape, generator=generator, dtype=torch.double)
    low, high = objective.bounds.to(X)
    f: Tensor = RATER_DEVIATION * objective(low + (high - low) * X)
    p = torch.special.ndtr(f[:, 0] - f[:, 1])
    Y = torch.bernoulli(p, generator=generator).unsqueeze(-1)
    return Answers(X, Y, are_duels=True)


def _sets() -> dict[str, Callable[[], Answers]]:
    raters = {name: (lambda name=name: simulate_rater(name)) for name in RATERS}
    return {**TUNING, **raters}


def compare(name: str, n: int, candidate: str, seeds: int) -> pl.DataFrame:
    r"""How well a candidate predicts a set.

    Args:
        name: The name of the set.
        n: The number of answers it learns from.
        candidate: Its name.
        seeds: The number of repetitions.

    Returns:
        A row for every repetition.
    """
    train, trials, outcomes = split(_sets()[name](), n, seeds, FIRST_SEED)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from fits of the other packages
        p = CANDIDATES[candidate](train, trials)
    return pl.DataFrame(
        {
            "set": [name] * seeds,
            "n": [n] * seeds,
            "candidate": [candidate] * seeds,
            "seed": list(range(seeds)),
            "log_loss": log_loss(p, outcomes).tolist(),
            "seconds": [(time.process_time() - start) / seeds] * seeds,
        }
    )


def run(arguments: argparse.Namespace) -> None:
    r"""Compute what is not finished, and write the report.

    Args:
        arguments: The parsed command line.
    """
    torch.set_num_threads(1)
    path = arguments.output / NAME / "results.parquet"
    for n in arguments.sizes:
        for candidate in arguments.candidates or CANDIDATES:
            for name in _sets():
                _add(path, name, n, candidate, arguments.seeds)
    print(write_report(arguments.output))


def _add(path: Path, name: str, n: int, candidate: str, seeds: int) -> None:
    """Compute the rows of a set and a candidate, unless the table has them."""
    table = store.read_table(path)
    if table is not None:
        same = (pl.col("set") == name) & (pl.col("n") == n)
        if not table.filter(same & (pl.col("candidate") == candidate)).is_empty():
            return
    rows = compare(name, n, candidate, seeds)
    store.save(rows if table is None else pl.concat([table, rows]), path)
    loss = rows["log_loss"].mean()
    print(f"{NAME}: {candidate} after {n} of {name}: {loss:.3f}", flush=True)


def write_report(root: Path) -> Path:
    r"""Write the report.

    Args:
        root: The folder of all results.

    Returns:
        The path of the Markdown file.
    """
    table = store.read_table(root / NAME / "results.parquet")
    assert table is not None
    sections = [
        f"# The choice `{NAME}`\n\nLog loss of predicted duels (mean of "
        f"{table['seed'].n_unique()} repetitions), lower is better, on the sets that "
        "the prior of duels is chosen on. `short` and `long` are lengthscales with "
        "medians of 0.4 and 1.2 √(d/2); `linear` adds the kernel of Bradley and "
        f"Terry's model. `python -m benchmarks {NAME}` makes it.",
        read_conclusions(root / NAME),
        "## Means over real and over simulated raters\n\n" + _format_means(table),
        "## All sets\n\n" + _format_sets(table),
    ]
    return write_sections(root / NAME, sections)


def _format_means(table: pl.DataFrame) -> str:
    rows = []
    for title, names in (("real", list(TUNING)), ("simulated", list(RATERS))):
        part = table.filter(pl.col("set").is_in(names))
        for n in part["n"].unique().sort():
            rows.append([title, n, *_losses(part.filter(pl.col("n") == n))])
    return format_table(["raters", "n", *CANDIDATES], rows)


def _format_sets(table: pl.DataFrame) -> str:
    rows = []
    for name in _sets():
        part = table.filter(pl.col("set") == name)
        for n in part["n"].unique().sort():
            rows.append([name, n, *_losses(part.filter(pl.col("n") == n))])
    return format_table(["set", "n", *CANDIDATES], rows)


def _losses(part: pl.DataFrame) -> list[str]:
    found = dict(part.group_by("candidate").agg(pl.col("log_loss").mean()).rows())
    return [f"{found[name]:.3f}" if name in found else "" for name in CANDIDATES]


def add_command(commands: argparse._SubParsersAction) -> None:
    r"""Add the command to the command line.

    Args:
        commands: Where to add it.
    """
    parser = commands.add_parser(NAME, help="choose the prior of duels")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--candidates", nargs="*", choices=list(CANDIDATES))
    parser.add_argument("--output", type=Path, default=store.RESULTS)
    parser.set_defaults(run=run)
