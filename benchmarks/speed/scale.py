r"""
How costs grow with the number of trials, from 20 to 50 000.
"""

from __future__ import annotations

import math
import multiprocessing
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import matplotlib.pyplot as plt
import torch
from botorch.fit import fit_gpytorch_mll

from benchmarks.speed.data import duels, kernel, outcomes
from benchmarks.speed.suggestions import space, with_context
from benchmarks.tables import format_table
from botorch_binary_context import (
    ApproximateMarginalLogLikelihood,
    BinaryGP,
    InducingGP,
    MultiplicativeContextKernel,
    suggest,
)
from botorch_binary_context.inference import (
    ExpectationPropagation,
    Inference,
    Laplace,
)
from botorch_binary_context.models.latent_gp import LatentGP

SMALL = (20, 60, 200, 600)
LARGEST = 5000
MANY = (200, 2000, 10_000, 50_000)
RULE = "ucb99-ald"
# Trials below which repetitions are cheap, and from which exponents are fitted.
CHEAP = 1000
LARGE = 500


@dataclass(frozen=True)
class Curve:
    r"""The cost of a job at growing numbers of trials.

    Attributes:
        job: What is done.
        sizes: The numbers of trials.
        times: The processor times, in seconds.
    """

    job: str
    sizes: tuple[int, ...]
    times: tuple[float, ...]

    @property
    def exponent(self) -> float:
        """The slope of the logarithm of the time, at large numbers of trials."""
        points = [
            (math.log(n), math.log(t))
            for n, t in zip(self.sizes, self.times, strict=True)
            if n >= LARGE
        ]
        if len(points) < 2:
            return math.nan
        x, y = (torch.tensor(v, dtype=torch.double) for v in zip(*points, strict=True))
        x = x - x.mean()
        return float((x * y).sum() / x.square().sum())


def measure_curves(quick: bool = False) -> list[Curve]:
    r"""The curves of all jobs.

    Args:
        quick: Whether to leave out the largest numbers of trials.
    """
    some = SMALL if quick else (*SMALL, 2000)
    all_sizes = SMALL if quick else (*SMALL, 2000, LARGEST)
    many = MANY[:2] if quick else MANY
    return [
        _curve("condition, Laplace", all_sizes, partial(condition, Laplace())),
        _curve("condition, EP", some, partial(condition, ExpectationPropagation())),
        _curve("one more trial, Laplace", some, partial(one_more, Laplace())),
        _curve("one more trial, EP", some, partial(one_more, ExpectationPropagation())),
        _curve("fit, Laplace", some, fit),
        _curve(f"suggest, {RULE}", all_sizes, partial(suggestion, exact_model)),
        _curve("suggest, cbkg", some, partial(suggestion, exact_model, rule="cbkg")),
        _curve("condition, InducingGP of duels", many, condition_inducing),
        _curve(
            f"suggest, {RULE}, InducingGP", many, partial(suggestion, inducing_model)
        ),
    ]


def _curve(job: str, sizes: Sequence[int], run: Callable[[int], float]) -> Curve:
    times = [median(run(n) for _ in range(5 if n < CHEAP else 1)) for n in sizes]
    return Curve(job, tuple(sizes), tuple(times))


def _seconds(job: Callable[[], object]) -> float:
    start = time.process_time()
    with torch.no_grad():
        job()
    return time.process_time() - start


def condition(inference: Inference, n: int) -> float:
    X, Y = outcomes(n)
    model = BinaryGP(X, Y, covar_module=kernel(), inference=inference).eval()
    return _seconds(lambda: model.approximation)


def one_more(inference: Inference, n: int) -> float:
    X, Y = outcomes(n + 1)
    model = BinaryGP(X[:n], Y[:n], covar_module=kernel(), inference=inference).eval()
    with torch.no_grad():
        model.approximation  # noqa: B018
    return _seconds(lambda: model.condition_on_observations(X[n:], Y[n:]).approximation)


def fit(n: int) -> float:
    X, Y = outcomes(n)
    model = BinaryGP(X, Y, covar_module=kernel(), inference=Laplace())
    mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
    start = time.process_time()
    fit_gpytorch_mll(mll)
    return time.process_time() - start


def condition_inducing(n: int) -> float:
    X, Y = duels(n)
    model = InducingGP(X, Y, covar_module=kernel()).eval()
    return _seconds(lambda: model.approximation)


def exact_model(n: int) -> LatentGP:
    X, Y = outcomes(n)
    covar_module = MultiplicativeContextKernel(kernel(), [0])
    options = {"covar_module": covar_module, "inference": Laplace()}
    return BinaryGP(with_context(X), Y, **options).eval()


def inducing_model(n: int) -> LatentGP:
    X, Y = outcomes(n)
    covar_module = MultiplicativeContextKernel(kernel(), [0])
    return InducingGP(with_context(X), Y, covar_module=covar_module).eval()


def suggestion(make: Callable[[int], LatentGP], n: int, rule: str = RULE) -> float:
    model = make(n)
    with torch.no_grad():
        model.approximation  # noqa: B018
    return _seconds(lambda: suggest(model, space(), rule))


def format_curves(curves: Iterable[Curve]) -> str:
    r"""Curves as a Markdown table.

    Args:
        curves: The curves.
    """
    curves = list(curves)
    sizes = sorted({n for curve in curves for n in curve.sizes})
    rows = []
    for curve in curves:
        times = dict(zip(curve.sizes, curve.times, strict=True))
        cells = [f"{times[n] * 1e3:.0f} ms" if n in times else "" for n in sizes]
        rows.append([curve.job, *cells, f"{curve.exponent:.1f}"])
    return format_table(["job", *(f"n = {n}" for n in sizes), "exponent"], rows)


def draw_curves(curves: Iterable[Curve], path: Path) -> None:
    r"""Draw curves, both axes in logarithms.

    Args:
        curves: The curves.
        path: Where to write the figure.
    """
    figure, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for curve in curves:
        ax.loglog(curve.sizes, curve.times, marker="o", markersize=3, label=curve.job)
    ax.set(xlabel="trials", ylabel="processor time (s)")
    ax.grid(alpha=0.3)
    ax.legend(fontsize=7)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def measure_largest(n: int = LARGEST) -> tuple[float, float]:
    r"""The time and the memory of a large model and one suggestion.

    Args:
        n: The number of trials.

    Returns:
        The processor time in seconds and the peak of a fresh process in MB.
    """
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_largest, (n,))


def _largest(n: int) -> tuple[float, float]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    seconds = _seconds(lambda: suggest(exact_model(n), space(), RULE))
    status = Path("/proc/self/status").read_text()
    (kilobytes,) = re.findall(r"VmHWM:\s*(\d+) kB", status)
    return seconds, int(kilobytes) / 1024
