r"""
When the studies of patients learn hyperparameters: a table of their own, so that a
finished study stays as it is when the package's schedule changes.
"""

from __future__ import annotations

#: After 10 trials, every 5 up to 30, every 10 up to 60, and every 15 from there on.
LEARN_AT = frozenset(
    (*range(10, 31, 5), *range(40, 61, 10), *range(75, 301, 15)),
)
