r"""The packages that the integrations are tested with, from ``.venv/peers``."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PEERS = Path(sys.prefix) / "peers"


def import_peer(name: str, home: Path) -> ModuleType:
    """A package to test with; a test without it is skipped, but fails in CI.

    PsychoPy writes its preferences into the home folder.
    """
    if str(PEERS) not in sys.path:
        sys.path.append(str(PEERS))
    try:
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            patch.setenv("HOME", str(home))
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError as error:
        if os.environ.get("REQUIRE_PEERS"):
            raise
        pytest.skip(f"{name} is not installed (`make test` does that): {error}")


@pytest.fixture
def peer(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ModuleType]:
    """Imports a package to test with."""
    return lambda name: import_peer(name, tmp_path_factory.mktemp("home"))


@pytest.fixture
def aepsych_client(peer: Callable[[str], ModuleType]) -> Iterator[Any]:
    """The class of AEPsych's Python client."""
    client = peer("aepsych_client").AEPsychClient
    with pytest.MonkeyPatch.context() as patch:
        # It says good-bye on a socket that it has closed.
        patch.delattr(client, "__del__")
        yield client
