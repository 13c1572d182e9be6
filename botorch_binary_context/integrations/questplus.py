r"""
Experiments with the three methods of questplus: next stimulus, update, estimate.

The package questplus is not imported.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import NormalDist, fmean
from typing import Any, Self

from botorch_binary_context.errors import InputDataError, UnsupportedError, quote
from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.experiment.feedback import PassFail
from botorch_binary_context.experiment.settings import Settings
from botorch_binary_context.experiment.space import NamedSpace
from botorch_binary_context.experiment.trial import Trial
from botorch_binary_context.experiment.variables import Context, Real, Value
from botorch_binary_context.likelihoods.rates import rate_as_float

__all__ = ["QuestPlusExperiment"]

#: The default names of passing and failing.
OUTCOMES = {"response": ("Yes", "No")}


class QuestPlusExperiment:
    r"""A pass/fail experiment with the interface of ``questplus.QuestPlus``.

    The estimates describe a normal distribution function, ``norm_cdf`` of questplus,
    though the model is a Gaussian process: the mean is the threshold, and the standard
    deviation says how fast success grows there.

    Example:
        >>> qp = QuestPlusExperiment.from_domains(
        ...     stim_domain={"intensity": range(-40, 1)},
        ...     param_domain={"lower_asymptote": [0.5], "lapse_rate": [0.02]},
        ...     journal="listener-3.journal",
        ... )
        >>> for _ in range(32):
        ...     stim = qp.next_stim  # {"intensity": -12.0}
        ...     heard = "Yes" if show(stim) else "No"
        ...     qp.update(stim=stim, outcome={"response": heard})
        >>> qp.param_estimate["mean"]
    """

    def __init__(
        self,
        experiment: Experiment,
        outcome_domain: Mapping[str, Sequence[Any]] = OUTCOMES,
    ) -> None:
        r"""
        Args:
            experiment: An experiment with pass/fail outcomes.
            outcome_domain: The name of the outcome with its two values, the one for
                passing first.
        """
        if not isinstance(experiment.feedback, PassFail):
            raise UnsupportedError(
                f"Expected pass/fail outcomes, but got {experiment.feedback.kind}."
            )
        self.experiment = experiment
        self.outcome_domain = _check_outcomes(outcome_domain)
        pending = [t for t in experiment.trials if t.status == "pending"]
        self._asked: Trial | None = pending[0] if pending else None

    @classmethod
    def from_domains(
        cls,
        *,
        stim_domain: Mapping[str, Sequence[float]],
        param_domain: Mapping[str, Sequence[float]] | None = None,
        outcome_domain: Mapping[str, Sequence[Any]] = OUTCOMES,
        context: str | None = None,
        harder: str = "down",
        journal: str | Path | None = None,
        seed: int | None = None,
    ) -> Self:
        r"""Begin an experiment with domains like those of questplus.

        Args:
            stim_domain: The values of each stimulus dimension that can be shown.
            param_domain: Only "lower_asymptote" and "lapse_rate" are used: the means of
                their values are the guess and the lapse rate. Estimated parameters need
                no domain.
            outcome_domain: The name of the outcome with its two values, the one for
                passing first.
            context: The stimulus dimension that makes tests harder, by default the
                first. The others are parameters.
            harder: "down" if tests are harder where it is smaller, or "up".
            journal: The file to keep the answers in; by default one that is deleted
                with the object.
            seed: The seed of all random choices; by default a new one.
        """
        first = next(iter(stim_domain)) if context is None else context
        if first not in stim_domain:
            raise InputDataError(
                f"Expected ``context`` to be one of {list(stim_domain)}, but got "
                f"{quote(context)}."
            )
        values = {k: sorted(map(float, v)) for k, v in stim_domain.items()}
        levels = values.pop(first)
        reference = levels[-1] if harder == "up" else levels[0]
        varied = Context(first, reference, levels=levels, harder=harder)
        space = NamedSpace([Real(k, levels=v) for k, v in values.items()], [varied])
        rates = param_domain or {}
        feedback = PassFail(
            guess_rate=fmean(rates.get("lower_asymptote", [0.0])),
            lapse_rate=fmean(rates.get("lapse_rate", [0.0])),
        )
        settings = Settings(space, feedback, seed=seed)
        _check_outcomes(outcome_domain)
        return cls._create(journal, settings, outcome_domain)

    @classmethod
    def _create(
        cls,
        journal: str | Path | None,
        settings: Settings,
        outcome_domain: Mapping[str, Sequence[Any]],
    ) -> Self:
        if journal is not None:
            return cls(Experiment.create(journal, settings), outcome_domain)
        folder = tempfile.mkdtemp()
        experiment = Experiment.create(Path(folder) / "journal", settings)
        found = cls(experiment, outcome_domain)
        weakref.finalize(found, _discard, experiment, folder)
        return found

    @property
    def next_stim(self) -> dict[str, Any]:
        """What to show next; the same until it is answered."""
        if self._asked is None:
            self._asked = self.experiment.ask()
        return dict(self._asked.values)

    def update(self, *, stim: Mapping[str, Value], outcome: Mapping[str, Any]) -> None:
        r"""Write an answer down. It is on disk when this returns.

        Args:
            stim: What was shown, which may differ from :attr:`next_stim`.
            outcome: The name of the outcome with its value.
        """
        label = self._parse(outcome)
        if self._asked is None:
            self.experiment.add(dict(stim), label)
            return
        shown = None if dict(stim) == self._asked.values else dict(stim)
        self.experiment.tell(self._asked.id, label, shown=shown)
        self._asked = None

    def _parse(self, outcome: Mapping[str, Any]) -> int:
        ((name, (passed, failed)),) = self.outcome_domain.items()
        given = dict(outcome) if isinstance(outcome, Mapping) else {}
        if set(given) != {name} or given[name] not in (passed, failed):
            raise InputDataError(
                f"Expected ``outcome`` to give {name!r} the value {passed!r} or "
                f"{failed!r}, but got {quote(outcome)}."
            )
        return int(given[name] == passed)

    @property
    def param_estimate(self) -> dict[str, Any]:
        """The estimates by their names.

        "mean" is the mean threshold, "sd" the distance in the context from there to
        where success is one standard deviation less probable, "lower_asymptote" and
        "lapse_rate" are as they were given, or learned; the best parameters have their
        own names.
        """
        best = self.experiment.recommend()
        likelihood: Any = self.experiment.model().likelihood
        guess = float(likelihood.guess_rate)
        lapse = rate_as_float(likelihood.lapse_rate, "lapse_rate")
        span = 1.0 - guess - lapse
        ends = [
            best.threshold_distribution(
                probability=guess + span * NormalDist().cdf(deviation)
            ).quantile(0.5)
            for deviation in (-0.5, 0.5)
        ]
        return {
            "mean": best.threshold_distribution().mean,
            "sd": abs(ends[1] - ends[0]),
            "lower_asymptote": guess,
            "lapse_rate": lapse,
            **best.parameters,
        }

    @property
    def stim_history(self) -> list[dict[str, Value]]:
        """What was shown, in the order of the answers."""
        return [dict(trial.values) for trial in self._answered()]

    @property
    def resp_history(self) -> list[dict[str, Any]]:
        """The outcomes, in their order."""
        ((name, (passed, failed)),) = self.outcome_domain.items()
        return [{name: passed if t.outcome else failed} for t in self._answered()]

    def _answered(self) -> list[Trial]:
        answered = [t for t in self.experiment.trials if t.status == "answered"]
        return sorted(answered, key=lambda trial: trial.position or 0)

    def to_json(self) -> str:
        r"""The settings and the answers as JSON.

        Returns:
            The text that :meth:`from_json` takes.
        """
        content = {
            "settings": self.experiment.settings.to_dict(),
            "outcome_domain": self.outcome_domain,
            "stim_history": self.stim_history,
            "resp_history": self.resp_history,
        }
        return json.dumps(content)

    @classmethod
    def from_json(cls, data: str, journal: str | Path | None = None) -> Self:
        r"""An experiment with the settings and the answers of another one.

        Args:
            data: The result of :meth:`to_json`.
            journal: The file to keep the answers in; by default one that is deleted
                with the object.
        """
        content = json.loads(data)
        settings = Settings.from_dict(content["settings"])
        found = cls._create(journal, settings, content["outcome_domain"])
        for stim, outcome in zip(
            content["stim_history"], content["resp_history"], strict=True
        ):
            found.experiment.add(stim, found._parse(outcome))
        return found


def _check_outcomes(domain: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, Any]]:
    if len(domain) == 1:
        ((name, values),) = domain.items()
        if len(values) == 2 and values[0] != values[1]:
            return {name: (values[0], values[1])}
    raise UnsupportedError(
        "Expected ``outcome_domain`` to give one name the two values of passing and "
        f"failing, but got {quote(domain)}."
    )


def _discard(experiment: Experiment, folder: str) -> None:
    experiment.close()
    shutil.rmtree(folder, ignore_errors=True)
