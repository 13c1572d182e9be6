r"""
What a study of refraction shows beyond its ranking: acuity, and the errors of lenses.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import wilcoxon

from benchmarks.studies.analysis import Analysis
from benchmarks.studies.figures import (
    draw_curves,
    label_panels,
    make_panels,
    save_figure,
)
from benchmarks.studies.patient import draw_patient
from benchmarks.studies.patient_models import SHOWN, TABLES
from benchmarks.studies.refraction import CASES, PatientCase, show
from benchmarks.tables import format_mean, format_table

TARGETS = (0.1, 0.05, 0.025)  # in logMAR
CHECKPOINTS = (30, 60, 100, 150)  # trials after the random ones
SHOWN_SLOPE = 5  # of the figures and tables of the paper
PAPER_ACUITY = 2.48e-2
PAPER_SPHERE, PAPER_SPHERE_ERROR = 2.74e-2, 5.36e-2
PAPER_CYLINDER, PAPER_CYLINDER_ERROR = 1.53e-1, 8.22e-2
COLUMNS = 3
WORSE = f"above {TARGETS[0]}"


def trials_to_reach(curve: Sequence[float], target: float) -> int | None:
    r"""The trial from which on a curve stays at or below a target.

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
    cases = [name for name in analysis.functions if CASES[name].slope == SHOWN_SLOPE]
    draw_patient(SHOWN_SLOPE, folder / "patient.png")
    sections = [_describe_patient()]
    if any(CASES[name].surrogate for name in analysis.functions):
        sections += [_describe_surrogates(analysis), *_describe_steps(analysis)]
    if cases:
        sections.append(_describe_curves(analysis, cases, folder))
    sections.append(_describe_ends(analysis))
    return sections + [_describe_case(analysis, case) for case in _started(analysis)]


def _started(analysis: Analysis) -> list[str]:
    """The functions that have results of any rule."""
    found = set(analysis.frame["function"])
    return [name for name in analysis.study.functions if name in found]


def _describe_patient() -> str:
    return (
        "## The patient\n\nPsychometric curves for errors of the lens (panel A of the "
        "paper's figure), the acuity of lenses and the probability of reading a letter "
        "of 1' (its figure S3), for a slope of "
        f"{SHOWN_SLOPE}.\n\n![The simulated patient](patient.png)"
    )


def _describe_surrogates(analysis: Analysis) -> str:
    """Describe the surrogates, each in terms of the one before it."""
    shown = {CASES[name].surrogate for name in analysis.study.functions}
    table = next(table for table in TABLES if shown <= set(table))
    rows = [
        f"- `{SHOWN.get(name, name)}`"
        f"{'' if name in shown else ' (not in this study)'}: {surrogate.adds}"
        for name, surrogate in table.items()
    ]
    return "\n".join(["## Surrogates\n\nEach adds to the one above it:\n", *rows])


def _describe_steps(analysis: Analysis) -> list[str]:
    """What a surrogate gains over the one before it; nothing of a single one."""
    rows = []
    for before, after in itertools.pairwise(_started(analysis)):
        if CASES[before].slope != CASES[after].slope:
            continue
        for rule in analysis.rules:
            x = _read_acuities(analysis, before, rule)
            y = _read_acuities(analysis, after, rule)
            if not x.size or not y.size:
                continue
            ends = _compare(x[:, -1], y[:, -1])
            curves = _compare(x.mean(axis=-1), y.mean(axis=-1))
            step = f"{show(before)} → {CASES[after].shown_surrogate}, `{rule}`"
            rows.append([step, *ends, *curves])
    if not rows:
        return []
    header = ["step and rule", "VA at the end", "p", "VA, mean of the curve", "p"]
    return [
        "## Steps\n\nFrom one surrogate to the next, on the same patients, with the p "
        "of Wilcoxon's signed-rank test (two-sided, not corrected for the number of "
        "comparisons).\n\n" + format_table(header, rows)
    ]


def _read_acuities(analysis: Analysis, case: str, rule: str) -> np.ndarray:
    """The acuities of all seeds and iterations; empty without results."""
    frame = analysis.frame.filter(function=case, rule=rule).sort("seed", "iteration")
    return -frame["score"].to_numpy().reshape(-1, analysis.iterations)


def _compare(before: np.ndarray, after: np.ndarray) -> tuple[str, str]:
    """Two means, and how likely such a difference is by chance."""
    test: Any = wilcoxon(before, after) if np.any(before != after) else None
    p = 1.0 if test is None else test.pvalue
    return f"{before.mean():.3f} → {after.mean():.3f}", f"{p:.2g}"


