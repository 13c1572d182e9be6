from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from gpytorch.distributions import MultivariateNormal
from hypothesis import given
from hypothesis import strategies as st
from linear_operator import to_linear_operator
from scipy.special import entr, ndtr
from torch import Tensor

from botorch_binary_context import PreferenceLikelihood, ProbitLikelihood
from tests import strategies
from tests.closeness import assert_all_close
from tests.derivatives import finite_difference, jacobian
from tests.devices import RequireDevice
from tests.tensors import double, uniform

RATES = ((0.0, 0.0), (1 / 26, 0.0), (0.5, 0.02), (0.0, 0.05))
DERIVATIVES = ("value", "gradient", "negative_hessian", "information")
CONTRASTS = (-38.0, -30.0, -6.0, -1.3, 0.0, 0.4, 5.0, 30.0, 38.0)


def true_probability(label: float, guess: float, lapse: float, f: Any) -> Any:
    """``p(c|f)``, with all digits also where it is near zero."""
    floor, sign = (guess, 1) if label else (lapse, -1)
    return floor + (1 - mpmath.mpf(guess) - mpmath.mpf(lapse)) * mpmath.ncdf(sign * f)


def true_log_derivative(
    order: int, label: float, guess: float, lapse: float, f: float
) -> float:
    with mpmath.workdps(60):
        return float(
            mpmath.diff(
                lambda x: mpmath.log(true_probability(label, guess, lapse, x)),
                mpmath.mpf(f),
                order,
            )
        )


def probability_on_grid(
    label: float, guess: float, lapse: float, f: np.ndarray
) -> np.ndarray:
    floor, sign = (guess, 1) if label else (lapse, -1)
    return floor + (1 - guess - lapse) * ndtr(sign * f)


def expectation(
    func: Callable[[np.ndarray], np.ndarray], mean: Tensor, variance: Tensor
) -> Tensor:
    """``E func(f)`` by the trapezoidal rule on a grid so fine that it is exact."""
    u, step = np.linspace(-12, 12, 24001, retstep=True)
    weights = np.exp(-u * u / 2) * step / np.sqrt(2 * np.pi)
    f = mean.numpy()[:, None] + np.sqrt(variance.numpy())[:, None] * u
    return torch.from_numpy(func(f) @ weights)


def normal(mean: Tensor, variance: Tensor) -> MultivariateNormal:
    return MultivariateNormal(mean, torch.diag_embed(variance))


def log_derivative(
    likelihood: ProbitLikelihood, labels: Tensor, name: str
) -> Callable[[Tensor], Tensor]:
    """One of the log-derivatives as a function of the contrast."""
    return lambda f: getattr(likelihood.log_derivatives(f, labels), name)


