from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath
import pytest
import torch
from torch.autograd import gradcheck

from botorch_binary_context.bivariate import (
    bivariate_normal_cdf,
    owens_t,
    probit_covariance,
)
from botorch_binary_context.probability import normal_cdf, probit_moments
from tests.devices import RequireDevice
from tests.tensors import double

POINTS = [-6.0, -1.3, 0.0, 2.5]
CORRELATIONS = [-0.9999999, -0.97, -0.5, 0.0, 0.3, 0.9, 0.95, 0.999, 0.9999999]


def reference(h: float, k: float, rho: float) -> float:
    """The integral over the one variable of the probability of the other."""
    root = mpmath.sqrt((1 - mpmath.mpf(rho)) * (1 + mpmath.mpf(rho)))

    def integrand(x: Any) -> Any:
        return mpmath.npdf(x) * mpmath.ncdf((k - rho * x) / root)

    turn = k / rho if rho else 0.0
    breaks = {-40.0, -8.0, -3.0, 0.0, 3.0, turn - 0.01, turn, turn + 0.01}
    value: Any = mpmath.quad(integrand, [*sorted(b for b in breaks if b < h), h])
    return float(value)


@pytest.mark.parametrize("rho", CORRELATIONS)
def test_against_quadrature(rho: float) -> None:
    for h, k in itertools.product(POINTS, [-1.3, 0.0, 2.5]):
        found = bivariate_normal_cdf(double(h), double(k), double(rho))
        assert abs(float(found) - reference(h, k, rho)) < 1e-13


def test_perfect_correlation() -> None:
    h = double(POINTS).unsqueeze(-1)
    k = double(POINTS)
    same = bivariate_normal_cdf(h, k, double(1.0))
    opposite = bivariate_normal_cdf(h, k, double(-1.0))
    both = torch.minimum(normal_cdf(h), normal_cdf(k))
    torch.testing.assert_close(same, both, rtol=0, atol=1e-15)
    left = (normal_cdf(h) - normal_cdf(-k)).clamp_min(0.0)
    torch.testing.assert_close(opposite, left, rtol=0, atol=1e-15)


def test_covariance_equals_mpmath_even_where_it_is_tiny() -> None:
    """Where it is tiny, too, and on both sides of where the method changes."""
    for h, k, rho in itertools.product([-1.3, 2.5], [0.4], CORRELATIONS):
        found = float(probit_covariance(double(h), double(k), double(rho)))
        expected = reference(h, k, rho) - float(mpmath.ncdf(h) * mpmath.ncdf(k))
        assert abs(found - expected) < 1e-13
    tiny = probit_covariance(double(3.0), double(2.0), double(1e-9))
    density = math.exp(-(9 + 4) / 2) / (2 * math.pi)
    assert abs(float(tiny) / (1e-9 * density) - 1) < 1e-7


def test_variance_is_the_covariance_with_itself() -> None:
    mean = double([-2.0, 0.3, 1.0])
    variance = double([0.1, 2.0, 50.0])
    h, rho = mean / (1 + variance).sqrt(), variance / (1 + variance)
    expected = probit_moments(mean, variance)[1]
    found = probit_covariance(h, h, rho)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)


def test_gradients_of_cdf_and_covariance_equal_finite_differences() -> None:
    rho = double([-0.95, -0.3, 0.0, 0.6, 0.97])
    h = double([0.3, -1.0, 0.5, 2.0, 0.4])
    k = double([0.2, 0.6, -0.4, 1.0, 0.9])
    arguments = tuple(t.requires_grad_() for t in (h, k, rho))
    assert gradcheck(bivariate_normal_cdf, arguments)
    assert gradcheck(probit_covariance, arguments)


def test_owens_t() -> None:
    for h, a in itertools.product([0.0, 0.5, -2.0, 6.0], [0.0, 0.3, -1.0, 4.0, 30.0]):
        expected = mpmath.quad(
            lambda x, h=h: mpmath.exp(-(h**2) * (1 + x**2) / 2) / (1 + x**2),
            [0, min(abs(a), 1), min(abs(a), 10), abs(a)],
        ) / (2 * mpmath.pi)
        found = owens_t(double(h), double(a))
        assert abs(float(found) - math.copysign(float(expected), a)) < 1e-14


def test_shapes_and_device() -> None:
    with RequireDevice():
        found = bivariate_normal_cdf(
            torch.zeros(3, 1).double(), torch.zeros(4).double(), double(0.5)
        )
    assert found.shape == (3, 4)
    torch.testing.assert_close(found, torch.full_like(found, 1 / 3))
