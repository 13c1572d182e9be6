r"""
One trial of an experiment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botorch_binary_context.errors import UnsupportedError

if TYPE_CHECKING:
    from botorch_binary_context.experiment.space import Values
    from botorch_binary_context.experiment.variables import Value

#: What the sides of a trial are called.
SIDE_NAMES = (
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
)
#: The prefix of table columns that say what should have been shown.
ASKED = "asked"


@dataclass(frozen=True)
class Trial:
    r"""A question, and what became of it.

    Attributes:
        id: Its number, from 1.
        context: The values of the contexts, in the user's units.
        sides: The parameters that are shown: one set, or one for each side of a duel
            or a contest.
        chosen_by: The rule that chose it, "quasi-random", "catch" or "easy" for trials
            in between, or "added" if it was not asked by the experiment. An imported
            trial keeps what its table says.
        asked_at: When it was asked, in UTC.
        status: "pending", "answered" or "withdrawn".
        outcome: The label of the outcome if it was answered: 1 or 0 for passed or
            failed, or for duels the first or the second side preferred.
        infeasible: What was infeasible in spite of the outcome, by the names of such
            outcomes: "unpleasant", or in duels "unpleasant-first" and so on.
        closed_at: When it was answered or withdrawn.
        position: A number from 1 that is larger for later answers.
        used: Whether the model learns from it.
        asked: What should have been shown, if something else was.
        rater: Who answers it.
        reaction_time: How long the answer took, in seconds.
        extra: What else was noted, by free names.
    """

    id: int
    context: Values
    sides: tuple[Values, ...]
    chosen_by: str
    asked_at: str
    status: str = "pending"
    outcome: int | None = None
    infeasible: tuple[str, ...] = ()
    closed_at: str | None = None
    position: int | None = None
    used: bool = True
    asked: Values | None = None
    rater: str | None = None
    reaction_time: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def parameters(self) -> Values:
        """The parameters of a pass/fail trial."""
        if len(self.sides) != 1:
            raise UnsupportedError(
                "Expected a pass/fail trial to take the ``parameters`` of, but got one "
                f"with {len(self.sides)} sides: use ``sides``, or in a duel ``first`` "
                "and ``second``."
            )
        return self.sides[0]

    @property
    def first(self) -> Values:
        """The parameters of the first side of a duel."""
        return self._side(0)

    @property
    def second(self) -> Values:
        """The parameters of the second side of a duel."""
        return self._side(1)

    def _side(self, index: int) -> Values:
        if len(self.sides) < 2:
            raise UnsupportedError(
                f"Expected a duel to take the ``{SIDE_NAMES[index]}`` side of, but got "
                "a pass/fail trial: use ``parameters``."
            )
        return self.sides[index]

    @property
    def values(self) -> dict[str, Value]:
        """All that is shown, in one dictionary.

        Parameters have names that begin with "first." and "second." in duels, and with
        "third." and so on in contests.
        """
        return join_values(self.context, self.sides)

    def to_dict(self) -> dict[str, Any]:
        r"""The trial as plain data, for scripts.

        Returns:
            Its id, its values and what became of it.
        """
        return {
            "id": self.id,
            "values": self.values,
            "status": self.status,
            "outcome": self.outcome,
            "infeasible": list(self.infeasible),
            "chosen_by": self.chosen_by,
            "asked_at": self.asked_at,
            "closed_at": self.closed_at,
            "used": self.used,
            "asked": self.asked,
            "rater": self.rater,
            "reaction_time": self.reaction_time,
            "extra": dict(self.extra),
        }


def join_values(context: Values, sides: Sequence[Values]) -> dict[str, Value]:
    r"""All that is shown, in one dictionary.

    Args:
        context: The values of the contexts.
        sides: The parameters of the trial, or of each side.

    Returns:
        The values by their names; names of parameters in duels begin with "first." and
        "second.".
    """
    if len(sides) == 1:
        return {**context, **sides[0]}
    named = zip(SIDE_NAMES[: len(sides)], sides, strict=True)
    return {**context} | {
        f"{n}.{key}": v for n, side in named for key, v in side.items()
    }
