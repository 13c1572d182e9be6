r"""Many answers over HTTP: neither time nor memory grows. More with ``python -m``."""

from __future__ import annotations

import gc
import re
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from botorch_binary_context.experiment import Experiment
from tests.experiment.simulation import unmodelled
from tests.web.serving import serving


class Block(NamedTuple):
    num_answers: int
    milliseconds: float  # the median from an answer to the next question
    processor: float  # milliseconds for each answer, of server and client together
    megabytes: float


def soak(path: Path, num_answers: int, num_blocks: int) -> list[Block]:
    """Answer trial after trial."""
    Experiment.create(path, unmodelled()).close()
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
                trial = served.post(f"{one}/ask", client="a").json["trial"]
                times.append(time.perf_counter() - start)
            processor = 1e3 * (time.process_time() - begin) / size
            milliseconds = 1e3 * median(times)
            blocks.append(Block((i + 1) * size, milliseconds, processor, _memory()))
    return blocks


def _memory() -> float:
    gc.collect()
    status = Path("/proc/self/status").read_text()
    (kilobytes,) = re.findall(r"VmRSS:\s*(\d+) kB", status)
    return int(kilobytes) / 1024


def test_neither_time_nor_memory_grows(tmp_path: Path) -> None:
    blocks = soak(tmp_path / "soak.journal", 120, 3)
    assert blocks[-1].megabytes - blocks[0].megabytes < 10.0
    assert blocks[-1].processor < 2.0 * blocks[0].processor


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for block in soak(Path(folder) / "soak.journal", int(sys.argv[1]), 10):
            print(block, flush=True)
