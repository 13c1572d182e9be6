r"""
Kinds of feedback: what a trial shows, and what can be answered.

The module loads without torch, so that an answer is written down at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from botorch_binary_context.errors import InputDataError, quote
from botorch_binary_context.experiment.feedback_base import Feedback, parse_rate
from botorch_binary_context.experiment.toml_tables import choose, make
from botorch_binary_context.experiment.trial import SIDE_NAMES

if TYPE_CHECKING:
    from torch import Tensor

    from botorch_binary_context.functionals import Functional
    from botorch_binary_context.likelihoods import OutcomeLikelihood
    from botorch_binary_context.models.observations import Observations

MAX_RATING = 20
#: The lapse rate that is learned from the answers.
LEARNED = "learned"
# Its value before any answer: the median of its prior.
FIRST_LAPSE_RATE = 0.04
# With two alternatives, lapses and flat slopes look alike, so answers tell too little
# about the rate.
TWO_CHOICES_LAPSE_RATE = 0.02


@dataclass(frozen=True)
class SingleSide(Feedback):
    r"""Feedback on one set of parameters: the answer says how good they are."""

    default_rule: ClassVar[str] = "ucb99-ald"
    default_kernel: ClassVar[str] = "additive"

    @property
    def num_sides(self) -> int:
        """One."""
        return 1

    @property
    def functional(self) -> Functional:
        """``f`` at one row."""
        from botorch_binary_context.functionals import VALUE

        return VALUE

    @property
    def rules(self) -> Mapping[str, Any]:
        """The rules for pass/fail outcomes."""
        from botorch_binary_context.rules import BINARY_RULES

        return BINARY_RULES


@dataclass(frozen=True)
class PassFail(SingleSide):
    r"""A test is passed or failed.

    Attributes:
        guess_rate: The chance of passing without any ability: ``1/n`` in a choice of
            one among ``n``; a number, or a text such as "1/26".
        lapse_rate: The chance of failing with full ability; a number or a text, or
            "learned" to learn it from the answers. People who choose among
            ``alternatives`` press a wrong key at times, so with more than two of them
            the rate is learned by default, and with two it is 0.02; without them it is
            0.
        alternatives: ``n``, as another way to give a ``guess_rate`` of ``1/n``; it is
            converted, and is None afterward.
    """

    kind: ClassVar[str] = "pass/fail"
    guess_rate: float | str = 0.0
    lapse_rate: float | str | None = None
    alternatives: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lapse_rate is None:
            rate = _default_lapse_rate(self.alternatives)
            object.__setattr__(self, "lapse_rate", rate)
        if self.alternatives is not None:
            if self.guess_rate != 0.0:
                _refuse_both(self.guess_rate, self.alternatives)
            rate = 1 / _check_alternatives(self.alternatives)
            object.__setattr__(self, "guess_rate", rate)
            object.__setattr__(self, "alternatives", None)
        _set_rates(self)

    @property
    def answers(self) -> tuple[str, ...]:
        """A fail and a pass."""
        return "fail", "pass"

    @property
    def learns_lapse_rate(self) -> bool:
        """Whether the lapse rate is learned from the answers."""
        return self.lapse_rate == LEARNED

    @property
    def first_lapse_rate(self) -> float:
        """The lapse rate before any answer."""
        if self.learns_lapse_rate:
            return FIRST_LAPSE_RATE
        assert self.lapse_rate is not None
        return float(self.lapse_rate)

    def likelihood(self) -> OutcomeLikelihood:
        r"""A probit with the two rates."""
        from botorch_binary_context.likelihoods import ProbitLikelihood

        return ProbitLikelihood(
            float(self.guess_rate),
            self.first_lapse_rate,
            learn_lapse_rate=self.learns_lapse_rate,
        )


@dataclass(frozen=True)
class Duels(Feedback):
    r"""Two sets of parameters are compared in one context, and one is preferred.

    Attributes:
        lapse_rate: The chance that careless raters choose the clearly worse side; a
            number or a text such as "1/50".
    """

    kind: ClassVar[str] = "duels"
    default_rule: ClassVar[str] = "muc-target"
    default_kernel: ClassVar[str] = "product"
    lapse_rate: float | str = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        rate = parse_rate("lapse_rate", self.lapse_rate, highest=0.5)
        object.__setattr__(self, "lapse_rate", rate)

    @property
    def num_sides(self) -> int:
        """Two."""
        return 2

    @property
    def answers(self) -> tuple[str, ...]:
        """The preferred side."""
        return "second", "first"

    @property
    def functional(self) -> Functional:
        """The difference of ``f`` at two rows."""
        from botorch_binary_context.functionals import DIFFERENCE

        return DIFFERENCE

    @property
    def rules(self) -> Mapping[str, Any]:
        """The rules for duels."""
        from botorch_binary_context.rules import DUEL_RULES

        return DUEL_RULES

    def likelihood(self) -> OutcomeLikelihood:
        r"""A probit of the difference."""
        from botorch_binary_context.likelihoods import PreferenceLikelihood

        return PreferenceLikelihood(float(self.lapse_rate))


@dataclass(frozen=True)
class DuelsWithTies(Duels):
    r"""Two sets of parameters are compared, and one is preferred, or neither.

    The size of differences that are not noticed is learned from the answers.

    Attributes:
        lapse_rate: The chance that careless raters give an answer other than the clear
            one; a number or a text such as "1/50".

    Example:
        >>> settings = Settings(space, DuelsWithTies())
        >>> with Experiment.create("hearing-aid.journal", settings) as experiment:
        ...     trial = experiment.ask()
        ...     experiment.tell(trial.id, "tie")  # or "first", "second"
    """

    kind: ClassVar[str] = "duels with ties"

    @property
    def answers(self) -> tuple[str, ...]:
        """The preferred side, or a tie."""
        return "second", "tie", "first"

    @property
    def numbers(self) -> dict[float, int]:
        """As in duels, and 0.5 for a tie."""
        return {0.0: 0, 0.5: 1, 1.0: 2}

    def likelihood(self) -> OutcomeLikelihood:
        r"""An ordered probit of the difference."""
        from botorch_binary_context.likelihoods import TiesLikelihood

        return TiesLikelihood(lapse_rate=float(self.lapse_rate))


@dataclass(frozen=True)
class Confidence(SingleSide):
    r"""A test is passed or failed, and the answer says whether that was sure.

    Sure answers mean that the test was far from turning out the other way; how far is
    learned from the answers.

    Attributes:
        guess_rate: The chance of passing without any ability: ``1/n`` in a choice of
            one among ``n``; a number, or a text such as "1/26".
        lapse_rate: The chance of failing with full ability; a number or a text.

    Example:
        >>> settings = Settings(space, Confidence(guess_rate="1/26"))
        >>> with Experiment.create("patient-7.journal", settings) as experiment:
        ...     trial = experiment.ask()
        ...     experiment.tell(trial.id, "unsure-pass")
    """

    kind: ClassVar[str] = "confidence"
    guess_rate: float | str = 0.0
    lapse_rate: float | str = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _set_rates(self)

    @property
    def answers(self) -> tuple[str, ...]:
        """A fail or a pass, each sure or not."""
        return "sure-fail", "unsure-fail", "unsure-pass", "sure-pass"

    @property
    def numbers(self) -> dict[float, int]:
        """None: answers have names only."""
        return {}

    def likelihood(self) -> OutcomeLikelihood:
        r"""An ordered probit with the two rates."""
        from botorch_binary_context.likelihoods import ConfidenceLikelihood

        return ConfidenceLikelihood(float(self.guess_rate), float(self.lapse_rate))


@dataclass(frozen=True)
class Ratings(SingleSide):
    r"""A trial is rated, from 1 up to the best rating.

    The distances between ratings are learned from the answers. A rating in the upper
    half counts as a success.

    Attributes:
        best: The best rating, from 2 to 20.
        lapse_rate: The chance that careless raters give a rating other than the clear
            one; a number or a text such as "1/50".
    """

    kind: ClassVar[str] = "ratings"
    best: int = 5
    lapse_rate: float | str = 0.0

    def __post_init__(self) -> None:
        if (
            isinstance(self.best, bool)
            or not isinstance(self.best, int)
            or not 2 <= self.best <= MAX_RATING
        ):
            raise InputDataError(
                f"Expected ``best`` to be a whole number from 2 to {MAX_RATING}, but "
                f"got {quote(self.best)}."
            )
        super().__post_init__()
        rate = parse_rate("lapse_rate", self.lapse_rate, highest=1 - 1 / self.best)
        object.__setattr__(self, "lapse_rate", rate)

    @property
    def answers(self) -> tuple[str, ...]:
        """The ratings, "1" to the best."""
        return tuple(str(rating) for rating in range(1, self.best + 1))

    @property
    def numbers(self) -> dict[float, int]:
        """The ratings."""
        return {float(rating): rating - 1 for rating in range(1, self.best + 1)}

    def _expected(self) -> str:
        named = "" if self.infeasible is None else f", or {self.infeasible!r}"
        return f"a rating from 1 to {self.best}{named}"

    def show(self, label: int) -> int | str:
        r"""The rating of a label.

        Args:
            label: Its label.

        Returns:
            The rating, from 1; the name of an outcome that is not a rating.
        """
        return label + 1 if label < self.best else self.outcomes[label]

    def likelihood(self) -> OutcomeLikelihood:
        r"""An ordered probit."""
        from botorch_binary_context.likelihoods import RatingLikelihood

        return RatingLikelihood(self.best, lapse_rate=float(self.lapse_rate))


@dataclass(frozen=True)
class BestOf(Feedback):
    r"""Several sets of parameters are compared in one context, and the best is named.

    Attributes:
        options: The number of sets, from 2 to 8.
    """

    kind: ClassVar[str] = "best of several"
    default_rule: ClassVar[str] = "qeubo"
    default_kernel: ClassVar[str] = "product"
    options: int = 3

    def __post_init__(self) -> None:
        is_whole = isinstance(self.options, int) and not isinstance(self.options, bool)
        if not is_whole or not 2 <= self.options <= len(SIDE_NAMES):
            raise InputDataError(
                f"Expected ``options`` to be a whole number from 2 to "
                f"{len(SIDE_NAMES)}, but got {quote(self.options)}."
            )
        super().__post_init__()

    @property
    def num_sides(self) -> int:
        """The number of options."""
        return self.options

    @property
    def answers(self) -> tuple[str, ...]:
        """The best one."""
        return SIDE_NAMES[: self.options]

    @property
    def numbers(self) -> dict[float, int]:
        """The options, from 1."""
        return {float(i + 1): i for i in range(self.options)}

    @property
    def functional(self) -> Functional:
        """The differences of ``f`` between the winner and the others."""
        from botorch_binary_context.functionals import DIFFERENCE

        return DIFFERENCE

    @property
    def rules(self) -> Mapping[str, Any]:
        """The rules for contests."""
        from botorch_binary_context.rules import CONTEST_RULES

        return CONTEST_RULES

    def show(self, label: int) -> int | str:
        r"""The name of an outcome, even if there are only two."""
        return self.outcomes[label]

    def likelihood(self) -> OutcomeLikelihood:
        r"""The likelihood of duels, from which contests are predicted."""
        from botorch_binary_context.likelihoods import PreferenceLikelihood

        return PreferenceLikelihood()

    def observations(self, X: Tensor, Y: Tensor, likelihood: Any) -> list[Observations]:
        r"""Contests, and no duels."""
        from botorch_binary_context.models.best_of_gp import contests
        from botorch_binary_context.models.observations import Observations

        observed = contests(X, Y)
        pairs = observed.X[:0]
        return [Observations(pairs, pairs[:, 0, :1], likelihood), observed]


#: The kinds of feedback by their names.
FEEDBACKS: dict[str, type[Feedback]] = {
    kind.kind: kind
    for kind in (PassFail, Duels, DuelsWithTies, BestOf, Confidence, Ratings)
}


def make_feedback(table: Any) -> Feedback:
    r"""The feedback that a table of a TOML file or of a journal describes.

    Args:
        table: A dictionary with the kind, by default "pass/fail", and its keys.
    """
    if not isinstance(table, dict):
        raise InputDataError(
            "Expected ``feedback`` to be a table, [feedback] in a TOML file, but got "
            f"{quote(table)}."
        )
    table = dict(table)
    kind = choose(FEEDBACKS, table.pop("kind", PassFail.kind), "kind")
    if kind is PassFail and {"guess_rate", "alternatives"} <= set(table):
        _refuse_both(table["guess_rate"], table["alternatives"])
    return make(kind, table, "feedback")


def _refuse_both(guess_rate: Any, alternatives: Any) -> None:
    raise InputDataError(
        "Expected ``guess_rate`` or ``alternatives``, one of the two, but got "
        f"{quote(guess_rate)} and {quote(alternatives)}."
    )


def _default_lapse_rate(alternatives: Any) -> float | str:
    """What the study ``lapses`` suggests."""
    if alternatives is None:
        return 0.0
    return TWO_CHOICES_LAPSE_RATE if alternatives == 2 else LEARNED


def _check_alternatives(number: Any) -> int:
    is_whole = isinstance(number, int) and not isinstance(number, bool)
    if not is_whole or number < 2:
        raise InputDataError(
            "Expected ``alternatives`` to be a whole number of at least 2, but got "
            f"{quote(number)}."
        )
    return number


def _set_rates(feedback: PassFail | Confidence) -> None:
    """Read the rates of guesses and lapses."""
    guess = parse_rate("guess_rate", feedback.guess_rate)
    object.__setattr__(feedback, "guess_rate", guess)
    can_learn = isinstance(feedback, PassFail)
    if can_learn and feedback.learns_lapse_rate:
        lapse = FIRST_LAPSE_RATE
    else:
        named = f", or {LEARNED!r}" if can_learn else ""
        lapse = parse_rate("lapse_rate", feedback.lapse_rate, named=named)
        object.__setattr__(feedback, "lapse_rate", lapse)
    if guess + lapse >= 1.0:
        raise InputDataError(
            "Expected ``guess_rate`` and ``lapse_rate`` to sum to less than 1, but "
            f"got {guess} and {lapse}."
        )
