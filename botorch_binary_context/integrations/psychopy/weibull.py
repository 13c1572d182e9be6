r"""
The psychometric function of QUEST, for simulated persons.

References:

.. [Watson1983quest] A. B. Watson and D. G. Pelli. QUEST: A Bayesian adaptive
    psychometric method. Perception & Psychophysics 33, 1983.
"""

from __future__ import annotations

import math


def weibull(
    easiness: float,
    beta: float,
    guess_rate: float,
    lapse_rate: float,
    threshold_probability: float | None = None,
) -> float:
    r"""The probability of passing, a Weibull function of a logarithmic intensity.

    ``P(x) = g + (1 - g - l) (1 - exp(-10^(b (x + e))))``, where ``e`` is such that
    ``P(0)`` is the probability at the threshold [Watson1983quest]_.

    Args:
        easiness: ``x``, how much easier the test is than at the threshold.
        beta: The steepness ``b``.
        guess_rate: The probability ``g`` of passing the hardest test.
        lapse_rate: The probability ``l`` of failing the easiest one.
        threshold_probability: The probability of passing at the threshold, by default
            halfway between ``g`` and ``1 - l``.
    """
    span = 1.0 - guess_rate - lapse_rate
    share = 0.5
    if threshold_probability is not None:
        share = (threshold_probability - guess_rate) / span
    at_threshold = math.log10(-math.log1p(-share))
    exponent = min(beta * easiness + at_threshold, 300.0)
    return guess_rate - span * math.expm1(-(10.0**exponent))
