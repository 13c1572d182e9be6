r"""
Experiments as handlers of PsychoPy.

A :class:`BinaryContextHandler` has the interface of PsychoPy's ``QuestHandler``, is
accepted by its ``ExperimentHandler``, and has its names, which are in mixed case.
PsychoPy itself is not imported.
"""

from __future__ import annotations

import math
import random
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Self

from botorch_binary_context.errors import InputDataError, UnsupportedError, quote
from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.experiment.feedback import PassFail
from botorch_binary_context.experiment.recommendation import Recommendation
from botorch_binary_context.experiment.threshold_distribution import (
    ThresholdDistribution,
)
from botorch_binary_context.experiment.trial import Trial
from botorch_binary_context.experiment.variables import Context, Value
from botorch_binary_context.integrations.psychopy.saving import SavingHandler
from botorch_binary_context.integrations.psychopy.table_files import Table
from botorch_binary_context.integrations.psychopy.weibull import weibull

#: What is shown in a trial: a number if there is one variable, else a dictionary.
Intensity = Value | dict[str, Value]


class BinaryContextHandler(SavingHandler):
    r"""An experiment as a PsychoPy loop.

    It has the methods of ``psychopy.data.QuestHandler``. A trial is a number if the
    experiment has one variable, and else a dictionary; either way :attr:`thisTrial` is
    a dictionary, whose items PsychoPy's ``ExperimentHandler`` writes as columns. Every
    answer is in the journal of the experiment before :meth:`addResponse` returns. A
    handler for an existing journal continues it; a trial that was not answered is shown
    again. Only one handler should use a journal at a time.

    Attributes:
        experiment: The experiment.
        name: The name of the loop.
        nTrials: The number of answers after which to end, or None.
        stopInterval: The largest width of the 5 % to 95 % interval of the threshold at
            which to end, or None.
        pThreshold: The probability of passing at the threshold, or None for halfway
            between guessing and lapsing.
        extraInfo: A dictionary that is saved with the data.
        beta: The steepness of the person that :meth:`simulate` simulates.
        intensities: What was shown, one entry per trial.
        data: The results, 1 or 0, one entry per trial.
        otherData: What else was noted: for each name, one entry per trial.
        thisTrialN: The number of the trial, from 0; -1 before the first.
        thisTrial: What the trial shows, by the names of the variables.
        finished: Whether the loop has ended; may be set to True to end it.

    Example:
        >>> experiment = Experiment.create("patient-7.journal", settings)
        >>> loop = BinaryContextHandler(experiment, nTrials=40, name="acuity")
        >>> exp.addLoop(loop)  # a psychopy.data.ExperimentHandler
        >>> for values in loop:
        ...     seen = show(values["size"], values["sphere"])
        ...     loop.addResponse(seen)
        ...     exp.nextEntry()
        >>> loop.mean(), loop.confInterval()
    """

    def __init__(
        self,
        experiment: Experiment,
        nTrials: int | None = None,
        stopInterval: float | None = None,
        pThreshold: float | None = None,
        extraInfo: Mapping[str, Any] | None = None,
        name: str = "",
        autoLog: bool = True,
        startVal: Value | None = None,
        beta: float = 3.5,
        isTrials: bool = True,
    ) -> None:
        r"""
        Args:
            experiment: The experiment.
            nTrials: The number of answers after which to end; if it is None and neither
                ``stopInterval`` nor the settings of the experiment say when to stop,
                the loop ends when :attr:`finished` is set.
            stopInterval: The largest width of the 5 % to 95 % interval of the threshold
                at which to end.
            pThreshold: The probability of passing at the threshold; by default halfway
                between the guess rate and 1 minus the lapse rate.
            extraInfo: A dictionary to save with the data.
            name: The name of the loop.
            autoLog: Not used; for compatibility with PsychoPy.
            startVal: What to show in the first trial, if there is one variable.
            beta: The steepness of the Weibull function of :meth:`simulate`.
            isTrials: Not used; for compatibility with PsychoPy.
        """
        self._experiment: Experiment | None = experiment
        self._path = experiment.path
        self.nTrials = nTrials
        self.stopInterval = stopInterval
        self.pThreshold = pThreshold
        self.extraInfo = None if extraInfo is None else dict(extraInfo)
        self.name = name
        self.autoLog = autoLog
        self.isTrials = isTrials
        self.beta = beta
        self.otherData: dict[str, list[Any]] = {}
        self.origin = ""
        self.originPath = ""
        self._exp: weakref.ref[Any] | None = None
        self._best: Recommendation | None = None
        answered = [t for t in experiment.trials if t.status == "answered"]
        answered.sort(key=lambda trial: trial.position or 0)
        self.data: list[int] = [trial.outcome or 0 for trial in answered]
        self.intensities: list[Intensity] = [self._shown(t.values) for t in answered]
        self._ids = [trial.id for trial in answered]
        waiting = [t for t in experiment.trials if t.status == "pending"]
        self._next = waiting[0] if waiting else None
        self._current: Trial | None = None
        self.thisTrialN = len(self.data) - 1
        self.thisTrial = dict(answered[-1].values) if answered else {}
        self.startVal = startVal
        self.finished = False
        self._checkFinished()

    @property
    def experiment(self) -> Experiment:
        """The experiment, opened again if the handler comes from a pickle."""
        if self._experiment is None:
            self._experiment = Experiment.open(self._path)
        return self._experiment

    def __getstate__(self) -> dict[str, Any]:
        dropped = {"_experiment": None, "_exp": None, "_best": None}
        return {**self.__dict__, **dropped}

    # The loop

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Intensity:
        """Go to the next trial; one that was not answered is withdrawn."""
        if self.finished:
            self._terminate()
        if self._current is not None:
            self.experiment.withdraw(self._current.id)
            self.intensities.pop()
        self._current = self._upcoming()
        self._next = None
        shown = self._to_show(self._current)
        self.thisTrialN = len(self.data)
        self.thisTrial = shown
        self.intensities.append(self._shown(shown))
        return self.intensities[-1]

    def next(self) -> Intensity:
        r"""Go to the next trial, without a loop.

        Returns:
            What to show: a number, or a dictionary if there are several variables.
        """
        return next(self)

    @property
    def intensity(self) -> Intensity:
        """What to show in this trial, or in the next one if it was answered."""
        if self._current is not None:
            return self.intensities[-1]
        return self._shown(self._to_show(self._upcoming()))

    @property
    def _nextIntensity(self) -> Intensity:
        return self.intensity

    def calculateNextIntensity(self) -> None:
        r"""Choose the next trial now rather than when it is needed."""
        self._upcoming()

    def _upcoming(self) -> Trial:
        if self._next is None:
            self._next = self.experiment.ask()
        return self._next

    def _to_show(self, trial: Trial) -> dict[str, Value]:
        values = dict(trial.values)
        if self.startVal is not None and not self.data:
            return self._named(self.startVal, trial)
        return values

    def _terminate(self) -> None:
        exp = self.getExp()
        if exp is not None:
            exp.loopEnded(self)
        raise StopIteration

    def _checkFinished(self) -> None:
        """The width is checked only if nothing else ends the loop."""
        enough = self.nTrials is not None and len(self.data) >= self.nTrials
        self.finished = bool(enough or self._is_sure() or self._should_stop())

    def _is_sure(self) -> bool:
        return (
            self.stopInterval is not None
            and len(self.data) > 0
            and self.confInterval(True) < self.stopInterval
        )

    def _should_stop(self) -> bool:
        return len(self.data) > 0 and self.experiment.should_stop()

    # Answers

    def addResponse(self, result: Any, intensity: Any = None) -> None:
        r"""Write the answer of the trial down. It is on disk when this returns.

        Args:
            result: 1 if the test was passed (in a duel, if the first side is
                preferred), otherwise 0.
            intensity: What was shown, if it differs from what was asked: a number (of
                Python or NumPy), or a dictionary of the values that differ.
        """
        outcome = self.experiment.feedback.parse(result)
        if self._current is None:
            next(self)
        assert self._current is not None
        shown = dict(self.thisTrial)
        if intensity is not None:
            shown |= self._named(intensity, self._current)
        changed = None if shown == self._current.values else shown
        self.experiment.tell(self._current.id, outcome, shown=changed)
        self._ids.append(self._current.id)
        self._current = None
        self._record(outcome, shown)
        self._checkFinished()

    def _record(self, outcome: int, shown: dict[str, Value]) -> None:
        self.data.append(outcome)
        self.thisTrial = shown
        self.intensities[-1] = self._shown(shown)
        self._best = None
        exp = self.getExp()
        if exp is not None:
            exp.addData(f"{self.name}.response", outcome)
            if len(shown) == 1:
                exp.addData(f"{self.name}.intensity", self.intensities[-1])

    def addData(self, result: Any, intensity: Any = None) -> None:
        r"""The former name of :meth:`addResponse`.

        Args:
            result: The result.
            intensity: What was shown, if it differs from what was asked.
        """
        self.addResponse(result, intensity)

    def addOtherData(self, dataName: str, value: Any) -> None:
        r"""Note something about the trial, before or after its answer.

        It goes to the journal, too.

        Args:
            dataName: The name.
            value: A number, a text or other plain data; anything else is noted as text.
        """
        plain = _to_plain(value)
        trials = self._ids if self._current is None else [self._current.id]
        if trials:
            self.experiment.annotate(trials[-1], **{dataName: plain})
        rows = self.otherData.setdefault(dataName, [])
        position = max(self.thisTrialN, 0)
        rows += [None] * (position + 1 - len(rows))
        rows[position] = plain
        exp = self.getExp()
        if exp is not None:
            exp.addData(dataName, value)

    def importData(
        self, intensities: Sequence[Intensity], results: Sequence[Any]
    ) -> None:
        r"""Add answers from elsewhere; the number of trials grows accordingly.

        Args:
            intensities: What was shown in each trial.
            results: Their results, 1 or 0.
        """
        if len(intensities) != len(results):
            raise InputDataError(
                "Expected ``intensities`` and ``results`` to have the same length, but "
                f"got {len(intensities)} and {len(results)}."
            )
        blank = self.experiment.blank_trial()
        for intensity, result in zip(intensities, results, strict=True):
            trial = self.experiment.add(self._named(intensity, blank), result)
            self._ids.append(trial.id)
            # Before the trial that is shown now, if there is one.
            self.intensities.insert(len(self.data), self._shown(trial.values))
            self.data.append(self.experiment.feedback.parse(result))
        self._best = None
        self.thisTrialN = len(self.intensities) - 1
        if self.nTrials is not None:
            self.incTrials(len(intensities))

    def incTrials(self, nNewTrials: int) -> None:
        r"""Raise the number of trials.

        Args:
            nNewTrials: The number of trials to add.
        """
        self.nTrials = (self.nTrials or 0) + nNewTrials
        self._checkFinished()

    @staticmethod
    def _named(intensity: Any, trial: Trial) -> dict[str, Value]:
        """What is shown, by the names of the variables."""
        names = list(trial.values)
        if isinstance(intensity, Mapping):
            return {name: _to_plain(value) for name, value in intensity.items()}
        if len(names) != 1:
            raise InputDataError(
                f"Expected ``intensity`` to give values to some of {names}, but got "
                f"{quote(intensity)}."
            )
        return {names[0]: _to_plain(intensity)}

    @staticmethod
    def _shown(values: Mapping[str, Value]) -> Intensity:
        return next(iter(values.values())) if len(values) == 1 else dict(values)

    # Estimates

    def _distribution(self) -> ThresholdDistribution:
        if self._best is None:
            self._best = self.experiment.recommend()
        return self._best.threshold_distribution(probability=self.pThreshold)

    def mean(self) -> float:
        r"""The mean of the threshold, given that it is within the bounds.

        Returns:
            The value of the context, for the parameters that are best so far.
        """
        return self._distribution().mean

    def sd(self) -> float:
        r"""The standard deviation of the threshold.

        Returns:
            The standard deviation, in the units of the context.
        """
        return self._distribution().sd

    def mode(self) -> float:
        r"""The most probable threshold.

        Returns:
            The value of the context.
        """
        return self._distribution().mode

    def quantile(self, p: float | None = None) -> float:
        r"""A quantile of the threshold.

        Args:
            p: The probability, by default 0.5 for the median.

        Returns:
            The value of the context.
        """
        return self._distribution().quantile(0.5 if p is None else p)

    def confInterval(self, getDifference: bool = False) -> Any:
        r"""The 5 % to 95 % interval of the threshold.

        Args:
            getDifference: Whether to return its width.

        Returns:
            The two ends, or the width.
        """
        found = self._distribution()
        low = found.quantile(0.05)
        high = found.quantile(0.95)
        return high - low if getDifference else [low, high]

    def recommend(self) -> Recommendation:
        r"""The best parameters so far, with their uncertainty."""
        return self.experiment.recommend()

    def simulate(self, tActual: float) -> int:
        r"""Simulate the answer of someone with a threshold to this or the next trial.

        The probability of passing is :func:`.weibull` of the context, with
        :attr:`beta`.

        Args:
            tActual: The threshold.

        Returns:
            1 or 0, at random.
        """
        contexts = self.experiment.settings.space.contexts
        feedback = self.experiment.feedback
        if len(contexts) != 1 or not isinstance(feedback, PassFail):
            raise UnsupportedError(
                "Expected pass/fail outcomes and one context to simulate, but got "
                f"{feedback.kind} and {len(contexts)} contexts."
            )
        shown = self.intensity
        context = contexts[0]
        value = shown[context.name] if isinstance(shown, dict) else shown
        chance = weibull(
            _easiness(context, float(value), tActual),
            self.beta,
            float(feedback.guess_rate),
            feedback.first_lapse_rate,
            self.pThreshold,
        )
        return int(random.random() < chance)

    # The experiment handler that it belongs to

    def setExp(self, exp: Any) -> None:
        r"""Say which ``ExperimentHandler`` the loop belongs to.

        Args:
            exp: The handler, which calls this itself.
        """
        self._exp = weakref.ref(exp)

    def getExp(self) -> Any:
        r"""The ``ExperimentHandler`` that the loop belongs to.

        Returns:
            The handler, or None.
        """
        return None if self._exp is None else self._exp()

    def _table(self) -> Table:
        blank = self.experiment.blank_trial()
        names = list(blank.values)
        rows = []
        for number, result in enumerate(self.data):
            shown = self._named(self.intensities[number], blank)
            others = [column[number : number + 1] for column in self.otherData.values()]
            more = [entry[0] if entry else None for entry in others]
            rows.append([number, *(shown[name] for name in names), result, *more])
        return ["n", *names, "response", *self.otherData], rows

    def _content(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "journal": str(self._path),
            "settings": self.experiment.settings.to_dict(),
            "extraInfo": self.extraInfo,
        }


def _to_plain(value: Any) -> Any:
    """A value that a journal can hold: NumPy numbers become Python numbers."""
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    is_plain = value is None or isinstance(value, str | int | float | bool)
    return value if is_plain else str(value)


def _easiness(context: Context, value: float, threshold: float) -> float:
    """How much easier a test is than at the threshold, on the scale."""
    if context.scale == "log":
        value = math.log10(value)
        threshold = math.log10(threshold)
    return threshold - value if context.harder == "up" else value - threshold
