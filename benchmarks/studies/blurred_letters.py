r"""
How likely a patient reads a letter through a lens, in NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr


def lost_acuity(sphere: Any, cylinder: Any) -> Any:
    r"""``log10(1 + β²)`` of the errors of a lens.

    Args:
        sphere: The error of the sphere in diopters.
        cylinder: That of the cylinder.

    Returns:
        By how much letters have to be larger than with the best lens, in logMAR.
    """
    return np.log10(1.0 + (sphere**2 + (sphere + cylinder) ** 2) / 2)


def success_probability(
    size: Any,
    sphere: Any,
    cylinder: Any,
    alternatives: int,
    slope: Any,
    lowest: Any = 0.0,
) -> Any:
    r"""How likely a letter is read through a lens.

    Args:
        size: The letter size in logMAR.
        sphere: The error of the sphere in diopters.
        cylinder: That of the cylinder.
        alternatives: The number of letters to choose from.
        slope: The slope of the patient's psychometric function.
        lowest: The visual acuity with the best lens, in logMAR.
    """
    guess = 1.0 / alternatives
    acuity = lowest + lost_acuity(sphere, cylinder)
    return guess + (1 - guess) * ndtr(slope * (size - acuity))
