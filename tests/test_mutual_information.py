r"""Mutual information and entropies: against integrals of high precision."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import pytest
import torch
from hypothesis import given
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from botorch_binary_context.probability import (
    bernoulli_entropy,
    bernoulli_mutual_information,
    expected_probit_entropy,
    probit_entropy,
    probit_moments,
)
from tests import strategies
from tests.closeness import assert_all_close
from tests.derivatives import finite_difference, jacobian
from tests.probability_cases import (
    KNOTS,
    golden_cases,
    grid,
    relative_error,
    shrunken,
)
from tests.quadrature import normal_expectation
from tests.tensors import double

LN2 = math.log(2.0)


def true_entropy(f: Any) -> Any:
    """The entropy of the label at a latent value."""
    return entropy_of(mpmath.ncdf(f), mpmath.ncdf(-f))


def entropy_of(success: Any, failure: Any) -> Any:
    return -sum(p * mpmath.log(p) for p in (success, failure) if p > 0)


def true_entropies(mean: float, variance: float) -> tuple[float, float]:
    """The expected entropy and the mutual information."""
    with mpmath.workdps(22):
        average = normal_expectation(true_entropy, mean, variance, KNOTS)
        information = true_entropy(shrunken(mean, variance)) - average
        return float(average), float(information)


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

    def test_golden_values_are_found(self, subtests: pytest.Subtests) -> None:
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
                scale = 1 - mpmath.mpf(guess) - lapse
                success = guess + scale * mpmath.ncdf(f)
                return entropy_of(success, lapse + scale * mpmath.ncdf(-f))

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

    def test_limits_are_zero_and_one_bit(self) -> None:
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

    def test_gradients_equal_finite_differences(self) -> None:
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

    def test_mean_and_variance_are_broadcast(self) -> None:
        mean = torch.randn(3, 1).double()
        variance = torch.rand(4).double()
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
    def test_expected_entropy_is_below_that_of_the_average(
        self, mean: float, small: float, more: float
    ) -> None:
        """Expected entropy lies in [0, ln 2] and below the entropy of the average."""
        mean_ = double(mean)
        variance = double(small + more)
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

    def test_derivatives_equal_finite_differences(self) -> None:
        h = double([-9.0, -1.0, 0.0, 0.5, 4.0]).requires_grad_()
        assert gradcheck(probit_entropy, (h,), atol=1e-9)
        assert gradgradcheck(probit_entropy, (h,), atol=1e-8)

    def test_of_a_probability(self) -> None:
        p = double([0.0, 1e-3, 0.3, 0.5, 1.0])
        truth = [0.0] + [-v * math.log(v) - (1 - v) * math.log1p(-v) for v in p[1:-1]]
        assert_all_close(bernoulli_entropy(p), double([*truth, 0.0]), rtol=1e-14)
