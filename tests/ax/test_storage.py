r"""Experiments are stored and loaded, also when their process is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from ax.api.client import Client
from ax.api.configs import StorageConfig
from ax.storage.sqa_store.db import (
    create_all_tables,
    get_engine,
    init_engine_and_session_factory,
)

from botorch_binary_context import ContextQuantile
from botorch_binary_context.ax import recommend
from tests.ax.clients import make_client, opposite_client, run_readme
from tests.ax.test_duels import duel_client, run_duels

GOAL = ContextQuantile([0.0, 0.5, 1.0], share=0.25)


def start(client: Client) -> Client:
    """An experiment with three trials in parallel."""
    client = make_client(client=client, contexts={"s": 0.5}, harder="up", goal=GOAL)
    run_readme(client, 5)
    client.get_next_trials(3)
    return client


def start_stored(folder: Path) -> None:
    """The same in a database and in a file."""
    url = f"sqlite:///{folder / 'ax.db'}"
    init_engine_and_session_factory(url=url)
    create_all_tables(get_engine())
    client = start(Client(storage_config=StorageConfig(url=url)))
    client.save_to_json_file(str(folder / "ax.json"))


KILLED = """
import os, pathlib, signal, sys
from tests.ax.test_storage import start_stored
start_stored(pathlib.Path(sys.argv[1]))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_killed_process_goes_on_with_the_same_trial(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], check=False, capture_output=True
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    expected = start(Client()).get_next_trials(1)
    from_file = Client.load_from_json_file(str(tmp_path / "ax.json"))
    assert from_file.get_next_trials(1) == expected
    storage = StorageConfig(url=f"sqlite:///{tmp_path / 'ax.db'}")
    loaded = Client.load_from_database("test", storage)
    assert loaded.get_next_trials(1) == expected
    assert recommend(loaded) == recommend(from_file)


def test_directions_of_contexts_are_stored(tmp_path: Path) -> None:
    client = opposite_client()
    client.save_to_json_file(str(tmp_path / "ax.json"))
    loaded = Client.load_from_json_file(str(tmp_path / "ax.json"))
    assert loaded.get_next_trials(1) == client.get_next_trials(1)
    point = {"noise": 1.0, "size": 0.3, "x": 0.5}
    assert loaded.predict([point]) == client.predict([point])


def test_duels_are_stored(tmp_path: Path) -> None:
    client = duel_client(rule="kss-ald")
    run_duels(client, 4)
    path = str(tmp_path / "duels.json")
    client.save_to_json_file(path)
    loaded = Client.load_from_json_file(path)
    expected = client._generation_strategy.gen_single_trial(client._experiment, n=2)
    found = loaded._generation_strategy.gen_single_trial(loaded._experiment, n=2)
    assert [a.parameters for a in found.arms] == [a.parameters for a in expected.arms]
