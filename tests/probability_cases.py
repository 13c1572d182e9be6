r"""Numbers of high precision for the tests of probabilities."""

from __future__ import annotations

from itertools import product
from typing import Any

import mpmath
from torch import Tensor

from tests.golden_numbers import BINARY_FILES, load_golden
from tests.tensors import double

VARIANCES = (1e-8, 1e-4, 0.1, 1.0, 30.0, 400.0)


# Where Φ bends: quadrature is cut there.
KNOTS = (-6.0, -3.0, 0.0, 3.0, 6.0)


def shrunken(mean: float, variance: float) -> Any:
    return mpmath.mpf(mean) / mpmath.sqrt(1 + mpmath.mpf(variance))


def relative_error(value: Tensor, truth: Tensor) -> float:
    return float(((value - truth) / truth).abs().max())


def grid(means: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    mean, variance = zip(*product(means, VARIANCES), strict=True)
    return double(mean), double(variance)


def golden_cases() -> list[tuple[str, Any]]:
    cases = [
        (f"{name}/{kernel['name']}/{method}", kernel[method])
        for name in BINARY_FILES
        for kernel in load_golden(name)["kernels"]
        for method in ("laplace", "ep")
    ]
    preference = enumerate(load_golden("preference"))
    return cases + [(f"preference/{i}", case) for i, case in preference]
