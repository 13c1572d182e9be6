r"""The mean function of earlier subjects in a journal."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import RBFKernel
from gpytorch.means import ZeroMean

from botorch_binary_context.experiment.mean_function import MeanFunction
from botorch_binary_context.models.population import PopulationMean
from tests.tensors import uniform


def test_it_is_the_same_function_with_another_kernel() -> None:
    points = uniform(12, 2)
    first = RBFKernel().double()
    second = RBFKernel().double()
    second.initialize(lengthscale=0.3)
    mean = PopulationMean(ZeroMean(), first, points)
    mean.fit(torch.sin(5 * points[:, 0]))
    kept = MeanFunction.of(mean, second)
    again = MeanFunction(kept.points, kept.weights).add_to(ZeroMean(), second)
    torch.testing.assert_close(again(points), mean(points), atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("points", "weights"),
    [
        ([], []),
        ([[0.0, 1.0]], [1.0, 2.0]),
        ([[0.0, 1.0], [2.0]], [1.0, 2.0]),
        (3, [1.0]),
        ([["a"]], [1.0]),
    ],
)
def test_refuses_points_and_weights_that_do_not_match(
    points: Any, weights: Any
) -> None:
    with pytest.raises(InputDataError, match="``points`` of ``mean_function`` to be"):
        MeanFunction(points, weights)
