r"""
The class ``Experiment``: ask, tell, recommend.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, overload

from botorch.exceptions import InputDataError, UnsupportedError
from botorch.exceptions.warnings import InputDataWarning

from botorch_binary_context.experiment.chooser import Chooser, Question
from botorch_binary_context.experiment.computing import computing
from botorch_binary_context.experiment.conditions import (
    Conditions,
    Limits,
    read_conditions,
)
from botorch_binary_context.experiment.contradictions import find_contradictions
from botorch_binary_context.experiment.details import (
    check_id,
    check_metadata,
    check_number,
    check_rater,
)
from botorch_binary_context.experiment.growing import GrowingModel
from botorch_binary_context.experiment.journal import Journal
from botorch_binary_context.experiment.logbook import Logbook
from botorch_binary_context.experiment.population import learn_from_population
from botorch_binary_context.experiment.recommendation import (
    Recommendation,
    make_recommendation,
)
from botorch_binary_context.experiment.settings import Settings
from botorch_binary_context.experiment.space import Encoder, Values
from botorch_binary_context.experiment.state import State, answers_of
from botorch_binary_context.experiment.stopping import (
    Progress,
    Stop,
    measure_progress,
)
from botorch_binary_context.experiment.surrogate import Surrogate
from botorch_binary_context.experiment.trial import Trial
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.models.schedule import last_scheduled_fit

# The number of times a question is recomputed because others have asked meanwhile.
MAX_REPEATS = 1
# The number of prepared questions to keep: those after possible outcomes of pending
# trials.
MAX_PREPARED = 16


class Experiment(Logbook):
    r"""An experiment that lives in a journal file, one trial at a time.

    Every answer is on disk before :meth:`tell` returns, which takes milliseconds.
    Everything is in this one file, which can be copied at any moment. Any process can
    open it and continue; several processes and threads may use it at once, and none
    waits for the computations of another: questions are computed first and then
    recorded. The same seed and the same calls give the same questions, whether or not
    the file was closed in between.

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
        ...     today = experiment.ask(context={"size": 0.3})  # given, not chosen
        ...     four = experiment.ask(n=4)  # for four people at once
        >>> best.parameters, best.uncertainty
        >>> best.success_probability({"size": 0.2})
        >>> best.threshold("size")
    """

    def __init__(self, journal: Journal) -> None:
        r"""
        Args:
            journal: The journal; usually you call :meth:`create` or :meth:`open`
                instead.
        """
        super().__init__(journal)
        try:
            self._surrogate = Surrogate(self.settings)
            self._models = GrowingModel(self._surrogate)
            self._chooser = Chooser(self.settings, self.encoder)
        except BaseException:
            journal.close()
            raise
        self._failed_fit: Sequence[Trial] = ()
        # The latest first; unused ones drop out at the end.
        self._prepared: deque[tuple[Any, Question]] = deque(maxlen=MAX_PREPARED)
        self._recent_fits: deque[tuple[Any, Any]] = deque(maxlen=MAX_PREPARED)

    @classmethod
    def create(
        cls,
        path: str | Path,
        settings: Settings,
        metadata: Mapping[str, Any] | None = None,
        prior: Sequence[Experiment] | None = None,
        mean_function: bool = False,
    ) -> Self:
        r"""Begin an experiment.

        Args:
            path: The journal file, which must not exist yet. Only its owner can read
                it.
            settings: The settings of the experiment.
            metadata: Notes about it: "subject", "experimenter", "notes" or any other
                key. :meth:`describe` changes them later.
            prior: Earlier experiments with other subjects and the same variables.
                Hyperparameters are learned from all of them together and stored in the
                journal as fixed values.
            mean_function: Whether to also learn the mean function of the subjects from
                them: what the next subject is expected to be like before any answer.
        """
        metadata = {} if metadata is None else metadata
        check_metadata(metadata)
        if prior is not None:
            earlier = [(e.settings, e._read_state().answered) for e in prior]
            settings = learn_from_population(settings, earlier, mean_function)
        elif mean_function:
            raise InputDataError(
                "Expected ``prior`` to hold experiments with ``mean_function``, but "
                "got None."
            )
        Surrogate(settings)  # finds mistakes before a file is made
        return cls(Journal.create(path, settings.with_seed().to_dict(), metadata))

    @property
    def encoder(self) -> Encoder:
        """The conversion between the user's units and the model's box."""
        return self._surrogate.encoder

    @overload
    def ask(
        self,
        n: None = None,
        *,
        context: Values | None = None,
        limits: Limits | None = None,
        rater: str | None = None,
    ) -> Trial: ...

    @overload
    def ask(
        self,
        n: int,
        *,
        context: Values | None = None,
        limits: Limits | None = None,
        rater: str | None = None,
    ) -> list[Trial]: ...

    def ask(
        self,
        n: int | None = None,
        *,
        context: Values | None = None,
        limits: Limits | None = None,
        rater: str | None = None,
    ) -> Trial | list[Trial]:
        r"""The next trial to run, or the next ones.

        Trials are quasi-random until there are enough answers for a model, then chosen
        by the rule. Pending trials, asked but not answered, are taken into account: the
        same trial is never pending twice.

        Args:
            n: The number of trials to ask at once, for a list of trials; None for a
                single trial, not in a list.
            context: Given values of contexts, by name. The rule chooses the rest:
                parameters for this context, unless the settings have another goal.
                Values must be within the bounds, but need not be one of the levels.
                Such trials are never catch trials or easy ones.
            limits: The smallest and the largest value of contexts, by name, if not all
                values in the settings can be shown: a screen has a smallest letter, for
                example. None instead of a value means the bound in the settings.
            rater: Who is to answer.

        Returns:
            The trial, with its id and the values to show; a list of them if ``n`` is
            given.
        """
        check_rater(rater)
        number = 1 if n is None else check_number("n", n)
        given = read_conditions(self.settings, context, limits)
        self._journal.check_writable()
        trials = self._ask(number, given, rater)
        return trials[0] if n is None else trials

    def _ask(self, number: int, given: Conditions, rater: str | None) -> list[Trial]:
        """Compute, then record; repeat if others have asked meanwhile."""
        with computing():
            for repeats_left in reversed(range(MAX_REPEATS + 1)):
                state = self._read_state()
                questions = self._choose_in_turn(state, number, given)
                with self._journal.transaction():
                    current = self._read_state()
                    is_outdated = current.num_trials > state.num_trials
                    by_rule = any(question is not None for question in questions)
                    if not (by_rule and is_outdated and repeats_left):
                        return self._write_down(questions, current, given, rater)
        raise AssertionError("the last repeat returns")

    def _choose_in_turn(
        self, state: State, number: int, given: Conditions
    ) -> list[Question | None]:
        """The rule's choices, each as if those before it were pending."""
        questions = [self._choose(state, given)]
        for _ in range(number - 1):
            trial = self._chooser.make_trial(questions[-1], state, given)
            state = state.suppose_asked(trial)
            questions.append(self._choose(state, given))
        return questions

    def prepare(
        self, trial_id: int, outcome: Any, limits: Limits | None = None
    ) -> None:
        r"""Compute in advance the question after a possible outcome of a pending trial.

        If this outcome is told next, :meth:`ask` returns the same trial as it would
        otherwise, but at once. Another thread may call this while someone looks at the
        trial.

        Args:
            trial_id: The id of a pending trial.
            outcome: The outcome, as in :meth:`tell`.
            limits: The limits that :meth:`ask` will be called with.
        """
        number = check_id(trial_id)
        label = self.feedback.parse(outcome)
        given = read_conditions(self.settings, None, limits)
        with computing():
            state = self._read_state()
            if number not in [trial.id for trial in state.pending]:
                raise InputDataError(
                    "Expected ``trial_id`` to be that of a pending trial, but got "
                    f"{number}."
                )
            supposed = state.suppose(number, label)
            question = self._choose(supposed, given)
            if question is not None:
                signature = supposed.signature, given
                self._prepared.appendleft((signature, question))

    def _read_state(self) -> State:
        with self._journal.reading():
            index = self._journal.index()
            return State(
                index.num_trials,
                index.pending,
                index.learned,
                self._journal.revision(),
                len(self.feedback.answers),
            )

    def _choose(self, state: State, given: Conditions) -> Question | None:
        """The rule's choice; None if it is not its turn."""
        if not state.has_answers(self._num_initial_trials):
            return None
        for signature, question in self._prepared:
            if signature == (state.signature, given):
                self._hyperparameters(state)  # counts as recently used
                return question
        learned = self._hyperparameters(state)
        model = self._models.at(state, learned, self._due(state))
        if given.context:
            model = self._models.between_levels(model, state)
        rows = self._surrogate.rows(state.waiting)
        feasible = self._chooser.feasibility(state)
        return self._chooser.by_rule(model, state.next_number, rows, given, feasible)

    def _write_down(
        self,
        questions: Sequence[Question | None],
        state: State,
        given: Conditions,
        rater: str | None,
    ) -> list[Trial]:
        """Record questions; quasi-random ones where there is none or it is pending."""
        asked = []
        for question in questions:
            trial = self._chooser.make_trial(question, state, given)
            asked.append(
                self._journal.add_trial(
                    trial.context, trial.sides, trial.chosen_by, rater, trial.used
                )
            )
            state = state.suppose_asked(asked[-1])
        return asked

    def recommend(self) -> Recommendation:
        r"""The inferred best parameters, with their uncertainty.

        There is a warning if the answers contradict the settings.
        """
        seed = self._chooser.seed("recommend")
        with computing():
            self._warn_of_contradictions()
            model = self.model()
            state = self._read_state()
            learned = self._hyperparameters(state)
            asking = self._surrogate.choosing_model(state.answered, learned)
            feasible = self._chooser.feasibility(state)
            number = len(state.answered)
            return make_recommendation(
                model, asking, self.settings, seed, number, feasible
            )

    def progress(self, best: Recommendation | None = None) -> list[Progress]:
        r"""How far the experiment is from each of its stopping criteria.

        Args:
            best: The current recommendation, if it is already known.

        Returns:
            An entry for each of them; none if the settings do not say when to stop.
        """
        stop = self.settings.stop
        return [] if stop is None else self._measure(stop, best)

    def should_stop(self, tolerance: float | None = None) -> bool:
        r"""Whether the experiment can stop.

        Args:
            tolerance: Stop when the expected loss of the recommended parameters is no
                larger or, without parameters, when the interval of the threshold is no
                wider; by default what the settings say.

        Returns:
            Whether one of the stopping criteria is met.
        """
        if tolerance is None:
            return any(end.reached for end in self.progress())
        is_choice = bool(self.settings.space.parameters)
        end = Stop(loss=tolerance) if is_choice else Stop(threshold_width=tolerance)
        return any(end.reached for end in self._measure(end, None))

    def _measure(self, stop: Stop, best: Recommendation | None) -> list[Progress]:
        num_answers = self.num_answers
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
                    "Expected at least one answer before a model can be made, but got "
                    "none."
                )
            learned = self._hyperparameters(state)
            return self._surrogate.predicting_model(state.answered, learned)

    @property
    def _num_initial_trials(self) -> int:
        assert self.settings.initial_trials is not None
        return self.settings.initial_trials

    def _due(self, state: State) -> int | None:
        """The last scheduled time to learn hyperparameters, if any."""
        return last_scheduled_fit(len(state.answered), self._num_initial_trials)

    def _hyperparameters(self, state: State) -> Mapping[str, Any]:
        """The hyperparameters of the last scheduled fit, run now if needed."""
        due = self._due(state)
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
        """Learn from answers and store the result; None if that fails."""
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
        answers = answers_of(trials)
        for former, learned in self._recent_fits:
            if former == answers:
                return learned
        learned = self._surrogate.fit(trials)
        self._recent_fits.appendleft((answers, learned))
        return learned
