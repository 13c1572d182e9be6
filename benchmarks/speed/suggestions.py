r"""
How fast suggestions are: rows of ``python -m benchmarks speed``.
"""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median

import torch
from botorch.acquisition import qKnowledgeGradient
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from botorch.models import PairwiseGP, SingleTaskGP
from botorch.optim import optimize_acqf
from torch import Tensor

from benchmarks.speed.data import (
    BATCH,
    DIM,
    duels,
    index_pairs,
    kernel,
    outcomes,
    performance,
)
from benchmarks.speed.timing import Comparison, measure
from botorch_binary_context import (
    BinaryLaplaceGP,
    ContextSpace,
    MultiplicativeContextKernel,
    PreferenceLaplaceGP,
    suggest,
)
from botorch_binary_context.models.latent_gp import LatentGP

RESTARTS = 10
# The number of data sets, since the number of steps of a search varies.
REPEATS = 5
RAW_SAMPLES = 512
FANTASIES = 64


def comparisons() -> Iterator[Callable[[], Comparison]]:
    r"""The rows of the table, each computed when called."""
    yield partial(compare_suggestion, 60)
    yield partial(compare_batch_suggestion, 60)
    yield partial(compare_knowledge_gradient, 60)
    for n, share in ((60, 20), (260, 40)):
        yield partial(compare_rules, n, "cbkg", "ucb-ald", share)
        yield partial(compare_rules, n, "kg", "muc-ald", share)


def unit_box(dim: int) -> Tensor:
    """The bounds of the unit cube."""
    return torch.stack([torch.zeros(dim), torch.ones(dim)]).double()


def space() -> ContextSpace:
    """The unit cube with a context in front."""
    return ContextSpace(unit_box(DIM + 1), context_dims=[0], reference_context=[1.0])


def with_context(X: Tensor) -> Tensor:
    """Trials with a random context, shared by the sides of a duel."""
    shape = (*X.shape[:-2], 1, 1) if X.shape[-2] == 2 else (*X.shape[:-1], 1)
    context = torch.rand(shape, dtype=X.dtype).expand(*X.shape[:-1], 1)
    return torch.cat([context, X], dim=-1)


def binary_model(*shape: int) -> BinaryLaplaceGP:
    """A model of pass/fail trials in a context."""
    X, Y = outcomes(*shape)
    return BinaryLaplaceGP(
        with_context(X), Y, covar_module=MultiplicativeContextKernel(kernel(), [0])
    )


def preference_model(n: int) -> PreferenceLaplaceGP:
    """A model of duels in a context."""
    X, Y = duels(n)
    return PreferenceLaplaceGP(
        with_context(X), Y, covar_module=MultiplicativeContextKernel(kernel(), [0])
    )


def suggester(model: LatentGP, rule: str) -> Callable:
    """A job that suggests a trial, from one of a few sets of raw points."""
    box = space()
    seeds = iter(range(10**9))
    for seed in range(24):  # every set of raw points is prepared once in a process
        suggest(model, box, "bald" if rule in ("cbkg", "kg") else rule, seed=seed)
    return lambda: suggest(model, box, rule, seed=next(seeds))


def compare_suggestion(n: int) -> Comparison:
    ours, theirs = [], []
    for _ in range(REPEATS):
        X, _ = duels(n)
        pairs = index_pairs(n)
        pairwise = PairwiseGP(X.flatten(0, 1), pairs, covar_module=kernel()).eval()
        theirs.append(measure(partial(suggest_by_eubo, pairwise)))
        ours.append(measure(suggester(binary_model(n), "ucb-ald")))
    return Comparison(
        job=f"suggest by ucb-ald after {n} trials",
        peer="EUBO of PairwiseGP",
        ours=median(ours),
        theirs=median(theirs),
        aim="≥ 10",
    )


def suggest_by_eubo(model: PairwiseGP) -> None:
    """BoTorch's next duel: the pair with the highest expected value of the better."""
    optimize_acqf(
        AnalyticExpectedUtilityOfBestOption(model),
        unit_box(DIM),
        q=2,
        num_restarts=RESTARTS,
        raw_samples=RAW_SAMPLES,
    )


def compare_batch_suggestion(n: int) -> Comparison:
    models = [binary_model(n) for _ in range(BATCH)]
    jobs = [suggester(models[0], "ucb-ald")]
    jobs += [
        partial(suggest, model, space(), "ucb-ald", seed=0) for model in models[1:]
    ]
    batched = suggester(binary_model(BATCH, n), "ucb-ald")
    return Comparison(
        job=f"suggest by ucb-ald for {BATCH} models after {n} trials",
        peer=f"{BATCH} single models",
        ours=measure(batched),
        theirs=measure(lambda: [job() for job in jobs]),
        aim="≥ 2",
    )


def compare_knowledge_gradient(n: int) -> Comparison:
    X, _ = outcomes(n)
    model = SingleTaskGP(X, performance(X))

    def theirs() -> None:
        acqf = qKnowledgeGradient(model, num_fantasies=FANTASIES)
        optimize_acqf(
            acqf, unit_box(DIM), q=1, num_restarts=RESTARTS, raw_samples=RAW_SAMPLES
        )

    return Comparison(
        job=f"suggest by cbkg after {n} trials",
        peer=f"qKnowledgeGradient of SingleTaskGP, {FANTASIES} fantasies",
        ours=measure(suggester(binary_model(n), "cbkg"), budget=4.0),
        theirs=measure(theirs),
        aim="≥ 30",
    )


def compare_rules(n: int, rule: str, reference: str, share: int) -> Comparison:
    model = binary_model(n) if rule == "cbkg" else preference_model(n)
    return Comparison(
        job=f"suggest by {rule} after {n} trials",
        peer=reference,
        ours=measure(suggester(model, rule), budget=4.0),
        theirs=measure(suggester(model, reference)),
        aim=f"≥ 1/{share} = {1 / share:.3f}",
    )


def peak_memory(n: int) -> float:
    r"""The memory, in MB, of a process that suggests by the knowledge gradient.

    Args:
        n: The number of trials so far.

    Returns:
        The peak of a fresh process, the libraries included.
    """
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_peak_of_suggestion, (n,))


def _peak_of_suggestion(n: int) -> float:
    torch.set_num_threads(1)
    suggest(binary_model(n), space(), "cbkg")
    # ``ru_maxrss`` would start from the memory of the parent process.
    status = Path("/proc/self/status").read_text()
    (kilobytes,) = re.findall(r"VmHWM:\s*(\d+) kB", status)
    return int(kilobytes) / 1024
