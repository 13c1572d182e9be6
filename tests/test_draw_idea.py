from __future__ import annotations

import torch
from matplotlib.figure import Figure

from botorch_binary_context.problems import RefractionProblem
from scripts import draw_idea


def test_acuity_is_finite_and_no_better_than_the_best_lens() -> None:
    acuity = draw_idea.examine("ts-random", repetitions=2, iterations=6)
    assert acuity.shape == (2, 6)
    assert bool((acuity >= 0.0).all())
    best = RefractionProblem(prescription=draw_idea.PRESCRIPTION)
    lens = torch.tensor(draw_idea.PRESCRIPTION, dtype=torch.double)
    assert float(-best.score(lens)) == 0.0


def test_letters_between_too_small_and_too_large_are_marked() -> None:
    ax = Figure().subplots()
    draw_idea.draw_letters(ax)
    assert len(ax.lines) == len(draw_idea.LENSES)
    low, high = sorted(patch.get_extents().x0 for patch in ax.patches)
    assert low < high  # a poor lens needs larger letters
