r"""
``python -m benchmarks run threshold-coverage``: do intervals of thresholds hold them?

Experiments without parameters, which only look for a threshold, with the default
settings. The psychometric functions of the simulated subjects have thresholds anywhere
in the middle four fifths of the range and slopes that differ from what is expected of
them. After some trials the 90 % intervals that a recommendation tells are compared with
the true thresholds.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.utils.sampling import manual_seed
from torch import Tensor

from benchmarks.studies import store
from benchmarks.studies.table_study import write_tables
from benchmarks.tables import format_table
from botorch_binary_context.bands import first_fall
from botorch_binary_context.experiment import (
    Context,
    NamedSpace,
    PassFail,
    Settings,
)
from botorch_binary_context.experiment.chooser import SEARCH
from botorch_binary_context.experiment.prior import make_prior
from botorch_binary_context.experiment.recommendation import num_sets
from botorch_binary_context.experiment.surrogate import (
    INFERENCES,
    last_scheduled_fit,
)
from botorch_binary_context.likelihoods import ProbitLikelihood
from botorch_binary_context.models import (
    ApproximateMarginalLogLikelihood,
    AveragedGP,
)
from botorch_binary_context.models.mixed_gp import MixedGP
from botorch_binary_context.rules import suggest

NAME = "threshold-coverage"
SUBJECTS = 40
CHECKPOINTS = (20, 40)
ALTERNATIVES = (2, 26)
# In standard deviations of the noise, from the middle to an end of the range.
SLOPES = (3.0, 6.0, 12.0)
CREDIBLE, NUM_SAMPLES = 0.9, 1024
LINE = 201  # values of the context
AT_ONCE = 20


def make_settings(alternatives: int) -> Settings:
    """An experiment that looks for a threshold, with the default settings."""
    context = Context("contrast", reference=0.0, low=0.0, high=1.0, harder="down")
    feedback = PassFail(alternatives=alternatives)
    return Settings(NamedSpace([], [context]), feedback, seed=0)


def simulate(
    alternatives: int, slope: float, subjects: int = SUBJECTS, seed: int = 0
) -> pl.DataFrame:
    r"""Run experiments and look at their intervals.

    Args:
        alternatives: How many answers a trial has.
        slope: That of the psychometric functions.
        subjects: The number of experiments; they run as one batch.
        seed: The seed of what is random.

    Returns:
        For every experiment and checkpoint whether the interval held the threshold, how
        wide it was, and the error of its median, all as shares of the range.
    """
    torch.set_num_threads(1)
    settings = make_settings(alternatives)
    likelihood = settings.feedback.likelihood()
    space = settings.encoder().context_space
    first = int(settings.initial_trials or 0)
    frames = []
    with manual_seed(seed):
        # From -1 at the hardest to 1 at the easiest.
        truth = 1.6 * torch.rand(subjects, 1, dtype=torch.double) - 0.8

        def answer(X: Tensor) -> Tensor:
            p = likelihood.probability(slope * (X - truth.unsqueeze(-1)))
            return (torch.rand_like(p) < p).to(p)

        X = torch.zeros(subjects, first, 1, dtype=torch.double)
        model = make_model(settings, X, answer(X))
        for n in range(first + 1, max(CHECKPOINTS) + 1):
            trial = suggest(model, space, str(settings.rule), SEARCH, seed=n)
            model = model.condition_on_observations(trial, answer(trial))
            if last_scheduled_fit(n, first) == n:
                mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
                fit_gpytorch_mll(mll)
                model.eval()
            if n in CHECKPOINTS:
                frames.append(_look(settings, model, n, truth.squeeze(-1)))
    columns = {"alternatives": alternatives, "slope": slope}
    return pl.concat(frames).with_columns(
        [pl.lit(value).alias(name) for name, value in columns.items()]
    )


def make_model(settings: Settings, X: Tensor, Y: Tensor) -> MixedGP:
    """The models of a batch of experiments, as each of them makes its own."""
    prior = make_prior(settings, X.shape[:-2])
    likelihood = _make_likelihood(settings.feedback, X.shape[:-2])
    return MixedGP(
        settings.feedback.observations(X, Y, likelihood),
        covar_module=prior["covariance"],  # pyright: ignore[reportArgumentType]
        mean_module=prior["mean"],  # pyright: ignore[reportArgumentType]
        inference=INFERENCES[settings.inference](),
    ).eval()


def _make_likelihood(feedback: Any, batch_shape: torch.Size) -> ProbitLikelihood:
    """That of the feedback, with a lapse rate for every experiment if it is learned."""
    return ProbitLikelihood(
        feedback.guess_rate,
        feedback.first_lapse_rate,
        learn_lapse_rate=feedback.learns_lapse_rate,
        batch_shape=batch_shape,
    )


def _look(settings: Settings, model: MixedGP, n: int, truth: Tensor) -> pl.DataFrame:
    """Compare intervals with the truth, of a few experiments at a time."""
    line = torch.linspace(1.0, -1.0, LINE, dtype=torch.double)
    position = (1.0 - truth) / 2.0
    found = []
    for begin in range(0, len(truth), AT_ONCE):
        few = slice(begin, begin + AT_ONCE)
        averaged = AveragedGP(_take(settings, model, few), num_sets(n))
        trials = line.view(LINE, 1, 1).expand(LINE, len(truth[few]), 1)
        with torch.no_grad():
            posterior = averaged.exact_posterior(trials.unsqueeze(-2), NUM_SAMPLES)
            found.append(posterior.cdf(0.0)[..., 0, 0])
    below = torch.cat(found, dim=-1).movedim(0, -1)  # subjects x LINE
    center, low, high = (
        crossing(below, p) / (LINE - 1)
        for p in (0.5, (1 - CREDIBLE) / 2, (1 + CREDIBLE) / 2)
    )
    covered = (low <= position) & (position <= high)
    frame = {
        "subject": list(range(len(truth))),
        "trials": [n] * len(truth),
        "covered": covered.tolist(),
        "width": (high.clamp(0, 1) - low.clamp(0, 1)).tolist(),
        "error": (center.clamp(0, 1) - position).abs().tolist(),
    }
    return pl.DataFrame(frame)


def crossing(below: Tensor, probability: float) -> Tensor:
    r"""Where the threshold is passed with a probability.

    Args:
        below: The probabilities to be below it, along a line of contexts.
        probability: The probability.

    Returns:
        Positions on the line.
    """
    margin = torch.finfo(below.dtype).eps
    curve = -torch.special.ndtri(below.clamp(margin, 1 - margin))
    tail = torch.special.ndtri(below.new_tensor(probability))
    return first_fall(curve, -float(tail))


def _take(settings: Settings, model: MixedGP, few: slice) -> MixedGP:
    """Some experiments of a batch."""
    number = model.batch_shape[0]
    X, Y = model.trials_by_kind()[0][1:]
    part = make_model(settings, X[few], Y[few].unsqueeze(-1))
    state = {
        key: value[few] if value.ndim and value.shape[0] == number else value
        for key, value in model.state_dict().items()
    }
    part.load_state_dict(state)
    return part.eval()


def run(arguments: argparse.Namespace) -> None:
    r"""Run the simulations that are not finished, each in a process of its own.

    Args:
        arguments: The parsed command line.
    """
    folder = arguments.output / NAME
    subjects = arguments.seeds or SUBJECTS
    cells = list(itertools.product(ALTERNATIVES, SLOPES))
    missing = [cell for cell in cells if store.read_table(_path(folder, *cell)) is None]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.workers, mp_context=context) as pool:
        futures = {cell: pool.submit(simulate, *cell, subjects) for cell in missing}
        for cell, future in futures.items():
            store.save(future.result(), _path(folder, *cell))
            print(f"{NAME}: {cell} is finished")


def _path(folder: Path, alternatives: int, slope: float) -> Path:
    return store.result_path(folder, f"{alternatives} {slope:g}", NAME)


def write_report(root: Path) -> Path:
    r"""Write the report.

    Args:
        root: The folder of all results.

    Returns:
        The path of the Markdown file.
    """
    return write_tables(root / NAME, _describe)


def _describe(frame: pl.DataFrame) -> list[str]:
    """The sections of the report."""
    return [
        f"# The study `{NAME}`\n\nHow often 90 % intervals hold the threshold in "
        f"experiments that look for nothing else ({frame['subject'].n_unique()} in "
        "each row), with the standard error of such a share; widths and errors are "
        f"medians, in shares of the range. `python -m benchmarks run {NAME}` makes it.",
        format_rows(frame),
    ]


def format_rows(frame: pl.DataFrame) -> str:
    r"""The results as a table.

    Args:
        frame: The results.
    """
    keys = ["alternatives", "slope", "trials"]
    rows = []
    for key, group in frame.sort(keys).group_by(keys, maintain_order=True):
        share = group["covered"].cast(pl.Float64).to_numpy().mean()
        error = (share * (1 - share) / len(group)) ** 0.5
        width = group["width"].to_numpy()
        miss = group["error"].to_numpy()
        numbers = [f"{sorted(found)[len(found) // 2]:.3f}" for found in (width, miss)]
        rows.append(
            [*map(str, key), f"{100 * share:.0f} ± {100 * error:.0f}", *numbers]
        )
    header = ["alternatives", "slope", "trials", "covered (%)", "width", "error"]
    return format_table(header, rows)
