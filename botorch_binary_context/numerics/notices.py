r"""
Warnings about results that are less accurate than they should be.

A search that tries many hyperparameters can turn them off. The filters of ``warnings``
apply to all threads at once; here each thread has a switch of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from botorch.exceptions.warnings import NumericsWarning

_is_silent = ContextVar("_is_silent", default=False)


def warn_of_inaccuracy(message: str) -> None:
    r"""Issue a ``NumericsWarning``, unless this thread has turned them off.

    Args:
        message: What is inaccurate, and by how much.
    """
    if not _is_silent.get():
        warnings.warn(message, NumericsWarning, stacklevel=3)


@contextmanager
def silent() -> Iterator[None]:
    r"""Issue no such warnings within this block, in this thread."""
    token = _is_silent.set(True)
    try:
        yield
    finally:
        _is_silent.reset(token)
