r"""
Letters and rings as they have to look, drawn by other means than those of the page.

The page fills outlines. Here a point is black if it is within half a stroke of the
middle line of a stroke, or by inequalities of circles.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

Mask = np.ndarray
POSITIONS = (
    "right",
    "upRight",
    "up",
    "upLeft",
    "left",
    "downLeft",
    "down",
    "downRight",
)
LETTERS = "CDHKNORSVZ"
SAMPLES = 40  # of a stroke


def grid(margin: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """The middles of small squares that cover the 5 x 5 strokes, y downwards."""
    number = round((5 + 2 * margin) * SAMPLES)
    line = (np.arange(number) + 0.5) / SAMPLES - margin
    return np.meshgrid(line, line)


def bar(x: np.ndarray, y: np.ndarray, *ends: float) -> Mask:
    """A straight stroke of width 1 between two points, endless and cut by the box."""
    x0, y0, x1, y1 = ends
    length = np.hypot(x1 - x0, y1 - y0)
    distance = ((x - x0) * (y1 - y0) - (y - y0) * (x1 - x0)) / length
    return np.abs(distance) <= 0.5


def ring(x: np.ndarray, y: np.ndarray, cx: float, cy: float, radius: float) -> Mask:
    """A circular stroke of width 1 around a middle line."""
    return np.abs(np.hypot(x - cx, y - cy) - radius) <= 0.5


def landolt(x: np.ndarray, y: np.ndarray, position: int) -> Mask:
    """A ring whose gap is at so many eighths of a turn counterclockwise."""
    angle = -np.pi / 4 * position
    dx, dy = x - 2.5, y - 2.5
    along = dx * np.cos(angle) + dy * np.sin(angle)
    across = -dx * np.sin(angle) + dy * np.cos(angle)
    return ring(x, y, 2.5, 2.5, 2.0) & ~((np.abs(across) < 0.5) & (along > 0))


def draw_d(x: np.ndarray, y: np.ndarray) -> Mask:
    left = (x <= 2.5) & ((x <= 1) | (y <= 1) | (y >= 4))
    return left | ((x >= 2.5) & ring(x, y, 2.5, 2.5, 2.0))


def draw_r(x: np.ndarray, y: np.ndarray) -> Mask:
    flat = (x <= 3.5) & ((y <= 1) | ((y >= 2) & (y <= 3)))
    bowl = (x >= 3.5) & ring(x, y, 3.5, 1.5, 1.0)
    leg = (y >= 2.5) & bar(x, y, 2.5, 2.5, 4.37, 5.0)
    return (x <= 1) | flat | bowl | leg


def draw_s(x: np.ndarray, y: np.ndarray) -> Mask:
    middle = (x >= 1.5) & (x <= 3.5)
    lines = middle & ((y <= 1) | (np.abs(y - 2.5) <= 0.5) | (y >= 4))
    upper = ring(x, y, 1.5, 1.5, 1.0) & (x <= 1.5)
    upper |= ring(x, y, 3.5, 1.5, 1.0) & (x >= 3.5) & (y <= 1.5)
    lower = ring(x, y, 3.5, 3.5, 1.0) & (x >= 3.5)
    lower |= ring(x, y, 1.5, 3.5, 1.0) & (x <= 1.5) & (y >= 3.5)
    return lines | upper | lower


def draw_k(x: np.ndarray, y: np.ndarray) -> Mask:
    arm = (x >= 1) & bar(x, y, 4.25, 0.0, 1.0, 2.93)
    above_arm = y < 0.9 * (4.25 - x)
    leg = (x >= 1) & ~above_arm & bar(x, y, 1.75, 2.25, 4.32, 5.0)
    return (x <= 1) | arm | leg


def draw_v(x: np.ndarray, y: np.ndarray) -> Mask:
    # The outer edges run from the upper corners to one stroke at the bottom.
    half = np.abs(x - 2.5)
    outer, inner = 2.5 - 0.4 * y, 2.5 - 0.4 * y - np.hypot(1, 0.4)
    return (half <= outer) & (half >= inner)


def draw_z(x: np.ndarray, y: np.ndarray) -> Mask:
    return (y <= 1) | (y >= 4) | bar(x, y, 4.236, 1.0, 0.764, 4.0)


DRAW: dict[str, Callable[[np.ndarray, np.ndarray], Mask]] = {
    "C": lambda x, y: landolt(x, y, 0),
    "D": draw_d,
    "H": lambda x, y: (x <= 1) | (x >= 4) | (np.abs(y - 2.5) <= 0.5),
    "K": draw_k,
    "N": lambda x, y: (x <= 1) | (x >= 4) | bar(x, y, 0.625, 0.0, 4.375, 5.0),
    "O": lambda x, y: ring(x, y, 2.5, 2.5, 2.0),
    "R": draw_r,
    "S": draw_s,
    "V": draw_v,
    "Z": draw_z,
}


@cache
def reference(name: str) -> np.ndarray:
    """The optotype as an array of ink, ``SAMPLES`` to a stroke."""
    x, y = grid()
    if name in POSITIONS:
        return landolt(x, y, POSITIONS.index(name)).astype(float)
    return DRAW[name](x, y).astype(float)


def area(name: str) -> float:
    """Its ink, in squares of the stroke."""
    return float(reference(name).sum()) / SAMPLES**2


def bounding_box(ink: np.ndarray) -> tuple[int, int, int, int]:
    """Left, upper, right and lower end of what is darker than half."""
    rows = np.flatnonzero((ink > 0.5).any(1))
    columns = np.flatnonzero((ink > 0.5).any(0))
    return columns[0], rows[0], columns[-1] + 1, rows[-1] + 1


def correlation(
    ink: np.ndarray, name: str, stroke: float, left: float, top: float
) -> float:
    """How well a picture agrees with an optotype of a size at a place."""
    size = int(np.ceil(5 * stroke)) + 2
    x0 = int(np.floor(left))
    y0 = int(np.floor(top))
    window = ink[y0 : y0 + size, x0 : x0 + size]
    fine = 4  # samples of a pixel
    line = (np.arange(size * fine) + 0.5) / fine
    columns, rows = ((line - offset) / stroke for offset in (left - x0, top - y0))
    inside = np.outer((rows > 0) & (rows < 5), (columns > 0) & (columns < 5))
    expected = reference(name)
    last = expected.shape[0] - 1
    at = [np.clip((c * SAMPLES).astype(int), 0, last) for c in (rows, columns)]
    drawn = expected[np.ix_(*at)] * inside
    blocks = drawn.reshape(size, fine, size, fine).mean((1, 3))
    return float(np.corrcoef(blocks.ravel(), window.ravel())[0, 1])
