r"""
A simulated person answers a real experiment.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist

import torch

from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.experiment.recommendation import Recommendation
from botorch_binary_context.experiment.settings import Settings
from botorch_binary_context.experiment.space import NamedSpace, Values
from botorch_binary_context.experiment.trial import Trial
from botorch_binary_context.experiment.variables import Context, Real
from botorch_binary_context.problems import visual_acuity

#: The lens that the simulated person needs, in dioptres.
NEEDED = {"sphere": -1.5, "cylinder": -0.75}
SLOPE = 8.0
LETTER_SIZES = tuple(round(0.1 * i, 1) for i in range(-3, 13))


def demo_settings() -> Settings:
    r"""An eye test: which lens lets a person read the smallest letters?

    Returns:
        The settings.
    """
    space = NamedSpace(
        parameters=[Real("sphere", -4.0, 4.0), Real("cylinder", -3.0, 0.0)],
        contexts=[
            Context("letter size", reference=0.0, levels=LETTER_SIZES, harder="down")
        ],
    )
    return Settings(space)


def smallest_letters(lens: Values) -> float:
    r"""The size of letter, in logMAR, that is read half of the time through a lens.

    Args:
        lens: The sphere and the cylinder.

    Returns:
        Zero for the lens that is needed, more for others.
    """
    errors = [float(lens[name]) - power for name, power in NEEDED.items()]
    return visual_acuity(torch.tensor(errors, dtype=torch.float64, device="cpu")).item()


def simulated_person(seed: int = 0) -> Callable[[Trial], bool]:
    r"""Someone who says whether letters can be read.

    Args:
        seed: The seed of the answers.

    Returns:
        A function from trials to answers.
    """
    generator = random.Random(seed)

    def read(trial: Trial) -> bool:
        size = float(trial.context["letter size"])
        margin = SLOPE * (size - smallest_letters(trial.parameters))
        return generator.random() < NormalDist().cdf(margin)

    return read


def run_demo(
    path: str | Path, num_trials: int, report: Callable[[str], None]
) -> Recommendation:
    r"""Run an eye test of a simulated person from start to end.

    Args:
        path: The journal file to make.
        num_trials: The number of trials.
        report: Takes a line about each trial.

    Returns:
        The recommended lens.
    """
    answer = simulated_person()
    with Experiment.create(path, demo_settings()) as experiment:
        for _ in range(num_trials):
            trial = experiment.ask()
            outcome = answer(trial)
            experiment.tell(trial.id, outcome)
            shown = ", ".join(f"{name} {v:5.2f}" for name, v in trial.values.items())
            report(f"{trial.id:3}: {shown}  {'read' if outcome else 'not read'}")
        return experiment.recommend()
