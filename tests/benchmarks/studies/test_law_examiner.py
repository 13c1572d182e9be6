r"""The examiner who knows the law of blur alone."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from scipy.special import ndtr

from benchmarks.studies import law_examiner
from benchmarks.studies.law_examiner import LawExaminer
from botorch_binary_context.models import psychometric_gp
from botorch_binary_context.peaks import BLUR
from botorch_binary_context.problems import POWER_VECTOR, RefractionProblem


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> LawExaminer:
    """An examiner with coarse grids."""
    monkeypatch.setattr(law_examiner, "POWER_STEP", 1.0)
    monkeypatch.setattr(law_examiner, "NUM_SLOPES", 3)
    monkeypatch.setattr(law_examiner, "NUM_ACUITIES", 3)
    return LawExaminer(26, np.random.default_rng(0), 3.0)


def read(
    letter: tuple[float, ...], lens: tuple[float, ...], a: float, v: float
) -> float:
    """The probability that a patient reads a letter, by the patients of the package."""
    patient = RefractionProblem(a, 26, prescription=lens)
    X = torch.tensor([letter], dtype=torch.double)
    X[0, 0] -= v
    return float(patient.success_probability(X))


def test_posterior_by_hand(small: LawExaminer) -> None:
    """On a coarse grid, patient by patient."""
    letters = [(0.8, 1.0, -0.5), (0.2, 0.0, 0.3), (1.1, -2.0, 1.5)]
    answers = [True, False, True]
    prior = small.weights.copy()
    for letter, answer in zip(letters, answers, strict=True):
        small.tell(letter, answer)
    powers = np.linspace(-3, 3, 7).tolist()
    expected = prior.ravel()
    patients = product(
        product(powers, powers), zip(small.slopes, small.acuities, strict=True)
    )
    for i, (lens, (slope, acuity)) in enumerate(patients):
        for letter, answer in zip(letters, answers, strict=True):
            p = read(letter, lens, slope, acuity)
            expected[i] *= p if answer else 1 - p
    expected /= expected.sum()
    np.testing.assert_allclose(small.weights.ravel(), expected, rtol=1e-9, atol=1e-15)


def test_prior_is_that_of_the_model() -> None:
    examiner = LawExaminer(26, np.random.default_rng(0), 3.0)
    likely = examiner.weights.sum(axis=0)
    slope = np.exp(likely @ np.log(examiner.slopes))
    space = RefractionProblem(5.0).space
    X = space.draw_quasi_random(2, seed=0)
    model = psychometric_gp(
        X,
        torch.ones(2, 1, dtype=torch.double),
        space,
        combinations=POWER_VECTOR,
        shape=BLUR,
    )
    low, high = space.context_bounds.squeeze(-1).tolist()
    steep = model.mean_module.base_mean.slope.item() * 2 / (high - low)  # pyright: ignore
    assert slope == pytest.approx(steep)
    assert likely @ examiner.acuities == pytest.approx(BLUR.lowest)
    deviation = np.sqrt(likely @ np.square(examiner.acuities - BLUR.lowest))
    assert deviation == pytest.approx(BLUR.uncertainty, rel=0.1)  # the tails are cut


def test_information_of_all_patients(small: LawExaminer) -> None:
    """With every prescription as a judge, it is the mutual information of the grid."""
    small.tell((0.5, 0.0, 0.0), True)
    # Judges count equally, so here all prescriptions are equally likely.
    small.weights /= small.weights.sum(axis=1, keepdims=True) * len(small.lenses)
    lens = np.array([0.5, -1.0])
    likely = small.weights / small.weights.sum(axis=1, keepdims=True)
    found = small._information(lens, small.lenses, likely, small.slopes, small.acuities)
    error = lens - small.lenses
    blur = (error[:, 0] ** 2 + error.sum(axis=1) ** 2) / 2
    z = law_examiner.SIZES[:, None, None] - small.acuities - np.log10(1 + blur)[:, None]
    p = 1 / 26 + 25 / 26 * ndtr(small.slopes * z)  # sizes x lenses x others
    joint = np.stack([p, 1 - p]) * small.weights  # sums to one over all but the sizes
    of_lens = joint.sum(axis=-1)
    product_of_both = of_lens.sum(axis=-1, keepdims=True) * of_lens.sum(axis=0)
    expected = (of_lens * np.log(of_lens / product_of_both)).sum(axis=(0, 2))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-14)


def test_finds_the_lens() -> None:
    examiner = LawExaminer(26, np.random.default_rng(1), 3.0)
    patient = RefractionProblem(5.0, 26, prescription=(1.0, -0.5))
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        letter = examiner.ask()
        X = torch.tensor([letter], dtype=torch.double)
        examiner.tell(letter, bool(patient.observe(X, generator)))
    sphere, cylinder = examiner.recommend()
    assert abs(sphere - 1.0) < 0.75
    assert abs(cylinder + 0.5) < 1.25
