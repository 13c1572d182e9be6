r"""
What the parameters of an experiment should be good at, in the user's units.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from botorch.exceptions import InputDataError, UnsupportedError
from torch import Tensor

from botorch_binary_context.errors import quote
from botorch_binary_context.experiment.space import Encoder, NamedSpace
from botorch_binary_context.experiment.toml_tables import choose
from botorch_binary_context.experiment.variables import Context, Value
from botorch_binary_context.goals import (
    AverageSuccess,
    ContextAverage,
    ContextCVaR,
    ContextQuantile,
    Goal,
    ThresholdMap,
    WorstContext,
)

if TYPE_CHECKING:
    from botorch_binary_context.experiment.settings import Settings

MAP = "map"
AVERAGE_SUCCESS = "average success"
#: The kinds of goals by their names; a map has no optimum.
GOALS: dict[str, Any] = {
    "average": ContextAverage,
    AVERAGE_SUCCESS: AverageSuccess,
    "worst": WorstContext,
    "quantile": ContextQuantile,
    "cvar": ContextCVaR,
    MAP: ThresholdMap,
}
#: Rules that need no parameters to optimize.
MEASURING_RULES = ("bald", "map-mi", "map-eavc", "map-straddle", "random")
_WEIGHTED = ("average", AVERAGE_SUCCESS)
_WITH_SHARE = ("quantile", "cvar")
# The default number of values along each context, and the maximum number of contexts
# altogether.
NUM_POINTS = 5
MAX_CONTEXTS = 256


@dataclass(frozen=True)
class NamedGoal:
    r"""What the parameters should be good at, if not at the reference context.

    Attributes:
        kind: "average" of the performance over contexts, "average success" of the
            success probability, "worst" context, "quantile" over contexts, "cvar": the
            average over the worst of them; or "map": to learn the threshold everywhere,
            instead of an optimum.
        contexts: The contexts that count: values of all contexts by their names; by
            default a grid over their ranges.
        points: The number of values of each context in the grid, 5 by default; a
            context with levels contributes these.
        weights: The weight of each of ``contexts`` in an average; by default all are
            equal.
        share: For "quantile", the share of the contexts that may be worse, from 0 to 1;
            for "cvar", the share of the contexts, from the worst, that is averaged
            over.
        probability: For "map", the success probability at the threshold, by default
            halfway between the guess rate and 1 minus the lapse rate.

    Example:
        >>> NamedGoal("worst", contexts=[{"noise": 1.0}, {"noise": 3.0}])
        >>> Settings(space, goal=NamedGoal("average", points=7))
    """

    kind: str
    contexts: Sequence[Mapping[str, Value]] | None = None
    points: int | None = None
    weights: Sequence[float] | None = None
    share: float | None = None
    probability: float | None = None

    def __post_init__(self) -> None:
        choose(GOALS, self.kind, "kind")
        given = {
            name: getattr(self, name)
            for name in ("contexts", "points", "weights", "share", "probability")
        }
        allowed = {
            "contexts": self.kind != MAP,
            "points": self.kind != MAP and self.contexts is None,
            "weights": self.kind in _WEIGHTED and self.contexts is not None,
            "share": self.kind in _WITH_SHARE,
            "probability": self.kind == MAP,
        }
        for name, value in given.items():
            if value is not None and not allowed[name]:
                raise InputDataError(
                    f"Expected ``{name}`` of ``goal`` to be left out of {self._known}, "
                    f"but got {quote(value)}."
                )
        self._check_numbers()
        if self.contexts is not None:
            self._check_tables()
            tables = tuple(dict(context) for context in self.contexts)
            object.__setattr__(self, "contexts", tables)
        if self.weights is not None:
            object.__setattr__(self, "weights", tuple(self.weights))

    @property
    def _known(self) -> str:
        """A description of the goal, for messages."""
        return f"{self.kind!r} with its own contexts" if self.contexts else self.kind

    def _check_numbers(self) -> None:
        points = self.points
        weights = self.weights
        if self.kind in _WITH_SHARE and self.share is None:
            raise InputDataError(
                f"Expected ``share`` of ``goal`` to be a number with {self.kind!r}, "
                "but got none."
            )
        for name in ("share", "probability"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and 0.0 <= value <= 1.0):
                raise InputDataError(
                    f"Expected ``{name}`` of ``goal`` to be from 0 to 1, but got "
                    f"{quote(value)}."
                )
        is_whole = isinstance(points, int) and not isinstance(points, bool)
        if points is not None and not (is_whole and 2 <= points <= MAX_CONTEXTS):
            raise InputDataError(
                f"Expected ``points`` of ``goal`` to be a whole number from 2 to "
                f"{MAX_CONTEXTS}, but got {quote(points)}."
            )
        is_list = isinstance(weights, list | tuple)
        if weights is not None and not (is_list and all(map(_is_number, weights))):
            raise InputDataError(
                f"Expected ``weights`` of ``goal`` to be numbers, but got "
                f"{quote(weights)}."
            )

    def _check_tables(self) -> None:
        given: Any = self.contexts
        is_list = isinstance(given, list | tuple)
        if not is_list or not given or not all(isinstance(c, Mapping) for c in given):
            raise InputDataError(
                "Expected ``contexts`` of ``goal`` to be a list of tables with the "
                f"values of contexts, but got {quote(given)}."
            )

    def make(self, encoder: Encoder) -> Goal | ThresholdMap:
        r"""The goal in the units of the models' box.

        Args:
            encoder: The conversion to the box.
        """
        if self.kind == MAP:
            return ThresholdMap(self.probability)
        contexts = self._contexts(encoder)
        kind = GOALS[self.kind]
        if self.kind in _WEIGHTED:
            return kind(contexts, self.weights)
        return kind(contexts, self.share) if self.share is not None else kind(contexts)

    def _contexts(self, encoder: Encoder) -> Tensor:
        """The contexts as rows of the box, ``K x m``."""
        if self.contexts is not None:
            rows = [encoder.encode_context(context) for context in self.contexts]
        else:
            sides = [
                _columns(context, self.points, encoder.centered)
                for context in encoder.space.contexts
            ]
            rows = [torch.cat(row) for row in itertools.product(*sides)]
        if len(rows) > MAX_CONTEXTS:
            raise InputDataError(
                f"Expected ``goal`` to have at most {MAX_CONTEXTS} contexts, but got "
                f"{len(rows)}: see ``contexts`` and ``points``."
            )
        return torch.stack(rows)

    def check(self, space: NamedSpace, sees_offset: bool, rule: str) -> None:
        r"""Raise an error unless a goal makes sense in an experiment.

        Args:
            space: The named variables.
            sees_offset: Whether trials are passed or failed, rather than compared.
            rule: The name of the rule.
        """
        if not space.contexts:
            raise UnsupportedError(
                "Expected ``contexts`` with a ``goal``, but got none for "
                f"{self.kind!r}."
            )
        if self.kind in (MAP, AVERAGE_SUCCESS) and not sees_offset:
            raise UnsupportedError(
                f"Expected pass/fail outcomes with the ``goal`` {self.kind!r}, but got "
                "duels."
            )
        if self.kind != MAP and not space.parameters:
            raise UnsupportedError(
                f"Expected ``goal`` to be {MAP!r} or left out without parameters, but "
                f"got {self.kind!r}."
            )
        if self.kind == MAP and rule not in MEASURING_RULES:
            raise UnsupportedError(
                f"Expected ``rule`` to be one of {', '.join(MEASURING_RULES)} with the "
                f"``goal`` {MAP!r}, but got {quote(rule)}."
            )
        if self.kind != MAP and rule.startswith("map-"):
            raise UnsupportedError(
                f"Expected ``goal`` to be {MAP!r} with the rule {rule}, but got "
                f"{self.kind!r}."
            )


def check_goal(settings: Settings, goal: NamedGoal) -> None:
    r"""Raise an error unless the goal of settings makes sense.

    Args:
        settings: The settings of the experiment.
        goal: Its goal.
    """
    feedback = settings.feedback
    if feedback.num_sides > feedback.functional.num_rows:
        raise UnsupportedError(
            f"Expected ``goal`` to be left out with {feedback.kind}, whose rules are "
            f"for the reference context, but got {goal.kind!r}."
        )
    goal.check(settings.space, feedback.functional.sees_offset, str(settings.rule))


def check_threshold_only(settings: Settings) -> None:
    r"""Raise an error if settings without parameters need some.

    Args:
        settings: Settings of an experiment that only looks for a threshold.
    """
    if settings.feedback.num_sides > 1:
        raise UnsupportedError(
            f"Expected ``parameters`` to name something to compare in "
            f"{settings.feedback.kind}, but got none."
        )
    if settings.rule not in MEASURING_RULES:
        raise UnsupportedError(
            "Expected ``rule`` without parameters to be one of "
            f"{', '.join(MEASURING_RULES)}, but got {quote(settings.rule)}."
        )
    if settings.kernel == "multiplicative":
        raise UnsupportedError(
            "Expected ``kernel`` without parameters to be 'additive' or "
            "'product', but got 'multiplicative'."
        )
    if settings.combinations is not None:
        raise UnsupportedError(
            "Expected ``parameters`` to name what ``combinations`` combine, but "
            "got none."
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _columns(context: Context, points: int | None, centered: bool) -> list[Tensor]:
    """The columns of the values of a context that count."""
    if points is None and context.grid is not None:
        return [context.encode(value, centered) for value in context.grid]
    values = context.difficulties(points or NUM_POINTS, centered)
    return [value.reshape(1) for value in values]
