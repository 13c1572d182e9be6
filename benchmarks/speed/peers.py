r"""
Peers in environments of their own: rows of the table of speeds.

AEPsych and Trieste need other versions of some packages than this project.
``--peer-python`` names an interpreter that has both, or one for each; the same trials
are sent to it, and the processor times of the same jobs come back.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll

from benchmarks.speed.data import DIM, outcomes
from benchmarks.speed.suggestions import unit_box
from benchmarks.speed.timing import Comparison, measure_processor
from botorch_binary_context import (
    ApproximateMarginalLogLikelihood,
    BinaryGP,
    ContextSpace,
    suggest,
)

NAMES = {"aepsych": "AEPsych", "trieste": "Trieste"}
JOBS = {"aepsych": ("fit", "suggest"), "trieste": ("fit",)}
NUM_TRIALS = 60
REPEATS = 3
LONGEST = 900.0  # seconds until we give up on a peer


def comparisons(pythons: Sequence[Path]) -> Iterator[Callable[[], Comparison]]:
    r"""The rows of the table, each computed when called.

    Args:
        pythons: The interpreters of the peers, at least one; a peer is measured by the
            first that has it.
    """
    for package, jobs in JOBS.items():
        able = (python for python in pythons if _has(python, package))
        python = next(able, pythons[0])
        for job in jobs:
            yield partial(compare, python, package, job)


def _has(python: Path, package: str) -> bool:
    code = f"import importlib.util as u; raise SystemExit(not u.find_spec({package!r}))"
    try:
        done = subprocess.run([str(python), "-c", code], check=False)
    except OSError:
        return False
    return done.returncode == 0


def compare(python: Path, package: str, job: str) -> Comparison:
    r"""One row: our time and a peer's, the default model of each.

    Args:
        python: The interpreter of the peer.
        package: The name of the peer's package.
        job: ``"fit"`` or ``"suggest"``.

    Returns:
        The row; if the peer's time cannot be measured, it is NaN, and the name of the
        peer says why.
    """
    torch.manual_seed(0)
    X, Y = outcomes(NUM_TRIALS)
    answer = ask_peer(python, package, X.tolist(), Y.squeeze(-1).tolist())
    theirs = math.nan
    peer = f"{NAMES[package]}: {answer.get('missing', 'failed')}"
    if "times" in answer:
        theirs = median(answer["times"][job])
        peer = f"{NAMES[package]} {answer['version']}"
    model = BinaryGP(X, Y)
    _fit(model)
    space = ContextSpace(unit_box(DIM), context_dims=[], reference_context=[])
    jobs: dict[str, tuple[str, Callable[[], object]]] = {
        "fit": ("fit the default model", lambda: _fit(BinaryGP(X, Y))),
        "suggest": ("suggest by bald", lambda: suggest(model, space, "bald")),
    }
    label, ours = jobs[job]
    return Comparison(
        job=f"{label} of {NUM_TRIALS} outcomes, processor time",
        peer=peer,
        ours=measure_processor(ours),
        theirs=theirs,
    )


def _fit(model: BinaryGP) -> None:
    fit_gpytorch_mll(ApproximateMarginalLogLikelihood(model.likelihood, model))


def ask_peer(
    python: Path, package: str, X: list[list[float]], Y: list[float]
) -> dict[str, Any]:
    r"""Let a peer do its jobs.

    Args:
        python: The interpreter of the peer.
        package: The name of its package.
        X: The trials.
        Y: Their outcomes.

    Returns:
        The version and the times of the jobs, or what is missing.
    """
    request = {"package": package, "X": X, "Y": Y, "repeats": REPEATS}
    script = Path(__file__).with_name("peer_jobs.py")
    # The packages of this environment are not those of the peer.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    try:
        done = subprocess.run(
            [str(python), str(script)],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=LONGEST,
            env={**environment, "OMP_NUM_THREADS": "1"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"missing": str(error)}
    if done.returncode:
        return {"missing": done.stderr.strip().splitlines()[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])
