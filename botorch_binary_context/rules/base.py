r"""
What a rule is, and what it has to go by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from botorch_binary_context.constraints import Constraints, Safety
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.feasibility import Feasibility
from botorch_binary_context.goals import AtContext, AtReference, Goal, ThresholdMap
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.optim import (
    SearchOptions,
    draw_points,
    maximize,
)
from botorch_binary_context.pending import check_pending, expect_outcomes
from botorch_binary_context.trials import TrialSpace

# Quasi-random points come in this many sets, so that their neighbors are found once.
NUM_POINT_SETS = 8
COARSE_GAIN = 1e-6
COARSE_EVALUATIONS = 40
# Contexts among which parameters should be safe and feasible in one.
NUM_CONTEXTS = 16
# Random trials among which the first safe one is taken.
NUM_RANDOM_TRIALS = 512
# Far below any score.
FORBIDDEN = 1e6


@dataclass(frozen=True)
class Selection:
    r"""What a rule has to go by.

    Attributes:
        model: The model of the trials so far; pending ones are taken to come out as is
            to be expected.
        space: The box of the rows of trials.
        options: The effort of the search for ``x`` or for the whole trial.
        goal: What the parameters should be good at, if it was said.
        context: The context of the trial, if it is given: ``m`` numbers or
            ``batch_shape x m``.
        answered: The model of the answered trials alone, if others are pending.
        pending: The pending trials, in the layout of ``train_X``, if there are any.
        constraints: What the rows of trials may be.
        safe: Which trials are safe.
        feasibility: Which trials are feasible.
    """

    model: LatentGP
    space: ContextSpace
    options: SearchOptions
    goal: Goal | ThresholdMap | None = None
    context: Tensor | None = None
    answered: LatentGP | None = None
    pending: Tensor | None = None
    constraints: Constraints | None = None
    safe: Safety | None = None
    feasibility: Feasibility | None = None

    @cached_property
    def trials(self) -> TrialSpace:
        """The box of whole trials."""
        return TrialSpace(
            self.space, self.model.functional, self.context, self.constraints
        )

    @property
    def target(self) -> Goal:
        """The goal; by default in the given context, or in the reference context."""
        if isinstance(self.goal, ThresholdMap):
            raise UnsupportedError(
                "Expected ``goal`` to have an optimum for this rule, but got "
                f"{self.goal}: the rules for it are named ``map-``."
            )
        goal = self.goal
        if goal is None:
            at = self.context
            goal = AtReference() if at is None else AtContext(at)
        if self.constraints is None:
            return goal
        return self.constraints.restrict(goal, self.space)

    @property
    def answered_model(self) -> LatentGP:
        """The model of the answered trials alone."""
        return self.model if self.answered is None else self.answered

    def await_trials(self, pending: Tensor) -> Selection:
        r"""The same, with more trials pending.

        Args:
            pending: The trials, in the layout of ``train_X``; the same for all elements
                of the model's batch if they have no batch dimensions.

        Returns:
            A selection that takes them into account.
        """
        check_pending(self.model, pending)
        event = self.model.functional.trial_dim + 1  # the dimensions beside the batch
        pending = pending.expand(*self.model.batch_shape, *pending.shape[-event:])
        model = expect_outcomes(self.model, pending)
        if self.pending is not None:
            pending = torch.cat([self.pending, pending], dim=-event)
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
        starts: Tensor | None = None,
    ) -> Tensor:
        r"""The maximizer of a function for every element of the model's batch.

        Args:
            function: Maps ``r x batch_shape x k`` points to ``r x batch_shape`` values.
            bounds: The ``2 x k`` box.
            options: The effort of the search.
            starts: Further points to start from, ``r' x batch_shape x k``.

        Returns:
            A ``batch_shape x k`` tensor.
        """
        options = self.options if options is None else options
        shape = self.model.batch_shape
        seed = draw_point_set()
        return maximize(function, bounds, shape, options, starts, seed)[0]

    def maximize_goal(self, score: Callable[[Tensor], Tensor]) -> Tensor:
        r"""The parameters that maximize a score of parameters.

        Args:
            score: Maps ``r x batch_shape x (d - m)`` parameters to ``r x batch_shape``
                values.

        Returns:
            A ``batch_shape x 1 x (d - m)`` tensor.
        """
        bounds = self.space.parameter_bounds
        return self.maximize(self._among_safe(score), bounds).unsqueeze(-2)

    def _among_safe(
        self, score: Callable[[Tensor], Tensor]
    ) -> Callable[[Tensor], Tensor]:
        """A score of parameters that avoids those that may be tested in no context."""
        if not self.is_restricted:
            return score
        contexts = [self.context]
        if self.context is None and self.space.num_contexts > 0:
            contexts = list(draw_points(self.space.context_bounds, NUM_CONTEXTS, 0))
        space = self.space

        def guarded(x: Tensor) -> Tensor:
            trials = [space.join(x, s) if s is not None else x for s in contexts]
            slack = torch.stack([self.slack(t.unsqueeze(-2)) for t in trials])
            return avoid(score(x), slack.amax(dim=0))

        return guarded

    def slack(self, trials: Tensor) -> Tensor:
        r"""By how much trials are safe and feasible.

        Args:
            trials: ``r x batch_shape x num_rows x d`` trials.

        Returns:
            A ``r x batch_shape`` tensor, negative where they are not; infinite if
            neither was asked for.
        """
        slack = trials.new_full(trials.shape[:-2], torch.inf)
        if self.safe is not None:
            slack = self.safe.slack(self.answered_model, trials)
        if self.feasibility is not None:
            slack = torch.minimum(slack, self.feasibility.slack(trials))
        return slack

    @property
    def is_restricted(self) -> bool:
        """Whether trials have to be safe or feasible."""
        return self.safe is not None or self.feasibility is not None

    def draw_safe(self, draw: Callable[[int], Tensor]) -> Tensor:
        r"""A random trial, a safe one if safety was asked for and one is drawn.

        Args:
            draw: Draws so many trials, ``number x batch_shape x num_rows x d``.

        Returns:
            A ``batch_shape x num_rows x d`` tensor.
        """
        if self.safe is None:
            return draw(1)[0]
        trials = draw(NUM_RANDOM_TRIALS)
        first = (self.slack(trials) >= 0).to(torch.int8).argmax(dim=0)
        index = first[None, ..., None, None].expand(1, *trials.shape[1:])
        return trials.gather(0, index)[0]

    def _guard(self, score: Callable[[Tensor], Tensor], trials: Tensor) -> Tensor:
        """The score of trials, if they are safe and feasible."""
        if not self.is_restricted:
            return score(trials)
        return avoid(score(trials), self.slack(trials))

    def maximize_context(
        self,
        score: Callable[[Tensor], Tensor],
        parameters: Tensor,
        options: SearchOptions,
    ) -> Tensor:
        r"""The context that maximizes a score of trials with given parameters.

        Args:
            score: Maps ``r x batch_shape x num_rows x d`` trials to
                ``r x batch_shape`` values.
            parameters: A ``batch_shape x num_rows x (d - m)`` tensor.
            options: The effort of the search.

        Returns:
            A ``batch_shape x m`` tensor.
        """

        def score_at(s: Tensor) -> Tensor:
            trials = self.space.join(parameters, s.unsqueeze(-2))
            if self.constraints is not None:
                trials = self.constraints.apply(self.space, trials)
            return self._guard(score, trials)

        return self.maximize(score_at, self.space.context_bounds, options)

    def maximize_parameters(self, score: Callable[[Tensor], Tensor]) -> Tensor:
        r"""The parameters that maximize a score of trials in the context of the goal.

        Args:
            score: Maps ``r x batch_shape x K x d`` trials, the same parameters in each
                context of the goal, to ``r x batch_shape`` values. In the reference
                context, or any other one, there is one row.

        Returns:
            A ``batch_shape x 1 x (d - m)`` tensor.
        """
        return self.maximize_goal(lambda x: score(self.target.rows(self.space, x)))

    def maximize_trial(
        self,
        score: Callable[[Tensor], Tensor],
        options: SearchOptions | None = None,
        starts: Tensor | None = None,
    ) -> Tensor:
        r"""The whole trial that maximizes a score.

        Args:
            score: Maps ``r x batch_shape x num_rows x d`` trials to
                ``r x batch_shape`` values.
            options: The effort of the search.
            starts: Further free variables of trials to start from.

        Returns:
            A ``batch_shape x num_rows x d`` tensor.
        """
        trials = self.trials

        def score_of(u: Tensor) -> Tensor:
            return self._guard(score, trials.decode(u))

        return trials.decode(self.maximize(score_of, trials.bounds, options, starts))


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


def avoid(values: Tensor, slack: Tensor) -> Tensor:
    r"""Scores of candidates, all of those that may not be below all others.

    Args:
        values: The scores.
        slack: By how much candidates may be; negative if they may not.

    Returns:
        A tensor of the same shape.
    """
    return torch.where(slack >= 0, values, slack - FORBIDDEN)


def draw_point_set() -> int:
    r"""The seed of one of the sets of quasi-random points."""
    return int(torch.randint(NUM_POINT_SETS, (1,), device="cpu"))
