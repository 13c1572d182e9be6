from __future__ import annotations

import pytest
import torch

from botorch_binary_context.inference.gaussian import solve_columns
from tests.closeness import assert_all_close
from tests.tensors import uniform


@pytest.mark.parametrize("samples", [(), (5,), (2, 5)])
@pytest.mark.parametrize("batch_shape", [(), (3,), (3, 2)])
def test_one_factor_solves_for_all_samples(
    samples: tuple[int, ...], batch_shape: tuple[int, ...]
) -> None:
    A = uniform(*batch_shape, 4, 4)
    K = A @ A.mT + torch.eye(4, dtype=torch.double)
    rhs = uniform(*samples, *batch_shape, 4)
    found = solve_columns(torch.linalg.cholesky(K), rhs)
    expected = torch.linalg.solve(K.expand(*samples, *K.shape), rhs.unsqueeze(-1))
    assert found.shape == rhs.shape
    assert_all_close(found, expected.squeeze(-1))
