import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Sequence
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
from tests.strict_case import StrictTestCase


def wait_for_results(folder: Path, process: subprocess.Popen, limit: float) -> None:
    """Wait until a task is finished."""
    end = time.monotonic() + limit
    while not list(folder.glob("*.parquet")):
        assert process.poll() is None, "The run ended early."
        assert time.monotonic() < end, "No task finished in time."
        time.sleep(0.02)


class RunnerTestCase(StrictTestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.output = Path(directory.name)
        self.folder = self.output / "binary"
        self.enterContext(stubbed())


class TestRunStudy(RunnerTestCase):
    def test_tasks(self) -> None:
        tasks = make_tasks(TINY)
        self.assertEqual(len({(task.function, task.rule) for task in tasks}), 4)
        self.assertEqual([task.function for task in tasks[:2]], ["Levy", "Levy"])

    def test_resume_computes_what_is_missing(self) -> None:
        self.assertEqual(run_study(TINY, self.folder, compute_here), 4)
        lost = store.result_path(self.folder, "Levy", "ucb-ald")
        lost.unlink()
        times = {path: path.stat().st_mtime_ns for path in self.folder.iterdir()}
        self.assertEqual(run_study(TINY, self.folder, compute_here), 1)
        self.assertTrue(lost.exists())
        for path, modified in times.items():
            self.assertEqual(path.stat().st_mtime_ns, modified)
        self.assertEqual(run_study(TINY, self.folder, compute_here), 0)

    def test_failures(self) -> None:
        def compute(tasks: Sequence[Task]) -> Generator[tuple[Task, Any]]:
            for i, task in enumerate(tasks):
                future: Future = Future()
                if i == 1:
                    future.set_exception(ValueError("a reason"))
                else:
                    future.set_result(fake_results(task))
                yield task, future

        with self.assertRaisesRegex(RuntimeError, "1 tasks failed"):
            run_study(TINY, self.folder, compute)
        self.assertEqual(len(list(self.folder.iterdir())), 3)

    def test_dead_worker(self) -> None:
        def compute(tasks: Sequence[Task]) -> Generator[tuple[Task, Any]]:
            future: Future = Future()
            future.set_exception(BrokenProcessPool())
            yield tasks[0], future

        with self.assertRaisesRegex(RuntimeError, "worker process died"):
            run_study(TINY, self.folder, compute)

    def test_wrong_arguments(self) -> None:
        with self.assertRaisesRegex(InputDataError, "``device``.*'abacus'"):
            make_tasks(TINY, device="abacus")
        with self.assertRaisesRegex(InputDataError, "``workers``"):
            on_processes(0)
        with (
            mock.patch.dict("sys.modules", {"distributed": None}),
            self.assertRaisesRegex(InputDataError, r"``distributed``.*\[cluster\]"),
        ):
            on_cluster("tcp://127.0.0.1:1")

    def test_command_line(self) -> None:
        with (
            mock.patch("sys.stderr") as stderr,
            self.assertRaisesRegex(SystemExit, "2"),
        ):
            main(["run", "binary", "--rules", "muc-ald", "--output", str(self.output)])
        printed = "".join(call.args[0] for call in stderr.write.call_args_list)
        self.assertIn("Expected ``rules`` to be among", printed)
        with mock.patch(
            "benchmarks.studies.runner.on_processes", return_value=compute_here
        ):
            main(tiny_arguments(self.output))
            main(tiny_arguments(self.output))  # nothing left to compute
        self.assertTrue(read_all(self.folder).equals(tiny_results()))
        self.assertEqual(len(store.load_runs(self.folder)), 1)


@pytest.mark.slow
class TestProcesses(RunnerTestCase):
    def test_same_results_with_two_workers(self) -> None:
        run_study(TINY, self.folder, on_processes(2))
        self.assertTrue(read_all(self.folder).equals(tiny_results()))

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
        self.assertEqual(alive, [])
        finished = {path: path.stat() for path in self.folder.glob("*.parquet")}
        study = TINY.subset(iterations=12)
        computed = run_study(study, self.folder, compute_here)
        self.assertEqual(computed, 4 - len(finished))
        self.assertGreaterEqual(computed, 1)
        for path, stat in finished.items():
            self.assertEqual(path.stat().st_mtime_ns, stat.st_mtime_ns)
            self.assertEqual(path.stat().st_ino, stat.st_ino)
        self.assertEqual(store.load(self.folder).height, 4 * 3 * 12)