class TestLogProb:
    cases = tuple((label, *rates) for rates in RATES for label in (0.0, 1.0))

    def functions(self, *names: str) -> Iterator[list[Callable[[Tensor], Tensor]]]:
        """The named log-derivatives, for each label and pair of rates."""
        for label, guess, lapse in self.cases:
            likelihood = ProbitLikelihood(guess, lapse)
            yield [log_derivative(likelihood, double(label), name) for name in names]

    def check(
        self,
        subtests: pytest.Subtests,
        name: str,
        order: int,
        rtol: float,
        atol: float = 1e-16,
    ) -> None:
        """One of the log-derivatives against ``mpmath``."""
        for case, (func,) in zip(self.cases, self.functions(name), strict=True):
            truth = [true_log_derivative(order, *case, f) for f in CONTRASTS]
            sign = -1 if name == "negative_hessian" else 1
            with subtests.test(case=case):
                assert_all_close(
                    func(double(CONTRASTS)), sign * double(truth), rtol=rtol, atol=atol
                )

    def test_value_equals_mpmath(self, subtests: pytest.Subtests) -> None:
        self.check(subtests, "value", 0, rtol=1e-13)

    def test_gradient_equals_mpmath(self, subtests: pytest.Subtests) -> None:
        self.check(subtests, "gradient", 1, rtol=1e-12)

    def test_negative_hessian(self, subtests: pytest.Subtests) -> None:
        self.check(subtests, "negative_hessian", 2, rtol=1e-9, atol=1e-12)

    def test_log_prob_is_the_value(self) -> None:
        f = double(CONTRASTS)
        for label, guess, lapse in self.cases:
            likelihood = ProbitLikelihood(guess, lapse)
            labels = torch.full_like(f, label)
            value = likelihood.log_derivatives(f, labels).value
            assert torch.equal(likelihood.log_prob(f, labels), value)

    def test_finite_differences(self) -> None:
        f = double([-9.0, -1.0, 0.0, 2.0, 7.0])
        names = ("value", "gradient", "negative_hessian")
        for value, gradient, negative_hessian in self.functions(*names):
            slope = finite_difference(value, f).diagonal()
            assert_all_close(gradient(f), slope, rtol=1e-9, atol=1e-11)
            curvature = finite_difference(gradient, f).diagonal()
            assert_all_close(-negative_hessian(f), curvature, rtol=1e-9, atol=1e-11)

    def test_jacobians_equal_finite_differences(self) -> None:
        """Each is differentiable: the gradient of a mode needs the third derivative."""
        f = double([-9.0, -1.0, 0.0, 2.0, 7.0])
        for functions in self.functions(*DERIVATIVES):
            for func in functions:
                expected = finite_difference(func, f)
                assert_all_close(jacobian(func, f), expected, rtol=1e-8, atol=5e-9)

    def test_finite_far_out(self) -> None:
        for dtype in (torch.float, torch.double):
            f = torch.tensor([-1e4, -300.0, -30.0, 30.0, 300.0, 1e4], dtype=dtype)
            for (guess, lapse), label in product(RATES, (0.0, 1.0)):
                derivatives = ProbitLikelihood(guess, lapse).log_derivatives(
                    f, torch.full_like(f, label)
                )
                for name in DERIVATIVES:
                    value = getattr(derivatives, name)
                    assert value.dtype == dtype
                    assert bool(value.isfinite().all())
                assert bool((derivatives.information >= 0).all())

    def test_shapes_and_dtypes(self) -> None:
        for dtype, batch in product((torch.float, torch.double), ((), (3,), (2, 3))):
            f = torch.randn(*batch, 4, dtype=dtype)
            labels = torch.randint(2, (4,)).to(dtype)
            for guess, lapse in RATES:
                likelihood = ProbitLikelihood(guess, lapse)
                derivatives = likelihood.log_derivatives(f, labels)
                for name in DERIVATIVES:
                    value = getattr(derivatives, name)
                    assert (value.shape, value.dtype) == (f.shape, dtype)
                found = likelihood.log_prob(f, labels)
                exact = likelihood.log_prob(f.double(), labels.double())
                assert_all_close(found.double(), exact, rtol=1e-5, atol=1e-6)

    def test_a_guess_rate_that_vanishes_beside_one_still_counts(self) -> None:
        f = double([-14.0, -8.0])
        likelihood = ProbitLikelihood(guess_rate=1e-40)
        expected = 1e-40 + ndtr(f.numpy())
        np.testing.assert_allclose(likelihood.probability(f), expected, rtol=1e-12)
        mean = likelihood.expected_probability(f, torch.zeros_like(f))
        np.testing.assert_allclose(mean, expected, rtol=1e-12)

    @given(strategies.tensors(st.floats(-40.0, 40.0), (6,)), strategies.rates())
    def test_labels_exhaust_the_outcomes(
        self, f: Tensor, rates: tuple[float, float]
    ) -> None:
        likelihood = ProbitLikelihood(*rates)
        success = likelihood.log_prob(f, torch.ones_like(f)).exp()
        failure = likelihood.log_prob(f, torch.zeros_like(f)).exp()
        assert_all_close(success + failure, torch.ones_like(f), rtol=1e-14)
        assert_all_close(likelihood.probability(f), success, rtol=1e-12, atol=1e-300)
        guess, lapse = rates
        assert bool((success >= guess * (1 - 1e-14)).all())
        assert bool((success <= (1 - lapse) * (1 + 1e-14)).all())

    @given(
        strategies.tensors(st.floats(-40.0, 40.0), (6,)),
        strategies.labels((6,)),
        strategies.rates(),
    )
    def test_failing_is_passing_with_signs_and_rates_exchanged(
        self, f: Tensor, labels: Tensor, rates: tuple[float, float]
    ) -> None:
        """Failing is passing with the sign of ``f`` and the two rates exchanged."""
        ours = ProbitLikelihood(*rates).log_derivatives(f, labels)
        theirs = ProbitLikelihood(rates[1], rates[0]).log_derivatives(-f, 1 - labels)
        assert_all_close(ours.value, theirs.value, rtol=1e-14)
        assert_all_close(ours.gradient, -theirs.gradient, rtol=1e-14)
        assert_all_close(ours.negative_hessian, theirs.negative_hessian)
        assert_all_close(ours.information, theirs.information, rtol=1e-14)


