r"""
Catch trials and easy trials in between.

A catch trial shows what the settings say, such as a blank, to see whether the subject
attends. An easy trial is the one that would be asked, in its easiest context, to keep
the subject going. Which trial is one of them depends on its number and the seed alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context.errors import quote
from botorch_binary_context.experiment.space import NamedSpace, Values
from botorch_binary_context.experiment.variables import Value

CATCH, EASY = "catch", "easy"
#: The kinds of trials in between.
KINDS = (CATCH, EASY)
# Words of the seed that no other random number of an experiment has.
PURPOSE = 0x1E7E


def choose_kind(
    seed: int, number: int, catch_rate: float, easy_rate: float
) -> str | None:
    r"""The kind of a trial: a catch trial, an easy trial or an ordinary one.

    Args:
        seed: The seed of the experiment.
        number: The number of the trial, from 1; the first is always an ordinary one.
        catch_rate: The share of catch trials.
        easy_rate: The share of easy trials.

    Returns:
        "catch", "easy", or None if it is an ordinary trial.
    """
    if number <= 1:
        return None
    generator = np.random.default_rng([seed, PURPOSE, number])
    draw = generator.random()
    if draw < catch_rate:
        return CATCH
    return EASY if draw < catch_rate + easy_rate else None


def make_catch(
    context: Values, sides: Sequence[Values], catch: Values
) -> tuple[dict[str, Value], tuple[dict[str, Value], ...]]:
    r"""A catch trial.

    Args:
        context: The context of the trial that would be asked.
        sides: Its parameters.
        catch: The values of contexts and parameters that a catch trial has; the others
            stay.

    Returns:
        The context and the parameters of each side. If they leave nothing to compare,
        the second side of a duel stays as it would be asked.
    """
    changed = tuple(_change(side, catch) for side in sides)
    if len(changed) > 1 and all(side == changed[0] for side in changed):
        changed = (changed[0], *(dict(side) for side in sides[1:]))
    return _change(context, catch), changed


def make_easy(
    context: Values, sides: Sequence[Values], space: NamedSpace
) -> tuple[dict[str, Value], tuple[dict[str, Value], ...]]:
    r"""An easy trial.

    Args:
        context: The context of the trial that would be asked.
        sides: Its parameters.
        space: The named variables, whose contexts say which way is harder.

    Returns:
        The context, as easy as it can be shown, and the parameters of each side.
    """
    easiest = {
        c.name: c.bounds[0] if c.harder == "up" else c.bounds[1]
        for c in space.contexts
        if c.harder is not None
    }
    return _change(context, easiest), tuple(dict(side) for side in sides)


def _change(values: Values, changes: Values) -> dict[str, Value]:
    return {name: changes.get(name, value) for name, value in values.items()}


def check_interleaving(
    space: NamedSpace,
    catch_rate: Any,
    catch: Any,
    easy_rate: Any,
    kept_out: Any,
) -> None:
    r"""Raise an error unless the settings of catch trials and easy trials make sense.

    Args:
        space: The named variables.
        catch_rate: The share of catch trials.
        catch: The values that a catch trial has.
        easy_rate: The share of easy trials.
        kept_out: The kinds that the model does not learn from.
    """
    for name, rate in (("catch_rate", catch_rate), ("easy_rate", easy_rate)):
        is_number = isinstance(rate, int | float) and not isinstance(rate, bool)
        if not is_number or not 0.0 <= rate <= 0.5:
            raise InputDataError(
                f"Expected ``{name}`` to be a number from 0 to 0.5, but got "
                f"{quote(rate)}."
            )
    if catch_rate + easy_rate > 0.5:
        raise InputDataError(
            "Expected ``catch_rate`` and ``easy_rate`` to sum to at most 0.5, but got "
            f"{catch_rate} and {easy_rate}."
        )
    if catch_rate and not catch:
        raise InputDataError(
            "Expected ``catch`` to say what catch trials show, values of contexts or "
            f"parameters by their names, but got {quote(catch)}."
        )
    _check_catch(space, catch)
    if easy_rate and all(c.harder is None for c in space.contexts):
        raise UnsupportedError(
            "Expected a context with ``harder`` for easy trials, but got none."
        )
    wrong = not isinstance(kept_out, list | tuple) or any(
        kind not in KINDS for kind in kept_out
    )
    if wrong:
        raise InputDataError(
            f"Expected ``kept_out`` to be a list of {', '.join(KINDS)}, but got "
            f"{quote(kept_out)}."
        )


def _check_catch(space: NamedSpace, catch: Any) -> None:
    """Raise an error unless the values of a catch trial are values of variables."""
    if not isinstance(catch, Mapping):
        raise InputDataError(
            "Expected ``catch`` to be a table of values by their names, but got "
            f"{quote(catch)}."
        )
    contexts = {c.name: c for c in space.contexts}
    parameters = {p.name: p for p in space.parts}
    unknown = [name for name in catch if name not in {*contexts, *parameters}]
    if unknown:
        raise InputDataError(
            "Expected ``catch`` to have names among "
            f"{', '.join([*contexts, *parameters])}, but got {quote(unknown[0])}."
        )
    for name, value in catch.items():
        if name in contexts:
            contexts[name].encode(value, centered=True)
        else:
            parameters[name].encode(value)
