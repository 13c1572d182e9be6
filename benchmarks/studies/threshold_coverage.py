r"""
``python -m benchmarks run threshold-coverage``: do intervals of thresholds hold them?

Experiments without parameters, which only look for a threshold. The psychometric
functions of the simulated subjects have thresholds anywhere in the middle four fifths
of the range and slopes that differ from those expected. After some trials the 90 %
intervals are compared with the true thresholds.

First some priors are compared on a dense grid of psychometric functions
(:mod:`benchmarks.studies.threshold_priors`): the priors of experiments are chosen from
them. Then, with other subjects of other slopes, whole experiments run with the former
and the present priors, and the intervals of their recommendations are examined.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import polars as pl
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.utils.sampling import manual_seed
from torch import Tensor

from benchmarks.studies.table_study import Job, TableStudy
from benchmarks.studies.threshold_priors import (
    SlopePrior,
    compare,
    simulate_on_grid,
)
from benchmarks.tables import format_table
from botorch_binary_context.experiment import (
    Context,
    NamedSpace,
    PassFail,
    Settings,
)
from botorch_binary_context.experiment.chooser import SEARCH
from botorch_binary_context.experiment.estimates import num_sets
from botorch_binary_context.experiment.prior import make_prior
from botorch_binary_context.experiment.settings_checks import INFERENCES
from botorch_binary_context.likelihoods import ProbitLikelihood
from botorch_binary_context.models import (
    ApproximateMarginalLogLikelihood,
    AveragedGP,
)
from botorch_binary_context.models.mixed_gp import MixedGP
from botorch_binary_context.models.schedule import should_learn
from botorch_binary_context.rules import suggest

NAME = "threshold-coverage"
SUBJECTS = 30
CHECKPOINTS = (20, 40)
ALTERNATIVES = (2, 26)
# Slopes, in standard deviations of the noise from the middle to an end of the range.
SLOPES = (3.0, 6.0, 12.0)
PRIORS = ("pooled", "wide")
NUM_SAMPLES = 1024
LINE = 201  # values of the context
AT_ONCE = 20
# The priors to choose from.
CANDIDATES = (
    SlopePrior(6.0, 0.5, 4.0, 25.0),  # "pooled"
    SlopePrior(5.0, 1.0, 1.0, 25.0),
    SlopePrior(4.0, 1.0, 1.0, 25.0),
    SlopePrior(3.0, 1.0, 1.0, 25.0),  # "wide"
    SlopePrior(4.0, 1.0, 0.25, 25.0),
    SlopePrior(4.0, 1.0, 1.0, 100.0),
    SlopePrior(3.0, 1.0, 0.25, 100.0),
    SlopePrior(4.0, 1.5, 1.0, 25.0),
    SlopePrior(3.0, 1.5, 1.0, 25.0),
)
CHOICE_SLOPES = (2.5, 5.0, 10.0)
CHOICE_SUBJECTS = 100
CHOICE_SEED = 7


def make_settings(priors: str, alternatives: int) -> Settings:
    """An experiment that looks for a threshold, otherwise with the default settings."""
    context = Context("contrast", reference=0.0, low=0.0, high=1.0, harder="down")
    feedback = PassFail(alternatives=alternatives, lapse_rate=0.0)
    return Settings(NamedSpace([], [context]), feedback, seed=0, priors=priors)


def simulate(
    priors: str,
    alternatives: int,
    slope: float,
    subjects: int = SUBJECTS,
    seed: int = 0,
) -> pl.DataFrame:
    r"""Run experiments and look at their intervals.

    Args:
        priors: The priors of the settings.
        alternatives: The number of alternatives of a trial.
        slope: The slope of the psychometric functions.
        subjects: The number of experiments; they run as one batch.
        seed: The seed of all random choices.

    Returns:
        For every experiment and checkpoint, whether the interval contained the
        threshold, how wide it was, and the error of its median, all as shares of the
        range.
    """
    torch.set_num_threads(1)
    settings = make_settings(priors, alternatives)
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
            if should_learn(n, first):
                mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
                fit_gpytorch_mll(mll)
                model.eval()
            if n in CHECKPOINTS:
                frames.append(_look(settings, model, n, truth.squeeze(-1)))
    return _label(pl.concat(frames), priors, alternatives, slope)


def choose(prior: SlopePrior) -> pl.DataFrame:
    r"""Run experiments with a prior that may be chosen, on a grid.

    Args:
        prior: The prior of the experiments.

    Returns:
        The same as from :func:`simulate`, for other subjects.
    """
    torch.set_num_threads(1)
    cells = itertools.product(ALTERNATIVES, CHOICE_SLOPES)
    found = [
        _label(
            simulate_on_grid(
                prior, *cell, CHOICE_SUBJECTS, CHECKPOINTS, seed=CHOICE_SEED
            ),
            str(prior),
            *cell,
        )
        for cell in cells
    ]
    return pl.concat(found)


def _label(
    frame: pl.DataFrame, priors: str, alternatives: int, slope: float
) -> pl.DataFrame:
    columns = {"priors": priors, "alternatives": alternatives, "slope": slope}
    return frame.with_columns(
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
    """The likelihood of the feedback, with a learned lapse rate per experiment."""
    return ProbitLikelihood(
        feedback.guess_rate,
        feedback.first_lapse_rate,
        learn_lapse_rate=feedback.learns_lapse_rate,
        batch_shape=batch_shape,
    )


def _look(settings: Settings, model: MixedGP, n: int, truth: Tensor) -> pl.DataFrame:
    """Compare intervals with the truth, of a few experiments at a time."""
    line = torch.linspace(1.0, -1.0, LINE, dtype=torch.double)
    found = []
    for begin in range(0, len(truth), AT_ONCE):
        few = slice(begin, begin + AT_ONCE)
        averaged = AveragedGP(_take(settings, model, few), num_sets(n))
        trials = line.view(LINE, 1, 1).expand(LINE, len(truth[few]), 1)
        with torch.no_grad():
            posterior = averaged.exact_posterior(trials.unsqueeze(-2), NUM_SAMPLES)
            found.append(posterior.cdf(0.0)[..., 0, 0])
    below = torch.cat(found, dim=-1).movedim(0, -1)  # subjects x LINE
    return compare(below, truth, n)


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


def _jobs(subjects: int) -> Iterator[Job]:
    for prior in CANDIDATES:
        yield f"choice {prior}", partial(choose, prior)
    for cell in itertools.product(PRIORS, ALTERNATIVES, SLOPES):
        yield " ".join(map(str, cell)), partial(simulate, *cell, subjects)


def _describe(frame: pl.DataFrame) -> list[str]:
    """The sections of the report."""
    is_real = pl.col("priors").is_in(PRIORS)
    real = frame.filter(is_real)
    choice = frame.filter(~is_real)
    return [
        f"# The study `{NAME}`\n\nHow often 90 % intervals hold the threshold in "
        "experiments that look for nothing else, with the standard error of such a "
        "share; widths and errors are medians, in shares of the range. "
        f"`python -m benchmarks run {NAME}` makes it.",
        "## Experiments with the former and the present priors\n\n"
        f"{real['subject'].n_unique()} subjects in each row. Slopes are in standard "
        "deviations of the noise, from the middle to an end of the range.",
        format_rows(real),
        "## The choice of the priors\n\n"
        f"Other subjects, {CHOICE_SUBJECTS} in each row, on a dense grid of "
        "psychometric functions. Priors are the median of slopes, the standard "
        "deviation of its logarithm, the variance of slopes around it, and that of "
        'the offset. "Pooled" is 6 / 0.5 / 4 / 25, "wide" is 3 / 1 / 1 / 25. The '
        "first table has means over the rows of the second.",
        format_choice(choice),
        format_rows(choice),
    ]


def format_choice(frame: pl.DataFrame) -> str:
    r"""How far the intervals of every prior fall short of their nominal coverage.

    Args:
        frame: The results on grids.

    Returns:
        The table in Markdown, the best prior first.
    """
    keys = ["priors", "alternatives", "slope", "trials"]
    cells = frame.group_by(keys).agg(
        pl.col("covered").mean(), pl.col("width").median(), pl.col("error").median()
    )
    shortfall = (0.9 - pl.col("covered")).clip(lower_bound=0.0)
    found = cells.group_by("priors").agg(
        shortfall.mean().alias("short"),
        pl.col("covered").min(),
        pl.col("width").mean(),
        pl.col("error").mean(),
    )
    rows = [
        [
            row["priors"],
            f"{100 * row['short']:.1f}",
            f"{100 * row['covered']:.0f}",
            f"{row['width']:.3f}",
            f"{row['error']:.3f}",
        ]
        for row in found.sort("short").to_dicts()
    ]
    header = ["priors", "short of 90 % (points)", "least covered (%)"]
    return format_table([*header, "width", "error"], rows)


def format_rows(frame: pl.DataFrame) -> str:
    r"""The results as a table.

    Args:
        frame: The results.

    Returns:
        The table in Markdown.
    """
    keys = ["priors", "alternatives", "slope", "trials"]
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
    header = [*keys, "covered (%)", "width", "error"]
    return format_table(header, rows)


STUDY = TableStudy(
    NAME, "how often intervals of thresholds hold them", SUBJECTS, _jobs, _describe
)
