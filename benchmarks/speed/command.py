r"""
How fast models and suggestions are, as ratios against peers measured in the same run.

``python -m benchmarks speed`` uses one thread and prints a table of ratios and tables
of costs; ``--parts`` selects some. The hyperparameters are fixed except where a fit is
measured.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from botorch.models import PairwiseGP
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from benchmarks.speed import (
    batches,
    compiled,
    fits,
    inference,
    latency,
    peers,
    scale,
    several,
    suggestions,
)
from benchmarks.speed.data import BATCH, DIM, duels, index_pairs, kernel, outcomes
from benchmarks.speed.timing import Comparison, format_table, measure
from botorch_binary_context import (
    BinaryLaplaceGP,
    PreferenceLaplaceGP,
)

SIZES = (20, 60, 260, 1000)
DUEL_AIMS = {20: "≥ 3", 60: "≥ 3", 1000: "≥ 20"}
OUTCOME_AIMS = {60: "≥ 1", 260: "≥ 1", 1000: "≥ 1"}


def add_command(commands: Any) -> None:
    r"""Add ``speed`` to the command line.

    Args:
        commands: The result of ``add_subparsers``.
    """
    parser = commands.add_parser("speed", help="ratios against peers, one thread")
    parser.add_argument(
        "--parts",
        nargs="*",
        metavar="PART",
        choices=list(PARTS),
        default=list(PARTS),
        help=f"what to measure, by default everything: {', '.join(PARTS)}",
    )
    parser.add_argument(
        "--figure", type=Path, help="where to draw the costs by number of trials"
    )
    parser.add_argument(
        "--peer-python",
        type=Path,
        nargs="+",
        metavar="PATH",
        help="interpreters with AEPsych and Trieste, to measure them, too",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    r"""Measure and print the tables.

    Args:
        arguments: The parsed command line.
    """
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # the peers warn about their own settings
    with threadpool_limits(1):  # the peers' algebra is not torch's
        _run(arguments)


def _run(arguments: argparse.Namespace) -> None:
    jobs = [job for part in arguments.parts for job in RATIOS.get(part, lambda: [])()]
    if arguments.peer_python is not None:
        jobs += peers.comparisons(arguments.peer_python)
    torch.manual_seed(0)
    rows = [job() for job in tqdm(jobs, desc="speed", unit="row")]
    if rows:
        print(format_table(rows))
    for part in arguments.parts:
        if part in TABLES:
            torch.manual_seed(0)
            print(TABLES[part](arguments))


def _print_latency(arguments: argparse.Namespace) -> str:
    n = 260
    return (
        "\nAn experiment that goes on:\n\n"
        f"{latency.format_latencies(latency.measure_latencies())}\n\n"
        "Peak memory of a process that suggests by cbkg: "
        f"{suggestions.peak_memory(n):.0f} MB (n = {n})"
    )


def _print_scale(arguments: argparse.Namespace) -> str:
    curves = scale.measure_curves()
    if arguments.figure is not None:
        scale.draw_curves(curves, arguments.figure)
    seconds, memory = scale.measure_largest()
    return (
        "\nProcessor time by the number of trials, and the exponent of its growth "
        f"from {scale.LARGE} trials on:\n\n{scale.format_curves(curves)}\n\n"
        f"A model of {scale.LARGEST} trials by Laplace's method and one suggestion in "
        f"a fresh process: {seconds:.0f} s and {memory:.0f} MB at most"
    )


def _print_batches(arguments: argparse.Namespace) -> str:
    waits = batches.count_waits()
    counts = ", ".join(f"`{rule}` {count}" for rule, count in waits.items())
    return (
        f"\nConditioning on {batches.NUM_TRIALS} trials and one suggestion by "
        f"{batches.RULE}, many experiments at once:\n\n"
        f"{batches.format_batches(batches.measure_batches())}\n\n"
        f"How often one suggestion reads a number of a tensor, which a GPU would have "
        f"to wait for: {counts}"
    )


def _print_compiled(arguments: argparse.Namespace) -> str:
    title = "\n`bald`, plain and by `torch.compile`"
    if not compiled.can_compile():
        return f"{title}: not measured, since there is no C++ compiler"
    table = compiled.format_compiled(compiled.measure_compiled())
    return f"{title}, after {compiled.NUM_TRIALS} trials:\n\n{table}"


def _print_several(arguments: argparse.Namespace) -> str:
    return (
        f"\n{several.SEVERAL} trials at once after {several.NUM_TRIALS}, processor "
        f"time (aim: at most {several.AIM:g} single suggestions):\n\n"
        f"{several.format_costs(several.measure_costs())}"
    )


def _latency_rows() -> list[Callable[[], Comparison]]:
    return [
        partial(latency.compare_experiment, 100),
        partial(latency.compare_ahead, 100),
    ]


def comparisons() -> Iterator[Callable[[], Comparison]]:
    r"""The rows of the table, each computed when called."""
    for n in SIZES:
        yield partial(compare_outcomes, n)
    for n in SIZES:
        yield partial(compare_duels, n)
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
    inputs = X.numpy()
    labels = Y.squeeze(-1).numpy()
    covar_module = kernel()
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
    points = X.flatten(0, 1)
    pairs = index_pairs(n)
    covar_module = kernel()

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


#: Functions that make rows of the table of ratios, by the parts of the command.
RATIOS: dict[str, Callable[[], Iterable[Callable[[], Comparison]]]] = {
    "models": comparisons,
    "fits": fits.comparisons,
    "inference": inference.comparisons,
    "suggestions": suggestions.comparisons,
    "latency": _latency_rows,
}
#: Functions that print a table of their own.
TABLES: dict[str, Callable[[argparse.Namespace], str]] = {
    "latency": _print_latency,
    "scale": _print_scale,
    "batches": _print_batches,
    "compiled": _print_compiled,
    "several": _print_several,
}
PARTS = dict.fromkeys([*RATIOS, *TABLES])
