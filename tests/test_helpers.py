from __future__ import annotations

from pathlib import Path

import mpmath
import torch

from tests.derivatives import finite_difference, jacobian
from tests.devices import RequireDevice
from tests.quadrature import normal_expectation
from tests.strict_case import StrictTestCase
from tests.tensors import double


class TestRequireDevice(StrictTestCase):
    """The check itself must be able to fail."""

    def test_refuses(self) -> None:
        here = RequireDevice(Path(__file__).parent)
        for make in (
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
        ):
            with self.assertRaisesRegex(AssertionError, "without a device"), here:
                make()

    def test_allows(self) -> None:
        x = torch.zeros(3)
        with RequireDevice(Path(__file__).parent):
            torch.zeros(3, device="cpu")
            torch.zeros_like(x)
            x.new_zeros(2)
            torch.as_tensor(x)
            torch.as_tensor([1.0], device=x.device)
        with RequireDevice():  # calls from elsewhere are not the package's
            torch.zeros(3)


class TestNumerics(StrictTestCase):
    def test_finite_difference(self) -> None:
        x = double([0.3, -1.2])

        def func(x: torch.Tensor) -> torch.Tensor:
            return torch.stack([x.prod(), x[0].sin(), x[1].exp()])

        truth = double([[-1.2, 0.3], [mpmath.cos(0.3), 0.0], [0.0, mpmath.exp(-1.2)]])
        self.assertAllClose(finite_difference(func, x), truth, rtol=0, atol=1e-12)
        self.assertAllClose(jacobian(func, x), truth, rtol=0, atol=1e-15)

    def test_normal_expectation(self) -> None:
        with mpmath.workdps(25):
            cosine = normal_expectation(mpmath.cos, 0.5, 2.0)
            truth = mpmath.cos(0.5) * mpmath.exp(-1)
            self.assertLess(abs(cosine - truth), 1e-20)
            # A step is seen only if the range is cut there.
            step = normal_expectation(lambda f: float(f > 1), 0.0, 4.0, knots=(1.0,))
            self.assertLess(abs(step - mpmath.ncdf(-0.5)), 1e-20)
