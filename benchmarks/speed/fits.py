r"""
How fast hyperparameters are learned: rows of the table of speeds.

Both sides learn the same number of hyperparameters of the same kernel from the same
data and the same start. The time is measured until the objective is within ``CLOSE`` of
the best value that the same search finds, since searches differ in how long they polish
the result.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any
from unittest import mock

import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import PairwiseGP
from botorch.models.pairwise_gp import PairwiseLaplaceMarginalLogLikelihood
from scipy.optimize import minimize
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from threadpoolctl import threadpool_limits

from benchmarks.speed.data import BATCH, DIM, duels, index_pairs, kernel, outcomes
from benchmarks.speed.timing import Comparison, measure
from botorch_binary_context import (
    ApproximateMarginalLogLikelihood,
    BinaryGP,
    BinaryLaplaceGP,
    LaplaceMarginalLogLikelihood,
    PreferenceLaplaceGP,
)
from botorch_binary_context.models import fitting
from botorch_binary_context.models.latent_gp import LatentGP

SIZES = (60, 260, 1000)
CLOSE = 1e-3
# The number of data sets of each size, since the number of evaluations varies.
REPEATS = {60: 8, 260: 3}

Trace = list[tuple[float, float]]


def comparisons() -> Iterator[Callable[[], Comparison]]:
    r"""The rows of the table, each computed when called."""
    for n in SIZES:
        yield partial(compare_outcome_fits, n, BinaryLaplaceGP, "≥ 1")
    yield partial(compare_outcome_fits, 260, BinaryGP, "")
    for n in (60, 260):
        yield partial(compare_duel_fits, n)
    yield partial(compare_batch_fits, 60)
    yield partial(compare_fits_on_all_threads, 260)


def fit(model: LatentGP, trace: Trace | None = None) -> None:
    r"""Learn the hyperparameters of a model.

    Args:
        model: The model.
        trace: Filled with the times and the objectives of all evaluations.
    """
    mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
    if trace is None:
        fit_gpytorch_mll(mll)
        return
    n = model.train_targets.shape[-1]

    def traced(function: Any, begin: np.ndarray, **options: Any) -> Any:
        def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = function(x)
            trace.append((time.process_time(), n * value))
            return value, slope

        return minimize(evaluate, begin, **options)

    with mock.patch.object(fitting, "minimize", traced):
        fit_gpytorch_mll(mll)


def time_until_close(search: Callable[[Trace], object]) -> float:
    r"""The processor time until an objective is close to the best that is found.

    Args:
        search: A search that records its evaluations.

    Returns:
        The time in seconds.
    """
    trace: Trace = []
    start = time.process_time()
    search(trace)
    best = min(value for _, value in trace)
    return next(end for end, value in trace if value <= best + CLOSE) - start


def compare_outcome_fits(n: int, model_class: type[BinaryGP], aim: str) -> Comparison:
    ours, theirs = [], []
    for _ in range(REPEATS.get(n, 1)):
        X, Y = outcomes(n)

        def search(trace: Trace, X: Any = X, Y: Any = Y) -> None:
            fit(model_class(X, Y, covar_module=kernel()), trace)

        ours.append(time_until_close(search))
        theirs.append(time_until_close(partial(fit_sklearn, X.numpy(), Y.numpy())))
    way = "Laplace" if model_class is BinaryLaplaceGP else "expectation propagation"
    return Comparison(
        job=f"fit hyperparameters to {n} outcomes, {way}",
        peer="scikit-learn",
        ours=median(ours),
        theirs=median(theirs),
        aim=aim,
    )


def fit_sklearn(X: np.ndarray, Y: np.ndarray, trace: Trace) -> None:
    r"""Learn the hyperparameters of scikit-learn's classifier.

    Args:
        X: The trials.
        Y: Their outcomes.
        trace: Filled with the times and the objectives of all evaluations.
    """

    def optimize(objective: Any, theta: np.ndarray, bounds: np.ndarray) -> Any:
        def traced(x: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = objective(x)
            trace.append((time.process_time(), float(value)))
            return value, slope

        found = minimize(traced, theta, jac=True, method="L-BFGS-B", bounds=bounds)
        return found.x, found.fun

    lengthscale: Any = [0.3] * DIM
    covariance = ConstantKernel(2.0) * RBF(lengthscale)
    search: Any = optimize
    GaussianProcessClassifier(covariance, optimizer=search).fit(X, Y.ravel())


def compare_duel_fits(n: int) -> Comparison:
    X, Y = duels(n)
    points = X.flatten(0, 1)
    pairs = index_pairs(n)

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
        aim="≥ 10",
    )


def compare_batch_fits(n: int) -> Comparison:
    X, Y = outcomes(BATCH, n)

    def single() -> None:
        for x, y in zip(X, Y, strict=True):
            fit(BinaryLaplaceGP(x, y))

    return Comparison(
        job=f"fit {BATCH} models to {n} outcomes each",
        peer=f"{BATCH} single fits",
        ours=measure(lambda: fit(BinaryLaplaceGP(X, Y))),
        theirs=measure(single),
        aim=f"≥ {BATCH // 8}",
    )


def compare_fits_on_all_threads(n: int) -> Comparison:
    X, Y = outcomes(n)
    cores = os.cpu_count() or 1
    with threadpool_limits(cores):
        torch.set_num_threads(cores)
        try:
            ours = measure(lambda: fit(BinaryLaplaceGP(X, Y, covar_module=kernel())))
            theirs = measure(lambda: fit_sklearn(X.numpy(), Y.numpy(), []))
        finally:
            torch.set_num_threads(1)
    return Comparison(
        job=f"fit hyperparameters to {n} outcomes, Laplace, {cores} threads allowed",
        peer="scikit-learn",
        ours=ours,
        theirs=theirs,
        aim="≥ 1",
    )
