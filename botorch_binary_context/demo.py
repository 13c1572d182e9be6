r"""
A simulated eye examination: ``python -m botorch_binary_context.demo``.

A simulated patient looks through a trial lens at a letter and reads it or does not. The
examination looks for the sphere and cylinder of the best lens. Letter sizes are chosen
for what the answer would reveal or, for comparison, at random. The examination is
repeated with other random numbers; all repetitions are one batched model, which is not
tuned on the patient.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.figure import Figure
from torch import Tensor
from tqdm import tqdm

from botorch_binary_context.models import (
    ApproximateMarginalLogLikelihood,
    BinaryGP,
    psychometric_gp,
    should_learn,
)
from botorch_binary_context.plotting import (
    View,
    plot_best_so_far,
    plot_contexts,
    plot_success_probability,
)
from botorch_binary_context.problems import POWER_VECTOR, RefractionProblem
from botorch_binary_context.rules import recommend, suggest

PRESCRIPTION = (-2.25, 1.5)
RULES = {"ts-ald": "letter size chosen", "ts-random": "letter size at random"}
FIRST_TRIALS = 5
FORMATS = FigureCanvasBase.get_supported_filetypes()
NAMES = ("letter size (logMAR)", "sphere (D)", "cylinder (D)")
AFTER = f"trial after the first {FIRST_TRIALS}"


@dataclass(frozen=True)
class Examination:
    r"""The result of one rule.

    Attributes:
        trials: Letter sizes and lenses, ``repetitions x n x 3``.
        answers: Whether the letters were read, ``repetitions x n x 1``.
        acuity: The acuity with the lens that is inferred to be best, after each trial,
            ``repetitions x iterations``.
        lens: That lens at the end, ``repetitions x 2``.
    """

    trials: Tensor
    answers: Tensor
    acuity: Tensor
    lens: Tensor


def examine(rule: str, repetitions: int, iterations: int) -> Examination:
    r"""Examine the patient, all repetitions at once.

    Args:
        rule: The rule that chooses the trials.
        repetitions: The number of repetitions.
        iterations: The number of trials after the first five.

    Returns:
        The trials, the answers and the inferred lenses.
    """
    patient = RefractionProblem(prescription=PRESCRIPTION)
    space = patient.space
    low, high = space.bounds
    torch.manual_seed(0)
    shape = (repetitions, FIRST_TRIALS, space.dim)
    unit = torch.rand(shape, dtype=low.dtype, device=low.device)
    first = low + (high - low) * unit
    model = make_model(first, patient.observe(first), patient)
    lens = recommend(model, space)
    acuity = []
    for i in tqdm(range(iterations), desc=f"{RULES[rule]:<21}", unit="trial"):
        trial = suggest(model, space, rule)
        model = model.condition_on_observations(trial, patient.observe(trial))
        if should_learn(FIRST_TRIALS + i + 1):
            learn(model)
        lens = recommend(model, space)
        acuity.append(-patient.score(lens))
    answers = model.train_targets.unsqueeze(-1)
    acuities = torch.stack(acuity, dim=-1)
    return Examination(model.original_datapoints, answers, acuities, lens)


def make_model(trials: Tensor, answers: Tensor, patient: RefractionProblem) -> BinaryGP:
    r"""The default psychometric model, on the power vectors of lenses.

    Args:
        trials: A ``... x n x 3`` tensor.
        answers: A ``... x n x 1`` tensor.
        patient: The simulated patient, whose guess rate the model knows.
    """
    return psychometric_gp(
        trials,
        answers,
        patient.space,
        guess_rate=float(patient.likelihood.guess_rate),
        combinations=POWER_VECTOR,
    )


def learn(model: BinaryGP) -> None:
    r"""Learn the hyperparameters, under their priors.

    Args:
        model: The model.
    """
    fit_gpytorch_mll(ApproximateMarginalLogLikelihood(model.likelihood, model))


def round_lens(lens: Tensor) -> Tensor:
    r"""A lens that can be bought: lenses come in quarters of a diopter.

    Args:
        lens: Sphere and cylinder, ``... x 2``.

    Returns:
        The nearest such lens.
    """
    return (4 * lens).round() / 4 + 0.0  # without a negative zero


def write_prescription(lens: Sequence[float]) -> str:
    r"""A lens as an optometrist writes it.

    Args:
        lens: Sphere and cylinder.

    Returns:
        Such as ``-2.25 DS / +1.50 DC``.
    """
    sphere, cylinder = lens
    return f"{sphere:+.2f} DS / {cylinder:+.2f} DC"


def write_acuity(acuity: float) -> str:
    r"""An acuity in logMAR and as a Snellen fraction.

    Args:
        acuity: The acuity in logMAR.

    Returns:
        Such as ``0.02 logMAR (20/21)``.
    """
    return f"{acuity:.2f} logMAR (20/{20 * 10**acuity:.0f})"


def draw(examinations: dict[str, Examination], path: Path) -> None:
    r"""Draw the lenses tried, the model, the letter sizes and the acuity.

    Args:
        examinations: The result of each rule.
        path: Where to save the figure.
    """
    patient = RefractionProblem(prescription=PRESCRIPTION)
    figure = Figure(figsize=(16, 4.8), layout="constrained")
    belief, sizes, curves = figure.subplots(1, 3)
    chosen = examinations["ts-ald"]
    trials, answers = chosen.trials[0], chosen.answers[0]
    model = make_model(trials, answers, patient)
    learn(model)
    plot_success_probability(model, patient.space, View(names=NAMES), ax=belief)
    style = {"marker": "P", "s": 110, "c": "white", "edgecolors": "black"}
    belief.scatter(*PRESCRIPTION, zorder=6, label="prescription", **style)
    above = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "frameon": False}
    belief.legend(ncols=4, columnspacing=1, handletextpad=0.3, **above)
    plot_contexts(trials[:, 0], answers, ax=sizes)
    sizes.set(ylabel=NAMES[0], title="one examination, letter size chosen")
    _draw_acuity(curves, examinations)
    figure.savefig(path, dpi=110)


def _draw_acuity(ax: Any, examinations: dict[str, Examination]) -> None:
    for rule, examination in examinations.items():
        plot_best_so_far(examination.acuity, label=RULES[rule], ax=ax)
    ax.set(xlabel=AFTER, ylabel="acuity with the recommended lens (logMAR)")
    ax.axhline(0.0, color="0.4", linestyle="--", linewidth=1)
    ax.set_title("all repetitions, mean ± standard error")


def describe(rule: str, examination: Examination) -> str:
    r"""The result of an examination, as text.

    Args:
        rule: The rule that chose the trials.
        examination: The result of the rule.

    Returns:
        Two lines: the first repetition, and all of them.
    """
    patient = RefractionProblem(prescription=PRESCRIPTION)
    lens = round_lens(examination.lens[0])
    acuity = examination.acuity[:, -1]
    return (
        f"  {RULES[rule]:<21} first examination: {write_prescription(lens.tolist())}, "
        f"{write_acuity(-patient.score(lens).item())}\n"
        f"  {'':<21} all {len(acuity)}, lenses not rounded: mean {acuity.mean():.3f}, "
        f"worst {acuity.max():.3f} logMAR"
    )


def main(argv: Sequence[str] | None = None) -> None:
    r"""Run the demonstration.

    Args:
        argv: The arguments, by default those of the process.
    """
    arguments = _parse(argv)
    examinations = {
        rule: examine(rule, arguments.repetitions, arguments.iterations)
        for rule in RULES
    }
    print(
        f"\nThe patient needs {write_prescription(PRESCRIPTION)}, unknown to the model."
        f"\nAfter {FIRST_TRIALS + arguments.iterations} letters:"
    )
    for rule, examination in examinations.items():
        print(describe(rule, examination))
    draw(examinations, arguments.figure)
    print(f"Figure: {arguments.figure.resolve()}")


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A simulated eye examination.")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=75)
    parser.add_argument("--figure", type=Path, default=Path("demo.png"))
    arguments = parser.parse_args(argv)
    for name in ("repetitions", "iterations"):
        value = getattr(arguments, name)
        if value < 1:
            parser.error(f"--{name} is to be at least 1, but is {value}")
    if not arguments.figure.resolve().parent.is_dir():
        parser.error(f"--figure is to be in a folder, but is {arguments.figure}")
    if arguments.figure.suffix.removeprefix(".").lower() not in FORMATS:
        parser.error(f"--figure is to end as an image does, but is {arguments.figure}")
    return arguments


if __name__ == "__main__":
    main()
