from __future__ import annotations

import math
from typing import Any

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from botorch_binary_context import probability
from botorch_binary_context.probability import (
    bernoulli_entropy,
    bernoulli_mutual_information,
    expected_probit_entropy,
    gaussian_expectation,
    inverse_mills_ratio,
    normal_cdf,
    probit_entropy,
    probit_moments,
    probit_variance,
)
from tests import strategies
from tests.closeness import assert_all_close
from tests.devices import RequireDevice
from tests.probability_cases import (
    KNOTS,
    golden_cases,
    grid,
    relative_error,
    shrunken,
)
from tests.quadrature import normal_expectation
from tests.tensors import double


def true_variance(mean: float, variance: float) -> float:
    low = -abs(mean)  # the side where Φ has all its digits; the variance is the same
    with mpmath.workdps(25):
        center = mpmath.ncdf(shrunken(low, variance))
        # Squares of order one: the quadrature stops at an absolute error.
        unit = center * mpmath.sqrt(variance)
        squared = normal_expectation(
            lambda f: ((mpmath.ncdf(f) - center) / unit) ** 2, low, variance, KNOTS
        )
        return float(squared * unit**2)


class TestProbitMoments:
    def test_against_quadrature(self) -> None:
        mean, variance = grid((-4.0, -1.5, 0.0, 2.0, 5.0, 8.0))
        center, spread = probit_moments(mean, variance)
        points = list(zip(mean.tolist(), variance.tolist(), strict=True))
        with mpmath.workdps(25):
            true_center = double([float(mpmath.ncdf(shrunken(*p))) for p in points])
        assert relative_error(center, true_center) < 1e-14
        true_spread = double([true_variance(*p) for p in points])
        assert relative_error(spread, true_spread) < 1e-12

    def test_golden_values_are_found(self, subtests: pytest.Subtests) -> None:
        for name, case in golden_cases():
            with subtests.test(name):
                center, spread = probit_moments(
                    double(case["latent_mean"]), double(case["latent_variance"])
                )
                assert_all_close(center, double(case["probability"]), rtol=0, atol=1e-9)
                assert_all_close(
                    spread, double(case["probability_variance"]), rtol=0, atol=1e-10
                )

    def test_known_values(self) -> None:
        # f ~ N(0, 1): Φ(f) is uniform.
        center, spread = probit_moments(double(0.0), double(1.0))
        assert_all_close(center, double(0.5), rtol=1e-15)
        assert_all_close(spread, double(1 / 12), rtol=1e-15)

    def test_no_variance(self) -> None:
        mean = double([-40.0, -1.0, 0.0, 3.0])
        center, spread = probit_moments(mean, torch.zeros_like(mean))
        assert_all_close(center, torch.special.ndtr(mean), rtol=1e-15, atol=0.0)
        assert torch.equal(spread, torch.zeros_like(mean))

    def test_float32_follows_double(self) -> None:
        mean, variance = grid((-4.0, 0.0, 2.0, 5.0))
        exact = probit_moments(mean.float().double(), variance.float().double())
        single = probit_moments(mean.float(), variance.float())
        for value, truth in zip(single, exact, strict=True):
            assert value.dtype == torch.float
            assert relative_error(value.double(), truth) < 1e-5

    def test_mean_and_variance_are_broadcast(self) -> None:
        mean = torch.randn(3, 1).double()
        variance = torch.rand(4).double()
        center, spread = probit_moments(mean, variance)
        full = torch.broadcast_tensors(mean, variance)
        for value, expected in zip(
            (center, spread), probit_moments(*full), strict=True
        ):
            assert value.shape == (3, 4)
            assert_all_close(value, expected, rtol=1e-15)

    def test_derivatives_equal_finite_differences(self) -> None:
        mean = double([-4.0, -0.7, 0.0, 1.0, 2.0]).requires_grad_()
        variance = double([1e-4, 0.1, 1.0, 30.0, 2.0]).requires_grad_()
        assert gradcheck(probit_moments, (mean, variance), atol=1e-9)
        assert gradgradcheck(probit_moments, (mean, variance), atol=1e-8)

    def test_derivative_in_the_variance_at_zero(self) -> None:
        # V Φ(f) = φ(μ)² σ² + O(σ⁴)
        mean = double([0.0, 1.5])
        variance = torch.zeros(2).double().requires_grad_()
        _, spread = probit_moments(mean, variance)
        (slope,) = torch.autograd.grad(spread.sum(), variance)
        assert_all_close(slope, torch.exp(-mean.square()) / (2 * math.pi))

    @given(strategies.latent_moments())
    def test_changing_the_sign_of_the_mean_mirrors_the_moments(
        self, moments: tuple[Tensor, Tensor]
    ) -> None:
        mean, variance = moments
        center, spread = probit_moments(mean, variance)
        mirrored, mirrored_spread = probit_moments(-mean, variance)
        assert_all_close(1 - center, mirrored, rtol=0, atol=1e-15)
        assert torch.equal(spread, mirrored_spread)

    @given(strategies.latent_moments(bound=50.0))
    def test_moments_are_in_range(self, moments: tuple[Tensor, Tensor]) -> None:
        center, spread = probit_moments(*moments)
        mirrored, _ = probit_moments(-moments[0], moments[1])
        assert bool((center >= 0).all() and (center <= 1).all())
        assert bool((spread >= 0).all())
        # Var p <= E p (1 - E p)
        assert bool((spread <= center * mirrored * (1 + 1e-12)).all())


