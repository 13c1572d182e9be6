import os
import signal
from collections.abc import Generator, Sequence
from typing import Any

import distributed
import pytest

from benchmarks.studies.experiment import Task
from benchmarks.studies.runner import on_cluster, run_study
from tests.benchmarks.studies.small_studies import TINY, read_all, tiny_results
from tests.benchmarks.studies.test_runner import StubbedRunner


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
class TestCluster(StubbedRunner):
    cluster: distributed.LocalCluster

    @classmethod
    def setup_class(cls) -> None:
        options: Any = {"dashboard_address": None}
        cls.cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, **options
        )

    @classmethod
    def teardown_class(cls) -> None:
        cls.cluster.close()

    def test_same_results(self) -> None:
        count = run_study(TINY, self.folder, on_cluster(self.address))
        assert count == 4
        assert read_all(self.folder).equals(tiny_results())

    def test_worker_dies(self) -> None:
        compute, seen = on_cluster(self.address), []

        def kill_one(tasks: Sequence[Task]) -> Generator[tuple[Task, Any]]:
            for task, future in compute(tasks):
                if not seen:
                    self.kill_busy_worker()
                seen.append((task.function, task.rule))
                yield task, future

        assert run_study(TINY, self.folder, kill_one) == 4
        assert len(seen) == len(set(seen))
        assert len(list(self.folder.iterdir())) == 4
        assert read_all(self.folder).equals(tiny_results())

    @property
    def address(self) -> str:
        return self.cluster.scheduler_address

    def kill_busy_worker(self) -> None:
        """Kill a worker that has a task."""
        client: Any = distributed.Client(self.address, set_as_default=False)
        with client:
            pids = client.run(os.getpid)
            busy = [worker for worker, keys in client.processing().items() if keys]
        assert len(busy) > 0
        os.kill(pids[busy[0]], signal.SIGKILL)
