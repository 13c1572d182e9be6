from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

from benchmarks.speed import peers


def test_a_package_that_is_missing_is_named() -> None:
    # Trieste is not installed here.
    row = peers.compare(Path(sys.executable), "trieste", "fit")
    assert math.isnan(row.theirs)
    assert "No module named 'trieste'" in row.peer
    assert row.ours > 0.0


def test_an_interpreter_that_is_missing_is_named() -> None:
    jobs = peers.comparisons([Path("/no/such/python"), Path(sys.executable)])
    assert len(list(jobs)) == 3
    answer = peers.ask_peer(Path("/no/such/python"), "aepsych", [[0.5]], [1.0])
    assert "/no/such/python" in answer["missing"]


def test_jobs_stand_alone() -> None:
    """The script imports nothing of the project, wherever it is run."""
    script = Path(peers.__file__).with_name("peer_jobs.py")
    request = {"package": "no_such_package", "X": [], "Y": [], "repeats": 1}
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(script)],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "no_such_package" in json.loads(done.stdout)["missing"]
