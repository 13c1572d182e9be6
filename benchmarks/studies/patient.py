r"""The simulated patient, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks.studies.figures import save_figure
from botorch_binary_context.problems import RefractionProblem, visual_acuity
from botorch_binary_context.problems.refraction import LETTER_SIZES, MAX_POWER

ERRORS = ((0.0, 0.0), (0.5, 0.0), (1.0, 0.0), (2.0, 0.0), (4.0, 4.0))


def draw_patient(slope: float, path: Path) -> None:
    r"""Psychometric curves, the acuity of lenses, and how often a letter is read.

    Args:
        slope: The slope of the psychometric function.
        path: Where to save the figure.
    """
    figure = Figure(figsize=(15, 4.2), layout="constrained")
    curves, acuity, reading = figure.subplots(1, 3)
    patient = RefractionProblem(slope)
    _draw_psychometric_curves(curves, patient)
    power = torch.linspace(-MAX_POWER, MAX_POWER, 101, dtype=torch.double)
    S, C = torch.meshgrid(power, power, indexing="xy")
    lenses = torch.stack([S, C], dim=-1)
    _draw_map(figure, acuity, power, visual_acuity(lenses), "VA, logMAR")
    trials = torch.cat([torch.zeros_like(S).unsqueeze(-1), lenses], dim=-1)
    chance = patient.success_probability(trials)
    _draw_map(figure, reading, power, chance, "P(read), letters of 0 logMAR (1')")
    save_figure(figure, path)


def _draw_psychometric_curves(ax: Any, patient: RefractionProblem) -> None:
    size = torch.linspace(*LETTER_SIZES, 201, dtype=torch.double)
    for error in ERRORS:
        lens = torch.tensor(error, dtype=torch.double)
        X = torch.cat([size.unsqueeze(-1), lens.expand(len(size), 2)], dim=-1)
        label = f"S = {error[0]:g}, C = {error[1]:g}: VA {visual_acuity(lens):.2f}"
        ax.plot(size, patient.success_probability(X), label=label)
    ax.axhline(patient.likelihood.guess_rate, color="0.5", linestyle=":")
    ax.set(xlabel="letter size, logMAR", ylabel="P(read)")
    above = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "frameon": False}
    ax.legend(fontsize=8, title="error of the lens", title_fontsize=8, ncols=2, **above)


def _draw_map(
    figure: Figure, ax: Any, power: Tensor, values: Tensor, what: str
) -> None:
    filled = ax.contourf(power, power, values, levels=20)
    figure.colorbar(filled, ax=ax, label=what)
    ax.set(xlabel="sphere error, diopters", ylabel="cylinder error, diopters")
