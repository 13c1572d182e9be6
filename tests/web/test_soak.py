r"""Many answers: neither work nor memory grows. More with ``python -m``."""

from __future__ import annotations

import gc
import re
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from botorch_binary_context.experiment import Experiment
from botorch_binary_context.web.desk import Desk
from botorch_binary_context.web.lab import Lab
from tests.experiment.simulation import unmodeled
from tests.web.serving import serving


class Block(NamedTuple):
    num_answers: int
    milliseconds: float  # the median from an answer to the next question
    processor: float  # milliseconds for each answer, of server and client together
    megabytes: float


def soak(path: Path, num_answers: int, num_blocks: int) -> list[Block]:
    """Answer trial after trial; look how far it is; take one of ten answers back."""
    Experiment.create(path, unmodeled()).close()
    blocks = []
    with serving([path]) as served:
        one = f"experiments/{path.stem}"
        trial = served.post(f"{one}/ask", client="a").json["trial"]
        for i in range(num_blocks):
            times, size = [], num_answers // num_blocks
            begin = time.process_time()
            for _ in range(size):
                start = time.perf_counter()
                body = {"client": "a", "id": trial["id"], "outcome": trial["id"] % 2}
                assert served.post(f"{one}/tell", **body).status == 200
                if trial["id"] % 10 == 0:
                    assert served.post(f"{one}/undo", client="a").status == 200
                    assert served.post(f"{one}/tell", **body).status == 200
                trial = served.post(f"{one}/ask", client="a").json["trial"]
                times.append(time.perf_counter() - start)
                assert served.get(f"{one}/status?client=a").json["pending"] == 1
            processor = 1e3 * (time.process_time() - begin) / size
            milliseconds = 1e3 * median(times)
            blocks.append(Block((i + 1) * size, milliseconds, processor, _memory()))
    return blocks


def _memory() -> float:
    gc.collect()
    status = Path("/proc/self/status").read_text()
    (kilobytes,) = re.findall(r"VmRSS:\s*(\d+) kB", status)
    return int(kilobytes) / 1024


def test_memory_does_not_grow(tmp_path: Path) -> None:
    blocks = soak(tmp_path / "soak.journal", 60, 3)
    assert blocks[-1].megabytes - blocks[0].megabytes < 10.0


def test_work_does_not_grow(tmp_path: Path) -> None:
    """In lines of Python and steps of SQLite, which are the same on any machine."""
    path = tmp_path / "one.journal"
    Experiment.create(path, unmodeled()).close()
    with Lab([path]) as lab:
        desk = lab.desks["one"]
        few = _work_of_an_answer(desk)
        row = {"noise": 1.0, "gain": 2.0, "shift": 0.5, "outcome": 1, "rater": "a"}
        desk.experiment.import_table([row] * 400)
        many = _work_of_an_answer(desk)
    assert few[0] > 300
    assert many[0] < few[0] + 100  # lines; a loop over the trials would be 400 more
    assert few[1] > 30
    assert many[1] < few[1] + 20  # of ten steps each; a scan would be hundreds more


def _work_of_an_answer(desk: Desk) -> tuple[float, float]:
    """The median of several: one query more or less depends on the time."""
    _answer_and_change_it(desk)  # now everything is loaded and in memory
    lines, steps = zip(*(_count_work(desk) for _ in range(7)), strict=True)
    return median(lines), median(steps)


def _count_work(desk: Desk) -> tuple[int, int]:
    lines, steps = [0], [0]

    def trace(frame: Any, event: str, argument: Any) -> Any:
        lines[0] += event == "line"
        return trace

    def step() -> None:
        steps[0] += 1

    connection = desk.experiment._journal._connection._live()
    connection.set_progress_handler(step, 10)
    former = sys.gettrace()
    sys.settrace(trace)
    try:
        _answer_and_change_it(desk)
    finally:
        sys.settrace(former)
        connection.set_progress_handler(None, 0)
    return lines[0], steps[0]


def _answer_and_change_it(desk: Desk) -> None:
    trial = desk.ask("a")["trial"]
    desk.tell("a", trial["id"], "pass", {"extra": {"key": "x"}})
    assert desk.undo("a")["trial"]["id"] == trial["id"]
    desk.tell("a", trial["id"], "fail", {})
    assert desk.status("a")["client"]["pending"] == []


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for block in soak(Path(folder) / "soak.journal", int(sys.argv[1]), 10):
            print(block, flush=True)
