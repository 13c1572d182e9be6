from __future__ import annotations

import pytest
import torch

from benchmarks.speed import compiled
from botorch_binary_context import BernoulliMutualInformation

# Tracing warns about what it does not follow.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_compiled_values_and_gradients_are_the_same() -> None:
    torch.compiler.reset()
    torch.manual_seed(0)
    model = compiled.binary_model(2, 10).eval()
    evaluate = BernoulliMutualInformation(model).evaluate
    traced = torch.compile(evaluate, backend="eager")
    X = torch.rand(5, 2, 1, 4, dtype=torch.double)
    torch.testing.assert_close(
        compiled._values(traced, X), compiled._values(evaluate, X)
    )
    torch.testing.assert_close(
        compiled._gradients(traced, X), compiled._gradients(evaluate, X)
    )


def test_table() -> None:
    costs = compiled.measure_compiled(sizes=(2,), backend="eager")
    table = compiled.format_compiled(costs)
    assert "| 2 | values |" in table
    assert "| 2 | gradients |" in table