class TestInformation:
    @given(
        strategies.tensors(st.floats(-8.0, 8.0), (6,)),
        strategies.labels((6,)),
        strategies.rates(low=1e-3),
    )
    def test_is_fisher_with_rates(
        self, f: Tensor, labels: Tensor, rates: tuple[float, float]
    ) -> None:
        likelihood = ProbitLikelihood(*rates)
        found = likelihood.log_derivatives(f, labels).information
        squares = torch.zeros_like(f)
        curvatures = torch.zeros_like(f)
        for label in (torch.zeros_like(f), torch.ones_like(f)):
            derivatives = likelihood.log_derivatives(f, label)
            probability = likelihood.log_prob(f, label).exp()
            squares += probability * derivatives.gradient.square()
            curvatures += probability * derivatives.negative_hessian
        assert_all_close(found, squares, rtol=1e-11, atol=1e-16)
        assert_all_close(found, curvatures, rtol=1e-9, atol=1e-13)
        assert bool((found >= 0).all())

    @given(strategies.tensors(st.floats(-1e3, 1e3), (6,)), strategies.labels((6,)))
    def test_is_the_hessian_without_rates(self, f: Tensor, labels: Tensor) -> None:
        derivatives = ProbitLikelihood().log_derivatives(f, labels)
        assert torch.equal(derivatives.information, derivatives.negative_hessian)
        information = derivatives.information
        assert bool((information >= 0).all() and (information <= 1).all())

    def test_hessian_changes_sign_with_rates(self) -> None:
        assert ProbitLikelihood().is_log_concave
        for rates in RATES[1:]:
            likelihood = ProbitLikelihood(*rates)
            assert not likelihood.is_log_concave
            f = torch.linspace(-6, 6, 50, dtype=torch.double)
            derivatives = [
                likelihood.log_derivatives(f, torch.full_like(f, c)) for c in (0.0, 1.0)
            ]
            lowest = min(float(d.negative_hessian.min()) for d in derivatives)
            assert lowest < -0.01
            assert all(bool((d.information >= 0).all()) for d in derivatives)


