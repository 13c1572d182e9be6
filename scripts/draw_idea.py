"""Draw the picture of the README: what ``make picture`` runs.

It shows the simulated patient of ``make demo``: which letters tell something about a
lens, and how much choosing them helps. Its text is large enough for a phone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from matplotlib import rc_context
from matplotlib.figure import Figure

from botorch_binary_context.demo import (
    AFTER,
    NAMES,
    RULES,
    Examination,
    examine,
)
from botorch_binary_context.plotting import plot_best_so_far
from botorch_binary_context.problems import RefractionProblem
from botorch_binary_context.problems.refraction import LETTER_SIZES

PATH = Path(__file__).parents[1] / "docs" / "_static" / "idea.png"
REPETITIONS = 10
ITERATIONS = 75
# Between these probabilities an answer is called open.
OPEN = (0.15, 0.9)
LENSES = {"a good lens": (0.3, 0.0), "a poor lens": (2.5, 0.0)}
COLORS = ("tab:green", "tab:purple")


def draw_letters(ax: Any) -> None:
    """How often letters are read through two lenses, and which ones tell something."""
    size = torch.linspace(*LETTER_SIZES, 301, dtype=torch.double)
    patient = RefractionProblem()
    for (name, error), color in zip(LENSES.items(), COLORS, strict=True):
        lens = torch.tensor(error, dtype=torch.double).expand(len(size), 2)
        chance = patient.success_probability(torch.cat([size[:, None], lens], dim=-1))
        is_open = (chance > OPEN[0]) & (chance < OPEN[1])
        ax.plot(size, chance, color=color)
        middle = size[(chance - 0.5).abs().argmin()]
        label = name.replace(" lens", "\nlens")
        ax.text(middle + 0.1, 0.45, label, color=color, va="center")
        ax.axvspan(size[is_open][0], size[is_open][-1], color=color, alpha=0.15)
    ax.text(-1.05, 0.08, "misread:\nno news", va="bottom")
    ax.text(1.98, 0.94, "read:\nno news", ha="right", va="top")
    ax.set(xlabel=NAMES[0], ylabel="chance of reading the letter")
    ax.set_title("Only some letters tell …")


def draw_acuity(ax: Any, examinations: dict[str, Examination]) -> None:
    """The acuity with the lens that is inferred to be best."""
    for rule, examination in examinations.items():
        plot_best_so_far(examination.acuity, label=RULES[rule], ax=ax)
    ax.set(ylabel="acuity (logMAR)", ylim=(0.0, None))
    ax.set(xlabel=AFTER)
    ax.set_title("… and choosing them helps")


def main() -> None:
    """Examine the patient and draw the picture."""
    examinations = {rule: examine(rule, REPETITIONS, ITERATIONS) for rule in RULES}
    with rc_context({"font.size": 14, "axes.titlesize": 15, "lines.linewidth": 2.5}):
        figure = Figure(figsize=(9, 4.2), layout="constrained")
        letters, acuity = figure.subplots(1, 2)
        draw_letters(letters)
        draw_acuity(acuity, examinations)
        figure.savefig(PATH, dpi=130)
    print(f"Picture: {PATH}")


if __name__ == "__main__":
    main()
