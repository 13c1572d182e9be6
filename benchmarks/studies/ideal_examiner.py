r"""
An examiner who knows everything but the patient: the bound of the study `population`.

The formula of blur and the distribution of prescriptions and slopes in the population
are known, the patient is not. The posterior over patients is a cloud of weighted
particles; each letter is, among many candidates, the one that is most informative about
the patient, and the recommended lens loses the least on average.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_binary_context.probability import entropy
from botorch_binary_context.problems.refraction import MAX_POWER, visual_acuity

GUESS_RATE = 1 / 26
NUM_PARTICLES = 3000
# With fewer effective particles than this, they are resampled and moved by a share of
# their standard deviation; the mean and the deviation stay.
FEWEST = 600
MOVE = 0.15
# Candidates: lenses near those that patients may need, each with letters of all sizes.
NUM_LENSES = 40
LENS_DEVIATION = 0.7  # in diopters
SIZES = torch.linspace(-0.6, 1.2, 13, dtype=torch.double)  # in logMAR
NUM_JUDGES = 600  # particles that the information is averaged over
NUM_CHOICES = 200  # lenses among which one is recommended


def read_probability(X: Tensor, lenses: Tensor, slopes: Tensor) -> Tensor:
    r"""The probability that patients read letters.

    Args:
        X: Trials, ``t x 3``.
        lenses: The prescriptions of patients, ``n x 2``.
        slopes: Their slopes, ``n``.

    Returns:
        A ``t x n`` tensor.
    """
    acuity = visual_acuity(X[:, None, 1:] - lenses)
    passed = torch.special.ndtr(slopes * (X[:, None, 0] - acuity))
    return GUESS_RATE + (1 - GUESS_RATE) * passed


@dataclass
class Examiner:
    r"""What is known about one patient.

    Attributes:
        lenses: The prescriptions of the particles, ``n x 2``.
        slopes: Their slopes, ``n``.
        generator: The source of randomness.
    """

    lenses: Tensor
    slopes: Tensor
    generator: torch.Generator

    def __post_init__(self) -> None:
        self.log_weights = torch.zeros_like(self.slopes)

    def ask(self) -> Tensor:
        r"""The letter that is most informative about the patient, ``1 x 3``."""
        drawn = self._draw(NUM_LENSES)
        lenses = self.lenses[drawn] + LENS_DEVIATION * self._normal(NUM_LENSES, 2)
        lenses = lenses.clamp(-MAX_POWER, MAX_POWER)
        sizes = SIZES.repeat(NUM_LENSES).unsqueeze(-1)
        X = torch.cat([sizes, lenses.repeat_interleave(len(SIZES), dim=0)], dim=-1)
        judges = self._draw(NUM_JUDGES)
        p = read_probability(X, self.lenses[judges], self.slopes[judges])
        average = p.mean(dim=-1)
        known = entropy(torch.stack([1 - p, p])).mean(dim=-1)
        information = entropy(torch.stack([1 - average, average])) - known
        return X[information.argmax()].unsqueeze(0)

    def tell(self, X: Tensor, passed: bool) -> None:
        r"""Learn from an answer.

        Args:
            X: The trial, ``1 x 3``.
            passed: Whether the letter was read.
        """
        p = read_probability(X, self.lenses, self.slopes)[0]
        self.log_weights = self.log_weights + (p if passed else 1 - p).log()
        weights = self.log_weights.softmax(dim=0)
        if 1 / weights.square().sum() < FEWEST:
            self._redraw(weights)

    def recommend(self) -> Tensor:
        r"""The lens that loses the least on average, of 2 numbers."""
        drawn = self._draw(4 * NUM_CHOICES)
        lenses = self.lenses[drawn]
        choices = lenses[:NUM_CHOICES]
        losses = visual_acuity(choices.unsqueeze(1) - lenses).mean(dim=-1)
        return choices[losses.argmin()]

    def _draw(self, number: int) -> Tensor:
        weights = self.log_weights.softmax(dim=0)
        return weights.multinomial(number, replacement=True, generator=self.generator)

    def _normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.double, generator=self.generator)

    def _redraw(self, weights: Tensor) -> None:
        """Particles of equal weight, with the same mean and variance of the lens."""
        mean = weights @ self.lenses
        deviation = (weights @ (self.lenses - mean).square()).sqrt()
        drawn = self._draw(len(weights))
        kept = (1 - MOVE**2) ** 0.5 * (self.lenses[drawn] - mean)
        moved = mean + kept + MOVE * deviation * self._normal(len(weights), 2)
        self.lenses = moved.clamp(-MAX_POWER, MAX_POWER)
        self.slopes = self.slopes[drawn]
        self.log_weights = torch.zeros_like(self.log_weights)
