from __future__ import annotations

import mpmath

from tests.quadrature import normal_expectation


def test_expectation_of_a_cosine() -> None:
    with mpmath.workdps(25):
        cosine = normal_expectation(mpmath.cos, 0.5, 2.0)
        assert abs(cosine - mpmath.cos(0.5) * mpmath.exp(-1)) < 1e-20


def test_step_is_seen_where_the_range_is_cut() -> None:
    with mpmath.workdps(25):
        step = normal_expectation(lambda f: float(f > 1), 0.0, 4.0, knots=(1.0,))
        assert abs(step - mpmath.ncdf(-0.5)) < 1e-20
