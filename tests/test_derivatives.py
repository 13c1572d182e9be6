from __future__ import annotations

import mpmath
import torch

from tests.closeness import assert_all_close
from tests.derivatives import finite_difference, jacobian
from tests.tensors import double


def test_jacobian_of_three_functions() -> None:
    x = double([0.3, -1.2])

    def func(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x.prod(), x[0].sin(), x[1].exp()])

    truth = double([[-1.2, 0.3], [mpmath.cos(0.3), 0.0], [0.0, mpmath.exp(-1.2)]])
    assert_all_close(finite_difference(func, x), truth, rtol=0, atol=1e-12)
    assert_all_close(jacobian(func, x), truth, rtol=0, atol=1e-15)
