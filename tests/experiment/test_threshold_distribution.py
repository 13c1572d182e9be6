r"""Tests of distributions of thresholds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from botorch.exceptions import UnsupportedError
from scipy.stats import norm, truncnorm

from botorch_binary_context.experiment.threshold_distribution import (
    ThresholdDistribution,
)
from tests.experiment.test_recommendation import graded

VALUES = torch.linspace(-1.0, 4.0, 501, dtype=torch.double).tolist()


class TestThresholdDistribution:
    @pytest.mark.parametrize("harder", ["up", "down"])
    def test_truncated_normal(self, harder: str) -> None:
        values = VALUES if harder == "up" else VALUES[::-1]
        below = torch.as_tensor(norm.cdf(values, loc=0.5, scale=1.2))
        failing = below if harder == "up" else 1.0 - below
        found = ThresholdDistribution.by_failing(values, failing)
        expected = truncnorm((-1.0 - 0.5) / 1.2, (4.0 - 0.5) / 1.2, 0.5, 1.2)
        assert found.mean == pytest.approx(expected.mean(), abs=1e-5)
        assert found.sd == pytest.approx(expected.std(), abs=1e-4)
        assert found.mode == pytest.approx(0.5, abs=0.02)
        for probability in (0.001, 0.05, 0.5, 0.95, 0.999):
            quantile = found.quantile(probability)
            assert quantile == pytest.approx(expected.ppf(probability), abs=1e-4)

    def test_where_it_cannot_be(self) -> None:
        """No probability between two values; the ends of the grid are the last."""
        failing = torch.tensor([0.0, 0.5, 0.5, 1.0], dtype=torch.double)
        found = ThresholdDistribution.by_failing([0.0, 1.0, 2.0, 3.0], failing)
        assert found.mean == pytest.approx(1.5)
        assert found.quantile(0.25) == pytest.approx(0.5)
        assert found.quantile(0.75) == pytest.approx(2.5)
        assert (found.quantile(0.0), found.quantile(1.0)) == (0.0, 3.0)

    def test_noise_of_sampling(self) -> None:
        failing = torch.tensor([0.1, 0.4, 0.39, 0.8], dtype=torch.double)
        found = ThresholdDistribution.by_failing([0.0, 1.0, 2.0, 3.0], failing)
        assert found.cumulative.tolist() == pytest.approx([0.0, 3 / 7, 3 / 7, 1.0])

    def test_outside_for_certain(self) -> None:
        with pytest.raises(UnsupportedError, match="outside of them for certain"):
            ThresholdDistribution.by_failing([0.0, 1.0], torch.ones(2).double())


def test_of_a_recommendation() -> None:
    """Inside the bounds, it is the distribution that the interval is taken from."""
    best = graded("down", "linear")
    probability = best.success_probability({"noise": 2.5}, credible=1e-9).low
    found = best.threshold_distribution("noise", probability)
    median, low, high = best.threshold("noise", probability, credible=0.3)
    cumulative = np.interp([low, median, high], found.values, found.cumulative)
    below, above = np.diff(cumulative)
    assert below == pytest.approx(above, abs=0.003)
    assert 0.15 < below < 0.25  # of what is left inside
