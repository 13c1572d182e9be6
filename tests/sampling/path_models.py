r"""Models for the tests of sample paths."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gpytorch.means import Mean
from torch import Tensor

from botorch_binary_context.sampling import PosteriorSamplePaths
from tests.small_models import (
    MODEL_CLASSES,
)
from tests.tensors import double

# Trials are in the unit square: half of this box is far from all of them.
BOUNDS = double([[0.0, 0.0], [2.0, 2.0]])


NUM_PATHS = 20_000


Draw = Callable[..., PosteriorSamplePaths]


both_models = pytest.mark.parametrize("model_class", MODEL_CLASSES)


class Slope(Mean):
    """A prior mean that rises along the second column."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def forward(self, x: Tensor) -> Tensor:
        return self.slope * x[..., 1]
