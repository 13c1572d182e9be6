r"""Expectations of high precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath


def normal_expectation(
    func: Callable[[Any], Any],
    mean: float,
    variance: float,
    knots: Sequence[float] = (0.0,),
) -> Any:
    """``E func(f)`` for ``f ~ N(mean, variance)`` by quadrature with ``mpmath``.

    Args:
        func: A function of an ``mpf``.
        mean: The mean.
        variance: The variance, positive.
        knots: Where ``func`` changes fast; the range is cut there too.
    """
    mu = mpmath.mpf(mean)
    sd = mpmath.sqrt(mpmath.mpf(variance))
    reach = 12
    cuts = {mpmath.mpf(k) for k in range(-reach, reach + 1, 4)}
    cuts |= {(mpmath.mpf(k) - mu) / sd for k in knots}
    inside = sorted(c for c in cuts if abs(c) <= reach)
    return mpmath.quad(lambda u: func(mu + sd * u) * mpmath.npdf(u), inside)
