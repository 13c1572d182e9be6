r"""
Recommendations and pictures, computed in a separate process.

They take a second or more, and should not delay participants.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from botorch.exceptions.errors import BotorchError

from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.experiment.recommendation import Recommendation
from botorch_binary_context.web.refusals import RefusalError

#: Participants come first.
NICENESS = 10


class Reporter:
    r"""A process that is started when it is first needed. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: Any = None
        self._connection: Connection | None = None

    def recommend(self, path: Path) -> dict[str, Any]:
        r"""The recommendation of an experiment.

        Args:
            path: Its journal.

        Returns:
            What :func:`.summarize` returns, with "value_of_next_trial", which is None
            where no parameters are to be chosen, and "warnings".
        """
        return self._request("recommend", path)

    def plot(self, path: Path) -> bytes:
        r"""A picture of an experiment.

        Args:
            path: Its journal.

        Returns:
            The picture in SVG.
        """
        return self._request("plot", path)

    def find_ends(self, path: Path) -> tuple[int, list[str]]:
        r"""Find which stopping criteria of an experiment are met.

        Args:
            path: Its journal.

        Returns:
            The number of answers that this is based on, and the names of the criteria.
        """
        return self._request("ends", path)

    def _request(self, report: str, path: Path) -> Any:
        with self._lock:
            connection = self._connect()
            try:
                connection.send((report, path))
                answer = connection.recv()
            except (EOFError, OSError):
                self._end()
                raise RefusalError(
                    503, "report-lost", "Expected a report, but its process has died."
                ) from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _connect(self) -> Connection:
        if self._connection is None:
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._process = context.Process(target=_work, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        return self._connection

    def close(self) -> None:
        r"""End the process."""
        process = self._process
        if process is not None:
            process.kill()  # it only reads
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._process.kill()
            self._process.join()
        self._connection = self._process = None


def _work(connection: Connection) -> None:
    """Answer requests until the other end is closed, even if by a crash."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    subjects: dict[Path, _Subject] = {}
    while True:
        try:
            report, path = connection.recv()
        except EOFError:
            return
        try:
            if path not in subjects:
                subjects[path] = _Subject(Experiment.open(path))
            answer = REPORTS[report](subjects[path])
        except (BotorchError, OSError) as error:
            answer = error
        except Exception as error:
            answer = RuntimeError(f"{type(error).__name__}: {error}")
        connection.send(answer)


class _Subject:
    """An experiment and its recommendation, which several reports need."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self._revision = -1
        self._best: Recommendation | None = None
        self._warnings: list[str] = []

    def recommend(self) -> tuple[Recommendation, list[str]]:
        """The present recommendation, and the warnings about it."""
        revision = self.experiment.revision
        if self._best is None or revision != self._revision:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                self._best = self.experiment.recommend()
            self._warnings = sorted({str(warning.message) for warning in caught})
            self._revision = revision
        return self._best, self._warnings


def _recommend(subject: _Subject) -> dict[str, Any]:
    """The recommendation, and the value of another trial."""
    from botorch_binary_context.experiment.summary import summarize

    best, cautions = subject.recommend()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = summarize(subject.experiment, best, {})
        is_choice = not subject.experiment.settings.measures
        value = best.value_of_next_trial() if is_choice else None
    data["value_of_next_trial"] = value
    more = {str(warning.message) for warning in caught}
    return {**data, "warnings": sorted({*cautions, *more})}


def _find_ends(subject: _Subject) -> tuple[int, list[str]]:
    best, _ = subject.recommend()
    progress = subject.experiment.progress(best)
    return best.num_answers, [end.criterion for end in progress if end.reached]


def _plot(subject: _Subject) -> bytes:
    """A picture in SVG."""
    from botorch_binary_context.experiment.figure import draw_experiment

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plot.svg"
        draw_experiment(subject.experiment, file)
        return file.read_bytes()


REPORTS = {"recommend": _recommend, "plot": _plot, "ends": _find_ends}
