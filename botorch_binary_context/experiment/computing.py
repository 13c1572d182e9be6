r"""
A reproducible setup for computing models within experiments.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from botorch_binary_context.numerics.threads import one_thread

# Random numbers come from the generator of the process, so a process makes one
# computation at a time, whichever thread asks for it.
_ONE_AT_A_TIME = threading.RLock()


@contextmanager
def computing() -> Iterator[None]:
    r"""Compute in a way that gives the same numbers in every program.

    - On one thread: more threads do not help with matrices of this size, they wait for
      each other if other programs run, and rounding would depend on the number of
      cores.
    - With gradients, even within ``torch.no_grad()`` and ``torch.inference_mode()``.
    - With torch's original default dtype. Models are in double precision anyway, but
      the constants of priors, constraints and Sobol sequences are rounded to the
      default.
    """
    with (
        _ONE_AT_A_TIME,
        one_thread(),
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        dtype = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)


def _free_in_child() -> None:
    """The thread that computed is not there after a fork."""
    global _ONE_AT_A_TIME
    _ONE_AT_A_TIME = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_in_child)
