r"""
What a study of refraction shows beyond its ranking: acuity, and the errors of lenses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import torch
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks.analysis import Analysis
from benchmarks.figures import draw_curves, save_figure
from benchmarks.refraction import name_case, parse_slope
from benchmarks.tables import format_table
from botorch_binary_context.problems import RefractionProblem, visual_acuity
from botorch_binary_context.problems.refraction import LETTER_SIZES, MAX_POWER

TARGETS = (0.1, 0.05, 0.025)  # in logMAR
SLOPE = 5  # of the figures and tables of the paper
PAPER_ACUITY, PAPER_SPHERE, PAPER_CYLINDER = 2.48e-2, 2.74e-2, 1.53e-1
ERRORS = ((0.0, 0.0), (0.5, 0.0), (1.0, 0.0), (2.0, 0.0), (4.0, 4.0))


def trials_to_reach(curve: Sequence[float], target: float) -> int | None:
    r"""From which trial on a curve stays at a target or below it.

    Args:
        curve: The acuity after each trial.
        target: The target.

    Returns:
        The number of the trial, or None if the curve ends above the target.
    """
    above = [i for i, value in enumerate(curve, 1) if value > target]
    last = above[-1] if above else 0
    return None if last == len(curve) else last + 1


def describe(analysis: Analysis, folder: Path) -> list[str]:
    r"""The sections of a report that only refraction has.

    Args:
        analysis: The results.
        folder: Where the figures go.

    Returns:
        Sections in Markdown; none for another study.
    """
    if "sphere" not in analysis.frame.columns:
        return []
    figures = [_draw_patient(folder), _draw_acuity(analysis, folder)]
    return [
        *figures,
        *(_describe_case(analysis, case) for case in _cases(analysis)),
    ]


def _cases(analysis: Analysis) -> list[str]:
    """The cases with the slope of the paper's figures."""
    return [case for case in analysis.functions if parse_slope(case) == SLOPE]


def _describe_case(analysis: Analysis, case: str) -> str:
    """Acuity, errors and trials to a target at the end of a case, rule by rule."""
    frame = analysis.frame.filter(pl.col("function") == case)
    rows = [
        _describe_rule(frame.filter(pl.col("rule") == rule), rule)
        for rule in analysis.rules
    ]
    header = ["rule", "VA", "worst seed", "sphere error", "cylinder error"]
    header += [f"trials to {target}" for target in TARGETS]
    text = (
        f"## Acuity: {case}\n\nMean ± standard error over the seeds after "
        f"{analysis.iterations} trials, in logMAR, and the mean size of the errors of "
        "the lens in dioptres; then the trial from which on the mean acuity stays at a "
        "target or below it.\n\n"
    )
    if case == name_case(SLOPE):
        text += (
            f"The paper reports VA {PAPER_ACUITY}, sphere {PAPER_SPHERE} and cylinder "
            f"{PAPER_CYLINDER} for `ucb-ald`.\n\n"
        )
    return text + format_table(header, rows)


def _describe_rule(frame: pl.DataFrame, rule: str) -> list[object]:
    """One row of the table."""
    last = frame.filter(pl.col("iteration") == pl.col("iteration").max())
    acuity = last["regret"]
    error = (acuity.std() or 0.0) / math.sqrt(len(acuity))
    curve = frame.group_by("iteration").agg(pl.col("regret").mean()).sort("iteration")
    reached = [trials_to_reach(curve["regret"].to_list(), x) for x in TARGETS]
    return [
        f"`{rule}`",
        f"{acuity.mean():.4f} ± {error:.4f}",
        f"{acuity.max():.3f}",
        f"{last['sphere'].abs().mean():.3f}",
        f"{last['cylinder'].abs().mean():.3f}",
        *("–" if trial is None else trial for trial in reached),
    ]


def _draw_acuity(analysis: Analysis, folder: Path) -> str:
    """Acuity against trials, for the slope of the paper's figures."""
    cases, curves = _cases(analysis), analysis.curves()
    figure = Figure(figsize=(1.5 + 4.5 * len(cases), 4.5), layout="constrained")
    axes = figure.subplots(1, len(cases), squeeze=False, sharey=True)[0]
    for ax, case in zip(axes, cases, strict=True):
        draw_curves(ax, curves.filter(pl.col("function") == case), analysis.rules)
        ax.set(title=case, xlabel="trials after the random ones", yscale="log")
        ax.set_ylim(3e-3, 1.5)
    axes[0].set_ylabel("visual acuity, logMAR")
    axes[-1].legend(fontsize=7)
    save_figure(figure, folder / "acuity.png")
    return "## Acuity\n\n![Acuity of the inferred best lens](acuity.png)"


def _draw_patient(folder: Path) -> str:
    """Psychometric curves, the acuity of lenses, and how often a letter is read."""
    figure = Figure(figsize=(15, 4.2), layout="constrained")
    curves, acuity, reading = figure.subplots(1, 3)
    patient = RefractionProblem(SLOPE)
    _draw_psychometric_curves(curves, patient)
    power = torch.linspace(-MAX_POWER, MAX_POWER, 101, dtype=torch.double)
    S, C = torch.meshgrid(power, power, indexing="xy")
    lenses = torch.stack([S, C], dim=-1)
    _draw_map(figure, acuity, power, visual_acuity(lenses), "VA, logMAR")
    trials = torch.cat([torch.zeros_like(S).unsqueeze(-1), lenses], dim=-1)
    chance = patient.success_probability(trials)
    _draw_map(figure, reading, power, chance, "P(read), letters of 0 logMAR (1')")
    save_figure(figure, folder / "patient.png")
    return (
        "## The patient\n\nPsychometric curves for errors of the lens (panel A of the "
        "paper's figure), the acuity of lenses and the probability of reading a letter "
        "of 1' (its figure S3), for a slope of "
        f"{SLOPE}.\n\n![The simulated patient](patient.png)"
    )


def _draw_psychometric_curves(ax: Any, patient: RefractionProblem) -> None:
    size = torch.linspace(*LETTER_SIZES, 201, dtype=torch.double)
    for error in ERRORS:
        lens = torch.tensor(error, dtype=torch.double)
        X = torch.cat([size.unsqueeze(-1), lens.expand(len(size), 2)], dim=-1)
        label = f"S = {error[0]:g}, C = {error[1]:g}: VA {visual_acuity(lens):.2f}"
        ax.plot(size, patient.success_probability(X), label=label)
    ax.axhline(patient.likelihood.guess_rate, color="0.5", linestyle=":")
    ax.set(xlabel="letter size, logMAR", ylabel="P(read)")
    ax.legend(fontsize=8, title="error of the lens", title_fontsize=8)


def _draw_map(
    figure: Figure, ax: Any, power: Tensor, values: Tensor, what: str
) -> None:
    filled = ax.contourf(power, power, values, levels=20)
    figure.colorbar(filled, ax=ax, label=what)
    ax.set(xlabel="sphere error, dioptres", ylabel="cylinder error, dioptres")