class TestMarginals:
    mean = double([-5.0, -1.0, 0.0, 1.5, 8.0])
    variance = double([0.1, 1.0, 30.0, 1e-6, 4.0])

    def test_probability_moments(self) -> None:
        for guess, lapse in RATES:
            likelihood = ProbitLikelihood(guess, lapse)
            center, spread = likelihood.probability_moments(self.mean, self.variance)
            success = partial(probability_on_grid, 1.0, guess, lapse)
            first = expectation(success, self.mean, self.variance)
            assert_all_close(center, first, rtol=1e-12)
            alone = likelihood.expected_probability(self.mean, self.variance)
            assert_all_close(alone, first, rtol=1e-12)
            second = expectation(
                lambda f, p=success: p(f) ** 2, self.mean, self.variance
            )
            assert_all_close(spread, second - first.square(), rtol=0, atol=1e-14)

    def test_mutual_information(self) -> None:
        for guess, lapse in RATES:
            success = partial(probability_on_grid, 1.0, guess, lapse)
            failure = partial(probability_on_grid, 0.0, guess, lapse)

            def entropy(f: np.ndarray, of: Any = (success, failure)) -> np.ndarray:
                return entr(of[0](f)) + entr(of[1](f))

            h = self.mean / (1 + self.variance).sqrt()
            truth = torch.from_numpy(entropy(h.numpy()))
            noise = expectation(entropy, self.mean, self.variance)
            likelihood = ProbitLikelihood(guess, lapse)
            found = likelihood.mutual_information(self.mean, self.variance)
            assert_all_close(found, truth - noise, rtol=0, atol=1e-8)
            found = likelihood.expected_entropy(self.mean, self.variance)
            assert_all_close(found, noise, rtol=0, atol=1e-8)

    def test_marginal_probability_equals_quadrature(self) -> None:
        for guess, lapse in RATES:
            likelihood = ProbitLikelihood(guess, lapse)
            function_dist = normal(self.mean, self.variance)
            for label in (0.0, 1.0):
                probability = partial(probability_on_grid, label, guess, lapse)
                truth = expectation(probability, self.mean, self.variance)
                marginal = likelihood(function_dist)
                assert isinstance(marginal, torch.distributions.Bernoulli)
                found = marginal.probs if label else 1 - marginal.probs
                assert_all_close(found, truth, rtol=0, atol=1e-14)
                labels = torch.full_like(self.mean, label)
                log_marginal = likelihood.log_marginal(labels, function_dist)
                assert_all_close(log_marginal, truth.log(), rtol=1e-11)

    def test_log_marginal_far_out(self) -> None:
        """The rare label's probability underflows, its logarithm does not."""
        mean = double([-60.0, 60.0])
        variance = double([0.5, 0.5])
        labels = double([1.0, 0.0])
        with mpmath.workdps(30):
            truth = float(mpmath.log(mpmath.ncdf(-60 / mpmath.sqrt(1.5))))
        found = ProbitLikelihood().log_marginal(labels, normal(mean, variance))
        assert_all_close(found, double([truth, truth]), rtol=1e-13)

    def test_expected_log_prob(self, subtests: pytest.Subtests) -> None:
        mean = double([-5.0, -1.0, 0.0, 1.5, 8.0])
        # The rule has 32 nodes: its error grows with the variance.
        for value, tolerance in ((1e-6, 1e-12), (0.1, 1e-10), (1.0, 1e-6), (4.0, 1e-3)):
            variance = torch.full_like(mean, value)
            for (guess, lapse), label in product(RATES, (0.0, 1.0)):
                probability = partial(probability_on_grid, label, guess, lapse)
                with subtests.test(variance=value, guess=guess, lapse=lapse):
                    found = ProbitLikelihood(guess, lapse).expected_log_prob(
                        torch.full_like(mean, label), normal(mean, variance)
                    )
                    truth = expectation(
                        lambda f, p=probability: np.log(p(f)), mean, variance
                    )
                    assert_all_close(found, truth, rtol=0, atol=tolerance)

    def test_batches_equal_flat_inputs(self) -> None:
        for batch in ((), (3,), (2, 3)):
            mean = uniform(*batch, 4)
            variance = uniform(*batch, 4, seed=1)
            labels = (uniform(*batch, 4, seed=2) > 0.5).double()
            likelihood = ProbitLikelihood(0.1, 0.02)
            function_dist = normal(mean, variance)
            flat = normal(mean.reshape(-1), variance.reshape(-1))
            for name in ("expected_log_prob", "log_marginal"):
                method = getattr(likelihood, name)
                found = method(labels, function_dist)
                assert found.shape == labels.shape
                expected = method(labels.reshape(-1), flat)
                assert_all_close(found.reshape(-1), expected, rtol=1e-12)
            marginal = likelihood.marginal(function_dist)
            assert marginal.probs.shape == labels.shape

    def test_conditional_probability_equals_mpmath(self) -> None:
        f = double([-30.0, -1.0, 0.0, 2.0])
        for guess, lapse in RATES:
            distribution = ProbitLikelihood(guess, lapse)(f)
            assert isinstance(distribution, torch.distributions.Bernoulli)
            truth = [float(true_probability(1.0, guess, lapse, v)) for v in f.tolist()]
            assert_all_close(distribution.probs, double(truth), rtol=1e-12)


