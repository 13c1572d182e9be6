r"""
Stopping criteria of experiments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from botorch_binary_context.errors import InputDataError, UnsupportedError, quote

if TYPE_CHECKING:
    from botorch_binary_context.experiment.recommendation import Recommendation


@dataclass(frozen=True)
class Stop:
    r"""When to stop: as soon as one of these criteria is met.

    Attributes:
        answers: After this many answers.
        loss: When the expected loss of the recommended parameters is at most this, in
            the unit of :meth:`.Recommendation.expected_loss`.
        threshold_width: When the 90 % interval of the threshold is at most this wide,
            in the units of the context.
        value: When the next trial is expected to improve the recommendation by at most
            this, in units of the latent function.

    Example:
        >>> settings = Settings(space, PassFail("1/26"), stop=Stop(loss=0.02))
    """

    answers: int | None = None
    loss: float | None = None
    threshold_width: float | None = None
    value: float | None = None

    def __post_init__(self) -> None:
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        given = {name: limit for name, limit in given.items() if limit is not None}
        if not given:
            raise InputDataError(
                "Expected ``stop`` to give at least one of "
                f"{', '.join(f.name for f in fields(self))}, but got none."
            )
        for name, limit in given.items():
            is_count = name != "answers" or isinstance(limit, int)
            if not (_is_positive(limit) and is_count):
                kind = "whole number" if name == "answers" else "number"
                raise InputDataError(
                    f"Expected ``{name}`` of ``stop`` to be a positive {kind}, but got "
                    f"{quote(limit)}."
                )

    @property
    def needs_recommendation(self) -> bool:
        """Whether more is needed than the number of answers."""
        return any(getattr(self, f.name) for f in fields(self) if f.name != "answers")

    def check_without_best(self, is_map: bool) -> None:
        r"""Raise an error if a criterion is about the best parameters.

        Args:
            is_map: Whether the threshold is a map over parameters.
        """
        about_best = ["loss", "value", *(["threshold_width"] if is_map else [])]
        given = [name for name in about_best if getattr(self, name)]
        if given:
            fit = "``answers``" if is_map else "``answers`` or ``threshold_width``"
            raise UnsupportedError(
                f"Expected ``stop`` to use only {fit}, since nothing is optimized, but "
                f"got {', '.join(given)}."
            )


def _is_positive(limit: Any) -> bool:
    is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
    return is_number and 0 < limit < math.inf


class Progress(NamedTuple):
    r"""The progress of an experiment toward one of its stopping criteria.

    Attributes:
        criterion: The name of the field of :class:`Stop`.
        now: Its present value.
        limit: The value at which to stop.
        reached: Whether it is reached.
    """

    criterion: str
    now: float
    limit: float
    reached: bool

    def __str__(self) -> str:
        """One line, for people."""
        verdict = "reached: it can stop" if self.reached else "not reached"
        now = f"{self.now:.3g}" if math.isfinite(self.now) else "not known"
        return f"{self.criterion.replace('_', ' ')}: {now} of {self.limit:g}, {verdict}"


def measure_progress(
    stop: Stop, num_answers: int, best: Recommendation | None
) -> list[Progress]:
    r"""The progress of an experiment toward each of its stopping criteria.

    Args:
        stop: When to stop.
        num_answers: The number of answers.
        best: The recommendation; None if there are no answers yet.

    Returns:
        An entry for each criterion that is given, in the order of :class:`Stop`.
    """
    found = []
    if stop.answers is not None:
        reached = num_answers >= stop.answers
        found.append(Progress("answers", num_answers, stop.answers, reached))
    measures = {"loss": _loss, "threshold_width": _width, "value": _value}
    for name, measure in measures.items():
        limit = getattr(stop, name)
        if limit is not None:
            now = math.inf if best is None else measure(best)
            found.append(Progress(name, now, limit, now <= limit))
    return found


def _loss(best: Recommendation) -> float:
    # Without a unit where tests do not become harder, according to the answers.
    return best.expected_loss().mean if best.is_graded else math.inf


def _width(best: Recommendation) -> float:
    threshold = best.threshold()
    # The width is unknown if an end of the interval is out of range.
    return abs(threshold.high - threshold.low)


def _value(best: Recommendation) -> float:
    return best.value_of_next_trial()
