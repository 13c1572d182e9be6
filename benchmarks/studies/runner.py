r"""
``python -m benchmarks run STUDY``: compute the tasks of a study that are not finished.

The tasks run in a pool of processes, or on a Dask cluster with ``--scheduler``. The
results are the same: workers compute, and this process writes the files, so a cluster
needs no common file system; its workers run in a checkout of the project.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from botorch.exceptions import InputDataError
from tqdm import tqdm

from benchmarks.studies import store
from benchmarks.studies.definitions import STUDIES
from benchmarks.studies.experiment import Task, run_task
from benchmarks.studies.own_studies import OWN_STUDIES
from benchmarks.studies.study import Study, estimate_cost

NICENESS = 10
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of the GNU C library
DEAD_WORKER = (
    "A worker process died, perhaps of lack of memory. What is finished is stored: "
    "the same command goes on from there."
)

#: Yields every task with a future of its results, as they finish.
Compute = Callable[[Sequence[Task]], Generator[tuple[Task, Any]]]


def add_command(commands: Any) -> None:
    r"""Add ``run`` to the command line.

    Args:
        commands: The result of ``add_subparsers``.
    """
    parser = commands.add_parser("run", help="run a study, or what is missing of it")
    parser.add_argument("study", choices=[*STUDIES, *OWN_STUDIES])
    parser.add_argument("--functions", nargs="+", metavar="NAME")
    parser.add_argument("--rules", nargs="+", metavar="NAME")
    parser.add_argument("--seeds", type=int, metavar="N")
    parser.add_argument("--iterations", type=int, metavar="N")
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count(), help="processes (all cores)"
    )
    parser.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask cluster")
    parser.add_argument("--output", type=Path, default=store.RESULTS)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    r"""Run a study.

    Args:
        arguments: The parsed command line.
    """
    if arguments.study in OWN_STUDIES:
        OWN_STUDIES[arguments.study].run(arguments)
        return
    study = STUDIES[arguments.study].subset(
        arguments.functions, arguments.rules, arguments.seeds, arguments.iterations
    )
    if arguments.scheduler is None:
        compute = on_processes(arguments.workers)
    else:
        compute = on_cluster(arguments.scheduler)
    folder = arguments.output / study.name
    start = time.monotonic()
    count = None
    try:
        count = run_study(study, folder, compute, arguments.device)
    finally:
        seconds = round(time.monotonic() - start)
        if count != 0:
            workers = arguments.scheduler or arguments.workers
            store.log_run(folder, seconds, workers=str(workers))
    elapsed = timedelta(seconds=seconds)
    print(f"{study.name}: {count} tasks computed in {elapsed}, all tasks are finished")


def make_tasks(study: Study, device: str = "cpu") -> list[Task]:
    r"""The tasks of a study, the longest first.

    Args:
        study: The study.
        device: The device of the models.

    Returns:
        One task for every function and rule.
    """
    _check_device(device)
    tasks = []
    for function in study.functions:
        chosen = study.load(function)
        tasks += [
            Task(
                study.name,
                function,
                rule,
                study.seeds,
                study.iterations,
                chosen,
                device,
            )
            for rule in study.rules
        ]
    return sorted(tasks, key=_cost, reverse=True)


def _check_device(device: str) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputDataError(
            f"Expected ``device`` to be a device of this machine, but got {device!r}: "
            f"{reason}"
        ) from error


def _cost(task: Task) -> float:
    return estimate_cost(task.function, task.rule)


def run_study(study: Study, folder: Path, compute: Compute, device: str = "cpu") -> int:
    r"""Compute and store the tasks that are not finished.

    Args:
        study: The study.
        folder: Where its results are.
        compute: Computes the tasks.
        device: The device of the models.

    Returns:
        The number of tasks computed.
    """
    tasks = make_tasks(study, device)
    missing = [task for task in tasks if not store.is_finished(folder, task)]
    if not missing:
        return 0
    failures = []
    with _progress_bar(missing) as bar, closing(compute(missing)) as finished:
        for count, (task, future) in enumerate(finished, 1):
            error = _keep(task, future, folder)
            if error is not None:
                failures.append(error)
                tqdm.write(f"{task}: {type(error).__name__}: {error}")
            bar.set_description_str(f"{study.name}: {count}/{len(missing)} tasks")
            bar.update(_cost(task))
    if failures:
        raise RuntimeError(f"{len(failures)} tasks failed.") from failures[-1]
    return len(missing)


def _keep(task: Task, future: Any, folder: Path) -> Exception | None:
    """Store the results of a task, or return why there are none."""
    try:
        frame = future.result()
    except BrokenProcessPool as error:
        raise RuntimeError(DEAD_WORKER) from error
    except Exception as error:
        return error
    store.save(frame, store.result_path(folder, task.function, task.rule))
    return None


def _progress_bar(tasks: Sequence[Task]) -> tqdm:
    """A progress bar whose progress and ETA follow the expected time of the tasks."""
    layout = "{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"
    return tqdm(total=sum(map(_cost, tasks)), bar_format=layout)


def on_processes(workers: int) -> Compute:
    r"""Compute tasks in a pool of processes.

    Args:
        workers: The number of processes.

    Returns:
        A function that computes tasks.
    """
    if workers < 1:
        raise InputDataError(
            f"Expected ``workers`` to be at least 1, but got {workers}."
        )

    def compute(tasks: Sequence[Task]) -> Generator[tuple[Task, Any]]:
        others = set(multiprocessing.active_children())
        pool = ProcessPoolExecutor(
            min(workers, len(tasks)),
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_prepare_worker,
        )
        try:
            futures = {pool.submit(run_task, task): task for task in tasks}
            pending = set(futures)
            while pending:  # an endless wait would miss Ctrl-C with polars loaded
                done, pending = wait(pending, timeout=1, return_when=FIRST_COMPLETED)
                for future in done:
                    yield futures[future], future
        except BaseException:  # do not wait for the tasks that run
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    return compute


def _prepare_worker() -> None:
    """Lower the priority, and end when the waiting process says so."""
    os.nice(NICENESS)
    _keep_freed_memory()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _keep_freed_memory() -> None:
    """Reuse the memory of large temporary tensors, where the C library can.

    By default it goes back to the system and is mapped anew for every tensor.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, 2**25)
        mallopt(M_TRIM_THRESHOLD, 2**30)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def on_cluster(address: str) -> Compute:
    r"""Compute tasks on a Dask cluster; a task whose worker dies goes to another one.

    Args:
        address: The address of the scheduler.

    Returns:
        A function that computes tasks.
    """
    try:
        import distributed
    except ImportError as error:
        raise InputDataError(
            "Expected ``distributed`` to be installed for ``scheduler``: "
            "pip install 'botorch-binary-context[cluster]'."
        ) from error

    def compute(tasks: Sequence[Task]) -> Generator[tuple[Task, Any]]:
        with distributed.Client(address) as client:
            futures = {
                client.submit(run_task, task, pure=False): task for task in tasks
            }
            for future in distributed.as_completed(list(futures)):
                yield futures.pop(future), future
                future.release()  # or it is computed again if its worker dies

    return compute
