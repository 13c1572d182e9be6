r"""
The command ``run``: a prompt that asks trial after trial, of one or more experiments.

While a person looks at a trial, a second thread computes what to ask after each answer.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from botorch_binary_context.experiment.cli.output import describe
from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.experiment.trial import Trial

UNDO = "undo"
QUIT = "quit"


def run(arguments: argparse.Namespace) -> None:
    r"""Ask and read answers until someone quits.

    Args:
        arguments: The journals, the order of their turns, and the number of answers to
            stop after.
    """
    with ExitStack() as stack:
        experiments = [
            stack.enter_context(Experiment.open(path)) for path in arguments.journals
        ]
        ahead = stack.enter_context(ThreadPoolExecutor(max_workers=1))
        session = Session(experiments, ahead)
        for experiment in take_turns(experiments, arguments.order):
            if session.num_answers == arguments.trials or session.is_over(experiment):
                break
            if not session.ask(experiment):
                break
    print(f"{session.num_answers} answers in this session")


def take_turns(experiments: Sequence[Experiment], order: str) -> Iterator[Experiment]:
    r"""Take turns without end.

    Args:
        experiments: The experiments.
        order: "turn" for the order in which they were given; "random" for a new order
            in each round.

    Yields:
        The experiments.
    """
    round_ = list(experiments)
    while True:
        if order == "random":
            random.shuffle(round_)
        yield from round_


class Session:
    r"""Trials that are shown and answered at a prompt."""

    def __init__(
        self, experiments: Sequence[Experiment], ahead: ThreadPoolExecutor
    ) -> None:
        r"""
        Args:
            experiments: The experiments.
            ahead: The thread pool that computes possible next questions in advance.
        """
        self._named = len(experiments) > 1
        self._ahead = ahead
        self._answered: list[Experiment] = []

    @property
    def num_answers(self) -> int:
        """The number of answers that were given and not taken back."""
        return len(self._answered)

    def is_over(self, experiment: Experiment) -> bool:
        r"""Say so if an experiment has met one of its stopping criteria.

        Criteria that need a recommendation are checked at every fifth answer.

        Args:
            experiment: The experiment.

        Returns:
            Whether a criterion that was checked is met.
        """
        stop = experiment.settings.stop
        if stop is None or (stop.needs_recommendation and self.num_answers % 5):
            return False
        reached = [end for end in experiment.progress() if end.reached]
        for end in reached:
            name = end.criterion.replace("_", " ")
            print(f"{name}: {end.now:.3g} of {end.limit:g}, the experiment can stop")
        return bool(reached)

    def ask(self, experiment: Experiment) -> bool:
        r"""Show the next trial of an experiment, or one that waits for its answer.

        Args:
            experiment: The experiment.

        Returns:
            Whether to go on.
        """
        pending = experiment.pending
        trial = pending[0] if pending else experiment.ask()
        self._show(experiment, trial)
        futures = self._prepare(experiment, trial)
        feedback = experiment.feedback
        try:
            word, *besides = _read_words(
                [*feedback.outcomes[::-1], UNDO, QUIT], feedback.infeasible_outcomes
            )
        finally:
            for future in futures:
                future.cancel()
        if word == UNDO:
            return self._undo() and self.ask(experiment)
        if word != QUIT:
            experiment.tell(trial.id, word, infeasible=besides or None)
            self._answered.append(experiment)
        return word != QUIT

    def _prepare(self, experiment: Experiment, trial: Trial) -> list[Future[None]]:
        return [
            self._ahead.submit(experiment.prepare, trial.id, outcome)
            for outcome in experiment.feedback.outcomes[::-1]
        ]

    def _undo(self) -> bool:
        """Take the last answer back and read another one."""
        if not self._answered:
            print("nothing to undo in this session")
            return True
        former = self._answered.pop()
        former.undo()
        return self.ask(former)

    def _show(self, experiment: Experiment, trial: Trial) -> None:
        first, *values = describe(trial)
        title = f"{first} of {Path(experiment.path).name}" if self._named else first
        print("\n".join(["", title, *values]))


def _read_words(words: Sequence[str], besides: Sequence[str]) -> list[str]:
    """Read one of several words, and perhaps more; the end of input means the last.

    Args:
        words: The words, each of which can be typed by its first letters.
        besides: Words that can be typed after an answer.
    """
    short = _shorten(words)
    prompt = ", ".join(
        word if short[word] == word else f"{word} ({short[word]})" for word in words
    )
    meant = {**{short[word]: word for word in words}, **{word: word for word in words}}

    def allowed(word: str) -> set[str | None]:
        return set() if word in (UNDO, QUIT) else {*besides}

    while True:
        try:
            typed = input(f"{prompt}: ").strip().lower().split()
        except EOFError:
            print()
            return [words[-1]]
        found = [meant.get(text) for text in typed]
        if found and found[0] is not None and set(found[1:]) <= allowed(found[0]):
            return [word for word in found if word is not None]
        behind = f"; {' or '.join(besides)} behind an answer" if besides else ""
        print(f"please type one of {', '.join(words)}, or its first letter{behind}")


def _shorten(words: Sequence[str]) -> dict[str, str]:
    """The first letter of each part of a word; the word if others have the same.

    Numbers stay as they are.
    """
    letters = {
        word: word if word.isdigit() else "".join(part[0] for part in word.split("-"))
        for word in words
    }
    counts = Counter(letters.values())
    return {
        word: short if counts[short] == 1 else word for word, short in letters.items()
    }
