r"""Ax calls what SQLAlchemy advises against; nobody here can change that."""

from __future__ import annotations

from pathlib import Path

import pytest

OF_AX = "ignore:TypeDecorator .* will not produce a cache key"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(OF_AX))
