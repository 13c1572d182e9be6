r"""
The mean function of earlier subjects, as a journal keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel
from gpytorch.means import Mean

from botorch_binary_context.errors import quote
from botorch_binary_context.models.population import PopulationMean


@dataclass(frozen=True)
class MeanFunction:
    r"""``k(z, Z) w``, with the kernel of the experiment.

    ``Experiment.create(..., prior=..., mean_function=True)`` makes it; there is no need
    to write one.

    Attributes:
        points: The rows of ``Z``, in the coordinates of the model.
        weights: ``w``, a number for each row.
    """

    points: Sequence[Sequence[float]]
    weights: Sequence[float]

    def __post_init__(self) -> None:
        try:
            points = tuple(tuple(map(float, row)) for row in self.points)
            weights = tuple(map(float, self.weights))
        except (TypeError, ValueError):
            points, weights = (), ()
        widths = {len(row) for row in points}
        if not points or len(weights) != len(points) or len(widths) > 1:
            raise InputDataError(
                "Expected ``points`` of ``mean_function`` to be rows of equal length, "
                "and ``weights`` to be a number for each, but got "
                f"{quote(self.points)} and {quote(self.weights)}."
            )
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "weights", weights)

    @classmethod
    def of(cls, mean: PopulationMean, kernel: Any) -> MeanFunction:
        r"""The mean of a population, in terms of a kernel that was learned later.

        Args:
            mean: The mean.
            kernel: The kernel.
        """
        same = PopulationMean(mean.base, kernel, mean.points)
        with torch.no_grad():
            same.fit(mean.learned(mean.points))
        return cls(same.points.tolist(), same.weights.tolist())

    def add_to(self, base: Mean, kernel: Kernel) -> PopulationMean:
        r"""The mean of a model.

        Args:
            base: The mean to which it is added.
            kernel: The kernel of the experiment.
        """
        like = {"dtype": torch.float64, "device": "cpu"}
        mean = PopulationMean(base, kernel, torch.tensor(self.points, **like))
        mean.weights = torch.tensor(self.weights, **like)
        return mean
