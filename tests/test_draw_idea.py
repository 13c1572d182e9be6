from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.figure import Figure
from matplotlib.image import imread

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


def test_picture_has_one_panel_above_the_other(tmp_path: Path) -> None:
    acuities = {rule: torch.rand(3, 8) for rule in draw_idea.RULES}
    draw_idea.draw(acuities, tmp_path / "idea.png")
    height, width = imread(tmp_path / "idea.png").shape[:2]
    assert 700 < width < height
    assert imread(draw_idea.PATH).shape[:2] == (height, width)