class TestProbitLikelihood:
    def test_contrast_at_a_probability(self) -> None:
        f = [-3.0, -0.5, 0.0, 1.5]
        for guess, lapse in RATES:
            likelihood = ProbitLikelihood(guess, lapse)
            for value in f:
                probability = float(true_probability(1.0, guess, lapse, value))
                found = likelihood.contrast_at(probability)
                assert found == pytest.approx(value, rel=0, abs=0.5e-10)
            for wrong in (guess, 1 - lapse, -1.0, float("nan")):
                with pytest.raises(InputDataError, match="``probability`` to be"):
                    likelihood.contrast_at(wrong)

    def test_contrast_is_the_value(self) -> None:
        likelihood = ProbitLikelihood()
        f = torch.randn(2, 3)
        mvn = normal(uniform(3), uniform(3))
        assert likelihood.functional.num_rows == 1
        assert likelihood.functional(f) is f
        assert likelihood.functional.of_distribution(mvn) is mvn

    def test_copies_keep_the_rates(self) -> None:
        copy = deepcopy(ProbitLikelihood(0.1, 0.02))
        assert (copy.guess_rate, copy.lapse_rate) == (0.1, 0.02)

    def test_refuses_rates_out_of_range_by_name(self) -> None:
        for name, rate in product(
            ("guess_rate", "lapse_rate"), (-0.1, 1.0, 1.5, float("nan"))
        ):
            message = rf"Expected ``{name}`` to be in \[0, 1\), but got {rate}"
            with pytest.raises(InputDataError, match=message):
                ProbitLikelihood(**{name: rate})  # pyright: ignore
        message = (
            "Expected ``guess_rate`` and ``lapse_rate`` to sum to less than 1, but got "
            "0.5 and 0.5"
        )
        with pytest.raises(InputDataError, match=message):
            ProbitLikelihood(0.5, 0.5)

    def test_makes_nothing_on_the_default_device(self) -> None:
        f = uniform(4)
        labels = (uniform(4, seed=1) > 0.5).double()
        mvn = normal(f, f + 1)
        with RequireDevice():
            for rates in RATES:
                likelihood = ProbitLikelihood(*rates)
                likelihood.log_derivatives(f, labels)
                likelihood.log_prob(f, labels)
                likelihood(f)
                likelihood(mvn)
                likelihood.log_marginal(labels, mvn)
                likelihood.expected_log_prob(labels, mvn)
            duels = PreferenceLikelihood()
            duels(mvn)
            duels.expected_log_prob(labels[:2], mvn)


