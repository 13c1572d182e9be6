r"""
The simulated people of :mod:`scripts.compare_packages`.

It needs the standard library only, so that other packages can use it in environments
of their own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import NormalDist

#: The range of intensities in dB, and the standard deviation of the psychometric curve.
LOW = -40.0
HIGH = 0.0
DEVIATION = 3.0
GUESS = 0.5
LAPSE = 0.02
#: The success probability at the threshold, halfway between guessing and lapsing.
AT_THRESHOLD = GUESS + 0.5 * (1.0 - GUESS - LAPSE)
SENSITIVITY = 4.0


def passes(intensity: float, threshold: float, generator: random.Random) -> int:
    """The answer of a simulated person to a tone."""
    chance = NormalDist(threshold, DEVIATION).cdf(intensity)
    return int(generator.random() < GUESS + (1.0 - GUESS - LAPSE) * chance)


def person(seed: int) -> tuple[float, random.Random]:
    """The threshold of a simulated person, and the generator of the answers."""
    generator = random.Random(seed)
    return generator.uniform(-32.0, -8.0), generator


def taste(x: Sequence[float], seed: int) -> float:
    """How good a setting of two numbers in [0, 1] is; the best is 0."""
    generator = random.Random(seed)
    best = [generator.uniform(0.2, 0.8) for _ in range(2)]
    return -SENSITIVITY * sum((a - b) ** 2 for a, b in zip(x, best, strict=True))


def prefers(first: Sequence[float], second: Sequence[float], seed: int) -> bool:
    """Whether the first is preferred, with a little noise."""
    generator = random.Random(repr((tuple(first), tuple(second), seed)))
    noise = generator.gauss(0.0, 0.1)
    return taste(first, seed) + noise > taste(second, seed)
