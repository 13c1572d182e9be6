r"""
``python -m benchmarks run lapses``: should a lapse rate be learned?

The thresholds of observers with several lapse rates are estimated by models that know
of no lapses, have a fixed rate, or learn it, from the same answers to the same trials:
half of these are anywhere in the range, half near the threshold, where rules place
them. The trials that a model would choose by itself are not compared. The first set of
observers serves to choose a default, the second to report how good it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

import polars as pl
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.utils.sampling import manual_seed
from torch import Tensor

from benchmarks.studies.table_study import Job, TableStudy
from benchmarks.studies.threshold_coverage import LINE, make_model
from benchmarks.studies.threshold_priors import crossing
from benchmarks.tables import format_table
from botorch_binary_context.experiment import Context, NamedSpace, PassFail, Settings
from botorch_binary_context.models import (
    ApproximateMarginalLogLikelihood,
    draw_hyperparameters,
)
from botorch_binary_context.models.mixed_gp import MixedGP

NAME = "lapses"
ALTERNATIVES = (2, 26)
LAPSES = (0.0, 0.02, 0.05)  # of the observers
ASSUMED = (0.0, 0.02, "learned")  # by the models
SLOPES = (3.0, 6.0, 12.0)
SETS = {"choosing": 0, "reporting": 1}  # and their seeds
SUBJECTS = 30  # of each lapse rate
TRIALS = 40
TAIL = 0.05
NUM_DRAWS = 16


def make_settings(alternatives: int, assumed: float | str) -> Settings:
    """An experiment that looks for a threshold and assumes a lapse rate."""
    context = Context("contrast", reference=0.0, low=0.0, high=1.0, harder="down")
    feedback = PassFail(alternatives=alternatives, lapse_rate=assumed)
    space = NamedSpace([], [context])
    return Settings(space, feedback, seed=0, priors="pooled")


def simulate(
    alternatives: int,
    assumed: float | str,
    seed: int,
    subjects: int = SUBJECTS,
    trials: int = TRIALS,
) -> pl.DataFrame:
    r"""Estimate thresholds, those with all lapse rates as one batch.

    Args:
        alternatives: The number of alternatives of a trial.
        assumed: The lapse rate of the model, or "learned".
        seed: The seed of the observers.
        subjects: The number of observers with each lapse rate.
        trials: The number of trials.

    Returns:
        For every observer, whether the 90 % interval contained the threshold, how wide
        it was, and the error of its median, as shares of the range.
    """
    torch.set_num_threads(1)
    settings = make_settings(alternatives, assumed)
    lapse = torch.tensor(LAPSES, dtype=torch.double).repeat_interleave(subjects)
    slope = lapse.new_tensor(SLOPES).repeat(len(lapse))[: len(lapse)].view(-1, 1, 1)
    with manual_seed(seed):
        # From -1 at the hardest to 1 at the easiest.
        truth = 1.6 * torch.rand_like(lapse) - 0.8
        X = 2 * torch.rand(len(lapse), trials, 1, dtype=torch.double) - 1
        center = truth.view(-1, 1, 1)
        near = center + torch.randn_like(X) / slope
        X[:, ::2] = near[:, ::2].clamp(-1, 1)
        passed = torch.special.ndtr(slope * (X - center))
        guess = 1 / alternatives
        p = guess + (1 - guess - lapse.view(-1, 1, 1)) * passed
        model = make_model(settings, X, (torch.rand_like(p) < p).to(p))
    fit_gpytorch_mll(ApproximateMarginalLogLikelihood(model.likelihood, model))
    model.eval()
    return _look(model, truth).with_columns(
        alternatives=pl.lit(alternatives),
        assumed=pl.lit(str(assumed)),
        lapse=pl.Series(lapse.tolist()),
    )


def _look(model: MixedGP, truth: Tensor) -> pl.DataFrame:
    """Compare intervals, averaged over hyperparameters, with the truth."""
    line = torch.linspace(1.0, -1.0, LINE, dtype=torch.double)
    with torch.no_grad():
        draws = draw_hyperparameters(model, NUM_DRAWS)
        posterior = draws.posterior(line.view(LINE, 1).expand(len(truth), LINE, 1))
        z = -posterior.mean / posterior.variance.sqrt()
        below = torch.special.ndtr(z).mean(dim=0).squeeze(-1)  # subjects x LINE
    center, low, high = (crossing(below, p) / (LINE - 1) for p in (0.5, TAIL, 1 - TAIL))
    position = (1.0 - truth) / 2.0
    frame = {
        "subject": list(range(len(truth))),
        "covered": ((low <= position) & (position <= high)).tolist(),
        "width": (high.clamp(0, 1) - low.clamp(0, 1)).tolist(),
        "error": (center.clamp(0, 1) - position).abs().tolist(),
    }
    return pl.DataFrame(frame)


def jobs(subjects: int) -> Iterator[Job]:
    r"""Every assumption about every group of observers.

    Args:
        subjects: The number of observers with each lapse rate.

    Yields:
        The jobs.
    """
    for cell in itertools.product(SETS, ALTERNATIVES, ASSUMED):
        yield " ".join(map(str, cell)), partial(_simulate_group, *cell, subjects)


def _simulate_group(
    group: str, alternatives: int, assumed: float | str, subjects: int
) -> pl.DataFrame:
    frame = simulate(alternatives, assumed, SETS[group], subjects)
    return frame.with_columns(group=pl.lit(group))


def _describe(frame: pl.DataFrame) -> list[str]:
    """The sections of the report."""
    sections = [
        f"# The study `{NAME}`\n\nThresholds of observers who lapse, after {TRIALS} "
        f"trials ({frame['subject'].n_unique() // len(LAPSES)} observers in each row "
        "and set), by models that assume a lapse rate or learn it. Errors are means "
        "with their standard errors, in shares of the range; widths are medians. "
        f"`python -m benchmarks run {NAME}` makes it.",
    ]
    for group in SETS:
        part = frame.filter(pl.col("group") == group)
        sections.append(f"## The observers for {group}\n\n{format_rows(part)}")
    return sections


def format_rows(frame: pl.DataFrame) -> str:
    r"""The results as a table.

    Args:
        frame: The results.
    """
    keys = ["alternatives", "lapse", "assumed"]
    rows = []
    for key, part in frame.sort(keys).group_by(keys, maintain_order=True):
        share = part["covered"].cast(pl.Float64).to_numpy().mean()
        error = part["error"].to_numpy()
        standard_error = error.std() / len(error) ** 0.5
        width = sorted(part["width"].to_list())[len(part) // 2]
        rows.append(
            [
                *map(str, key),
                f"{error.mean():.3f} ± {standard_error:.3f}",
                f"{100 * share:.0f}",
                f"{width:.3f}",
            ]
        )
    header = ["alternatives", "true lapse rate", "assumed"]
    return format_table([*header, "error", "covered (%)", "width"], rows)


STUDY = TableStudy(
    NAME,
    "what assumed and learned lapse rates do to thresholds",
    SUBJECTS,
    jobs,
    _describe,
)
