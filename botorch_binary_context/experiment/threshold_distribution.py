r"""
The posterior distribution of a threshold, on a grid of values of a context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

# The mode is the middle of the shortest interval with this probability.
MODE_SHARE = 0.2


@dataclass(frozen=True)
class ThresholdDistribution:
    r"""Where a threshold may be, given that it is within the bounds of its context.

    Between two values of the grid the density is constant.

    Attributes:
        values: The values of the context, ascending.
        cumulative: The probabilities that the threshold is below each, from 0 to 1.
    """

    values: Tensor
    cumulative: Tensor

    @classmethod
    def by_failing(
        cls, values: Sequence[float], failing: Tensor
    ) -> ThresholdDistribution:
        r"""The distribution, from the probabilities that tests are too hard.

        Args:
            values: The values of the context, the easiest first.
            failing: The probability that each of them is harder than the threshold.
        """
        grid = failing.new_tensor(values)
        # A harder test is too hard if an easier one is, apart from sampling errors.
        failing = failing.cummax(dim=0).values
        inside = failing[-1] - failing[0]
        if not inside > 0.0:
            raise UnsupportedError(
                "Expected the threshold to be within the bounds of its context, but by "
                "the answers so far it is outside of them for certain."
            )
        share = (failing - failing[0]) / inside
        if grid[0] > grid[-1]:
            grid = grid.flip(0)
            share = 1.0 - share.flip(0)
        return cls(grid, share)

    @property
    def mean(self) -> float:
        """The mean."""
        return float((self._masses * self._middles).sum())

    @property
    def sd(self) -> float:
        """The standard deviation."""
        within = self._widths.square() / 12.0
        squares = (self._middles - self.mean).square() + within
        return float((self._masses * squares).sum().sqrt())

    @property
    def mode(self) -> float:
        """The middle of the shortest interval that holds a fifth of the probability."""
        starts = torch.linspace(
            0.0,
            1.0 - MODE_SHARE,
            401,
            dtype=self.values.dtype,
            device=self.values.device,
        )
        low = self._invert(starts)
        high = self._invert(starts + MODE_SHARE)
        shortest = (high - low).argmin()
        return float((low + high)[shortest] / 2.0)

    def quantile(self, probability: float) -> float:
        r"""The value that the threshold is below with a given probability.

        Args:
            probability: The probability.

        Returns:
            The value, within the bounds.
        """
        return float(self._invert(self.values.new_tensor([probability]))[0])

    @property
    def _masses(self) -> Tensor:
        return self.cumulative.diff()

    @property
    def _widths(self) -> Tensor:
        return self.values.diff()

    @property
    def _middles(self) -> Tensor:
        return (self.values[1:] + self.values[:-1]) / 2.0

    def _invert(self, shares: Tensor) -> Tensor:
        """Where the cumulative probability reaches each of some shares."""
        after = torch.searchsorted(self.cumulative, shares)
        after = after.clamp(1, len(self.values) - 1)
        low, high = self.cumulative[after - 1], self.cumulative[after]
        weight = ((shares - low) / (high - low).clamp_min(1e-300)).clamp(0.0, 1.0)
        return torch.lerp(self.values[after - 1], self.values[after], weight)
