r"""Thresholds by a dense grid, against what is known of them."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import LogNormal, Normal

from benchmarks.studies.threshold_priors import (
    Grid,
    SlopePrior,
    compare,
    crossing,
    simulate_on_grid,
)

PRIOR = SlopePrior(4.0, 0.5, 1.0, 25.0)


def test_moments_of_the_prior() -> None:
    grid = Grid(PRIOR)
    weights = grid.log_prior.softmax(dim=0)
    middle = grid.values[:, len(grid.contexts) // 2]
    end = grid.values[:, 0]
    slope = LogNormal(torch.tensor(4.0).log(), 0.5)
    mean = float(weights @ (end - middle))
    assert mean == pytest.approx(float(slope.mean), rel=0.02)
    variance = float(weights @ (end - middle - mean).square())
    assert variance == pytest.approx(float(slope.variance) + 1.0, rel=0.05)
    assert float(weights @ middle.square()) == pytest.approx(25.0, rel=0.01)


def test_crossing_is_the_quantile_of_a_normal() -> None:
    line = torch.linspace(0.0, 10.0, 11).double()
    below = Normal(6.3, 1.0).cdf(line)
    assert crossing(below, 0.5).item() == pytest.approx(6.3, abs=0.01)
    assert crossing(below, 0.05).item() == pytest.approx(6.3 - 1.645, abs=0.01)


def test_comparison_gives_the_known_coverage_error_and_width() -> None:
    line = torch.linspace(1.0, -1.0, 201).double()
    # Certain of a threshold at 0.5 of [-1, 1], within 0.1 either way.
    below = Normal(-0.5, 0.1).cdf(-line).expand(2, -1)
    frame = compare(below, torch.tensor([0.4, -0.3]).double(), trials=9)
    assert frame["covered"].to_list() == [True, False]
    assert frame["error"].to_list() == pytest.approx([0.05, 0.4], abs=1e-3)
    assert frame["width"].to_list() == pytest.approx([0.1645] * 2, abs=1e-3)


def test_subjects_from_the_prior_are_covered_as_stated() -> None:
    """Slopes of one kind that the prior is sure of: intervals hold 90 %."""
    prior = SlopePrior(6.0, 0.01, 0.01, 25.0)
    frame = simulate_on_grid(prior, 2, 6.0, 200, (15,), seed=0)
    # Four standard errors; thresholds of simulated subjects are evenly distributed.
    assert abs(frame["covered"].to_numpy().mean() - 0.9) < 4 * (0.09 / 200) ** 0.5
