"""Draw the picture of the README: what ``make picture`` runs.

It shows which letters tell something about a lens, and how much sooner a simulated
patient has a good one if such letters are chosen. All repetitions of the examination
are one batched model, which is not tuned on the patient. The text is large enough for a
phone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from matplotlib import rc_context
from matplotlib.figure import Figure
from torch import Tensor
from tqdm import tqdm

from botorch_binary_context import (
    ApproximateMarginalLogLikelihood,
    psychometric_gp,
    recommend,
    should_learn,
    suggest,
)
from botorch_binary_context.plotting import plot_best_so_far
from botorch_binary_context.problems import POWER_VECTOR, RefractionProblem
from botorch_binary_context.problems.refraction import LETTER_SIZES

PRESCRIPTION = (-2.25, 1.5)
RULES = {"ts-ald": "letter size chosen", "ts-random": "letter size at random"}
FIRST_TRIALS = 5
PATH = Path(__file__).parents[1] / "docs" / "_static" / "idea.png"
REPETITIONS = 10
ITERATIONS = 75
# Between these probabilities an answer is called open.
OPEN = (0.15, 0.9)
LENSES = {"a good lens": (0.3, 0.0), "a poor lens": (2.5, 0.0)}
COLORS = ("tab:green", "tab:purple")


def examine(rule: str, repetitions: int, iterations: int) -> Tensor:
    """The acuity of the recommended lens after each trial, one row a repetition."""
    patient = RefractionProblem(prescription=PRESCRIPTION)
    space = patient.space
    torch.manual_seed(0)
    shape = (repetitions, FIRST_TRIALS, space.dim)
    low, high = space.bounds
    first = torch.lerp(low, high, torch.rand(shape, dtype=torch.double))
    model = psychometric_gp(
        first,
        patient.observe(first),
        space,
        guess_rate=float(patient.likelihood.guess_rate),
        combinations=POWER_VECTOR,
    )
    acuity = []
    for i in tqdm(range(iterations), desc=f"{RULES[rule]:<21}", unit="trial"):
        trial = suggest(model, space, rule)
        model = model.condition_on_observations(trial, patient.observe(trial))
        if should_learn(FIRST_TRIALS + i + 1):
            fit_gpytorch_mll(ApproximateMarginalLogLikelihood(model.likelihood, model))
        acuity.append(-patient.score(recommend(model, space)))
    return torch.stack(acuity, dim=-1)


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
    ax.set(xlabel="letter size (logMAR)", ylabel="chance of reading")
    ax.set(xticks=[-1, 0, 1, 2], yticks=[0.0, 0.5, 1.0])
    ax.set_title("Few letters are informative …")


def draw_acuity(ax: Any, acuities: dict[str, Tensor]) -> None:
    """The acuity with the lens that is inferred to be best."""
    for rule, acuity in acuities.items():
        plot_best_so_far(acuity, label=RULES[rule], ax=ax)
    ax.set(ylabel="acuity (logMAR)", ylim=(0.0, None), yticks=[0.0, 0.5, 1.0])
    ax.set(xlabel=f"trial after the first {FIRST_TRIALS}")
    ax.set_title("… and choosing them helps")


def draw(acuities: dict[str, Tensor], path: Path) -> None:
    """The picture: two panels, one above the other, so that a phone is wide enough."""
    with rc_context({"font.size": 15, "axes.titlesize": 16, "lines.linewidth": 2.5}):
        figure = Figure(figsize=(6, 6.2), layout="constrained")
        letters, acuity = figure.subplots(2, 1)
        draw_letters(letters)
        draw_acuity(acuity, acuities)
        figure.savefig(path, dpi=130)


def main() -> None:
    """Examine the patient and draw the picture."""
    acuities = {rule: examine(rule, REPETITIONS, ITERATIONS) for rule in RULES}
    draw(acuities, PATH)
    print(f"Picture: {PATH}")


if __name__ == "__main__":
    main()
