r"""
How many threads a computation takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    r"""Let torch compute on one thread.

    For small matrices, more threads cost more than they gain: they wait for each other,
    and for those that SciPy's algebra keeps.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