class TestProbitVariance:
    def test_derivatives_where_digits_are_few(self, subtests: pytest.Subtests) -> None:
        """The gradient keeps its relative precision too, on either side."""
        for h, variance in ((-5.0, 1e-8), (-3.0, 0.1), (3.0, 0.1), (1.0, 400.0)):
            with subtests.test(h=h, variance=variance), mpmath.workdps(40):
                truth = [
                    float(mpmath.diff(plackett, (h, variance), order))
                    for order in ((1, 0), (0, 1))
                ]
                inputs = double(h).requires_grad_(), double(variance).requires_grad_()
                slopes = torch.autograd.grad(probit_variance(*inputs), inputs)
                assert relative_error(torch.stack(slopes), double(truth)) < 1e-7


def plackett(h: Any, variance: Any) -> Any:
    """``V Φ(f)`` as an integral, with many digits."""
    end = mpmath.asin(variance / (1 + variance))
    integral = mpmath.quad(
        lambda angle: mpmath.exp(-h * h / (1 + mpmath.sin(angle))), [0, end]
    )
    return integral / (2 * mpmath.pi)


class TestNormalCdf:
    def test_against_mpmath(self) -> None:
        z = double([-37.0, -20.0, -9.0, -5.0, -1.0, 0.0, 0.3, 4.0, 9.0, 50.0])
        with mpmath.workdps(25):
            truth = double([float(mpmath.ncdf(v)) for v in z.tolist()])
        assert relative_error(normal_cdf(z), truth) < 1e-12

    def test_derivatives_equal_finite_differences(self) -> None:
        z = double([-9.0, -1.0, 0.0, 0.5, 4.0]).requires_grad_()
        assert gradcheck(normal_cdf, (z,), atol=1e-9)
        assert gradgradcheck(normal_cdf, (z,), atol=1e-8)


class TestGaussianExpectation:
    def test_polynomials_are_exact(self) -> None:
        mean = torch.randn(2, 3).double()
        variance = torch.rand(2, 3).double()
        square = gaussian_expectation(torch.square, mean, variance)
        assert_all_close(square, mean.square() + variance, rtol=1e-13)
        fourth = gaussian_expectation(lambda f: f**4, mean, variance)
        truth = mean**4 + 6 * mean.square() * variance + 3 * variance.square()
        assert_all_close(fourth, truth, rtol=1e-12)

    def test_expectation_of_exp_is_exact_in_every_shape(self) -> None:
        for shape in ((), (3,), (2, 3)):
            mean = torch.zeros(shape).double()
            value = gaussian_expectation(torch.exp, mean, mean + 1)
            assert_all_close(value, torch.full(shape, 0.5).double().exp())


def true_ratio(z: Any) -> Any:
    return mpmath.npdf(z) / mpmath.ncdf(z)


