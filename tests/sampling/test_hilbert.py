r"""Tests of the Hilbert-space features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mpmath
import pytest
import torch
from gpytorch.kernels import MaternKernel, RBFKernel
from hypothesis import given
from hypothesis import strategies as st
from linear_operator import to_dense
from torch import Tensor

from botorch_binary_context.sampling.hilbert import (
    hilbert_features,
    spectral_density,
)
from tests.derivatives import finite_difference, jacobian
from tests.devices import RequireDevice
from tests.stationary_kernels import matrix_of, stationary_kernel
from tests.tensors import double, uniform

SMOOTHNESS = (1.5, 2.5, math.inf)
# The error of the kernel, relative to its variance.
ACCURACY = 1e-2


def grid_in(bounds: Tensor, n: int = 3) -> Tensor:
    """A grid that holds the corners of the box, and random points."""
    low, high = bounds
    dim = bounds.shape[-1]
    ticks = torch.linspace(0, 1, n).double()
    grid = torch.cartesian_prod(*[ticks] * dim).reshape(-1, dim)
    return low + (high - low) * torch.cat([grid, uniform(100, dim)])


def kernel_error(
    kernel: RBFKernel | MaternKernel, bounds: Tensor, max_features: int = 3000
) -> float | None:
    """The largest error in a box; None if there are no features."""
    features = hilbert_features(kernel, bounds, max_features)
    if features is None:
        return None
    X = grid_in(bounds)
    Phi = features(X)
    assert Phi.shape[-1] <= max_features
    return (Phi @ Phi.mT - matrix_of(kernel, X)).abs().max().item()


def box(low: Sequence[float], high: Sequence[float]) -> Tensor:
    return double([low, high])


@pytest.mark.parametrize("nu", SMOOTHNESS)
class TestKernel:
    @pytest.mark.parametrize("lengthscale", [0.05, 0.2, 1.0, 10.0])
    def test_one_dimension(self, nu: float, lengthscale: float) -> None:
        kernel = stationary_kernel(nu, double([[lengthscale]]))
        error = kernel_error(kernel, box([0.0], [1.0]))
        assert error is not None
        assert error < ACCURACY

    def test_lengthscale_of_each_dimension_is_accurate(self, nu: float) -> None:
        kernel = stationary_kernel(nu, double([[0.9, 4.0]]))
        error = kernel_error(kernel, box([-1.0, 10.0], [1.0, 25.0]))
        assert error is not None
        assert error < ACCURACY

    def test_batch_of_hyperparameters(self, nu: float) -> None:
        lengthscale = 0.2 * 5 ** uniform(2, 3, 1, 2, seed=1)
        kernel = stationary_kernel(nu, lengthscale)
        bounds = box([0.0, 0.0], [1.0, 1.0])
        error = kernel_error(kernel, bounds)
        assert error is not None
        assert error < ACCURACY
        features = hilbert_features(kernel, bounds, 3000)
        assert features is not None
        assert features(uniform(2, 3, 7, 2)).shape[:-1] == (2, 3, 7)

    @given(st.data())
    def test_any_lengthscales(self, nu: float, data: st.DataObject) -> None:
        """The features of a batch serve each of its elements."""
        scale = st.floats(math.log(0.1), math.log(5.0)).map(math.exp)
        dim = data.draw(st.integers(1, 2))
        size = data.draw(st.integers(1, 3))
        count = dim * size
        values = data.draw(st.lists(scale, min_size=count, max_size=count))
        kernel = stationary_kernel(nu, double(values).reshape(size, 1, dim))
        error = kernel_error(kernel, box([-0.5] * dim, [0.5] * dim), 2048)
        assert error is None or error < ACCURACY
        assert error is not None or dim == 2

    def test_gradient_equals_finite_differences(self, nu: float) -> None:
        kernel = stationary_kernel(nu, double([[0.5, 0.8]]))
        features = hilbert_features(kernel, box([0.0, 0.0], [1.0, 1.0]), 2048)
        assert features is not None
        X = uniform(2, 2, seed=5)
        torch.testing.assert_close(
            jacobian(features, X),
            finite_difference(features, X),
            rtol=1e-6,
            atol=1e-8,
        )


class TestNumberOfFeatures:
    def test_three_dimensions(self) -> None:
        kernel = stationary_kernel(math.inf, double([[0.3, 0.5, 0.4]]))
        error = kernel_error(kernel, box([0.0] * 3, [1.0] * 3), 2048)
        assert error is not None
        assert error < ACCURACY

    def test_absolute_exponential(self) -> None:
        kernel = stationary_kernel(0.5, double([[0.5]]))
        error = kernel_error(kernel, box([0.0], [1.0]))
        assert error is not None
        assert error < ACCURACY

    def test_too_many_for_the_limit(self) -> None:
        kernel = stationary_kernel(1.5, double([[0.2]]))
        bounds = box([0.0], [1.0])
        features = hilbert_features(kernel, bounds, 1000)
        assert features is not None
        count = features(uniform(1, 1)).shape[-1]
        assert hilbert_features(kernel, bounds, count) is not None
        assert hilbert_features(kernel, bounds, count - 1) is None

    def test_too_many_dimensions(self) -> None:
        kernel = stationary_kernel(2.5, torch.full((1, 10), 0.5).double())
        assert hilbert_features(kernel, box([0.0] * 10, [1.0] * 10), 10**9) is None

    def test_more_in_a_wider_box(self) -> None:
        kernel = stationary_kernel(2.5, double([[0.2]]))
        counts = []
        for width in (1.0, 2.0, 4.0):
            features = hilbert_features(kernel, box([0.0], [width]), 1000)
            assert features is not None
            counts.append(features(uniform(1, 1)).shape[-1])
        assert counts[0] < counts[1] < counts[2]


class TestSpectralDensity:
    @pytest.mark.parametrize("nu", [0.5, *SMOOTHNESS])
    @pytest.mark.parametrize("lengthscale", [0.2, 3.0])
    def test_is_the_fourier_transform(self, nu: float, lengthscale: float) -> None:
        """``S(ω) = 2 ∫₀^∞ k(r) cos(ω r) dr`` in one dimension."""
        kernel = stationary_kernel(nu, double([[lengthscale]]))
        frequency = double([0.0, 0.7, 3.0]) / lengthscale
        found = spectral_density(
            double([[lengthscale]]), nu, frequency.unsqueeze(-1)
        ).flatten()
        r = torch.linspace(0, 40 * lengthscale, 200_001).double()
        values = to_dense(kernel(r.unsqueeze(-1), torch.zeros(1, 1).double()))
        integrand = 2 * values.squeeze(-1) * (frequency.unsqueeze(-1) * r).cos()
        expected = torch.trapezoid(integrand, r)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)

    @pytest.mark.parametrize("nu", [0.5, *SMOOTHNESS])
    def test_integral_is_the_variance(self, nu: float) -> None:
        """``k(0) = ∫ S(ω) dω / 2π = 1``."""
        lengthscale = double([[0.7]])

        def density(frequency: Any) -> float:
            return spectral_density(
                lengthscale, nu, double([[float(frequency)]])
            ).item()

        knots = [0, 1, 10, 100, mpmath.inf]
        assert abs(mpmath.quad(density, knots) / mpmath.pi - 1) < 1e-8

    @pytest.mark.parametrize("nu", SMOOTHNESS)
    def test_integral_in_two_dimensions(self, nu: float) -> None:
        """On ellipses: ``∫ S dω / (2π)² = ∫ S(r) r dr / (2π l₁ l₂)``."""
        lengthscale = double([[0.5, 2.0]])

        def density(r: Any) -> float:
            point = float(r) * double([[0.6, 0.8]]) / lengthscale
            return float(r) * spectral_density(lengthscale, nu, point).item()

        total = mpmath.quad(density, [0, 1, 10, 100, mpmath.inf])
        assert abs(total / (2 * mpmath.pi) - 1) < 1e-8

    @pytest.mark.parametrize("nu", SMOOTHNESS)
    def test_batch_equals_single_lengthscales(self, nu: float) -> None:
        lengthscale = 0.2 + uniform(2, 3, 1, 2)
        frequency = 4 * uniform(5, 2)
        found = spectral_density(lengthscale, nu, frequency)
        assert found.shape == (2, 3, 1, 5)
        single = spectral_density(lengthscale[1, 2], nu, frequency)
        torch.testing.assert_close(found[1, 2], single)


def test_hilbert_features_make_nothing_on_the_default_device() -> None:
    kernel = stationary_kernel(1.5, double([[0.5]]))
    X = uniform(3, 1)
    bounds = box([0.0], [1.0])
    with RequireDevice():
        features = hilbert_features(kernel, bounds, 1000)
        assert features is not None
        features(X)
