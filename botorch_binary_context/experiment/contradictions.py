r"""
Answers that contradict the settings.

Each assumption of the settings is compared with its opposite by a Bayes factor: how
much more likely the answers are if a context makes tests harder in the other direction,
or if more tests are missed or guessed than assumed. If an assumption holds, a factor
above ``k`` in favor of its opposite has a probability of at most ``1/k``, however often
it is checked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from botorch_binary_context.experiment.feedback import PassFail
from botorch_binary_context.experiment.settings import Settings
from botorch_binary_context.experiment.space import NamedSpace
from botorch_binary_context.experiment.surrogate import Surrogate
from botorch_binary_context.experiment.trial import Trial
from botorch_binary_context.experiment.variables import Context
from botorch_binary_context.numerics.notices import silent

#: How much more likely the answers must be under the opposite.
BAYES_FACTOR = 100.0
MIN_ANSWERS = 10
# Rates are compared with ones that are this much larger.
MORE = {"lapse_rate": 0.1, "guess_rate": 0.25}
OPPOSITE = {"up": "down", "down": "up"}


def find_contradictions(trials: Sequence[Trial], settings: Settings) -> list[str]:
    r"""Find where the answers contradict the settings.

    Args:
        trials: The answered trials that the model uses.
        settings: The settings of the experiment.

    Returns:
        A sentence for each contradiction; none for duels, or for few answers.
    """
    feedback = settings.feedback
    if not isinstance(feedback, PassFail) or len(trials) < MIN_ANSWERS:
        return []
    found = [
        _check_direction(trials, settings, context)
        for context in settings.space.contexts
        if context.harder is not None
    ]
    assumed = _log_evidence(trials, settings)
    found += [
        _check_rate(trials, settings, assumed, name)
        for name in MORE
        if name != "lapse_rate" or not feedback.learns_lapse_rate
    ]
    return [sentence for sentence in found if sentence is not None]


def _check_direction(
    trials: Sequence[Trial], settings: Settings, context: Context
) -> str | None:
    """Whether tests become harder as the context says."""
    # Compare with the additive kernel, whose mean has the direction.
    assumed = replace(settings, kernel="additive", hyperparameters={})
    turned = replace(context, harder=OPPOSITE[str(context.harder)])
    contexts = [turned if c is context else c for c in settings.space.contexts]
    contrary = replace(assumed, space=NamedSpace(settings.space.parameters, contexts))
    factor = _log_evidence(trials, contrary) - _log_evidence(trials, assumed)
    if factor < math.log(BAYES_FACTOR):
        return None
    return (
        f"Expected tests to become harder as {context.name!r} goes {context.harder}, "
        f"but the answers are {_describe(factor)} times as likely if they become "
        f"harder as it goes {turned.harder}: see ``harder``."
    )


def _check_rate(
    trials: Sequence[Trial], settings: Settings, assumed: float, name: str
) -> str | None:
    """Whether tests are missed, or guessed, more often than was assumed."""
    feedback: Any = settings.feedback
    rate = float(getattr(feedback, name))
    if float(feedback.guess_rate) + feedback.first_lapse_rate + MORE[name] >= 1.0:
        return None
    other = replace(feedback, **{name: rate + MORE[name]})
    contrary = replace(settings, feedback=other)
    factor = _log_evidence(trials, contrary) - assumed
    if factor < math.log(BAYES_FACTOR):
        return None
    what = (
        "easy tests were missed" if name == "lapse_rate" else "hard tests were passed"
    )
    return (
        f"Expected a ``{name}`` of {rate:g}, but {what} so often that the answers are "
        f"{_describe(factor)} times as likely with {rate + MORE[name]:g}."
    )


def _log_evidence(trials: Sequence[Trial], settings: Settings) -> float:
    """How likely the answers are, with the hyperparameters of the prior."""
    model = Surrogate(settings).predicting_model(trials, {})
    with torch.no_grad(), silent():  # the model is only compared
        return float(model.approximation.log_evidence)


def _describe(log_factor: float) -> str:
    """A factor, rounded to one digit."""
    factor = math.exp(min(log_factor, 20.0))
    return f"{float(f'{factor:.1g}'):,.0f}" if factor < 1e6 else "over a million"
