r"""
Running a real experiment: ask, tell, recommend.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from botorch.exceptions import InputDataError, UnsupportedError
from botorch.exceptions.warnings import InputDataWarning

from botorch_binary_context.experiment.chooser import (
    QUASI_RANDOM,
    Chooser,
    Question,
    is_pending,
)
from botorch_binary_context.experiment.computing import computing
from botorch_binary_context.experiment.contradictions import find_contradictions
from botorch_binary_context.experiment.details import (
    check_id,
    check_metadata,
    check_rater,
)
from botorch_binary_context.experiment.journal import Journal
from botorch_binary_context.experiment.logbook import Logbook
from botorch_binary_context.experiment.recommendation import (
    Recommendation,
    make_recommendation,
)
from botorch_binary_context.experiment.settings import Settings
from botorch_binary_context.experiment.space import Encoder
from botorch_binary_context.experiment.stopping import (
    Progress,
    Stop,
    measure_progress,
)
from botorch_binary_context.experiment.surrogate import Surrogate, last_scheduled_fit
from botorch_binary_context.experiment.trial import Trial
from botorch_binary_context.models.latent_gp import LatentGP

# How often a question is computed again because others have asked meanwhile.
MAX_REPEATS = 1
# How many prepared questions are kept: those of the outcomes of some pending trials.
MAX_PREPARED = 16


@dataclass(frozen=True)
class _State:
    """What a journal held at one moment."""

    trials: Sequence[Trial]
    answered: Sequence[Trial]  # those that the model uses, in the order of the answers
    revision: int | None  # None if an answer is only supposed

    @property
    def pending(self) -> list[Trial]:
        return [trial for trial in self.trials if trial.status == "pending"]

    @property
    def next_number(self) -> int:
        return len(self.trials) + 1

    @property
    def signature(self) -> tuple[Any, ...]:
        """All that the next question depends on."""
        pending = [(t.id, t.context, t.sides) for t in self.pending if t.used]
        return _answers(self.answered), pending, self.next_number

    def suppose(self, trial_id: int, outcome: int) -> _State:
        """The state after an answer that has not been given."""
        trials = [
            replace(t, status="answered", outcome=outcome) if t.id == trial_id else t
            for t in self.trials
        ]
        new = [t for t in trials if t.id == trial_id and t.used]
        return _State(trials, [*self.answered, *new], revision=None)


def _answers(trials: Sequence[Trial]) -> list[tuple[Any, ...]]:
    """What the model learns from trials."""
    return [(t.id, t.outcome, t.context, t.sides) for t in trials]


class Experiment(Logbook):
    r"""An experiment that lives in a journal file, one trial at a time.

    Every answer is on disk before :meth:`tell` returns, which takes some milliseconds,
    and the one file holds it: it can be copied or moved at any moment. Any process can
    open the file and continue; several may use it at once, and any thread. None waits
    for a computation of another one: questions are computed first and then written
    down, again if others have asked meanwhile. The same seed and the same calls give
    the same questions, whether the file was closed in between or not.

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
        super().__init__(journal)
        try:
            self._surrogate = Surrogate(self.settings)
            self._chooser = Chooser(self.settings, self.encoder)
        except BaseException:
            journal.close()
            raise
        self._failed_fit: Sequence[Trial] = ()
        # The latest first; those that were prepared in vain drop out at the end.
        self._prepared: deque[tuple[Any, Question | None]] = deque(maxlen=MAX_PREPARED)
        self._recent_fits: deque[tuple[Any, Any]] = deque(maxlen=MAX_PREPARED)

    @classmethod
    def create(
        cls,
        path: str | Path,
        settings: Settings,
        metadata: Mapping[str, Any] | None = None,
    ) -> Self:
        r"""Begin an experiment.

        Args:
            path: The journal file, which must not exist yet. Only its owner can read
                it.
            settings: What the experiment is.
            metadata: What is to be known about it: "subject", "experimenter", "notes"
                or any other key. :meth:`describe` changes it later.

        Returns:
            The experiment.
        """
        metadata = {} if metadata is None else metadata
        check_metadata(metadata)
        Surrogate(settings)  # finds mistakes before there is a file
        return cls(Journal.create(path, settings.with_seed().to_dict(), metadata))

    @property
    def encoder(self) -> Encoder:
        """The way between the user's units and the box that the model works in."""
        return self._surrogate.encoder

    def ask(self, *, rater: str | None = None) -> Trial:
        r"""The next trial to run.

        Quasi-random until there are enough answers to model, then by the rule. Pending
        trials, asked but not answered, are taken into account: the same trial is not
        asked twice at a time.

        Args:
            rater: Who is to answer it.

        Returns:
            The trial, with its id and the values to show.
        """
        check_rater(rater)
        self._journal.check_writable()
        with computing():
            for repeats_left in reversed(range(MAX_REPEATS + 1)):
                state = self._read_state()
                question = self._choose(state)
                with self._journal.transaction():
                    current = self._read_state()
                    is_outdated = len(current.trials) > len(state.trials)
                    if question is None or not is_outdated or not repeats_left:
                        return self._write_down(question, current, rater)
        raise AssertionError("the last repeat returns")

    def prepare(self, trial_id: int, outcome: Any) -> None:
        r"""Compute the question that will follow if a pending trial has an outcome.

        :meth:`ask` takes it if that is what happens next, and gives the same trial as
        without it, but at once. Another thread may call this while someone looks at the
        trial.

        Args:
            trial_id: The id of a pending trial.
            outcome: The outcome, as in :meth:`tell`.
        """
        number = check_id(trial_id)
        label = self.feedback.parse(outcome)
        with computing():
            state = self._read_state()
            if number not in [trial.id for trial in state.pending]:
                raise InputDataError(
                    "Expected ``trial_id`` to be that of a pending trial, but got "
                    f"{number}."
                )
            supposed = state.suppose(number, label)
            question = self._choose(supposed)
            self._prepared.appendleft((supposed.signature, question))

    def _read_state(self) -> _State:
        with self._journal.reading():
            answered = [trial for trial in self._journal.answered() if trial.used]
            return _State(self._journal.trials(), answered, self._journal.revision())

    def _choose(self, state: _State) -> Question | None:
        """What the rule wants; None if it is not its turn."""
        if len(state.answered) < self._num_initial_trials:
            return None
        for signature, question in self._prepared:
            if signature == state.signature:
                self._hyperparameters(state)  # to be kept, as if they were used now
                return question
        model = self._model(state, levels=True)
        pending = [trial for trial in state.pending if trial.used]
        model = self._surrogate.with_pending(model, pending)
        return self._chooser.by_rule(model, state.next_number)

    def _write_down(
        self, question: Question | None, state: _State, rater: str | None
    ) -> Trial:
        """Ask a question, or a quasi-random one if there is none or it is pending."""
        chosen_by = str(self.settings.rule)
        if question is None or is_pending(question, state.pending):
            chosen_by = QUASI_RANDOM
            question = self._chooser.quasi_random(state.next_number, state.pending)
        kind = self._chooser.kind_in_between(state.next_number)
        if kind is not None:
            changed = self._chooser.in_between(kind, question)
            if not is_pending(changed, state.pending):
                used = kind not in self.settings.kept_out
                return self._journal.add_trial(*changed, kind, rater, used)
        return self._journal.add_trial(*question, chosen_by, rater)

    def recommend(self) -> Recommendation:
        r"""The inferred best parameters, and how sure that is.

        A warning says so if the answers contradict the settings.

        Returns:
            The recommendation.
        """
        seed = self._chooser.seed("recommend")
        with computing():
            self._warn_of_contradictions()
            model = self.model()
            asking = self._model(self._read_state(), levels=True)
            return make_recommendation(model, asking, self.encoder, seed)

    def progress(self, best: Recommendation | None = None) -> list[Progress]:
        r"""How far the experiment is from each end that its settings give.

        Args:
            best: What is recommended now, if that is known already.

        Returns:
            An entry for each of them; none if the settings do not say when to stop.
        """
        stop = self.settings.stop
        return [] if stop is None else self._measure(stop, best)

    def should_stop(self, tolerance: float | None = None) -> bool:
        r"""Whether the experiment has gone on for long enough.

        Args:
            tolerance: Stop when the expected loss of the recommended parameters is no
                larger or, without parameters, when the interval of the threshold is no
                wider; by default what the settings say.

        Returns:
            Whether one of the ends is reached.
        """
        if tolerance is None:
            return any(end.reached for end in self.progress())
        is_choice = bool(self.settings.space.parameters)
        end = Stop(loss=tolerance) if is_choice else Stop(threshold_width=tolerance)
        return any(end.reached for end in self._measure(end, None))

    def _measure(self, stop: Stop, best: Recommendation | None) -> list[Progress]:
        num_answers = len(self._read_state().answered)
        if best is None and num_answers and stop.needs_recommendation:
            best = self.recommend()
        return measure_progress(stop, num_answers, best)

    def _warn_of_contradictions(self) -> None:
        answered = self._read_state().answered
        for sentence in find_contradictions(answered, self.settings):
            warnings.warn(sentence, InputDataWarning, stacklevel=3)

    def model(self) -> LatentGP:
        r"""The model of the answers so far, for example to plot.

        Returns:
            The model, whose trials are in the box of :attr:`encoder`.
        """
        with computing():
            state = self._read_state()
            if not state.answered:
                raise UnsupportedError(
                    "Expected at least one answer to make a model of, but got none."
                )
            return self._model(state, levels=False)

    @property
    def _num_initial_trials(self) -> int:
        assert self.settings.initial_trials is not None
        return self.settings.initial_trials

    def _model(self, state: _State, levels: bool) -> LatentGP:
        learned = self._hyperparameters(state)
        return self._surrogate.model(state.answered, learned, levels)

    def _hyperparameters(self, state: _State) -> Mapping[str, Any]:
        """As learned at the last scheduled number of answers; now if need be."""
        due = last_scheduled_fit(len(state.answered), self._num_initial_trials)
        if due is None:
            return {}
        learned = self._journal.fit(due)
        if learned is None:
            learned = self._learn(state.answered[:due], state.revision)
        if learned is None:
            learned = self._journal.last_fit(before=due)
        return learned or {}

    def _learn(
        self, trials: Sequence[Trial], revision: int | None
    ) -> Mapping[str, Any] | None:
        """Learn from answers and keep it; None if that fails, now or the last time."""
        if trials == self._failed_fit:
            return None
        learned = self._fit(trials)
        if learned is None:
            self._failed_fit = trials
        elif revision is not None and not self.read_only:
            with self._journal.transaction():
                self._journal.add_fit(len(trials), learned, revision)
        return learned

    def _fit(self, trials: Sequence[Trial]) -> Mapping[str, Any] | None:
        """Learn from answers, unless that was done just now."""
        answers = _answers(trials)
        for former, learned in self._recent_fits:
            if former == answers:
                return learned
        learned = self._surrogate.fit(trials)
        self._recent_fits.appendleft((answers, learned))
        return learned
