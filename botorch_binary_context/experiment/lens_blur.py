r"""
What is known of lenses: how blur raises the size of the smallest letters that are read.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from botorch.exceptions import UnsupportedError

from botorch_binary_context.experiment.lens import POWER_VECTOR, Lens
from botorch_binary_context.experiment.variables import Real
from botorch_binary_context.peaks import BLUR, PeakLaw

if TYPE_CHECKING:
    from botorch_binary_context.experiment.settings import Settings


def check_blur(settings: Settings) -> None:
    r"""Raise an error unless the settings are those of an eye examination.

    Args:
        settings: The settings, whose priors are "blur".
    """
    contexts = settings.space.contexts
    if len(contexts) != 1 or contexts[0].harder is None:
        raise UnsupportedError(
            "Expected ``priors`` to be 'blur' only with one context, the size of "
            "letters, that says which way is ``harder``, but got "
            f"{[c.name for c in contexts]}."
        )
    is_lens = [type(p) for p in settings.space.parameters] == [Lens]
    if not is_lens and settings.combinations != POWER_VECTOR:
        raise UnsupportedError(
            "Expected ``priors`` to be 'blur' only with a ``Lens``, or with a sphere "
            f"and a cylinder and ``combinations={POWER_VECTOR!r}``, but got "
            f"{[p.name for p in settings.space.parameters]}."
        )


def law_of_blur(settings: Settings) -> PeakLaw:
    r"""The law of blur in the coordinates of models.

    Lenses are in diopters, and letters in logMAR or on a logarithmic scale. Something
    is known of the acuity with the best lens if they are in logMAR.

    Args:
        settings: The settings, whose priors are "blur".
    """
    (context,) = settings.space.contexts
    powers = [part for part in settings.space.parts if isinstance(part, Real)]
    widths = [power.bounds[1] - power.bounds[0] for power in powers]
    low, high = context.bounds
    law = BLUR
    if context.scale == "log" or context.harder == "up":  # not in logMAR
        law = replace(BLUR, lowest=None, uncertainty=None)
    if context.scale == "log":
        low, high = math.log10(low), math.log10(high)
    return law.rescale(
        context_unit=(high - low) / 2,
        parameter_unit=math.sqrt(math.prod(widths)),
        origin=(low + high) / 2,
    )
