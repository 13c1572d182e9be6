r"""
Computing the next question for each possible answer while a person looks at a trial.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from botorch.exceptions.errors import BotorchError

from botorch_binary_context.experiment.conditions import Limits
from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.experiment.trial import Trial


class Ahead:
    r"""A thread that prepares questions of any number of experiments."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ahead")
        self._lock = threading.Lock()
        self._queued: dict[Experiment, list[Future[None]]] = defaultdict(list)

    def prepare(
        self, experiment: Experiment, trials: Iterable[tuple[Trial, Limits | None]]
    ) -> None:
        r"""Prepare what follows each answer of pending trials.

        Earlier requests to prepare questions of the experiment are dropped.

        Args:
            experiment: The experiment.
            trials: The pending trials, the most urgent first, each with the limits
                of the question that follows.
        """
        self.give_up(experiment)
        with self._lock:
            self._queued[experiment] = [
                self._thread.submit(_prepare, experiment, trial.id, outcome, limits)
                for trial, limits in trials
                for outcome in experiment.feedback.outcomes[::-1]
            ]

    def give_up(self, experiment: Experiment) -> None:
        r"""Prepare no more questions, except for one that is being computed now.

        Args:
            experiment: The experiment.
        """
        with self._lock:
            for future in self._queued.pop(experiment, []):
                future.cancel()

    def wait(self, experiment: Experiment) -> None:
        r"""Wait until everything is prepared.

        Args:
            experiment: The experiment.
        """
        with self._lock:
            futures = list(self._queued[experiment])
        for future in futures:
            future.exception()

    def close(self) -> None:
        r"""End the thread."""
        self._thread.shutdown(cancel_futures=True)


def _prepare(
    experiment: Experiment, trial_id: int, outcome: str, limits: Limits | None
) -> None:
    # The trial may have been answered meanwhile; any other error will appear on asking.
    with suppress(BotorchError):
        experiment.prepare(trial_id, outcome, limits)
