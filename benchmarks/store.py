r"""
Results on disk: a folder with one parquet file for every finished task.

A file is written beside its place and then moved there, which the file system does at
once or not at all. So a file is whole or absent, whenever a run is killed; and two runs
on one folder may compute a task twice, but replace its file by an equal one.
"""

from __future__ import annotations

import json
import os
import platform
import re
import tempfile
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
from botorch.exceptions import BotorchWarning, InputDataError

from benchmarks.experiment import REFRACTION_SCHEMA, SCHEMA, Task

RESULTS = Path(__file__).with_name("results")
RUNS = "runs.jsonl"


def result_path(folder: Path, function: str, rule: str) -> Path:
    r"""Where the results of a task are.

    Args:
        folder: The folder of the study.
        function: The name of the function.
        rule: The name of the rule.

    Returns:
        The path of the file.
    """
    name = re.sub(r"[^a-z0-9]+", "-", function.lower()).strip("-")
    return folder / f"{name}.{rule}.parquet"


def save(frame: pl.DataFrame, path: Path) -> None:
    r"""Write results so that the file is never seen in part.

    Args:
        frame: The results of one task.
        path: The path of the file; its folder is made if it is missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        dir=path.parent, prefix=f".{path.name}.", suffix=".tmp", delete=False
    ) as file:
        try:
            frame.write_parquet(file)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def read(path: Path) -> pl.DataFrame | None:
    r"""The results of one task.

    Args:
        path: The path of the file.

    Returns:
        The results; ``None``, with a warning, if the file cannot be read or holds
        something else.
    """
    try:
        frame = pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0]
    else:
        if frame.schema in (SCHEMA, REFRACTION_SCHEMA) and frame.height:
            return frame
        reason = "other columns than those of results"
    warnings.warn(f"Ignoring {path}: {reason}.", BotorchWarning, stacklevel=2)
    return None


def load(folder: Path) -> pl.DataFrame:
    r"""The results of all finished tasks of a study.

    Args:
        folder: The folder of the study; it may be missing.

    Returns:
        One table, empty if there is nothing.
    """
    frames = [read(path) for path in sorted(folder.glob("*.parquet"))]
    empty = pl.DataFrame(schema=SCHEMA)
    found = [frame for frame in frames if frame is not None]
    return pl.concat([empty, *found], how="diagonal")


def is_finished(folder: Path, task: Task) -> bool:
    r"""Whether the results of a task are there.

    Args:
        folder: The folder of the study.
        task: The task.

    Returns:
        Whether there is a file with its results. A file that cannot be read does not
        count; one with other numbers of seeds or iterations is an error, so that a
        short run does not replace a long one.
    """
    path = result_path(folder, task.function, task.rule)
    frame = read(path) if path.exists() else None
    if frame is None:
        return False
    found = frame["seed"].n_unique(), frame["iteration"].n_unique()
    if found != (task.seeds, task.iterations):
        raise InputDataError(
            f"Expected ``output`` to hold results of {task.seeds} seeds and "
            f"{task.iterations} iterations, but {path} has {found[0]} and {found[1]}. "
            "Choose another folder."
        )
    return True


def log_run(folder: Path, seconds: int, workers: str) -> None:
    r"""Note how long a run took, in a line of ``runs.jsonl``.

    Args:
        folder: The folder of the study; nothing is noted if it does not exist.
        seconds: The wall time.
        workers: The number of processes, or the address of the cluster.
    """
    if not folder.exists():
        return
    run = {
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": seconds,
        "workers": workers,
        "machine": f"{platform.platform()}, {os.cpu_count()} cores",
    }
    with (folder / RUNS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(run) + "\n")


def load_runs(folder: Path) -> list[dict[str, Any]]:
    r"""What :func:`log_run` noted.

    Args:
        folder: The folder of the study.

    Returns:
        One entry for every run that was not killed.
    """
    path = folder / RUNS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]
