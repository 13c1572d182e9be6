from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.devices import RequireDevice

MAKERS: tuple[Callable[[], torch.Tensor], ...] = (
    lambda: torch.zeros(3),
    lambda: torch.ones(2, dtype=torch.double),
    lambda: torch.eye(2),
    lambda: torch.tensor([1.0]),
    lambda: torch.arange(3),
    lambda: torch.linspace(0, 1, 3),
    lambda: torch.rand(2),
    lambda: torch.randn(2, device=None),
    lambda: torch.full((2,), 1.0),
    lambda: torch.empty(2),
    lambda: torch.as_tensor(1.0),
)


@pytest.mark.parametrize("make", MAKERS)
def test_tensor_without_a_device_is_refused(make: Callable[[], torch.Tensor]) -> None:
    here = RequireDevice(Path(__file__).parent)
    with pytest.raises(AssertionError, match="without a device"), here:
        make()


def test_tensors_that_take_the_device_of_another_pass() -> None:
    x = torch.zeros(3)
    with RequireDevice(Path(__file__).parent):
        torch.zeros(3, device="cpu")
        torch.zeros_like(x)
        x.new_zeros(2)
        torch.as_tensor(x)
        torch.as_tensor([1.0], device=x.device)


def test_calls_from_elsewhere_are_not_checked() -> None:
    with RequireDevice():
        torch.zeros(3)
