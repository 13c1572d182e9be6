import os
import signal
import subprocess
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest
from botorch.exceptions import InputDataError

from benchmarks.__main__ import main
from benchmarks.studies import store
from benchmarks.studies.experiment import Task
from benchmarks.studies.runner import make_tasks, on_cluster, on_processes, run_study
from tests.benchmarks.studies.small_studies import (
    ROOT,
    TINY,
    command,
    compute_here,
    fake_results,
    read_all,
    stubbed,
    tiny_arguments,
    tiny_results,
)


def wait_for_results(folder: Path, process: subprocess.Popen, limit: float) -> None:
    """Wait until a task is finished."""
    end = time.monotonic() + limit
    while not list(folder.glob("*.parquet")):
        assert process.poll() is None, "The run ended early."
        assert time.monotonic() < end, "No task finished in time."
        time.sleep(0.02)


class StubbedRunner:
    @pytest.fixture(autouse=True)
    def stubbed_tasks(self, tmp_path: Path) -> Iterator[None]:
        self.output = tmp_path
        self.folder = tmp_path / "binary"
        with stubbed():
            yield


class TestRunStudy(StubbedRunner):
    def test_makes_a_task_for_each_function_and_rule(self) -> None:
        tasks = make_tasks(TINY)
        assert len({(task.function, task.rule) for task in tasks}) == 4
        assert [task.function for task in tasks[:2]] == ["Levy", "Levy"]

    def test_resume_computes_what_is_missing(self) -> None:
        assert run_study(TINY, self.folder, compute_here) == 4
        lost = store.result_path(self.folder, "Levy", "ucb-ald")
        lost.unlink()
        times = {path: path.stat().st_mtime_ns for path in self.folder.iterdir()}
        assert run_study(TINY, self.folder, compute_here) == 1
        assert lost.exists()
        for path, modified in times.items():
            assert path.stat().st_mtime_ns == modified
        assert run_study(TINY, self.folder, compute_here) == 0

    def test_failed_task_raises_and_the_others_are_saved(self) -> None:
        def compute(tasks: Sequence[Task]) -> Generator[tuple[Task, Any]]:
            for i, task in enumerate(tasks):
                future: Future = Future()
                if i == 1:
                    future.set_exception(ValueError("a reason"))
                else:
                    future.set_result(fake_results(task))
                yield task, future

        with pytest.raises(RuntimeError, match="1 tasks failed"):
            run_study(TINY, self.folder, compute)
        assert len(list(self.folder.iterdir())) == 3

    def test_dead_worker(self) -> None:
        def compute(tasks: Sequence[Task]) -> Generator[tuple[Task, Any]]:
            future: Future = Future()
            future.set_exception(BrokenProcessPool())
            yield tasks[0], future

        with pytest.raises(RuntimeError, match="worker process died"):
            run_study(TINY, self.folder, compute)

    def test_wrong_arguments(self) -> None:
        with pytest.raises(InputDataError, match="``device``.*'abacus'"):
            make_tasks(TINY, device="abacus")
        with pytest.raises(InputDataError, match="``workers``"):
            on_processes(0)
        with (
            mock.patch.dict("sys.modules", {"distributed": None}),
            pytest.raises(InputDataError, match=r"``distributed``.*\[cluster\]"),
        ):
            on_cluster("tcp://127.0.0.1:1")

    def test_command_line(self) -> None:
        with (
            mock.patch("sys.stderr") as stderr,
            pytest.raises(SystemExit, match="2"),
        ):
            main(["run", "binary", "--rules", "muc-ald", "--output", str(self.output)])
        printed = "".join(call.args[0] for call in stderr.write.call_args_list)
        assert "Expected ``rules`` to be among" in printed
        with mock.patch(
            "benchmarks.studies.runner.on_processes", return_value=compute_here
        ):
            main(tiny_arguments(self.output))
            main(tiny_arguments(self.output))  # nothing left to compute
        assert read_all(self.folder).equals(tiny_results())
        assert len(store.load_runs(self.folder)) == 1


@pytest.mark.slow
class TestProcesses(StubbedRunner):
    def test_same_results_with_two_workers(self) -> None:
        run_study(TINY, self.folder, on_processes(2))
        assert read_all(self.folder).equals(tiny_results())

    def test_killed_run_resumes(self) -> None:
        arguments = tiny_arguments(self.output, iterations=12)
        process = subprocess.Popen(
            command([*arguments, "--workers", "1"]), cwd=ROOT, stderr=subprocess.DEVNULL
        )
        wait_for_results(self.folder, process, limit=120)
        family = psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        _, alive = psutil.wait_procs(family, timeout=30)
        assert alive == []
        finished = {path: path.stat() for path in self.folder.glob("*.parquet")}
        study = TINY.subset(iterations=12)
        computed = run_study(study, self.folder, compute_here)
        assert computed == 4 - len(finished)
        assert computed >= 1
        for path, stat in finished.items():
            assert path.stat().st_mtime_ns == stat.st_mtime_ns
            assert path.stat().st_ino == stat.st_ino
        assert store.load(self.folder).height == 4 * 3 * 12
