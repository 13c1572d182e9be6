from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, settings

# The time of one example says nothing on a shared machine.
settings.register_profile(
    "default",
    deadline=None,
    max_examples=40,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("default")
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A real browser; all tests of a process share it, as they must."""
    pytest.importorskip("starlette")
    pytest.importorskip("playwright")
    from tests.web.browsing import browsing

    with browsing() as opened:
        yield opened
