r"""
What a rule is, and what it has to go by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from botorch_binary_context.context import ContextSpace
from botorch_binary_context.goals import AtReference, Goal
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.optim import SearchOptions, maximize
from botorch_binary_context.pending import expect_outcomes
from botorch_binary_context.trials import TrialSpace

# Quasi-random points come in this many sets, so that their neighbors are found once.
NUM_POINT_SETS = 8
COARSE_GAIN = 1e-6
COARSE_EVALUATIONS = 40


@dataclass(frozen=True)
class Selection:
    r"""What a rule has to go by.

    Attributes:
        model: The model of the trials so far; pending ones are taken to come out as is
            to be expected.
        space: The box of the rows of trials.
        options: The effort of the search for ``x`` or for the whole trial.
        goal: What the parameters should be good at.
        context: The context of the trial, if it is given: ``m`` numbers or
            ``batch_shape x m``.
        answered: The model of the answered trials alone, if others are pending.
        pending: The pending trials, in the layout of ``train_X``, if there are any.
    """

    model: LatentGP
    space: ContextSpace
    options: SearchOptions
    goal: Goal = AtReference()
    context: Tensor | None = None
    answered: LatentGP | None = None
    pending: Tensor | None = None

    @cached_property
    def trials(self) -> TrialSpace:
        """The box of whole trials."""
        return TrialSpace(self.space, self.model.functional, self.context)

    @property
    def answered_model(self) -> LatentGP:
        """The model of the answered trials alone."""
        return self.model if self.answered is None else self.answered

    def await_trials(self, pending: Tensor) -> Selection:
        r"""The same, with more trials pending.

        Args:
            pending: The trials, in the layout of ``train_X``.

        Returns:
            A selection that takes them into account.
        """
        model = expect_outcomes(self.model, pending)
        if self.pending is not None:
            dim = -self.model.functional.trial_dim - 1
            pending = torch.cat([self.pending, pending], dim=dim)
        answered = self.answered_model
        return replace(self, model=model, answered=answered, pending=pending)

    @property
    def coarse_options(self) -> SearchOptions:
        """For functions that cost much: their last digits do not decide a trial."""
        return replace(
            self.options,
            max_evaluations=min(self.options.max_evaluations, COARSE_EVALUATIONS),
            relative_gain=max(self.options.relative_gain, COARSE_GAIN),
        )

    def maximize(
        self,
        function: Callable[[Tensor], Tensor],
        bounds: Tensor,
        options: SearchOptions | None = None,
    ) -> Tensor:
        r"""The maximizer of a function for every element of the model's batch.

        Args:
            function: Maps ``r x batch_shape x k`` points to ``r x batch_shape`` values.
            bounds: The ``2 x k`` box.
            options: The effort of the search.

        Returns:
            A ``batch_shape x k`` tensor.
        """
        options = self.options if options is None else options
        seed = draw_point_set()
        return maximize(function, bounds, self.model.batch_shape, options, seed=seed)[0]

    def maximize_goal(self, score: Callable[[Tensor], Tensor]) -> Tensor:
        r"""The parameters that maximize a score of parameters.

        Args:
            score: Maps ``r x batch_shape x (d - m)`` parameters to ``r x batch_shape``
                values.

        Returns:
            A ``batch_shape x 1 x (d - m)`` tensor.
        """
        return self.maximize(score, self.space.parameter_bounds).unsqueeze(-2)

    def maximize_parameters(self, score: Callable[[Tensor], Tensor]) -> Tensor:
        r"""The parameters that maximize a score of trials in the context of the goal.

        Args:
            score: Maps ``r x batch_shape x K x d`` trials, the same parameters in each
                context of the goal, to ``r x batch_shape`` values. In the reference
                context, or any other one, there is one row.

        Returns:
            A ``batch_shape x 1 x (d - m)`` tensor.
        """
        return self.maximize_goal(lambda x: score(self.goal.rows(self.space, x)))

    def maximize_trial(
        self,
        score: Callable[[Tensor], Tensor],
        options: SearchOptions | None = None,
    ) -> Tensor:
        r"""The whole trial that maximizes a score.

        Args:
            score: Maps ``r x batch_shape x num_rows x d`` trials to
                ``r x batch_shape`` values.
            options: The effort of the search.

        Returns:
            A ``batch_shape x num_rows x d`` tensor.
        """
        trials = self.trials
        chosen = self.maximize(
            lambda u: score(trials.decode(u)), trials.bounds, options
        )
        return trials.decode(chosen)


class Rule(Protocol):
    r"""Chooses a trial: any function, or any object that can be called like one.

    A rule that is for one kind of trials may say so by an attribute ``functional``, for
    example ``VALUE`` for pass/fail outcomes.
    """

    def __call__(self, selection: Selection, /) -> Tensor:
        r"""Choose a trial for every element of the model's batch.

        Args:
            selection: What to go by.

        Returns:
            The rows of the trials, ``batch_shape x num_rows x d``.
        """
        ...


def draw_point_set() -> int:
    r"""The seed of one of the sets of quasi-random points."""
    return int(torch.randint(NUM_POINT_SETS, (1,), device="cpu"))
