from __future__ import annotations

import math
from itertools import product
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
from tests.derivatives import finite_difference, jacobian
from tests.devices import RequireDevice
from tests.golden_numbers import BINARY_FILES, load_golden
from tests.quadrature import normal_expectation
from tests.tensors import double

VARIANCES = (1e-8, 1e-4, 0.1, 1.0, 30.0, 400.0)
# Where Φ bends: quadrature is cut there.
KNOTS = (-6.0, -3.0, 0.0, 3.0, 6.0)
LN2 = math.log(2.0)


def true_entropy(f: Any) -> Any:
    """The entropy of the label at a latent value."""
    return entropy_of(mpmath.ncdf(f), mpmath.ncdf(-f))


def entropy_of(success: Any, failure: Any) -> Any:
    return -sum(p * mpmath.log(p) for p in (success, failure) if p > 0)


def shrunken(mean: float, variance: float) -> Any:
    return mpmath.mpf(mean) / mpmath.sqrt(1 + mpmath.mpf(variance))


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


def true_entropies(mean: float, variance: float) -> tuple[float, float]:
    """The expected entropy and the mutual information."""
    with mpmath.workdps(22):
        average = normal_expectation(true_entropy, mean, variance, KNOTS)
        information = true_entropy(shrunken(mean, variance)) - average
        return float(average), float(information)


def relative_error(value: Tensor, truth: Tensor) -> float:
    return float(((value - truth) / truth).abs().max())


