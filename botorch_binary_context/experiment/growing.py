r"""
The model of an experiment's answers, which grows answer by answer.

An approximation is found faster if the search starts at the approximation of all
answers but the last, but it then rounds differently. Questions must not depend on that,
nor on when a journal was opened. So the path to every model is fixed: at certain
numbers of answers the approximation is computed from scratch, and from there it grows
by one answer at a time. A process that has followed this path has one step to do; a
process that has just opened the journal follows the same path from the last of these
numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from botorch.models.transforms.input import InputTransform
from torch import Tensor

from botorch_binary_context.experiment.coordinates import (
    choosing_coordinates,
    predicting_coordinates,
)
from botorch_binary_context.experiment.state import State, answers_of
from botorch_binary_context.experiment.surrogate import Hyperparameters, Surrogate
from botorch_binary_context.experiment.trial import Trial
from botorch_binary_context.models.latent_gp import LatentGP

# After this many steps an approximation is computed from scratch again.
MAX_STEPS = 10
# The number of models to keep while an outcome is supposed: one with it, one without.
MAX_KEPT = 2


@dataclass(frozen=True)
class _Grown:
    """A model and what it was made of."""

    model: LatentGP
    answers: Sequence[Trial]
    learned: Hyperparameters
    first: int  # the number of answers from which it has grown


class GrowingModel:
    r"""Makes the models that questions come from."""

    def __init__(self, surrogate: Surrogate) -> None:
        r"""
        Args:
            surrogate: Makes models from scratch.
        """
        self._surrogate = surrogate
        # The latest first.
        self._kept: deque[_Grown] = deque(maxlen=MAX_KEPT)

    def at(self, state: State, learned: Hyperparameters, due: int | None) -> LatentGP:
        r"""The model of the answers at a moment.

        Args:
            state: The state of the journal, or a possible one.
            learned: The hyperparameters that are not fixed.
            due: The number of answers they were learned from, if any.

        Returns:
            The model, in ``eval`` mode. Do not change it.
        """
        settings = self._surrogate.settings
        answers = state.answered
        first = first_step(len(answers), due)
        if settings.drift is not None:
            first = len(answers)  # each answer makes all others older
        shown = self._shown(state)
        grown = self._find(answers, learned, first)
        if grown is None:
            begin = answers[:first]
            model = self._surrogate.choosing_model(begin, learned)
            grown = self._keep(_Grown(model, begin, learned, first))
        for number in range(len(grown.answers), len(answers)):
            _show(grown.model, choosing_coordinates(settings, shown))
            grown = self._keep(self._grow(grown, answers[: number + 1]))
        if not state.is_supposed:
            self._kept = deque([grown], MAX_KEPT)  # the others take memory
        _show(grown.model, choosing_coordinates(settings, shown))
        return grown.model

    def between_levels(self, model: LatentGP, state: State) -> LatentGP:
        r"""A model for given contexts, which need not be among the levels.

        Args:
            model: The model that :meth:`at` returned last.
            state: The state of the journal.

        Returns:
            The same model, which allows any context until :meth:`at` is called again.
        """
        settings = self._surrogate.settings
        _show(model, predicting_coordinates(settings, self._shown(state)))
        return model

    def _shown(self, state: State) -> Tensor:
        """The rows of all trials that were asked."""
        rows = self._surrogate.answered_rows(state.answered)
        waiting = self._surrogate.rows(state.waiting)
        return torch.cat([rows, waiting]).flatten(0, -2)

    def _find(
        self, answers: Sequence[Trial], learned: Hyperparameters, first: int
    ) -> _Grown | None:
        """The largest model that the model of some answers grows from."""
        wanted = answers_of(answers)
        fits = [
            grown
            for grown in self._kept
            if grown.first == first
            and grown.learned == learned
            and answers_of(grown.answers) == wanted[: len(grown.answers)]
        ]
        return max(fits, key=lambda grown: len(grown.answers), default=None)

    def _keep(self, grown: _Grown) -> _Grown:
        with torch.no_grad():
            _ = grown.model.approximation  # computed now, to grow from
        self._kept.appendleft(grown)
        return grown

    def _grow(self, grown: _Grown, answers: Sequence[Trial]) -> _Grown:
        """The model of one more answer."""
        model = grown.model
        for kind in self._surrogate.observations(answers[-1:], model.likelihood):
            if len(kind.X):
                model = model.grow(kind)
        return replace(grown, model=model, answers=answers)


def _show(model: LatentGP, coordinates: InputTransform | None) -> None:
    """Replace the trials that a model knows."""
    if coordinates is not None:
        model.input_transform = coordinates


def first_step(num_answers: int, due: int | None) -> int:
    r"""The number of answers from which a model grows.

    Args:
        num_answers: The number of answers.
        due: The number of answers the hyperparameters were learned from, if any.

    Returns:
        The number of answers whose approximation is computed from scratch.
    """
    begin = min(num_answers, 1) if due is None else due
    return num_answers - (num_answers - begin) % MAX_STEPS
