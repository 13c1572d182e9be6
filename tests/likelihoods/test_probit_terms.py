r"""Answers as NumPy arrays have the probabilities that their likelihood defines."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from botorch_binary_context.likelihoods import PreferenceLikelihood, ProbitLikelihood
from botorch_binary_context.likelihoods.probit_terms import ProbitTerms

RATES = [(0.0, 0.0), (1 / 26, 0.0), (0.5, 0.02), (0.0, 0.05), (0.2, 0.1)]
MEANS = np.array([-30.0, -6.0, -1.3, 0.4, 5.0, 30.0])
VARIANCE = 1.7
ACCURACY = (1e-11, 1e-11, 1e-9)


def log_derivative(
    order: int, label: float, rates: tuple[float, float], mean: float, variance: float
) -> float:
    """Of ``log E p(c|f)`` in the mean of the contrast, with 60 digits."""
    guess, lapse = (mpmath.mpf(rate) for rate in rates)

    def log_probability(m: Any) -> Any:
        passes = mpmath.ncdf(m / mpmath.sqrt(1 + mpmath.mpf(variance)))
        fails = mpmath.ncdf(-m / mpmath.sqrt(1 + mpmath.mpf(variance)))
        share = 1 - guess - lapse
        return mpmath.log(guess + share * passes if label else lapse + share * fails)

    with mpmath.workdps(60):
        return float(mpmath.diff(log_probability, mpmath.mpf(mean), order))


def terms_of(label: float, guess: float, lapse: float) -> ProbitTerms:
    labels = torch.full((len(MEANS),), label, dtype=torch.double)
    terms = ProbitLikelihood(guess, lapse).probit_terms(labels)
    assert terms is not None
    return terms


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("label", [0.0, 1.0])
@pytest.mark.parametrize("variance", [0.0, VARIANCE])
def test_agree_with_high_precision(
    label: float, rates: tuple[float, float], variance: float
) -> None:
    terms = terms_of(label, *rates)
    z, gradient, curvature = terms.tilt(MEANS, np.full_like(MEANS, variance))
    values = terms.log_prob(z), gradient, -curvature
    # A curvature at z = -30 is a difference of numbers 1000 times as large.
    for order, (found, rtol) in enumerate(zip(values, ACCURACY, strict=True)):
        known = [log_derivative(order, label, rates, m, variance) for m in MEANS]
        np.testing.assert_allclose(found, known, rtol=rtol, atol=1e-16)


def test_of_duels_have_a_lapse_rate_for_either_side() -> None:
    labels = torch.tensor([1.0, 0.0], dtype=torch.double)
    terms = PreferenceLikelihood(0.1).probit_terms(labels)
    assert terms is not None
    far = np.array([-40.0, -40.0])  # against what was answered
    np.testing.assert_allclose(np.exp(terms.log_prob(far)), 0.1, rtol=1e-12)
    np.testing.assert_allclose(np.exp(terms.log_prob(-far)), 0.9, rtol=1e-12)