def grid(means: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    mean, variance = zip(*product(means, VARIANCES), strict=True)
    return double(mean), double(variance)


def golden_cases() -> list[tuple[str, Any]]:
    cases = [
        (f"{name}/{kernel['name']}/{method}", kernel[method])
        for name in BINARY_FILES
        for kernel in load_golden(name)["kernels"]
        for method in ("laplace", "ep")
    ]
    preference = enumerate(load_golden("preference"))
    return cases + [(f"preference/{i}", case) for i, case in preference]


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

    def test_golden(self, subtests: pytest.Subtests) -> None:
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

    def test_broadcasting(self) -> None:
        mean, variance = torch.randn(3, 1).double(), torch.rand(4).double()
        center, spread = probit_moments(mean, variance)
        full = torch.broadcast_tensors(mean, variance)
        for value, expected in zip(
            (center, spread), probit_moments(*full), strict=True
        ):
            assert value.shape == (3, 4)
            assert_all_close(value, expected, rtol=1e-15)

    def test_derivatives(self) -> None:
        mean = double([-4.0, -0.7, 0.0, 1.0, 2.0]).requires_grad_()
        variance = double([1e-4, 0.1, 1.0, 30.0, 2.0]).requires_grad_()
        assert gradcheck(probit_moments, (mean, variance), atol=1e-9)
        assert gradgradcheck(probit_moments, (mean, variance), atol=1e-8)

    def test_derivative_in_the_variance_at_zero(self) -> None:
        # V Φ(f) = φ(μ)² σ² + O(σ⁴)
        mean, variance = double([0.0, 1.5]), torch.zeros(2).double().requires_grad_()
        _, spread = probit_moments(mean, variance)
        (slope,) = torch.autograd.grad(spread.sum(), variance)
        assert_all_close(slope, torch.exp(-mean.square()) / (2 * math.pi))

    @given(strategies.latent_moments())
    def test_symmetry(self, moments: tuple[Tensor, Tensor]) -> None:
        mean, variance = moments
        center, spread = probit_moments(mean, variance)
        mirrored, mirrored_spread = probit_moments(-mean, variance)
        assert_all_close(1 - center, mirrored, rtol=0, atol=1e-15)
        assert torch.equal(spread, mirrored_spread)

    @given(strategies.latent_moments(bound=50.0))
    def test_range(self, moments: tuple[Tensor, Tensor]) -> None:
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


class TestMutualInformation:
    def test_against_quadrature(self) -> None:
        mean, variance = grid((-8.0, -1.0, 0.0, 2.0, 5.0))
        points = zip(mean.tolist(), variance.tolist(), strict=True)
        average, truth = double([true_entropies(*p) for p in points]).unbind(-1)
        expected = expected_probit_entropy(mean, variance)
        assert_all_close(expected, average, rtol=0, atol=1e-13)
        information = bernoulli_mutual_information(mean, variance)
        assert_all_close(information, truth, rtol=0, atol=1e-10)
        # A test that saturates teaches something still: not just a small error.
        assert float(information[truth > 1e-14].min()) > 0.0

    def test_golden(self, subtests: pytest.Subtests) -> None:
        for name, case in golden_cases():
            with subtests.test(name):
                information = bernoulli_mutual_information(
                    double(case["latent_mean"]), double(case["latent_variance"])
                )
                assert_all_close(
                    information, double(case["bald_nats"]), rtol=0, atol=1e-9
                )

    def test_guess_and_lapse_rates(self, subtests: pytest.Subtests) -> None:
        points = ((-5.0, 0.1), (0.0, 1e-4), (0.0, 10.0), (1.5, 1.0), (8.0, 400.0))
        mean, variance = double(points).unbind(-1)
        for guess, lapse in ((1 / 26, 0.0), (0.5, 0.02), (0.0, 0.05), (0.25, 0.25)):

            def entropy(f: Any, guess: float = guess, lapse: float = lapse) -> Any:
                spread = 1 - mpmath.mpf(guess) - lapse
                success = guess + spread * mpmath.ncdf(f)
                return entropy_of(success, lapse + spread * mpmath.ncdf(-f))

            with subtests.test(guess=guess, lapse=lapse), mpmath.workdps(22):
                truth = [
                    entropy(shrunken(m, v)) - normal_expectation(entropy, m, v, KNOTS)
                    for m, v in points
                ]
                found = bernoulli_mutual_information(mean, variance, guess, lapse)
                assert_all_close(
                    found, double([float(t) for t in truth]), rtol=0, atol=1e-9
                )

    def test_rates_continue_to_none(self) -> None:
        mean, variance = grid((-3.0, 0.0, 2.0, 60.0))
        with_rates = bernoulli_mutual_information(mean, variance, 1e-13, 1e-13)
        without = bernoulli_mutual_information(mean, variance)
        assert_all_close(with_rates, without, rtol=0, atol=1e-7)

    @given(strategies.latent_moments(bound=50.0), strategies.rates())
    def test_rates_can_only_hide(
        self, moments: tuple[Tensor, Tensor], rates: tuple[float, float]
    ) -> None:
        """A label changed at random tells less: the data processing inequality."""
        hidden = bernoulli_mutual_information(*moments, *rates)
        assert bool((hidden >= 0).all())
        plain = bernoulli_mutual_information(*moments)
        assert bool((hidden <= plain + 1e-6).all())

    def test_limits(self) -> None:
        mean = double([-2.0, 0.0, 3.0])
        known = bernoulli_mutual_information(mean, torch.zeros_like(mean))
        assert_all_close(known, torch.zeros_like(mean), rtol=0, atol=1e-15)
        # A latent value that may be anything decides the outcome alone.
        open_ = bernoulli_mutual_information(mean, torch.full_like(mean, 1e12))
        assert_all_close(open_, torch.full_like(mean, LN2), rtol=0, atol=1e-5)

    def test_finite_for_saturated_trials(self, subtests: pytest.Subtests) -> None:
        for dtype in (torch.float, torch.double):
            mean = torch.tensor([-1e4, -300.0, -41.0, 41.0, 300.0, 1e4], dtype=dtype)
            for variance in (1e-8, 1e-3, 1.0, 400.0, 1e6):
                with subtests.test(dtype=dtype, variance=variance):
                    self._check_finite(mean, torch.full_like(mean, variance))

    def _check_finite(self, mean: Tensor, variance: Tensor) -> None:
        for tensor in (mean, variance):
            tensor.requires_grad_()
        information = bernoulli_mutual_information(mean, variance)
        assert bool((information >= 0).all() and (information <= LN2).all())
        for slope in torch.autograd.grad(information.sum(), (mean, variance)):
            assert bool(slope.isfinite().all())

    def test_saturated_values(self) -> None:
        # Far means with a large variance still have something to say.
        points = ((60.0, 400.0), (100.0, 1e4), (-41.0, 100.0))
        mean, variance = double(points).unbind(-1)
        truth = double([true_entropies(*p)[1] for p in points])
        information = bernoulli_mutual_information(mean, variance)
        assert_all_close(information, truth, rtol=0, atol=1e-10)

    def test_gradients(self) -> None:
        points = double(
            [[-4.0, 0.1], [-0.7, 1e-3], [0.3, 1.0], [1.0, 30.0], [6.0, 5.0]]
        )

        def func(p: Tensor) -> Tensor:
            return bernoulli_mutual_information(p[..., 0], p[..., 1])

        for point in points:
            expected = finite_difference(func, point, step=1e-4)
            assert_all_close(jacobian(func, point), expected, rtol=1e-8, atol=1e-10)
        mean, variance = points.unbind(-1)
        variables = mean.clone().requires_grad_(), variance.clone().requires_grad_()
        assert gradgradcheck(bernoulli_mutual_information, variables, atol=1e-7)

    def test_gradient_at_no_variance(self) -> None:
        mean = double([-2.0, 0.0, 1.5])
        variance = torch.zeros_like(mean)
        self._check_finite(mean, variance)

    def test_float32_follows_double(self) -> None:
        mean, variance = grid((-8.0, -2.0, 0.0, 1.0, 4.0))
        single = bernoulli_mutual_information(mean.float(), variance.float())
        assert single.dtype == torch.float
        exact = bernoulli_mutual_information(
            mean.float().double(), variance.float().double()
        )
        assert_all_close(single.double(), exact, rtol=0, atol=1e-6)

    def test_broadcasting(self) -> None:
        mean, variance = torch.randn(3, 1).double(), torch.rand(4).double()
        information = bernoulli_mutual_information(mean, variance)
        assert information.shape == (3, 4)
        expected = bernoulli_mutual_information(
            *torch.broadcast_tensors(mean, variance)
        )
        assert_all_close(information, expected, rtol=1e-12)

    @given(strategies.latent_moments(bound=50.0))
    def test_range_and_symmetry(self, moments: tuple[Tensor, Tensor]) -> None:
        mean, variance = moments
        information = bernoulli_mutual_information(mean, variance)
        assert bool((information >= 0).all() and (information <= LN2).all())
        mirrored = bernoulli_mutual_information(-mean, variance)
        assert_all_close(information, mirrored, rtol=0, atol=1e-14)

    @given(strategies.latent_moments())
    def test_between_divergence_bounds(self, moments: tuple[Tensor, Tensor]) -> None:
        """2 V ≤ I ≤ V / (p (1 - p)): Pinsker's inequality and that of χ²."""
        information = bernoulli_mutual_information(*moments)
        center, spread = probit_moments(*moments)
        mirrored, _ = probit_moments(-moments[0], moments[1])
        assert bool((information >= 2 * spread - 1e-13).all())
        ceiling = spread / (center * mirrored)
        assert bool((information <= ceiling + 1e-13).all())

    @given(
        strategies.latent_means(),
        strategies.latent_variances(),
        strategies.latent_variances(),
    )
    def test_entropies(self, mean: float, small: float, more: float) -> None:
        """Expected entropy lies in [0, ln 2] and below the entropy of the average."""
        mean_, variance = double(mean), double(small + more)
        expected = expected_probit_entropy(mean_, variance)
        marginal = probit_entropy(mean_ / (1 + variance).sqrt())
        assert float(expected) >= 0.0
        assert float(expected) <= float(marginal) + 1e-15
        assert float(marginal) <= LN2 + 1e-15  # a last digit of rounding, as above


class TestEntropy:
    def test_against_mpmath(self) -> None:
        h = double([-37.0, -8.0, -1.0, 0.0, 0.5, 8.0, 37.0])
        with mpmath.workdps(400):
            truth = double([float(true_entropy(mpmath.mpf(v))) for v in h.tolist()])
        assert relative_error(probit_entropy(h), truth) < 1e-12

    def test_expected_gradient_at_no_variance(self) -> None:
        # E g(f) = g(μ) + σ² g''(μ) / 2 + O(σ⁴)
        mean = double([-2.0, 0.0, 1.5])
        variance = torch.zeros_like(mean).requires_grad_()
        expected = expected_probit_entropy(mean, variance)
        assert_all_close(expected, probit_entropy(mean), rtol=1e-14)
        (slope,) = torch.autograd.grad(expected.sum(), variance)
        with mpmath.workdps(40):
            curvature = [float(mpmath.diff(true_entropy, m, 2)) for m in mean.tolist()]
        assert_all_close(slope, double(curvature) / 2, rtol=1e-6)

    def test_derivatives(self) -> None:
        h = double([-9.0, -1.0, 0.0, 0.5, 4.0]).requires_grad_()
        assert gradcheck(probit_entropy, (h,), atol=1e-9)
        assert gradgradcheck(probit_entropy, (h,), atol=1e-8)

    def test_of_a_probability(self) -> None:
        p = double([0.0, 1e-3, 0.3, 0.5, 1.0])
        truth = [0.0] + [-v * math.log(v) - (1 - v) * math.log1p(-v) for v in p[1:-1]]
        assert_all_close(bernoulli_entropy(p), double([*truth, 0.0]), rtol=1e-14)


class TestNormalCdf:
    def test_against_mpmath(self) -> None:
        z = double([-37.0, -20.0, -9.0, -5.0, -1.0, 0.0, 0.3, 4.0, 9.0, 50.0])
        with mpmath.workdps(25):
            truth = double([float(mpmath.ncdf(v)) for v in z.tolist()])
        assert relative_error(normal_cdf(z), truth) < 1e-12

    def test_derivatives(self) -> None:
        z = double([-9.0, -1.0, 0.0, 0.5, 4.0]).requires_grad_()
        assert gradcheck(normal_cdf, (z,), atol=1e-9)
        assert gradgradcheck(normal_cdf, (z,), atol=1e-8)


class TestGaussianExpectation:
    def test_polynomials_are_exact(self) -> None:
        mean, variance = torch.randn(2, 3).double(), torch.rand(2, 3).double()
        square = gaussian_expectation(torch.square, mean, variance)
        assert_all_close(square, mean.square() + variance, rtol=1e-13)
        fourth = gaussian_expectation(lambda f: f**4, mean, variance)
        truth = mean**4 + 6 * mean.square() * variance + 3 * variance.square()
        assert_all_close(fourth, truth, rtol=1e-12)

    def test_shapes(self) -> None:
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

    def test_value(self) -> None:
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

    def test_float32(self) -> None:
        z = torch.tensor([-1e4, -30.0, -1.0, 0.0, 8.0])
        ratio = inverse_mills_ratio(z)
        assert ratio.dtype == torch.float
        exact = inverse_mills_ratio(z.double())
        assert relative_error(ratio.double(), exact) < 1e-5

    @given(st.floats(-1e6, 1e6))
    def test_bounds(self, z: float) -> None:
        """``max(0, -z) ≤ φ(z)/Φ(z) ≤ (√(z² + 4) - z) / 2`` (Birnbaum)."""
        ratio = float(inverse_mills_ratio(double(z)))
        assert ratio >= max(0.0, -z)
        assert ratio <= (math.hypot(z, 2.0) + abs(z)) / 2 * (1 + 1e-15)


class TestQuadratureCache:
    def test_usable_after_inference_mode(self) -> None:
        probability.legendre.cache_clear()
        probability.hermite.cache_clear()
        mean, variance = double([0.5]), double([1.0])
        with torch.inference_mode():
            probit_moments(mean, variance)
            bernoulli_mutual_information(mean, variance)
        mean.requires_grad_()
        _, spread = probit_moments(mean, variance)
        (spread + bernoulli_mutual_information(mean, variance)).sum().backward()
        assert mean.grad is not None

    def test_devices(self) -> None:
        probability.legendre.cache_clear()
        probability.hermite.cache_clear()
        mean, variance = double([-1.0, 2.0]), double([0.5, 3.0])
        with RequireDevice():
            probit_moments(mean, variance)
            bernoulli_mutual_information(mean, variance)
            expected_probit_entropy(mean, variance)
            bernoulli_mutual_information(mean, variance, 0.1, 0.05)
            probit_entropy(mean)
            bernoulli_entropy(mean.sigmoid())
            normal_cdf(mean)
            inverse_mills_ratio(mean)
