"""Draw the picture of the README: what ``make picture`` runs.

It shows the simulated patient of ``make demo``: which letters tell something about a
lens, the letters that were chosen in one examination, and what the choice is worth.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from botorch_binary_context.demo import (
    AFTER,
    FIRST_TRIALS,
    NAMES,
    PRESCRIPTION,
    RULES,
    Examination,
    examine,
)
from botorch_binary_context.plotting import plot_best_so_far, plot_contexts
from botorch_binary_context.problems import RefractionProblem, visual_acuity
from botorch_binary_context.problems.refraction import LETTER_SIZES

PATH = Path(__file__).parents[1] / "docs" / "_static" / "idea.png"
REPETITIONS, ITERATIONS = 10, 75
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
        ax.text(middle + 0.06, 0.5, name, color=color, va="center")
        ax.axvspan(size[is_open][0], size[is_open][-1], color=color, alpha=0.15)
    ax.text(-1.1, 0.1, "always misread:\ntells nothing", va="bottom")
    ax.text(1.95, 0.94, "always read:\ntells nothing", ha="right", va="top")
    ax.set(xlabel=NAMES[0], ylabel="probability that the letter is read")
    ax.set_title("Only some letters tell something about a lens …")
    ax.text(1.95, 0.05, "shaded: may be\nread or not", ha="right", va="bottom")


def draw_trials(ax: Any, chosen: Examination) -> None:
    """The letters of one examination, and what could be read through each lens."""
    trials = chosen.trials[0]
    threshold = visual_acuity(trials[:, 1:] - trials.new_tensor(PRESCRIPTION))
    number = range(1, len(trials) + 1)
    ax.plot(number, threshold, "k_", label="read half of the time", zorder=3)
    plot_contexts(trials[:, 0], chosen.answers[0], ax=ax)
    ax.axvspan(0.0, FIRST_TRIALS + 0.5, color="0.9", zorder=0, label="at random")
    ax.set(xlabel="trial", ylabel=NAMES[0], ylim=LETTER_SIZES)
    ax.set_title("… so each lens is tested with letters at its limit …")
    ax.legend(*ax.get_legend_handles_labels(), loc="lower right", ncols=2)


def draw_acuity(ax: Any, examinations: dict[str, Examination]) -> None:
    """The acuity with the lens that is inferred to be best."""
    for rule, examination in examinations.items():
        plot_best_so_far(examination.acuity, label=RULES[rule], ax=ax)
    ax.set(ylabel="acuity with the recommended lens (logMAR)", ylim=(0.0, None))
    ax.set(xlabel=AFTER)
    ax.set_title("… and the best lens is found with fewer of them.")


def main() -> None:
    """Examine the patient and draw the picture."""
    examinations = {rule: examine(rule, REPETITIONS, ITERATIONS) for rule in RULES}
    figure = Figure(figsize=(16, 4.6), layout="constrained")
    letters, trials, acuity = figure.subplots(1, 3)
    draw_letters(letters)
    draw_trials(trials, examinations["ts-ald"])
    draw_acuity(acuity, examinations)
    figure.savefig(PATH, dpi=80)
    print(f"Picture: {PATH}")


if __name__ == "__main__":
    main()
