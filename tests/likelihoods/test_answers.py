r"""Ties, ratings and confidence: each formula against finite differences or SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.distributions import MultivariateNormal
from scipy import integrate, stats
from scipy.special import entr, log_ndtr, ndtr
from torch import Tensor
from torch.distributions import Bernoulli, Categorical

from botorch_binary_context import (
    ConfidenceLikelihood,
    PreferenceLikelihood,
    ProbitLikelihood,
    RatingLikelihood,
    TiesLikelihood,
)
from botorch_binary_context.likelihoods import OrdinalLikelihood, OutcomeLikelihood
from tests.tensors import double

FIXED: Any = {"learn_widths": False}
LIKELIHOODS: dict[str, Callable[[], OrdinalLikelihood]] = {
    "ties": lambda: TiesLikelihood(0.7, learn_width=False),
    "careless ties": lambda: TiesLikelihood(0.4, 0.1, learn_width=False),
    "ratings": lambda: RatingLikelihood(5, widths=[0.5, 1.0, 1.5], **FIXED),
    "careless ratings": lambda: RatingLikelihood(4, 1, lapse_rate=0.05, **FIXED),
    "narrow": lambda: RatingLikelihood(3, widths=[0.002], **FIXED),
    "confidence": lambda: ConfidenceLikelihood(0.25, 0.03, **FIXED),
    "guesses": lambda: ConfidenceLikelihood(0.5, num_grades=3, **FIXED),
}
CONTRASTS = double([-37.0, -6.0, -1.3, 0.0, 0.4, 2.0, 5.5, 30.0])
MEANS = double([-3.0, 0.2, 1.0, 5.0, -1.0, 40.0])
VARIANCES = double([0.3, 4.0, 100.0, 9.0, 1e-4, 1.0])


@pytest.fixture(params=LIKELIHOODS)
def likelihood(request: pytest.FixtureRequest) -> OrdinalLikelihood:
    return LIKELIHOODS[request.param]()


def reference(likelihood: OrdinalLikelihood, f: float) -> np.ndarray:
    """The probabilities of all answers, from the definition."""
    t = likelihood.thresholds.double().numpy()
    tails = np.concatenate([[1.0], ndtr(f - t), [0.0]])
    means = tails[:-1] - tails[1:]
    k = likelihood.num_outcomes
    if isinstance(likelihood, ConfidenceLikelihood):
        guess, lapse, half = likelihood.guess_rate, likelihood.lapse_rate, k // 2
        fails, passes = means[:half], means[half:]
        answers = np.concatenate([(1 - guess) * fails, (1 - float(lapse)) * passes])
        answers[half] += guess * fails.sum()
        answers[:half] += float(lapse) * passes.sum() / half
        return answers
    lapse = float(likelihood.lapse_rate)  # pyright: ignore
    return (1 - lapse) * means + lapse * (1 - means) / (k - 1)


def expectation(function: Callable[[float], float], mean: float, sd: float) -> float:
    found = integrate.quad(
        lambda u: function(mean + sd * u) * stats.norm.pdf(u),
        -12,
        12,
        epsabs=1e-13,
        epsrel=1e-12,
        limit=400,
        points=[-mean / sd] if abs(mean) < 11 * sd else None,
    )
    return found[0]


def test_probabilities_are_those_of_the_definition(likelihood):
    found = likelihood.probabilities(CONTRASTS)
    expected = np.stack([reference(likelihood, float(f)) for f in CONTRASTS], axis=-1)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(found.sum(dim=0), torch.ones_like(CONTRASTS))
    success = likelihood.probability(CONTRASTS)
    torch.testing.assert_close(found[likelihood.passing :].sum(dim=0), success)


def test_log_derivatives_are_those_of_the_log_probability(likelihood):
    step = 1e-4
    moderate = CONTRASTS[CONTRASTS.abs() < 10]
    for label in range(likelihood.num_outcomes):
        targets = torch.full_like(moderate, label)
        at = likelihood.log_derivatives(moderate, targets)
        expected = likelihood.probabilities(moderate)[label].log()
        torch.testing.assert_close(at.value, expected, rtol=1e-9, atol=1e-9)
        above, below = (
            likelihood.log_derivatives(moderate + d, targets) for d in (step, -step)
        )
        slope = (above.value - below.value) / (2 * step)
        bend = (above.gradient - below.gradient) / (2 * step)
        torch.testing.assert_close(at.gradient, slope, rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(-at.negative_hessian, bend, rtol=1e-6, atol=1e-7)
        assert bool((at.information >= 0).all())


def test_log_probabilities_keep_their_digits_in_the_tails():
    likelihood = TiesLikelihood(0.5, learn_width=False)
    f = double([-300.0, 300.0])
    tie = likelihood.log_derivatives(f, torch.ones_like(f))
    expected = log_ndtr(-299.5) + np.log1p(-np.exp(log_ndtr(-300.5) - log_ndtr(-299.5)))
    np.testing.assert_allclose(tie.value.numpy(), expected, rtol=1e-13)
    np.testing.assert_allclose(tie.gradient.abs().numpy(), 299.5, rtol=1e-4)
    for label in range(3):
        at = likelihood.log_derivatives(f, torch.full_like(f, label))
        assert bool(at.value.isfinite().all() and at.gradient.isfinite().all())


def test_information_is_the_expected_curvature(likelihood):
    f = CONTRASTS[CONTRASTS.abs() < 4]
    probabilities = likelihood.probabilities(f)
    parts = [
        likelihood.log_derivatives(f, torch.full_like(f, label))
        for label in range(likelihood.num_outcomes)
    ]
    fisher = sum(
        p * part.negative_hessian for p, part in zip(probabilities, parts, strict=True)
    )
    assert isinstance(fisher, Tensor)
    if likelihood.is_log_concave:
        for part in parts:
            torch.testing.assert_close(part.information, part.negative_hessian)
    else:
        for part in parts:
            torch.testing.assert_close(part.information, fisher)


def test_expected_probabilities_and_their_slopes(likelihood):
    found = likelihood.expected_probabilities(MEANS, VARIANCES)
    for i, (mean, variance) in enumerate(zip(MEANS, VARIANCES, strict=True)):
        for label in range(likelihood.num_outcomes):
            expected = expectation(
                lambda f, label=label: reference(likelihood, f)[label],
                float(mean),
                float(variance) ** 0.5,
            )
            assert abs(float(found[label, i]) - expected) < 1e-9
    step = 1e-5
    above, below = (
        likelihood.expected_probabilities(MEANS + d, VARIANCES) for d in (step, -step)
    )
    slopes = likelihood.probability_slopes(MEANS, VARIANCES)
    torch.testing.assert_close(
        slopes, (above - below) / (2 * step), rtol=1e-6, atol=1e-9
    )
    slope = likelihood.probability_slope(MEANS, VARIANCES)
    torch.testing.assert_close(slopes[likelihood.passing :].sum(dim=0), slope)


def test_moments_of_the_success_probability(likelihood):
    mean, variance = likelihood.probability_moments(MEANS, VARIANCES)
    torch.testing.assert_close(mean, likelihood.expected_probability(MEANS, VARIANCES))
    start = likelihood.passing
    for i in (1, 3):
        center = float(MEANS[i])
        sd = float(VARIANCES[i]) ** 0.5
        squares = expectation(
            lambda f: reference(likelihood, f)[start:].sum() ** 2, center, sd
        )
        assert abs(float(variance[i]) - (squares - float(mean[i]) ** 2)) < 1e-9


def test_tilted_derivatives_are_those_of_the_expected_probability(likelihood):
    expected = likelihood.expected_probabilities(MEANS, VARIANCES)
    mean = MEANS.clone().requires_grad_()
    for label in range(likelihood.num_outcomes):
        targets = torch.full_like(MEANS, label)
        at = likelihood.tilted_derivatives(mean, VARIANCES, targets)
        near = expected[label] > 1e-200
        torch.testing.assert_close(at.value.exp()[near], expected[label][near])
        (slope,) = torch.autograd.grad(at.value.sum(), mean, create_graph=True)
        torch.testing.assert_close(at.gradient, slope, rtol=1e-7, atol=1e-9)
        (bend,) = torch.autograd.grad(slope.sum(), mean)
        torch.testing.assert_close(at.negative_hessian, -bend, rtol=1e-6, atol=1e-7)


def test_information_of_an_answer(likelihood):
    def known_entropy(f: float) -> float:
        return float(entr(reference(likelihood, f)).sum())

    found = likelihood.mutual_information(MEANS, VARIANCES)
    noise = likelihood.expected_entropy(MEANS, VARIANCES)
    marginal = likelihood.expected_probabilities(MEANS, VARIANCES)
    for i, (mean, variance) in enumerate(zip(MEANS, VARIANCES, strict=True)):
        known = expectation(known_entropy, float(mean), float(variance) ** 0.5)
        assert abs(float(noise[i]) - known) < 2e-9
        expected = float(entr(marginal[:, i].numpy()).sum()) - known
        assert abs(float(found[i]) - expected) < 2e-9
    noise = double([1.0, 0.5, 3.0, 0.0, 2.0, 1.0])
    part = likelihood.targeted_information(MEANS, VARIANCES, noise)
    expected = OutcomeLikelihood.targeted_information(
        likelihood, MEANS, VARIANCES, noise
    )
    # 32 nodes see a Gaussian of a few units to this.
    narrow = VARIANCES < 10
    torch.testing.assert_close(part[narrow], expected[narrow], rtol=1e-3, atol=1e-5)
    assert bool((part <= likelihood.mutual_information(MEANS, VARIANCES + noise)).all())


def test_ties_of_no_width_are_plain_duels():
    ties = TiesLikelihood(0.0, learn_width=False)
    duels = PreferenceLikelihood()
    targets = double([0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0])
    for name, arguments in (
        ("log_derivatives", (CONTRASTS,)),
        ("tilted_derivatives", (CONTRASTS, torch.ones_like(CONTRASTS))),
    ):
        ours = getattr(ties, name)(*arguments, 2 * targets)
        plain = getattr(duels, name)(*arguments, targets)
        for attribute in ("value", "gradient", "negative_hessian", "information"):
            torch.testing.assert_close(
                getattr(ours, attribute), getattr(plain, attribute)
            )
    found = ties.probabilities(CONTRASTS)
    torch.testing.assert_close(found[[0, 2]], duels.probabilities(CONTRASTS))
    assert not bool(found[1].any())
    torch.testing.assert_close(
        ties.mutual_information(MEANS, VARIANCES),
        duels.mutual_information(MEANS, VARIANCES),
        rtol=1e-7,
        atol=1e-9,
    )


@pytest.mark.parametrize(
    ("ours", "plain"),
    [
        (RatingLikelihood(2), ProbitLikelihood()),
        (RatingLikelihood(2, lapse_rate=0.1), ProbitLikelihood(0.1, 0.1)),
        (ConfidenceLikelihood(0.25, 0.1, 1), ProbitLikelihood(0.25, 0.1)),
        (ConfidenceLikelihood(num_grades=1), ProbitLikelihood()),
    ],
)
def test_two_answers_are_pass_and_fail(ours, plain):
    targets = double([0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0])
    found = ours.log_derivatives(CONTRASTS, targets)
    expected = plain.log_derivatives(CONTRASTS, targets)
    for name in ("value", "gradient", "negative_hessian", "information"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name))
    for name in ("expected_probability", "probability_moments", "mutual_information"):
        torch.testing.assert_close(
            getattr(ours, name)(MEANS, VARIANCES),
            getattr(plain, name)(MEANS, VARIANCES),
            rtol=1e-6,
            atol=1e-8,
        )
    assert isinstance(ours(CONTRASTS), Bernoulli)


def test_confidence_summed_over_grades_is_pass_and_fail():
    graded = ConfidenceLikelihood(0.25, 0.05, 3)
    plain = ProbitLikelihood(0.25, 0.05)
    torch.testing.assert_close(
        graded.probability(CONTRASTS), plain.probability(CONTRASTS)
    )
    assert graded.contrast_at(0.7) == pytest.approx(plain.contrast_at(0.7))
    # Grades can only tell more.
    more = graded.mutual_information(MEANS, VARIANCES)
    assert bool((more >= plain.mutual_information(MEANS, VARIANCES) - 1e-9).all())


def test_careless_duels():
    careless = PreferenceLikelihood(0.1)
    f = double([-40.0, 0.0, 40.0])
    torch.testing.assert_close(careless.probability(f), double([0.1, 0.5, 0.9]))
    learned = PreferenceLikelihood(0.1, learn_lapse_rate=True)
    assert [name for name, _ in learned.named_parameters()] == ["raw_lapse_rate"]
    torch.testing.assert_close(learned.probability(f), careless.probability(f))
    assert not careless.is_log_concave
    assert PreferenceLikelihood().is_log_concave
    assert not careless.is_like(PreferenceLikelihood())


def test_contrast_at_is_the_inverse_of_the_probability(likelihood):
    low, high = (float(likelihood.probability(double([f]))) for f in (-30.0, 30.0))
    middle = low + 0.3 * (high - low)
    contrast = double([likelihood.contrast_at(middle)])
    assert float(likelihood.probability(contrast)) == pytest.approx(middle)
    with pytest.raises(InputDataError, match="Expected ``probability`` to be between"):
        likelihood.contrast_at(high + 1e-3)


def test_batches_have_their_own_thresholds():
    batch = torch.Size([2])
    whole = RatingLikelihood(
        4, lapse_rate=0.05, learn_lapse_rate=True, batch_shape=batch
    )
    whole.initialize(raw_widths=double([[0.2, 1.0], [-1.0, 0.5]]))
    contrast = CONTRASTS[1:7].reshape(3, 1, 2).expand(3, 2, 2)
    targets = double([[0.0, 3.0], [1.0, 2.0]])
    found = whole.log_derivatives(contrast, targets.expand(3, 2, 2))
    shares = whole.probabilities(contrast)
    for i in range(2):
        alone = RatingLikelihood(4, lapse_rate=0.05, learn_lapse_rate=True)
        raw: Any = whole.raw_widths
        alone.initialize(raw_widths=raw[i].detach())
        expected = alone.log_derivatives(contrast[:, i], targets[i].expand(3, 2))
        for name in ("value", "gradient", "negative_hessian", "information"):
            torch.testing.assert_close(
                getattr(found, name)[:, i], getattr(expected, name)
            )
        torch.testing.assert_close(shares[:, :, i], alone.probabilities(contrast[:, i]))


def test_distributions_of_labels():
    likelihood = RatingLikelihood(4)
    f = MultivariateNormal(double([0.3, -1.0]), torch.eye(2, dtype=torch.double))
    labels = likelihood(f)
    assert isinstance(labels, Categorical)
    expected = likelihood.expected_probabilities(f.mean, f.variance)
    torch.testing.assert_close(labels.probs, expected.movedim(0, -1))
    given: Any = likelihood(f.mean)
    torch.testing.assert_close(given.probs, likelihood.probabilities(f.mean).mT)


def test_single_precision(likelihood):
    f = CONTRASTS.float()
    labels = torch.zeros_like(f)
    at = likelihood.float().log_derivatives(f, labels)
    assert at.gradient.dtype == at.value.dtype == torch.float32
    exact = likelihood.double().log_derivatives(CONTRASTS, labels.double())
    torch.testing.assert_close(at.value.double(), exact.value, rtol=1e-3, atol=1e-3)


def test_likelihoods_are_alike_if_their_settings_are():
    assert RatingLikelihood(4).is_like(RatingLikelihood(4))
    assert not RatingLikelihood(4).is_like(RatingLikelihood(5))
    assert not RatingLikelihood(4, 1).is_like(RatingLikelihood(4, 2))
    assert not TiesLikelihood(0.4, learn_width=False).is_like(TiesLikelihood(0.4))
    assert not ConfidenceLikelihood(0.1).is_like(ConfidenceLikelihood(0.2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TiesLikelihood(-1.0), "``width`` to be a number above 0.001, but got"),
        (lambda: TiesLikelihood(0.0), "``width`` to be a number above"),
        (
            lambda: TiesLikelihood(-1.0, learn_width=False),
            "``width`` to be zero or a number above",
        ),
        (lambda: TiesLikelihood(lapse_rate=0.7), r"``lapse_rate`` to be in \[0, 0.66"),
        (lambda: RatingLikelihood(1), "``num_outcomes`` to be a whole number of at"),
        (lambda: RatingLikelihood(4, 4), "``passing`` to be a label from 1 to 3"),
        (lambda: RatingLikelihood(4, widths=[1.0]), "``widths`` to be 2 distances"),
        (lambda: ConfidenceLikelihood(num_grades=0), "``num_grades`` to be a whole"),
        (lambda: ConfidenceLikelihood(0.5, 0.5), "``lapse_rate`` to be in"),
        (lambda: PreferenceLikelihood(0.5), r"``lapse_rate`` to be in \[0, 0.5\)"),
    ],
)
def test_refuses_wrong_widths_rates_and_numbers_of_outcomes(
    make: Callable[[], Any], message: str
):
    with pytest.raises(InputDataError, match="Expected " + message):
        make()
