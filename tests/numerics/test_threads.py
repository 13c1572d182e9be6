r"""Computations that take one thread."""

from __future__ import annotations

import pytest
import torch

from botorch_binary_context.numerics.threads import one_thread


def test_one_thread_is_taken_and_the_number_restored_after_an_error() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        seen = []
        with pytest.raises(ZeroDivisionError), one_thread():
            seen.append(torch.get_num_threads() / 0)
        with one_thread():
            seen.append(torch.get_num_threads())
        assert seen == [1]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