class TestPreferenceLikelihood:
    def test_contrast_is_the_first_side_minus_the_second(self) -> None:
        likelihood = PreferenceLikelihood()
        assert likelihood.functional.num_rows == 2
        assert likelihood.is_log_concave
        for batch in ((), (3,), (2, 3)):
            values = uniform(*batch, 6)
            expected = values[..., 0::2] - values[..., 1::2]
            assert torch.equal(likelihood.functional(values), expected)
            matrix = uniform(*batch, 6, 5)
            expected = matrix[..., 0::2, :] - matrix[..., 1::2, :]
            assert torch.equal(likelihood.functional(matrix, dim=-2), expected)
            assert likelihood.functional(values[..., :0]).shape == (*batch, 0)

    def test_contrast_distribution(self) -> None:
        likelihood = PreferenceLikelihood()
        for batch in ((), (3,)):
            root = uniform(*batch, 6, 6)
            mean, covar = uniform(*batch, 6, seed=1), root @ root.mT
            contrasts = likelihood.functional.of_distribution(
                MultivariateNormal(mean, covar)
            )
            D = torch.zeros(3, 6, dtype=torch.double)
            for i in range(3):
                D[i, 2 * i], D[i, 2 * i + 1] = 1.0, -1.0
            assert_all_close(contrasts.mean, mean @ D.T, rtol=1e-13)
            expected = D @ covar @ D.T
            assert_all_close(contrasts.covariance_matrix, expected, rtol=1e-11)

    def test_equal_sides(self) -> None:
        """A point against itself: even odds, and a variance that is not negative."""
        singular = to_linear_operator(torch.full((2, 2), 4.0).double())
        function_dist = MultivariateNormal(double([1.0, 1.0]), singular)
        likelihood = PreferenceLikelihood()
        contrasts = likelihood.functional.of_distribution(function_dist)
        assert contrasts.variance.item() > 0.0
        assert contrasts.variance.item() < 1e-8
        probs = likelihood.marginal(function_dist).probs
        assert_all_close(probs, double([0.5]), rtol=1e-12)

    @given(strategies.tensors(st.floats(-40.0, 40.0), (3, 2)), strategies.labels((3,)))
    def test_exchanging_the_sides_exchanges_the_labels(
        self, pairs: Tensor, labels: Tensor
    ) -> None:
        """Exchanging the sides of a duel exchanges the labels."""
        likelihood = PreferenceLikelihood()
        ahead = likelihood.functional(pairs.reshape(-1))
        behind = likelihood.functional(pairs.flip(-1).reshape(-1))
        assert torch.equal(ahead, -behind)
        ours = likelihood.log_derivatives(ahead, labels)
        theirs = likelihood.log_derivatives(behind, 1 - labels)
        assert torch.equal(ours.value, theirs.value)
        assert torch.equal(ours.gradient, -theirs.gradient)
        assert torch.equal(ours.information, theirs.information)

    def test_marginals_of_duels(self) -> None:
        root = uniform(4, 4)
        mean, covar = 2 * uniform(4, seed=1), root @ root.T
        function_dist = MultivariateNormal(mean, covar)
        likelihood = PreferenceLikelihood()
        probit = ProbitLikelihood()
        gap = mean[0::2] - mean[1::2]
        even = covar.diagonal()[0::2]
        odd = covar.diagonal()[1::2]
        shared = double([covar[0, 1], covar[2, 3]])
        duels = normal(gap, even + odd - 2 * shared)
        labels = double([1.0, 0.0])
        assert_all_close(
            likelihood.marginal(function_dist).probs, probit.marginal(duels).probs
        )
        for name in ("expected_log_prob", "log_marginal"):
            found = getattr(likelihood, name)(labels, function_dist)
            expected = getattr(probit, name)(labels, duels)
            assert_all_close(found, expected, rtol=1e-10)

    def test_odd_number_of_rows(self) -> None:
        message = "Expected the rows of duels to come in pairs, but got 3 of them"
        likelihood = PreferenceLikelihood()
        with pytest.raises(UnsupportedError, match=message):
            likelihood.functional(torch.zeros(3))
        with pytest.raises(UnsupportedError, match=message):
            likelihood.functional(torch.zeros(3, 2), dim=-2)
        with pytest.raises(UnsupportedError, match=message):
            likelihood(normal(uniform(3), uniform(3)))
