r"""
Results on disk: a folder with one parquet file for every finished task.

A file is written under another name and then moved into place, which the file system
does entirely or not at all. So a file is complete or absent, whenever a run is killed.
Two runs on one folder may compute a task twice, but then replace its file by an equal
one.

Every file has a checksum of its content. A file that does not match its checksum, or
does not hold the results of the task in its name, does not count as finished. Older
files without a checksum must pass all other checks.

``python -m benchmarks pack STUDY`` puts the results of all tasks into one file, which
is what the repository holds.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import tempfile
import warnings
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl
from botorch.exceptions import BotorchWarning, InputDataError

from benchmarks.studies.definitions import STUDIES
from benchmarks.studies.experiment import FURTHER, SCHEMA, Task

RESULTS = Path(__file__).parents[1] / "results"
RUNS = "runs.jsonl"
#: The file with the results of many tasks.
PACKED = "results.parquet"
#: The name of the checksum in the metadata of a file.
CHECKSUM = "checksum"


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
    r"""Write results so that the file is never seen incomplete.

    Args:
        frame: The results of one task.
        path: The path of the file; its folder is made if it is missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        dir=path.parent, prefix=f".{path.name}.", suffix=".tmp", delete=False
    ) as file:
        try:
            frame.write_parquet(
                file, compression_level=19, metadata={CHECKSUM: checksum(frame)}
            )
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def checksum(frame: pl.DataFrame) -> str:
    r"""A checksum of the content of a table.

    Args:
        frame: The table.

    Returns:
        A text of 32 hexadecimal digits.
    """
    digest = hashlib.blake2b(digest_size=16)
    for column in frame:
        digest.update(f"{column.name}\n".encode())
        if column.dtype.is_numeric():
            digest.update(column.to_numpy().tobytes())
        else:
            digest.update("\n".join(map(str, column)).encode())
    return digest.hexdigest()


def read_table(path: Path) -> pl.DataFrame | None:
    r"""Any table that :func:`save` has written.

    Args:
        path: The path of the file.

    Returns:
        The table; ``None`` if there is no file and, with a warning, if it cannot be
        read or does not match its checksum.
    """
    if not path.exists():
        return None
    try:
        stored = pl.read_parquet_metadata(path).get(CHECKSUM)
        frame = pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        return _ignore(path, str(error).partition("\n")[0])
    if stored not in (None, checksum(frame)):
        return _ignore(path, "it does not fit its checksum")
    return frame


def require_table(path: Path) -> pl.DataFrame:
    r"""The table of a study that has results, all of them in one file.

    Args:
        path: The path of the file, in the folder of the study.
    """
    table = read_table(path)
    if table is None:
        raise without_results(path.parent)
    return table


def without_results(folder: Path) -> InputDataError:
    r"""The error of a study that has no results.

    Args:
        folder: The folder of the study.
    """
    return InputDataError(
        f"Expected ``output`` to hold results of the study {folder.name!r}, but "
        f"{folder} has none."
    )


def _ignore(path: Path, reason: str) -> None:
    warnings.warn(f"Ignoring {path}: {reason}.", BotorchWarning, stacklevel=4)


def read(path: Path, study: str | None = None) -> pl.DataFrame | None:
    r"""The results of one task.

    Args:
        path: The path of the file.
        study: The name of the study that they should be of; any if None.

    Returns:
        The results; ``None`` as in :func:`read_table` and, with a warning, if they are
        not those that the name of the file says.
    """
    frame = read_table(path)
    fault = None if frame is None else _find_fault(frame, path, study)
    return frame if fault is None else _ignore(path, fault)


def _find_fault(frame: pl.DataFrame, path: Path, study: str | None) -> str | None:
    """Why a table is not the results that the name of its file says; None if it is."""
    if not _has_columns(frame.schema) or not frame.height:
        return "other columns than those of results"
    names = [frame[name].unique().to_list() for name in ("study", "function", "rule")]
    if any(len(values) != 1 or values[0] is None for values in names):
        return "results of more than one task"
    ((found,), (function,), (rule,)) = names
    is_other_study = study not in (None, found)
    if is_other_study or result_path(path.parent, function, rule) != path:
        return f"results of {rule} on {function} in the study {found}"
    if not _is_complete(frame):
        return "some seeds or iterations are missing or there twice"
    numbers = frame.select(pl.col(pl.Float32).is_finite().all())
    if frame.null_count().row(0) != (0,) * frame.width or not all(numbers.row(0)):
        return "numbers that are not finite"
    return None


def _has_columns(schema: pl.Schema) -> bool:
    """Whether all columns of results are there, and all other columns are numbers."""
    known = list(SCHEMA.items())
    columns = list(schema.items())
    further = {kind for _, kind in columns[len(known) :]}
    return columns[: len(known)] == known and further <= {FURTHER}


def _is_complete(frame: pl.DataFrame) -> bool:
    """Whether there is one row for every seed and iteration, in their order."""
    seeds = frame["seed"].n_unique()
    iterations = frame["iteration"].n_unique()
    steps = [(s, i) for s in range(seeds) for i in range(1, iterations + 1)]
    return frame.select("seed", "iteration").rows() == steps


def load(folder: Path) -> pl.DataFrame:
    r"""The results of all finished tasks of a study.

    Args:
        folder: The folder of the study; it may be missing.

    Returns:
        One table, empty if there is nothing.
    """
    study = folder.name if folder.name in STUDIES else None
    paths = sorted(set(folder.glob("*.parquet")) - {folder / PACKED})
    frames = [read(path, study) for path in paths] + _unpack(folder)
    empty = pl.DataFrame(schema=SCHEMA)
    found = {
        frame.row(0)[:3]: frame for frame in reversed(frames) if frame is not None
    }  # a file of its own takes precedence over the packed results
    return pl.concat([empty, *reversed(found.values())], how="diagonal")


def _unpack(folder: Path) -> list[pl.DataFrame]:
    """The packed results of a study, a table for each task."""
    path = folder / PACKED
    if not path.exists():
        return []
    status = path.stat()
    return _read_packed(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=1)  # a run asks for each of hundreds of tasks
def _read_packed(path: Path, changed: int, size: int) -> list[pl.DataFrame]:
    frame = read_table(path)
    if frame is None:
        return []
    return frame.partition_by("function", "rule", maintain_order=True)


def pack(folder: Path) -> Path:
    r"""Put the results of all finished tasks into one file, in place of many.

    Args:
        folder: The folder of the study.

    Returns:
        The path of the file.
    """
    frame = load(folder)
    if frame.is_empty():
        raise InputDataError(f"Expected {folder} to hold results, but it has none.")
    path = folder / PACKED
    save(frame, path)
    for other in set(folder.glob("*.parquet")) - {path}:
        other.unlink()
    return path


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
    frame = read(path, task.study)
    if frame is None:
        key = task.study, task.function, task.rule
        packed = [part for part in _unpack(folder) if part.row(0)[:3] == key]
        if not packed:
            return False
        frame = packed[0]
        path = folder / PACKED
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
    r"""The runs that :func:`log_run` noted.

    Args:
        folder: The folder of the study.

    Returns:
        One entry for every run that was not killed.
    """
    path = folder / RUNS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]
