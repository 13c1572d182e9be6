r"""
A real experiment, answered by a simulated person.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from torch import Tensor

from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.experiment.recommendation import Recommendation
from botorch_binary_context.experiment.settings import PassFail, Settings
from botorch_binary_context.experiment.space import NamedSpace, Values
from botorch_binary_context.experiment.trial import Trial
from botorch_binary_context.experiment.variables import Context, Real
from botorch_binary_context.problems import POWER_VECTOR, RefractionProblem

#: The lens that the simulated person needs, in diopters.
NEEDED = {"sphere": -1.5, "cylinder": -0.75}
PATIENT_SLOPE = 8.0
NUM_LETTERS = 26
LETTER_SIZES = tuple(round(0.1 * i, 1) for i in range(-3, 13))


def demo_settings(num_letters: int = NUM_LETTERS) -> Settings:
    r"""An eye test: which lens lets a person read the smallest letters?

    Args:
        num_letters: The number of letters to guess from.
    """
    space = NamedSpace(
        parameters=[Real("sphere", -4.0, 4.0), Real("cylinder", -3.0, 0.0)],
        contexts=[
            Context("letter size", reference=0.0, levels=LETTER_SIZES, harder="down")
        ],
    )
    guesses = PassFail(guess_rate=1 / num_letters)
    return Settings(space, guesses, "ucb99-ald", seed=0, combinations=POWER_VECTOR)


def smallest_letters(lens: Values) -> float:
    r"""The acuity with a lens: letters of this size, in logMAR, are read half the time.

    Args:
        lens: The sphere and the cylinder.

    Returns:
        Zero for the lens that is needed, more for others.
    """
    person = _person()
    return -person.score(_row(person, lens, tuple(NEEDED))).item()


def simulated_person(
    seed: int = 0, num_letters: int = NUM_LETTERS
) -> Callable[[Trial], bool]:
    r"""A simulated person who reads letters, or fails to.

    Args:
        seed: The seed of the answers.
        num_letters: The number of letters to guess from.

    Returns:
        A function from trials to answers.
    """
    generator = random.Random(seed)
    person = _person(num_letters)

    def read(trial: Trial) -> bool:
        row = _row(person, trial.values, ("letter size", *NEEDED))
        return generator.random() < person.success_probability(row).item()

    return read


def _person(num_letters: int = NUM_LETTERS) -> RefractionProblem:
    return RefractionProblem(PATIENT_SLOPE, num_letters, tuple(NEEDED.values()))


def _row(person: RefractionProblem, values: Values, names: Sequence[str]) -> Tensor:
    return person.prescription.new_tensor([float(values[name]) for name in names])


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