def _describe_curves(analysis: Analysis, cases: Sequence[str], folder: Path) -> str:
    """Acuity against trials: rules compared and, if there are some, surrogates."""
    curves = analysis.curves()
    _draw_panels(curves, cases, analysis.rules, folder / "acuity.png")
    text = (
        f"## Acuity\n\nThe mean over the seeds for a slope of {SHOWN_SLOPE}, with "
        "standard errors.\n\n![Acuity of the inferred best lens, by rule](acuity.png)"
    )
    if len(cases) < 2:
        return text
    _draw_panels(
        curves, analysis.rules, cases, folder / "surrogates.png", by="function"
    )
    return (
        f"{text}\n\nThe same curves, each panel one rule with all surrogates.\n\n"
        "![Acuity of the inferred best lens, by surrogate](surrogates.png)"
    )


def _draw_panels(
    curves: pl.DataFrame,
    panels: Sequence[str],
    names: Sequence[str],
    path: Path,
    by: str = "rule",
) -> None:
    """A panel for every case and a curve for every rule, or the other way round."""
    figure, axes = make_panels(panels, COLUMNS, (5.5, 4), sharex=True, sharey=True)
    of_panel = "function" if by == "rule" else "rule"
    for ax, panel in zip(axes, panels, strict=True):
        draw_curves(ax, curves.filter(pl.col(of_panel) == panel), names, by)
        ax.set(title=show(panel), yscale="log", ylim=(3e-3, 1.5))
    label_panels(figure, axes, "visual acuity, logMAR", "outside right upper", 1)
    save_figure(figure, path)


def _describe_ends(analysis: Analysis) -> str:
    """The mean acuity at the end, of every rule in every case."""
    last = analysis.curves().filter(pl.col("iteration") == analysis.iterations)
    means = last.select("rule", "function", "mean").rows()
    ends = {(rule, case): f"{mean:.3f}" for rule, case, mean in means}
    cases = _started(analysis)
    rows = [
        [f"`{rule}`", *(ends.get((rule, case), "–") for case in cases)]
        for rule in analysis.rules
    ]
    return (
        f"## Acuity at the end\n\nThe mean over the seeds after {analysis.iterations} "
        "trials, in logMAR.\n\n"
        + format_table(["rule", *map(show, cases)], rows)
        + "\n\nMore of every case is in the tables below: the mean over the seeds in "
        "logMAR, at the end with its standard error, the median, the worst seed and "
        f"the number of seeds above {TARGETS[0]} logMAR; the mean "
        "errors of the lens at the end in diopters, with their signs and standard "
        "errors, and of their absolute values; and the trial from which on the mean "
        "acuity stays at a target or below it. Trials are counted after the random "
        "ones."
    )


def _describe_case(analysis: Analysis, case: str) -> str:
    """Acuity, errors and trials to a target in one case, rule by rule."""
    frame = analysis.frame.filter(pl.col("function") == case)
    checkpoints = [trial for trial in CHECKPOINTS if trial < analysis.iterations]
    found = set(frame["rule"])
    rows = [
        _describe_rule(frame.filter(pl.col("rule") == rule), rule, checkpoints)
        for rule in analysis.rules
        if rule in found
    ]
    header = ["rule", *(f"VA after {trial}" for trial in checkpoints)]
    header += [f"VA after {analysis.iterations}", "median", "worst seed", WORSE]
    header += ["sphere", "sphere, absolute", "cylinder", "cylinder, absolute"]
    header += [f"trials to {target}" for target in TARGETS]
    text = f"## Acuity: {show(case)}\n\n"
    if CASES[case] == PatientCase(SHOWN_SLOPE):
        text += (
            f"The paper reports VA {PAPER_ACUITY}, sphere {PAPER_SPHERE} ± "
            f"{PAPER_SPHERE_ERROR} and cylinder {PAPER_CYLINDER} ± "
            f"{PAPER_CYLINDER_ERROR} for `ucb-ald`: a mean below its standard error "
            "can only be one of errors with signs, as they are here.\n\n"
        )
    return text + format_table(header, rows)


def _describe_rule(
    frame: pl.DataFrame, rule: str, checkpoints: Sequence[int]
) -> list[object]:
    """One row of the table."""
    last = frame.filter(pl.col("iteration") == pl.col("iteration").max())
    acuity = last["regret"]
    means = frame.group_by("iteration").agg(pl.col("regret").mean()).sort("iteration")
    curve = means["regret"].to_list()
    reached = [trials_to_reach(curve, target) for target in TARGETS]
    return [
        f"`{rule}`",
        *(f"{curve[trial - 1]:.3f}" for trial in checkpoints),
        format_mean(acuity, 4),
        f"{acuity.median():.3f}",
        f"{acuity.max():.3f}",
        int((acuity > TARGETS[0]).sum()),
        format_mean(last["sphere"], 3),
        f"{last['sphere'].abs().mean():.3f}",
        format_mean(last["cylinder"], 3),
        f"{last['cylinder'].abs().mean():.3f}",
        *("–" if trial is None else trial for trial in reached),
    ]
