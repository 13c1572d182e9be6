r"""
How fast ways of inference are, and what builds on them: rows of the table of speeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

import torch

from benchmarks.speed.data import BATCH, kernel, outcomes
from benchmarks.speed.suggestions import space, suggester, with_context
from benchmarks.speed.timing import Comparison, measure
from botorch_binary_context import (
    BinaryGP,
    MultiplicativeContextKernel,
    Observations,
)
from botorch_binary_context.inference import (
    ExpectationPropagation,
    Inference,
    Laplace,
)
from botorch_binary_context.models.latent_gp import LatentGP

EP = ExpectationPropagation()
LAPLACE = Laplace()
# The number of data sets, since the number of steps of a search varies.
REPEATS = 5


def comparisons() -> Iterator[Callable[[], Comparison]]:
    r"""The rows of the table, each computed when called."""
    for n in (60, 260, 1000):
        yield partial(compare_conditioning, n)
        yield partial(compare_warm_conditioning, n)
    for inference in (LAPLACE, EP):
        yield partial(compare_with_a_cold_start, inference, 1000)
    yield partial(compare_batch, 60)
    for n, share in ((60, 2), (260, 4)):
        yield partial(compare_knowledge_gradient, n, share)
    yield partial(compare_exact_posterior, 60)
    yield partial(compare_warm_exact_posterior, 60)


def make_model(inference: Inference, *shape: int) -> LatentGP:
    """A model of pass/fail outcomes."""
    X, Y = outcomes(*shape)
    return BinaryGP(X, Y, covar_module=kernel(), inference=inference).eval()


def compare_conditioning(n: int) -> Comparison:
    X, Y = outcomes(n)

    def job(inference: Inference) -> object:
        model = BinaryGP(X, Y, covar_module=kernel(), inference=inference)
        with torch.no_grad():
            return model.eval().approximation

    return Comparison(
        job=f"condition on {n} outcomes by expectation propagation",
        peer="Laplace's method",
        ours=measure(lambda: job(EP)),
        theirs=measure(lambda: job(LAPLACE)),
        aim="≥ 1/3",
    )


def compare_warm_conditioning(n: int) -> Comparison:
    X, Y = outcomes(1)
    jobs = []
    for inference in (EP, LAPLACE):
        model = make_model(inference, n)
        with torch.no_grad():
            model.approximation  # noqa: B018
        jobs.append(partial(_condition_further, model, X, Y))
    return Comparison(
        job=f"condition on one more after {n} outcomes, expectation propagation",
        peer="Laplace's method",
        ours=measure(jobs[0]),
        theirs=measure(jobs[1]),
        aim="≥ 1/1.5",
    )


def compare_with_a_cold_start(inference: Inference, n: int) -> Comparison:
    times = [_time_one_more(inference, n) for _ in range(REPEATS)]
    further, cold = (median(column) for column in zip(*times, strict=True))
    way = "Laplace" if inference == LAPLACE else "expectation propagation"
    return Comparison(
        job=f"condition on one more after {n} outcomes, {way}",
        peer="a cold start",
        ours=further,
        theirs=cold,
        aim="≥ 5",
    )


def _time_one_more(inference: Inference, n: int) -> tuple[float, float]:
    """The times of one more trial and of a cold start, on a data set of its own."""
    X, Y = outcomes(n)

    def condition() -> LatentGP:
        model = BinaryGP(X, Y, covar_module=kernel(), inference=inference).eval()
        with torch.no_grad():
            model.approximation  # noqa: B018
        return model

    further = partial(_condition_further, condition(), *outcomes(1))
    return measure(further), measure(condition)


def _condition_further(model: LatentGP, X: torch.Tensor, Y: torch.Tensor) -> object:
    """One trial more, as experiments add it: without a copy of hyperparameters."""
    more = Observations(X, Y, model.likelihood)
    with torch.no_grad():
        return model.grow(more).approximation


def compare_batch(n: int) -> Comparison:
    X, Y = outcomes(BATCH, n)

    def job(X: torch.Tensor, Y: torch.Tensor) -> object:
        with torch.no_grad():
            return BinaryGP(X, Y, covar_module=kernel()).eval().approximation

    return Comparison(
        job=f"condition {BATCH} models on {n} outcomes, expectation propagation",
        peer="one model",
        ours=measure(lambda: job(X, Y)),
        theirs=measure(lambda: job(X[0], Y[0])),
        aim="≥ 1/10",
    )


def compare_knowledge_gradient(n: int, share: int) -> Comparison:
    X, Y = outcomes(n)
    covar_module = MultiplicativeContextKernel(kernel(), [0])
    model = BinaryGP(with_context(X), Y, covar_module=covar_module)
    return Comparison(
        job=f"suggest by mkg after {n} trials, expectation propagation",
        peer="ucb-ald",
        ours=measure(suggester(model, "mkg"), budget=2.0),
        theirs=measure(suggester(model, "ucb-ald")),
        aim=f"≥ 1/{share}",
    )


def compare_exact_posterior(n: int) -> Comparison:
    model = make_model(EP, n)
    test_X = space().bounds[:, 1:]

    def job() -> object:
        model._samples = {}
        with torch.no_grad():
            return model.exact_posterior(test_X).mean

    job()
    return Comparison(
        job=f"the true posterior of {n} outcomes, 4096 draws",
        peer="a limit of 1 s",
        ours=measure(job),
        theirs=1.0,
        aim="≥ 1",
    )


def compare_warm_exact_posterior(n: int) -> Comparison:
    model = make_model(EP, n)
    test_X = space().bounds[:, 1:]
    X, Y = outcomes(1)

    def job() -> object:
        with torch.no_grad():
            further = model.condition_on_observations(X, Y)
            return further.exact_posterior(test_X).mean

    with torch.no_grad():
        model.exact_posterior(test_X)
    return Comparison(
        job=f"the same with one more after {n} outcomes",
        peer="a limit of 0.2 s",
        ours=measure(job),
        theirs=0.2,
        aim="≥ 1",
    )
