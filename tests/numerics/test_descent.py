from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from botorch_binary_context.numerics.descent import Array, Functions, minimize_each

WIDE = (-10.0, 10.0)


def everywhere(begin: Array) -> Array:
    """Bounds that are never reached."""
    return np.full((*begin.shape, 2), WIDE)


def bowls(centers: Array, stiffness: Array) -> Functions:
    """``½ Σ k (x - c)²``, of each function."""

    def evaluate(x: Array, rows: Array) -> tuple[Array, Array]:
        distance = x - centers[rows]
        slope = stiffness[rows] * distance
        return 0.5 * (slope * distance).sum(axis=-1), slope

    return evaluate


def valleys(x: Array, rows: Array) -> tuple[Array, Array]:
    """Rosenbrock's function, less steep."""
    a, b = x.T
    value = (1 - a) ** 2 + 10 * (b - a**2) ** 2
    by_a = -2 * (1 - a) - 40 * a * (b - a**2)
    return value, np.stack([by_a, 20 * (b - a**2)], axis=-1)


def test_each_function_ends_at_its_own_minimum() -> None:
    generator = np.random.default_rng(0)
    centers = generator.uniform(-3, 3, (7, 3))
    stiffness = 10 ** generator.uniform(-1, 1, (7, 3))
    begin = generator.uniform(-3, 3, (7, 3))
    found = minimize_each(bowls(centers, stiffness), begin, everywhere(begin), 1e-10)
    assert found.is_found.all()
    np.testing.assert_allclose(found.x, centers, rtol=0, atol=1e-4)
    np.testing.assert_allclose(found.value, 0.0, rtol=0, atol=1e-9)


def test_ends_where_scipy_ends() -> None:
    begin = np.array([[-1.0, 1.0], [0.0, 0.0], [1.5, -0.5]])
    found = minimize_each(valleys, begin, everywhere(begin), 1e-12)
    assert found.is_found.all()
    for x, ours in zip(begin, found.x, strict=True):
        theirs = minimize(lambda x: valleys(x[None], np.zeros(1))[0][0], x, tol=1e-12)
        np.testing.assert_allclose(ours, theirs.x, rtol=0, atol=1e-4)


def test_functions_that_are_done_are_not_evaluated_again() -> None:
    counts = np.zeros(3, dtype=int)

    def counted(x: Array, rows: Array) -> tuple[Array, Array]:
        counts[rows] += 1
        return valleys(x, rows)

    begin = np.array([[1.0, 1.0], [-1.0, 1.0], [0.9, 0.8]])
    found = minimize_each(counted, begin, everywhere(begin), 1e-8)
    np.testing.assert_array_equal(found.num_evaluations, counts)
    assert counts[0] < counts[2] < counts[1] <= 40
    # Nor do they influence each other.
    alone = minimize_each(valleys, begin[1:2], everywhere(begin[1:2]), 1e-8)
    np.testing.assert_array_equal(alone.x[0], found.x[1])


def test_bounds_hold() -> None:
    centers = np.array([[2.0, 0.3], [-2.0, 0.3]])
    stiffness = np.array([[1.0, 2.0], [1.0, 2.0]])
    begin = np.array([[0.0, 0.0], [-1.0, 1.0]])
    bounds = np.full((2, 2, 2), (-1.0, 1.0))
    found = minimize_each(bowls(centers, stiffness), begin, bounds, 1e-12)
    assert found.is_found.all()
    np.testing.assert_allclose(found.x, [[1, 0.3], [-1, 0.3]], rtol=0, atol=1e-5)


def test_steps_back_from_what_is_not_a_number() -> None:
    def roots(x: Array, rows: Array) -> tuple[Array, Array]:
        with np.errstate(invalid="ignore"):
            root = np.sqrt(x)  # of a variable that has to be positive
        return (root[:, 0] - 0.1) ** 2, (root - 0.1) / root

    begin = np.array([[0.5], [0.05]])
    found = minimize_each(roots, begin, everywhere(begin), 1e-12)
    assert found.is_found.all()
    np.testing.assert_allclose(found.x, 0.01, rtol=0, atol=1e-5)


def test_what_begins_at_no_number_is_not_found() -> None:
    def broken(x: Array, rows: Array) -> tuple[Array, Array]:
        value, slope = valleys(x, rows)
        return np.where(rows == 1, np.nan, value), slope

    begin = np.array([[0.5, 0.5], [0.5, 0.5]])
    found = minimize_each(broken, begin, everywhere(begin), 1e-8)
    assert found.is_found.tolist() == [True, False]
    np.testing.assert_array_equal(found.x[1], begin[1])
    assert found.num_evaluations[1] == 1
