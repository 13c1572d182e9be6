r"""
The base class of kinds of feedback: the names of outcomes and what they mean.

The module loads without torch, so that an answer is written down at once.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from botorch_binary_context.errors import InputDataError, quote
from botorch_binary_context.experiment.trial import SIDE_NAMES, Trial

if TYPE_CHECKING:
    from torch import Tensor

    from botorch_binary_context.functionals import Functional
    from botorch_binary_context.likelihoods import OutcomeLikelihood
    from botorch_binary_context.models.observations import Observations

#: Words that mean something else where answers are typed.
TAKEN = ("undo", "quit")
_WORD = re.compile(r"[a-z][a-z_]{0,29}")


@dataclass(frozen=True)
class Feedback(ABC):
    r"""What a trial shows and what can be answered.

    ``kind`` is its name, ``default_rule`` the rule if none is given, and
    ``default_kernel`` the kernel if none is given and there are contexts.

    Attributes:
        infeasible: The name of a second outcome, for trials that could not be run or
            should not be repeated, such as "untestable" or "unpleasant": the experiment
            learns to avoid them. It is told instead of an answer or in addition to one.
            With several sides, it names the side, as in "unpleasant-first". None if
            there is no such outcome.
    """

    kind: ClassVar[str]
    default_rule: ClassVar[str]
    default_kernel: ClassVar[str]
    infeasible: str | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        name = self.infeasible
        if name is None:
            return
        is_word = isinstance(name, str) and _WORD.fullmatch(name) is not None
        if not is_word or name in (*self.answers, *TAKEN):
            raise InputDataError(
                "Expected ``infeasible`` to be a word of its own in lower case, such "
                f"as 'untestable', but got {quote(name)}."
            )

    @property
    @abstractmethod
    def num_sides(self) -> int:
        """The number of sets of parameters that a trial shows."""

    @property
    @abstractmethod
    def answers(self) -> tuple[str, ...]:
        """The names of the answers that the model learns from, from the label 0 up."""

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The names of all outcomes, from the label 0 up.

        Answers come first, then the outcomes for infeasible sides, if the settings have
        them.
        """
        return *self.answers, *self.infeasible_outcomes

    @property
    def infeasible_outcomes(self) -> tuple[str, ...]:
        """The names of the outcomes for infeasible sides, in the order of the sides."""
        if self.infeasible is None:
            return ()
        if self.num_sides == 1:
            return (self.infeasible,)
        sides = SIDE_NAMES[: self.num_sides]
        return tuple(f"{self.infeasible}-{side}" for side in sides)

    def feasible_sides(self, trial: Trial) -> list[bool | None]:
        r"""Which sides of an answered trial were feasible.

        Args:
            trial: The trial.

        Returns:
            For each side, whether it was feasible; None if that is unknown because
            another side was infeasible and there was no answer.
        """
        assert trial.outcome is not None
        told = {*trial.infeasible, self.outcomes[trial.outcome]}
        others = True if trial.outcome < len(self.answers) else None
        names = self.infeasible_outcomes
        return [False if name in told else others for name in names]

    def parse_infeasible(self, given: Any) -> tuple[str, ...]:
        r"""The infeasible sides that were told in addition to an answer.

        Args:
            given: The name of such an outcome, such as "unpleasant", or of a side, such
                as "first", or several of them; True if there is one side; None or False
                for nothing.

        Returns:
            The names of the outcomes, in the order of the sides.
        """
        names = self.infeasible_outcomes
        if given is None or given is False:
            return ()
        if given is True and len(names) == 1:
            return names
        words = [given] if isinstance(given, str) else given
        if isinstance(words, list | tuple | set) and all(
            isinstance(word, str) for word in words
        ):
            sides = self._infeasible_by_side()
            found = {sides.get(word, word) for word in words}
            if found <= set(names):
                return tuple(name for name in names if name in found)
        raise InputDataError(
            f"Expected ``infeasible`` to be {_choices(names)}, but got {quote(given)}."
        )

    def _infeasible_by_side(self) -> dict[str, str]:
        """The names of the outcomes for infeasible sides, by the names of the sides."""
        names = self.infeasible_outcomes
        return dict(zip(SIDE_NAMES[: len(names)], names, strict=True))

    @property
    def numbers(self) -> dict[float, int]:
        """The labels that numbers stand for."""
        return {0.0: 0, 1.0: 1}

    @property
    @abstractmethod
    def functional(self) -> Functional:
        """What a trial observes of the performance."""

    @property
    @abstractmethod
    def rules(self) -> Mapping[str, Any]:
        """The table of rules."""

    @abstractmethod
    def likelihood(self) -> OutcomeLikelihood:
        r"""The likelihood of the outcomes.

        Returns:
            A new likelihood at each call.
        """

    def observations(self, X: Tensor, Y: Tensor, likelihood: Any) -> list[Observations]:
        r"""Answered trials in the form that models take.

        Args:
            X: The trials, ``n x d`` or with several sides ``n x k x d``.
            Y: Their labels, ``n x 1``.
            likelihood: Their likelihood.

        Returns:
            The observations, one entry for each kind.
        """
        from botorch_binary_context.models.observations import Observations

        return [Observations(X, Y, likelihood)]

    def parse(self, outcome: Any) -> int:
        r"""The label of the outcome that is meant.

        Args:
            outcome: The name of an outcome, or a number that stands for one (1 or 0, or
                a bool, if there are two).

        Returns:
            The label, from 0.
        """
        if isinstance(outcome, str):
            text = outcome.strip().lower()
            if text in self.outcomes:
                return self.outcomes.index(text)
            outcome_number = to_number(text) if text[:1].isdigit() else None
        elif isinstance(outcome, bool) and len(self.answers) > 2:
            outcome_number = None
        else:
            outcome_number = to_number(outcome)
        label = None if outcome_number is None else self.numbers.get(outcome_number)
        if label is not None:
            return label
        raise InputDataError(
            f"Expected ``outcome`` to be {self._expected()}, but got {quote(outcome)}."
        )

    def _expected(self) -> str:
        """What can be answered, in words."""
        standing = {label: number for number, label in self.numbers.items()}
        words = [
            repr(name) + (f" or {standing[label]:g}" if label in standing else "")
            for label, name in enumerate(self.outcomes)
        ]
        return ", or ".join(words[::-1])

    def show(self, label: int) -> int | str:
        r"""An outcome as it is written into tables, which :meth:`parse` reads.

        Args:
            label: Its label.

        Returns:
            1 or 0 if there are two answers, otherwise the name.
        """
        is_plain = len(self.answers) == 2 and label < 2
        return label if is_plain else self.outcomes[label]


def _choices(names: tuple[str, ...]) -> str:
    """What can be told in addition to an answer, in words."""
    if not names:
        return "left out where the settings have no name for it"
    if len(names) == 1:
        return f"True, False or {names[0]!r}"
    return f"some of {', '.join(map(repr, names))}"


def to_number(value: Any) -> float | None:
    r"""A value as a number.

    Args:
        value: Anything.

    Returns:
        The number; None if the value is not a number.
    """
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def parse_rate(name: str, rate: Any, highest: float = 1.0, named: str = "") -> float:
    r"""A rate as a number, from a number or a fraction in a text.

    Args:
        name: What to call it in a message.
        rate: The rate, as a number or a text.
        highest: The limit, which the rate must be below.
        named: What else it may be, for the message.
    """
    try:
        number = float(Fraction(rate) if isinstance(rate, str) else rate)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        number = -1.0
    if isinstance(rate, bool) or not 0.0 <= number < highest:
        raise InputDataError(
            f"Expected ``{name}`` to be in [0, {highest:g}), a number or a text such "
            f"as '1/26'{named}, but got {quote(rate)}."
        )
    return number
