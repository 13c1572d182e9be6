r"""Eye examinations with models that expect one best lens."""

from __future__ import annotations

import pytest
import torch

from botorch_binary_context import (
    BLUR,
    PeakLaw,
    SearchOptions,
    psychometric_gp,
    recommend,
    suggest,
)
from botorch_binary_context.problems import POWER_VECTOR, RefractionProblem
from tests.tensors import double, uniform

PATIENTS = 24
NUM_LETTERS = 40
OPTIONS = SearchOptions(num_restarts=4, raw_samples=64, max_evaluations=20)


def examine(shape: str | PeakLaw, rule: str, acuity: float = 0.0) -> torch.Tensor:
    """The acuities in logMAR that the recommended lenses lose.

    The patients read letters of no less than an acuity.
    """
    needed = 6 * uniform(PATIENTS, 2, seed=1) - 3
    problem = RefractionProblem(5, prescription=needed, reference_size=0.5)
    space = problem.space
    harder = double([acuity, 0.0, 0.0])
    X = space.bounds[0] + uniform(PATIENTS, 3, 3, seed=2) * double([3.0, 8.0, 8.0])
    chances = uniform(PATIENTS, 3 + NUM_LETTERS, seed=3)
    Y = (
        (chances[:, :3] < problem.success_probability(X - harder))
        .double()
        .unsqueeze(-1)
    )
    model = psychometric_gp(X, Y, space, 1 / 26, combinations=POWER_VECTOR, shape=shape)
    for i in range(NUM_LETTERS):
        trial = suggest(model, space, rule, OPTIONS, seed=i)
        read = chances[:, 3 + i : 4 + i] < problem.success_probability(trial - harder)
        model = model.condition_on_observations(trial, read.double().unsqueeze(-1))
    best = recommend(model, space, OPTIONS)
    return -problem.score(best.unsqueeze(-2)).squeeze(-1)


@pytest.mark.parametrize("shape", ["peak", BLUR], ids=["peak", "blur"])
def test_information_about_the_gradient_halves_the_loss(shape: str | PeakLaw) -> None:
    """Of letters and lenses at random."""
    found = examine(shape, "gradient").mean()
    assert found < examine(shape, "random").mean() / 2


def test_finds_the_lens_of_eyes_that_see_worse_than_expected() -> None:
    """By twice the uncertainty of what is expected."""
    found = examine(BLUR, "gradient", acuity=0.4).mean()
    assert found < examine(BLUR, "random", acuity=0.4).mean() / 2
