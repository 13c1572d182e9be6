r"""
An examiner who knows the law of blur, but neither the slope nor the acuity.

The model ``acuity`` of :mod:`benchmarks.studies.patient_models` knows little less: it
allows for deviations from the law. Here the posterior is exact, on a grid of
prescriptions, slopes and acuities. Each letter is, among many candidates, the one that
is most informative about the prescription, and the recommended lens loses the least on
average. So the results show how much of what a model loses is due to what it does not
know. Information about the next answer is not all that counts: other letters may do
better in the end.
"""

from __future__ import annotations

import numpy as np
from scipy.special import entr

from benchmarks.studies.blurred_letters import lost_acuity, success_probability
from botorch_binary_context.models.defaults import SLOPES
from botorch_binary_context.peaks import BLUR
from botorch_binary_context.problems.refraction import LETTER_SIZES, MAX_POWER

Array = np.ndarray
Letter = tuple[float, float, float]  # its size, sphere and cylinder
Lens = tuple[float, float]

POWER_STEP = 0.125  # of the grid of prescriptions, in diopters
NUM_SLOPES, NUM_ACUITIES = 11, 21
WIDEST = 2.5  # standard deviations of the prior that the grid covers
# Candidates: lenses near those that the patient may need, with letters of all sizes.
NUM_LENSES = 30
LENS_DEVIATION = 0.7  # in diopters
SIZES = np.linspace(-0.6, 1.8, 17)
NUM_JUDGES = 100  # prescriptions that the information is averaged over
NEGLIGIBLE = 1e-4  # the weight of slopes and acuities that are left out of averages
NUM_CHOICES = 200  # lenses among which one is recommended


class LawExaminer:
    r"""What is known about one patient.

    Attributes:
        lenses: The possible prescriptions, ``L x 2``.
        slopes: The possible slopes of the psychometric function, ``M``, each combined
            with all acuities.
        acuities: The possible acuities with the best lens, ``M``.
        weights: The posterior probabilities, ``L x M``.
    """

    def __init__(
        self, alternatives: int, generator: np.random.Generator, most_power: float
    ) -> None:
        r"""
        Args:
            alternatives: The number of letters to choose from.
            generator: The source of randomness.
            most_power: The largest sphere and cylinder that a prescription may have.
        """
        self.alternatives = alternatives
        self.generator = generator
        number = round(2 * most_power / POWER_STEP) + 1
        powers = np.linspace(-most_power, most_power, number)
        self.lenses = _combine(powers, powers)
        # The package's priors: the slope is per half of the range of letter sizes.
        z = np.linspace(-WIDEST, WIDEST, NUM_SLOPES)
        median = 2 * SLOPES.median / (LETTER_SIZES[1] - LETTER_SIZES[0])
        slopes = median * np.exp(SLOPES.spread * z)
        u = np.linspace(-WIDEST, WIDEST, NUM_ACUITIES)
        assert BLUR.lowest is not None
        assert BLUR.uncertainty is not None
        others = _combine(slopes, BLUR.lowest + BLUR.uncertainty * u)
        self.slopes, self.acuities = others.T
        prior = np.exp(-np.square(_combine(z, u)).sum(axis=-1) / 2)
        prior = prior / prior.sum() / len(self.lenses)
        self.weights = np.tile(prior, (len(self.lenses), 1))

    def ask(self) -> Letter:
        r"""The size and the lens of the most informative letter."""
        judges = self._draw(NUM_JUDGES)
        weights = self.weights[judges]
        kept = weights.sum(axis=0) > NEGLIGIBLE * weights.sum()
        weights = weights[:, kept] / weights[:, kept].sum(axis=-1, keepdims=True)
        patients = self.lenses[judges], weights, self.slopes[kept], self.acuities[kept]
        moves = LENS_DEVIATION * self.generator.standard_normal((NUM_LENSES, 2))
        candidates = self.lenses[self._draw(NUM_LENSES)] + moves
        candidates = candidates.clip(-MAX_POWER, MAX_POWER)
        gains = np.array([self._information(lens, *patients) for lens in candidates])
        best, size = np.unravel_index(gains.argmax(), gains.shape)
        sphere, cylinder = candidates[best].tolist()
        return float(SIZES[size]), sphere, cylinder

    def _information(
        self, lens: Array, judges: Array, weights: Array, slopes: Array, lowest: Array
    ) -> Array:
        """What letters of each size, through a lens, say about the prescription."""
        sphere, cylinder = (lens - judges).T[:, :, None]
        sizes = SIZES[:, None, None]
        read = success_probability(
            sizes, sphere, cylinder, self.alternatives, slopes, lowest
        )  # sizes x judges x others
        read = (read * weights).sum(axis=-1)
        average = read.mean(axis=-1)
        return _entropy(average) - _entropy(read).mean(axis=-1)

    def tell(self, letter: Letter, is_read: bool) -> None:
        r"""Learn from an answer.

        Args:
            letter: The size and the lens of the letter.
            is_read: Whether it was read.
        """
        size, *lens = letter
        sphere, cylinder = (lens - self.lenses).T[:, :, None]
        read = success_probability(
            size, sphere, cylinder, self.alternatives, self.slopes, self.acuities
        )
        self.weights = self.weights * (read if is_read else 1 - read)
        self.weights /= self.weights.sum()

    def recommend(self) -> Lens:
        r"""The lens that loses the least on average."""
        choices = self.lenses[self._draw(NUM_CHOICES)]
        errors = choices[:, None] - self.lenses
        losses = lost_acuity(errors[..., 0], errors[..., 1]) @ self.weights.sum(axis=-1)
        sphere, cylinder = choices[losses.argmin()].tolist()
        return sphere, cylinder

    def _draw(self, number: int) -> Array:
        """Prescriptions in proportion to their probabilities."""
        likely = self.weights.sum(axis=-1)
        return self.generator.choice(len(likely), number, p=likely)


def _combine(first: Array, second: Array) -> Array:
    """All pairs of two sets of numbers, ``n x 2``."""
    pairs = np.meshgrid(first, second, indexing="ij")
    return np.stack(pairs, axis=-1).reshape(-1, 2)


def _entropy(p: Array) -> Array:
    return entr(p) + entr(1 - p)
