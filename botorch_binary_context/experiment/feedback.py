r"""
Kinds of feedback: what a trial shows, and what can be answered.

The module loads without torch: an answer is written down at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from botorch_binary_context.errors import InputDataError, quote
from botorch_binary_context.experiment.toml_tables import choose, make

if TYPE_CHECKING:
    from botorch_binary_context.functionals import Functional
    from botorch_binary_context.likelihoods import (
        PreferenceLikelihood,
        ProbitLikelihood,
    )


class Feedback(ABC):
    r"""What a trial shows and what can be answered.

    Attributes:
        kind: Its name.
        outcomes: The names of the outcomes 0 and 1.
        num_sides: How many sets of parameters a trial shows.
        default_rule: The rule if none is given.
        default_kernel: The kernel if none is given and there are contexts.
    """

    kind: ClassVar[str]
    outcomes: ClassVar[tuple[str, str]]
    num_sides: ClassVar[int]
    default_rule: ClassVar[str]
    default_kernel: ClassVar[str]

    @property
    @abstractmethod
    def functional(self) -> Functional:
        """What a trial observes of the performance."""

    @property
    @abstractmethod
    def rules(self) -> Mapping[str, Any]:
        """The rules there are."""

    @abstractmethod
    def likelihood(self) -> ProbitLikelihood:
        r"""The likelihood of the outcomes.

        Returns:
            A new likelihood.
        """

    def parse(self, outcome: Any) -> int:
        r"""The outcome that is meant.

        Args:
            outcome: 0 or 1 (a bool or a number), or the name of an outcome.

        Returns:
            0 or 1.
        """
        if isinstance(outcome, str):
            text = outcome.strip().lower()
            names = {"0": 0, "1": 1, self.outcomes[0]: 0, self.outcomes[1]: 1}
            if text in names:
                return names[text]
        else:
            try:
                number = float(outcome)
            except (TypeError, ValueError, OverflowError):
                number = -1.0
            if number in (0.0, 1.0):
                return int(number)
        raise InputDataError(
            f"Expected ``outcome`` to be {self.outcomes[1]!r} or 1, or "
            f"{self.outcomes[0]!r} or 0, but got {quote(outcome)}."
        )


@dataclass(frozen=True)
class PassFail(Feedback):
    r"""A test is passed or failed.

    Attributes:
        guess_rate: The chance to pass without any ability: ``1/n`` in a choice of one
            among ``n``; a number, or a text such as "1/26".
        lapse_rate: The chance to fail in spite of it; a number or a text.
    """

    kind: ClassVar[str] = "pass/fail"
    outcomes: ClassVar[tuple[str, str]] = ("fail", "pass")
    num_sides: ClassVar[int] = 1
    default_rule: ClassVar[str] = "ucb99-ald"
    default_kernel: ClassVar[str] = "additive"
    guess_rate: float | str = 0.0
    lapse_rate: float | str = 0.0

    def __post_init__(self) -> None:
        for name in ("guess_rate", "lapse_rate"):
            object.__setattr__(self, name, _parse_rate(name, getattr(self, name)))
        if float(self.guess_rate) + float(self.lapse_rate) >= 1.0:
            raise InputDataError(
                "Expected ``guess_rate`` and ``lapse_rate`` to sum to less than 1, but "
                f"got {self.guess_rate} and {self.lapse_rate}."
            )

    @property
    def functional(self) -> Functional:
        """``f`` at one row."""
        from botorch_binary_context.functionals import VALUE

        return VALUE

    @property
    def rules(self) -> Mapping[str, Any]:
        """Those for pass/fail outcomes."""
        from botorch_binary_context.rules import BINARY_RULES

        return BINARY_RULES

    def likelihood(self) -> ProbitLikelihood:
        r"""A probit with the two rates."""
        from botorch_binary_context.likelihoods import ProbitLikelihood

        return ProbitLikelihood(float(self.guess_rate), float(self.lapse_rate))


@dataclass(frozen=True)
class Duels(Feedback):
    r"""Two sets of parameters are compared in one context, and one is preferred."""

    kind: ClassVar[str] = "duels"
    outcomes: ClassVar[tuple[str, str]] = ("second", "first")
    num_sides: ClassVar[int] = 2
    default_rule: ClassVar[str] = "muc-target"
    default_kernel: ClassVar[str] = "product"

    @property
    def functional(self) -> Functional:
        """The difference of ``f`` at two rows."""
        from botorch_binary_context.functionals import DIFFERENCE

        return DIFFERENCE

    @property
    def rules(self) -> Mapping[str, Any]:
        """Those for duels."""
        from botorch_binary_context.rules import DUEL_RULES

        return DUEL_RULES

    def likelihood(self) -> PreferenceLikelihood:
        r"""A probit of the difference."""
        from botorch_binary_context.likelihoods import PreferenceLikelihood

        return PreferenceLikelihood()


#: The kinds of feedback by their names.
FEEDBACKS: dict[str, type[Feedback]] = {kind.kind: kind for kind in (PassFail, Duels)}


def make_feedback(table: Any) -> Feedback:
    r"""The feedback that a table of a TOML file or of a journal describes.

    Args:
        table: A dictionary with the kind, by default "pass/fail", and its keys.

    Returns:
        The feedback.
    """
    if not isinstance(table, dict):
        raise InputDataError(
            "Expected ``feedback`` to be a table, [feedback] in a TOML file, but got "
            f"{quote(table)}."
        )
    table = dict(table)
    kind = choose(FEEDBACKS, table.pop("kind", PassFail.kind), "kind")
    return make(kind, table, "feedback")


def _parse_rate(name: str, rate: Any) -> float:
    """A rate as a number, from a number or a fraction in a text."""
    try:
        number = float(Fraction(rate) if isinstance(rate, str) else rate)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        number = -1.0
    if isinstance(rate, bool) or not 0.0 <= number < 1.0:
        raise InputDataError(
            f"Expected ``{name}`` to be in [0, 1), a number or a text such as "
            f"'1/26', but got {quote(rate)}."
        )
    return number
