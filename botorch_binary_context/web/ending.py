r"""
Whether an experiment is finished, so that participants get no more trials.

The number of answers is checked at once. The other stopping criteria need a
recommendation, which takes a second or more: they are checked in the background after
each answer, and recorded in the journal when one is met. So nobody waits for them, and
an experiment may get an answer or two more than it needs.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from botorch.exceptions.errors import BotorchError

from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.web.refusals import RefusalError
from botorch_binary_context.web.reporter import Reporter

#: The key of the metadata with the reason why no more trials are asked.
STOPPED = "stopped"
#: The metadata key that says that the stopping criteria no longer count.
CONTINUED = "continued"


class Ending:
    r"""The end of one experiment. Any thread may call it."""

    def __init__(
        self, experiment: Experiment, reporter: Reporter, thread: ThreadPoolExecutor
    ) -> None:
        r"""
        Args:
            experiment: The experiment.
            reporter: Computes recommendations.
            thread: Waits for them.
        """
        self._experiment = experiment
        self._reporter = reporter
        self._thread = thread
        self._lock = threading.Lock()
        self._looking: Future[None] | None = None
        self._seen = -1  # the revision that was checked last

    @property
    def max_answers(self) -> int | None:
        """The number of answers at which it ends, if any."""
        stop = self._experiment.settings.stop
        return stop.answers if stop is not None and self._ends_count else None

    @property
    def reason(self) -> str | None:
        """Why no more trials are asked: "stopped" or a criterion; None if they are."""
        stopped = self._experiment.metadata.get(STOPPED)
        if stopped:
            return stopped if isinstance(stopped, str) else STOPPED
        limit = self.max_answers
        is_full = limit is not None and self._experiment.num_answers >= limit
        return "answers" if is_full else None

    def stop(self) -> None:
        r"""Ask no more trials."""
        self._experiment.describe(**{STOPPED: STOPPED})

    def resume(self) -> None:
        r"""Ask trials again, regardless of stopping criteria from now on."""
        by_itself = self.reason not in (None, STOPPED)
        more = {CONTINUED: True} if by_itself else {}
        self._experiment.describe(**{STOPPED: None, **more})

    def take_back(self) -> None:
        r"""Forget a recorded end, since an answer was taken back."""
        if self.reason not in (None, STOPPED, "answers"):
            self._experiment.describe(**{STOPPED: None})

    def look(self) -> None:
        r"""Check in the background whether a stopping criterion is met."""
        experiment = self._experiment
        stop = experiment.settings.stop
        if stop is None or not stop.needs_recommendation or not experiment.num_answers:
            return
        with self._lock:
            is_idle = self._looking is None or self._looking.done()
            revision = experiment.revision
            if is_idle and revision != self._seen and self._ends_count:
                self._seen = revision
                self._looking = self._thread.submit(self._look)

    @property
    def _ends_count(self) -> bool:
        return not self._experiment.metadata.get(CONTINUED)

    def _look(self) -> None:
        # If this fails, it is tried again after the next answer.
        with suppress(BotorchError, RefusalError, OSError):
            number, reached = self._reporter.find_ends(self._experiment.path)
            if not reached or self.reason is not None:
                return
            is_taken_back = self._experiment.num_answers < number
            if not is_taken_back and self._ends_count:
                self._experiment.describe(**{STOPPED: reached[0]})

    def wait(self) -> None:
        r"""Wait until the check is done."""
        with self._lock:
            looking = self._looking
        if looking is not None:
            looking.result()
