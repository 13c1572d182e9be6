r"""Closeness of tensors, with the tolerances of ``torch.allclose``."""

from __future__ import annotations

from typing import Any

import torch


def assert_all_close(
    actual: Any,
    expected: Any,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> None:
    """Check that two tensors have one shape and type and agree to a tolerance."""
    torch.testing.assert_close(
        actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan
    )
