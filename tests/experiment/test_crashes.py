r"""Experiments that are killed lose nothing; two processes do not harm each other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_many_crashes(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tests.experiment.crashes", str(tmp_path)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    crashes = found["early"]["crashes"] + found["modelled"]["crashes"]
    assert crashes == 46
    # One file was enough, but where a process died in the middle of writing it.
    assert found["early"]["copies"] + found["modelled"]["copies"] > crashes - 10
    # Processes died while they asked and while they told, and yet they got on.
    assert found["early"]["told"] > 5
    assert found["early"]["telling"] > 0
    assert found["early"]["answers"] > 20
    assert found["modelled"]["answers"] > 5
    # Two processes on one journal: both were served.
    assert found["shared"]["least"] > 5
    # Five raters share the trials, and no answer waits for a question to be computed.
    assert found["rated"]["answers"] >= 30
    assert found["rated"]["least"] >= 2
    assert found["rated"]["slowest_tell"] < 5.0  # milliseconds on a quiet machine
    # Some processes were killed before, some after there was a journal.
    assert 0 < found["created"]["made"] < found["created"]["times"]
