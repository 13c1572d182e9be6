r"""
How fast models and suggestions are, as ratios against peers measured in the same run.

``python -m benchmarks speed`` uses one thread and prints one table. The hyperparameters
are fixed but where a fit is measured.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import PairwiseGP
from botorch.models.pairwise_gp import PairwiseLaplaceMarginalLogLikelihood
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from tqdm import tqdm

from benchmarks.speed import inference, latency, suggestions
from benchmarks.speed.data import BATCH, DIM, duels, index_pairs, kernel, outcomes
from benchmarks.speed.timing import Comparison, format_table, measure
from botorch_binary_context import (
    BinaryLaplaceGP,
    LaplaceMarginalLogLikelihood,
    PreferenceLaplaceGP,
)

SIZES = (20, 60, 260, 1000)
DUEL_AIMS = {20: "≥ 3", 60: "≥ 3", 1000: "≥ 20"}
OUTCOME_AIMS = {60: "≥ 1", 260: "≥ 1", 1000: "≥ 1"}


def add_command(commands: Any) -> None:
    r"""Add ``speed`` to the command line.

    Args:
        commands: What ``add_subparsers`` returned.
    """
    parser = commands.add_parser("speed", help="ratios against peers, one thread")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    r"""Measure and print the table.

    Args:
        arguments: The parsed command line.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")  # the peers warn about their own settings
    jobs = [
        *comparisons(),
        *inference.comparisons(),
        *suggestions.comparisons(),
    ]
    jobs.append(partial(latency.compare_experiment, 100))
    rows = [job() for job in tqdm(jobs, desc="speed", unit="row")]
    print(format_table(rows))
    print("\nAn experiment that goes on:\n")
    print(latency.format_latencies(latency.measure_latencies()))
    n = 260
    memory = suggestions.peak_memory(n)
    print(
        f"\nPeak memory of a process that suggests by cbkg: {memory:.0f} MB (n = {n})"
    )


def comparisons() -> Iterator[Callable[[], Comparison]]:
    r"""The rows of the table, each computed when called."""
    for n in SIZES:
        yield partial(compare_outcomes, n)
    for n in SIZES:
        yield partial(compare_duels, n)
    yield partial(compare_outcome_fits, 60)
    yield partial(compare_duel_fits, 60)
    yield partial(compare_batch, 60)


def sklearn_classifier(optimizer: str | None) -> GaussianProcessClassifier:
    """Scikit-learn's Laplace approximation with the same kernel."""
    lengthscale: Any = [0.3] * DIM
    covariance = ConstantKernel(2.0) * RBF(lengthscale)
    return GaussianProcessClassifier(covariance, optimizer=optimizer)  # pyright: ignore


def condition(model: BinaryLaplaceGP | PreferenceLaplaceGP) -> None:
    """Compute what a posterior at any point needs."""
    with torch.no_grad():
        model.eval().laplace_approximation  # noqa: B018


def compare_outcomes(n: int) -> Comparison:
    X, Y = outcomes(n)
    inputs, labels, covar_module = X.numpy(), Y.squeeze(-1).numpy(), kernel()
    return Comparison(
        job=f"condition on {n} outcomes",
        peer="scikit-learn",
        ours=measure(
            lambda: condition(BinaryLaplaceGP(X, Y, covar_module=covar_module))
        ),
        theirs=measure(lambda: sklearn_classifier(None).fit(inputs, labels)),
        aim=OUTCOME_AIMS.get(n, ""),
    )


def compare_duels(n: int) -> Comparison:
    X, Y = duels(n)
    points, pairs, covar_module = X.flatten(0, 1), index_pairs(n), kernel()

    def theirs() -> None:
        with torch.no_grad():
            model = PairwiseGP(points, pairs, covar_module=covar_module).eval()
            model.posterior(points[:1])

    return Comparison(
        job=f"condition on {n} duels",
        peer="PairwiseGP",
        ours=measure(
            lambda: condition(PreferenceLaplaceGP(X, Y, covar_module=covar_module))
        ),
        theirs=measure(theirs),
        aim=DUEL_AIMS.get(n, ""),
    )


def compare_outcome_fits(n: int) -> Comparison:
    X, Y = outcomes(n)
    inputs, labels = X.numpy(), Y.squeeze(-1).numpy()

    def ours() -> None:
        model = BinaryLaplaceGP(X, Y)
        fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))

    return Comparison(
        job=f"fit hyperparameters to {n} outcomes",
        peer="scikit-learn",
        ours=measure(ours),
        theirs=measure(lambda: sklearn_classifier("fmin_l_bfgs_b").fit(inputs, labels)),
    )


def compare_duel_fits(n: int) -> Comparison:
    X, Y = duels(n)
    points, pairs = X.flatten(0, 1), index_pairs(n)

    def ours() -> None:
        model = PreferenceLaplaceGP(X, Y)
        fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))

    def theirs() -> None:
        model = PairwiseGP(points, pairs)
        fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))

    return Comparison(
        job=f"fit hyperparameters to {n} duels",
        peer="PairwiseGP",
        ours=measure(ours),
        theirs=measure(theirs),
    )


def compare_batch(n: int) -> Comparison:
    X, Y = outcomes(BATCH, n)
    covar_module = kernel()

    def loop() -> None:
        for x, y in zip(X, Y, strict=True):
            condition(BinaryLaplaceGP(x, y, covar_module=covar_module))

    return Comparison(
        job=f"condition {BATCH} models on {n} outcomes each",
        peer=f"{BATCH} single models",
        ours=measure(
            lambda: condition(BinaryLaplaceGP(X, Y, covar_module=covar_module))
        ),
        theirs=measure(loop),
        aim="≥ 2",
    )