class TestInverseMillsRatio:
    z = double(
        [-1e4, -1e3, -100.0, -38.0, -30.0, -5.0, -1.0, 0.0, 2.0, 8.0, 30.0, 37.0]
    )

    def truth(self, order: int) -> Tensor:
        with mpmath.workdps(80):
            values = [
                float(mpmath.diff(true_ratio, mpmath.mpf(v), order))
                for v in self.z.tolist()
            ]
        return double(values)

    def test_value_equals_mpmath(self) -> None:
        ratio = inverse_mills_ratio(self.z)
        truth = self.truth(0)
        assert relative_error(ratio[self.z < 30], truth[self.z < 30]) < 1e-14
        # The last digits of a density of 1e-300 are those of its argument's square.
        assert relative_error(ratio, truth) < 1e-12

    def test_first_derivative(self) -> None:
        z = self.z.clone().requires_grad_()
        (slope,) = torch.autograd.grad(inverse_mills_ratio(z).sum(), z)
        assert_all_close(slope, self.truth(1), rtol=1e-12, atol=1e-7)
        moderate = self.z.abs() <= 38
        assert_all_close(
            slope[moderate], self.truth(1)[moderate], rtol=1e-12, atol=1e-12
        )

    def test_second_derivative(self) -> None:
        z = self.z.clone().requires_grad_()
        ratio = inverse_mills_ratio(z)
        (slope,) = torch.autograd.grad(ratio.sum(), z, create_graph=True)
        (curvature,) = torch.autograd.grad(slope.sum(), z)
        assert bool(curvature.isfinite().all())
        moderate = self.z.abs() <= 38
        assert_all_close(
            curvature[moderate], self.truth(2)[moderate], rtol=1e-10, atol=1e-10
        )

    def test_derivatives_numerically(self) -> None:
        z = double([-9.0, -1.0, 0.0, 0.5, 4.0]).requires_grad_()
        assert gradcheck(inverse_mills_ratio, (z,), atol=1e-9)
        assert gradgradcheck(inverse_mills_ratio, (z,), atol=1e-8)

    def test_single_precision_follows_double(self) -> None:
        z = torch.tensor([-1e4, -30.0, -1.0, 0.0, 8.0])
        ratio = inverse_mills_ratio(z)
        assert ratio.dtype == torch.float
        exact = inverse_mills_ratio(z.double())
        assert relative_error(ratio.double(), exact) < 1e-5

    @given(st.floats(-1e6, 1e6))
    def test_ratio_is_within_bounds_for_every_number(self, z: float) -> None:
        """``max(0, -z) ≤ φ(z)/Φ(z) ≤ (√(z² + 4) - z) / 2`` (Birnbaum)."""
        ratio = float(inverse_mills_ratio(double(z)))
        assert ratio >= max(0.0, -z)
        root = math.hypot(z, 2.0)
        bound = 2.0 / (root + z) if z > 0.0 else (root - z) / 2.0  # no cancellation
        assert ratio <= bound * (1 + 1e-15)


class TestQuadratureCache:
    def test_usable_after_inference_mode(self) -> None:
        probability.legendre.cache_clear()
        probability.hermite.cache_clear()
        mean = double([0.5])
        variance = double([1.0])
        with torch.inference_mode():
            probit_moments(mean, variance)
            bernoulli_mutual_information(mean, variance)
        mean.requires_grad_()
        _, spread = probit_moments(mean, variance)
        (spread + bernoulli_mutual_information(mean, variance)).sum().backward()
        assert mean.grad is not None

    def test_makes_nothing_on_the_default_device(self) -> None:
        probability.legendre.cache_clear()
        probability.hermite.cache_clear()
        mean = double([-1.0, 2.0])
        variance = double([0.5, 3.0])
        with RequireDevice():
            probit_moments(mean, variance)
            bernoulli_mutual_information(mean, variance)
            expected_probit_entropy(mean, variance)
            bernoulli_mutual_information(mean, variance, 0.1, 0.05)
            probit_entropy(mean)
            bernoulli_entropy(mean.sigmoid())
            normal_cdf(mean)
            inverse_mills_ratio(mean)
