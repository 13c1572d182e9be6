r"""
Goals over contexts as Ax stores them: names, lists and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from botorch.exceptions import UnsupportedError

from botorch_binary_context.goals import (
    AtContext,
    AverageSuccess,
    ContextAverage,
    ContextCVaR,
    ContextQuantile,
    Goal,
    ThresholdMap,
    WorstContext,
)

#: The attributes of each kind of goal in addition to its contexts.
_GOALS: dict[str, tuple[type, Sequence[str]]] = {
    cls.__name__: (cls, names)
    for cls, names in (
        (AtContext, ()),
        (ContextAverage, ("weights",)),
        (AverageSuccess, ("weights",)),
        (WorstContext, ()),
        (ContextQuantile, ("share",)),
        (ContextCVaR, ("share",)),
        (ThresholdMap, ("probability",)),
    )
}


def store_goal(goal: Goal | ThresholdMap | None) -> dict[str, Any] | None:
    r"""A goal as Ax can store it.

    Args:
        goal: The goal, or None.

    Returns:
        A dict of texts, lists and numbers.
    """
    if goal is None:
        return None
    kind = type(goal).__name__
    if kind not in _GOALS:
        raise UnsupportedError(
            f"Expected ``goal`` to be one that Ax can store, {', '.join(_GOALS)}, but "
            f"got {goal!r}."
        )
    stored: dict[str, Any] = {"kind": kind}
    if isinstance(goal, AtContext):
        stored["contexts"] = [goal.context.tolist()]
    elif not isinstance(goal, ThresholdMap):
        contexts: Any = goal.contexts  # pyright: ignore[reportAttributeAccessIssue]
        stored["contexts"] = contexts.tolist()
    for name in _GOALS[kind][1]:
        value = getattr(goal, name)
        stored[name] = value.tolist() if hasattr(value, "tolist") else value
    return stored


def load_goal(
    stored: Mapping[str, Any] | None,
    translate: Callable[[list[float]], list[float]] = list,
) -> Goal | ThresholdMap | None:
    r"""The goal that was stored.

    Args:
        stored: The result of :func:`store_goal`.
        translate: Converts a context to other units.
    """
    if stored is None:
        return None
    options = dict(stored)
    cls, _ = _GOALS[options.pop("kind")]
    contexts = [translate(context) for context in options.pop("contexts", ())]
    if cls is AtContext:
        return AtContext(contexts[0])
    return cls(contexts, **options) if contexts else cls(**options)
