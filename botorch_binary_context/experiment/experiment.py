r"""
Running a real experiment: ask, tell, recommend.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from torch import Tensor
from torch.quasirandom import SobolEngine

from botorch_binary_context.experiment.journal import Journal
from botorch_binary_context.experiment.recommendation import (
    Recommendation,
    make_recommendation,
)
from botorch_binary_context.experiment.settings import Settings
from botorch_binary_context.experiment.space import Encoder, Values
from botorch_binary_context.experiment.surrogate import Surrogate, last_scheduled_fit
from botorch_binary_context.experiment.trial import Trial
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.optim import SearchOptions
from botorch_binary_context.rules import suggest

QUASI_RANDOM = "quasi-random"
#: What random numbers are drawn for.
PURPOSES = ("ask", QUASI_RANDOM, "recommend")
# Values are shown with six digits: no search needs more. Where integers or levels stop
# a climber, it must not try ever smaller steps.
SEARCH = SearchOptions(max_evaluations=30, relative_gain=1e-6)


class Experiment:
    r"""An experiment that lives in a journal file, one trial at a time.

    Every answer is on disk before :meth:`tell` returns. Any process can open the file
    and continue; several may use it at once, each waiting for the other. The same seed
    and the same calls of :meth:`ask`, :meth:`tell` and :meth:`withdraw` give the same
    questions, whether the file was closed in between or not.

    Example:
        >>> lens = [Real("sphere", -4, 4), Real("cylinder", -2, 0)]
        >>> size = Context("size", reference=0.0, low=-0.3, high=1.0, harder="down")
        >>> settings = Settings(NamedSpace(lens, [size]), PassFail(guess_rate=1 / 26))
        >>> with Experiment.create("patient-7.journal", settings) as experiment:
        ...     for _ in range(40):
        ...         trial = experiment.ask()
        ...         passed = show(trial.values)  # {"size": 0.4, "sphere": ...}
        ...         experiment.tell(trial.id, passed)
        ...     best = experiment.recommend()
        >>> best.parameters, best.uncertainty
        >>> best.success_probability({"size": 0.2})
        >>> best.threshold("size")
    """

    def __init__(self, journal: Journal) -> None:
        r"""
        Args:
            journal: The journal; most often :meth:`create` or :meth:`open` is called in
                the place of this.
        """
        self._journal = journal
        try:
            # Journals from before there was a choice.
            former = {"inference": "laplace", "priors": "separate"}
            content = {**former, **journal.settings()}
            self.settings = Settings.from_dict(content)
            self._surrogate = Surrogate(self.settings)
        except BaseException:
            journal.close()
            raise

    @classmethod
    def create(cls, path: str | Path, settings: Settings) -> Self:
        r"""Begin an experiment.

        Args:
            path: The journal file, which must not exist yet.
            settings: What the experiment is.

        Returns:
            The experiment.
        """
        Surrogate(settings)  # finds mistakes before there is a file
        return cls(Journal.create(path, settings.to_dict()))

    @classmethod
    def open(cls, path: str | Path, timeout: float = 30.0) -> Self:
        r"""Resume an experiment.

        Args:
            path: The journal file.
            timeout: How many seconds to wait while another process makes a change.

        Returns:
            The experiment.
        """
        return cls(Journal(path, timeout))

    def close(self) -> None:
        r"""Close the journal. Nothing is lost without it."""
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    @property
    def trials(self) -> list[Trial]:
        """All trials, in the order they were asked."""
        return self._journal.trials()

    @property
    def encoder(self) -> Encoder:
        """The way between the user's units and the box that the model works in."""
        return self._surrogate.encoder

    def ask(self) -> Trial:
        r"""The next trial to run.

        Quasi-random until there are enough answers to model, then by the rule. Pending
        trials, asked but not answered, are taken into account: the same trial is not
        asked twice at a time.

        Returns:
            The trial, with its id and the values to show.
        """
        with one_thread(), self._journal.transaction():
            trials = self._journal.trials()
            pending = [trial for trial in trials if trial.status == "pending"]
            number = len(trials) + 1
            answered = self._journal.answered()
            shown = None
            if len(answered) >= self._num_initial_trials:
                shown = self._by_rule(answered, pending, number)
            if shown is not None:
                return self._journal.add_trial(*shown, str(self.settings.rule))
            return self._journal.add_trial(*self._quasi_random(number), QUASI_RANDOM)

    def tell(self, trial_id: int, outcome: Any) -> None:
        r"""Write an answer down. It is on disk when this returns.

        Args:
            trial_id: The id of a pending trial.
            outcome: True, 1 or "pass", or False, 0 or "fail"; for duels True, 1 or
                "first" if the first side is preferred, else False, 0 or "second".
        """
        number = _check_id(trial_id)
        label = self.settings.feedback.parse(outcome)
        with self._journal.transaction():
            self._journal.answer(number, label)

    def withdraw(self, trial_id: int) -> None:
        r"""Give up a trial that was not run.

        Args:
            trial_id: The id of a pending trial.
        """
        number = _check_id(trial_id)
        with self._journal.transaction():
            self._journal.withdraw(number)

    def recommend(self) -> Recommendation:
        r"""The inferred best parameters, and how sure that is.

        Returns:
            The recommendation.
        """
        seed = self._seed("recommend")
        with one_thread():
            return make_recommendation(self.model(), self.encoder, seed)

    def model(self) -> LatentGP:
        r"""The model of the answers so far, for example to plot.

        Returns:
            The model, whose trials are in the box of :attr:`encoder`.
        """
        with one_thread(), self._journal.transaction():
            answered = self._journal.answered()
            if not answered:
                raise UnsupportedError(
                    "Expected at least one answer to make a model of, but got none."
                )
            return self._model(answered, levels=False)

    @property
    def _num_initial_trials(self) -> int:
        assert self.settings.initial_trials is not None
        return self.settings.initial_trials

    def _model(self, answered: Sequence[Trial], levels: bool) -> LatentGP:
        """The model of answers, within a transaction."""
        learned = self._hyperparameters(answered)
        return self._surrogate.model(answered, learned, levels)

    def _hyperparameters(self, answered: Sequence[Trial]) -> dict[str, Any]:
        """As learned at the last scheduled number of answers; now if need be."""
        due = last_scheduled_fit(len(answered), self._num_initial_trials)
        if due is None:
            return {}
        learned = self._journal.fit(due)
        if learned is None:
            former = self._journal.last_fit() or {}
            learned = self._surrogate.fit(answered[:due], former)
            self._journal.add_fit(due, learned)
        return learned

    def _by_rule(
        self, answered: Sequence[Trial], pending: Sequence[Trial], number: int
    ) -> tuple[Values, tuple[Values, ...]] | None:
        """What the rule wants to show; None if that is pending already."""
        model = self._model(answered, levels=True)
        model = self._surrogate.with_pending(model, pending)
        rule, seed = str(self.settings.rule), self._seed("ask", number)
        X = suggest(model, self.encoder.context_space, rule, SEARCH, seed)
        shown = self.encoder.decode(X)
        is_pending = any((t.context, t.sides) == shown for t in pending)
        return None if is_pending else shown

    def _seed(self, purpose: str, number: int = 0) -> int:
        """A seed of its own for every purpose and trial of every experiment."""
        words = [self.settings.seed, PURPOSES.index(purpose), number]
        return int(np.random.SeedSequence(words).generate_state(1)[0])

    def _quasi_random(self, number: int) -> tuple[Values, tuple[Values, ...]]:
        """The trial of a point of a scrambled Sobol sequence."""
        space = self.encoder.context_space
        sides = self.settings.feedback.functional.num_rows
        m, k = space.num_contexts, len(space.parameter_dims)
        seed = self._seed(QUASI_RANDOM)
        engine = SobolEngine(m + sides * k, scramble=True, seed=seed)
        point = engine.fast_forward(number - 1).draw(dtype=torch.float64)[0]
        low, high = space.context_bounds
        X: Tensor = space.join(
            point[m:].reshape(sides, k), low + (high - low) * point[:m]
        )
        return self.encoder.decode(X)


@contextmanager
def one_thread() -> Iterator[None]:
    r"""Compute on one thread, and then on as many as before.

    On matrices of this size further threads do not help, and where other programs run
    they wait for each other. Rounding, and so the questions, do not depend on the
    number of cores.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _check_id(trial_id: Any) -> int:
    try:
        if isinstance(trial_id, bool):
            raise TypeError
        return operator.index(trial_id)
    except TypeError:
        raise InputDataError(
            f"Expected ``trial_id`` to be a whole number, but got {trial_id!r}."
        ) from None
