r"""Random walks within a part of a box."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_binary_context.numerics.walks import walk
from tests.tensors import double


def test_uniform_in_a_small_ball() -> None:
    """Volumes within radii are uniform; the ball is a millionth of the box."""
    center = double([0.3, 1.5, 0.6])
    radius = 0.01
    bounds = double([[0.0, 1.0, 0.0], [1.0, 2.0, 1.0]])

    def is_within(X: Tensor) -> Tensor:
        return (X - center).norm(dim=-1) <= radius

    torch.manual_seed(0)
    ends = walk(is_within, center.expand(2000, -1), bounds, num_steps=16)
    assert is_within(ends).all()
    share = ((ends - center).norm(dim=-1) / radius) ** 3
    expected = torch.linspace(0.1, 0.9, 9, dtype=torch.double)
    found = (share.unsqueeze(-1) <= expected).double().mean(dim=0)
    torch.testing.assert_close(found, expected, rtol=0, atol=0.04)


def test_two_parts_and_the_box() -> None:
    """A walk reaches other parts that a line meets, and stays in the box."""

    def is_within(X: Tensor) -> Tensor:
        return (X[..., 0] - 0.5).abs() > 0.4

    torch.manual_seed(0)
    starts = torch.zeros(1000, 2).double()
    bounds = double([[0.0, 0.0], [1.0, 1.0]])
    ends = walk(is_within, starts, bounds, num_steps=16)
    assert is_within(ends).all()
    assert ((ends >= 0) & (ends <= 1)).all()
    assert abs((ends[:, 0] > 0.5).double().mean() - 0.5) < 0.06


def test_a_start_outside() -> None:
    starts = double([[0.2], [0.7]])
    ends = walk(lambda X: X[..., 0] < -1, starts, double([[0.0], [1.0]]), 3)
    torch.testing.assert_close(ends, starts)
