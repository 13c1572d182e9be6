r"""Success probabilities that are steps of the normal distribution."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from botorch.exceptions import InputDataError
from scipy.integrate import quad
from scipy.stats import norm

from botorch_binary_context.likelihoods import (
    ConfidenceLikelihood,
    PreferenceLikelihood,
    ProbitLikelihood,
    RatingLikelihood,
    TiesLikelihood,
)
from botorch_binary_context.likelihoods.success import Step, StepLikelihood
from tests.tensors import double

# And ``a``, ``b`` and ``t`` of ``a + b Φ(f - t)``.
CASES: dict[str, tuple[StepLikelihood, float, float, float]] = {
    "plain": (ProbitLikelihood(), 0.0, 1.0, 0.0),
    "rates": (ProbitLikelihood(0.25, 0.05), 0.25, 0.7, 0.0),
    "careless duels": (PreferenceLikelihood(0.1), 0.1, 0.8, 0.0),
    "ties": (TiesLikelihood(0.4), 0.0, 1.0, 0.4),
    "careless ties": (TiesLikelihood(0.4, lapse_rate=0.2), 0.1, 0.7, 0.4),
    "ratings": (RatingLikelihood(4), 0.0, 1.0, 0.0),
    "confidence": (ConfidenceLikelihood(0.25, 0.05), 0.25, 0.7, 0.0),
}
every_case = pytest.mark.parametrize("name", CASES)
MEANS, VARIANCES = (-1.5, 0.0, 2.0), (0.2, 1.0, 5.0)


def expect(function: Callable[[float], float], mean: float, variance: float) -> float:
    """By quadrature of SciPy."""
    deviation = math.sqrt(variance)
    ends = mean - 12 * deviation, mean + 12 * deviation
    value, _ = quad(
        lambda f: function(f) * norm.pdf(f, mean, deviation), *ends, limit=200
    )
    return value


@every_case
def test_probability_and_its_inverse(name: str) -> None:
    likelihood, lowest, rise, threshold = CASES[name]
    f = torch.linspace(-4, 4, 9, dtype=torch.double)
    expected = lowest + rise * norm.cdf(f.numpy() - threshold)
    torch.testing.assert_close(likelihood.probability(f), double(expected))
    for share in (0.1, 0.5, 0.9):
        contrast = likelihood.contrast_at(lowest + rise * share)
        assert contrast == pytest.approx(threshold + norm.ppf(share), abs=1e-9)
    for wrong in (lowest, lowest + rise, 1.5):
        with pytest.raises(InputDataError, match="Expected ``probability`` to be betw"):
            likelihood.contrast_at(wrong)


@every_case
def test_closed_forms_against_quadrature(name: str) -> None:
    likelihood, lowest, rise, threshold = CASES[name]

    def p(f: float) -> float:
        return lowest + rise * float(norm.cdf(f - threshold))

    for mean in MEANS:
        for variance in VARIANCES:
            m = double([mean])
            v = double([variance])
            center = expect(p, mean, variance)
            squares = expect(lambda f, c=center: (p(f) - c) ** 2, mean, variance)
            slope = expect(
                lambda f: rise * float(norm.pdf(f - threshold)), mean, variance
            )
            found = likelihood.probability_moments(m, v)
            torch.testing.assert_close(torch.cat(found), double([center, squares]))
            torch.testing.assert_close(
                likelihood.expected_probability(m, v), double([center])
            )
            torch.testing.assert_close(
                likelihood.probability_slope(m, v), double([slope])
            )


@every_case
@torch.no_grad()
def test_tilted_derivatives_against_quadrature(name: str) -> None:
    """The mean and the variance of a Gaussian times the likelihood."""
    likelihood = CASES[name][0]
    mean, variance = 0.3, 1.5
    f = mean + math.sqrt(variance) * torch.linspace(-10, 10, 4001, dtype=torch.double)
    density = double(norm.pdf(f.numpy(), mean, math.sqrt(variance)))
    for label in range(likelihood.num_outcomes):
        # The trapezoidal rule, of functions that vanish at both ends.
        joint = likelihood.log_prob(f, torch.full_like(f, label)).exp() * density
        mass = float(joint.sum() * (f[1] - f[0]))
        first = float(joint @ f / joint.sum())
        second = float(joint @ f.square() / joint.sum())
        at = likelihood.tilted_derivatives(
            double([mean]), double([variance]), double([label])
        )
        assert float(at.value) == pytest.approx(math.log(mass), abs=1e-9)
        assert mean + variance * float(at.gradient) == pytest.approx(first, abs=1e-9)
        narrowed = variance - variance**2 * float(at.negative_hessian)
        assert narrowed == pytest.approx(second - first**2, abs=1e-9)


def test_plain_steps_are_not_touched() -> None:
    p = double([0.3])
    assert Step().rescale(p) is p
    assert Step().shift(p) is p
    assert float(Step(0.1, 0.5, double([1.0])).rescale(p)) == pytest.approx(0.25)
    assert float(Step(threshold=double([1.0])).shift(p)) == pytest.approx(-0.7)
