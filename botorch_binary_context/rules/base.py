r"""
The interface of rules, and the selection that they work on.
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
    avoid,
    choose_best,
    draw_points,
    maximize,
)
from botorch_binary_context.numerics.walks import walk
from botorch_binary_context.pending import check_pending, expect_outcomes
from botorch_binary_context.trials import TrialSpace

# Quasi-random points come in this many sets, so that the neighbors in each set are
# found only once.
NUM_POINT_SETS = 8
COARSE_GAIN = 1e-6
COARSE_EVALUATIONS = 40
# The number of contexts to try; parameters should be safe and feasible in one of them.
NUM_CONTEXTS = 16
# The number of random trials to draw, of which the first safe one is taken, and the
# number of steps of the random walk if none is safe.
NUM_RANDOM_TRIALS = 512
NUM_STEPS = 16
NUM_SAFE_STARTS = 4


def widen(options: SearchOptions) -> SearchOptions:
    r"""Twice the points to start from, for functions with many narrow maxima.

    Args:
        options: The effort of a search.
    """
    return replace(options, raw_samples=2 * options.raw_samples)


@dataclass(frozen=True)
class Selection:
    r"""Everything a rule needs to choose a trial: model, space, goal and restrictions.

    Attributes:
        answered_model: The model of the answered trials; :attr:`model` takes pending
            ones into account.
        space: The box of the rows of trials.
        options: The effort of the search for ``x`` or for the whole trial.
        goal: What the parameters should be good at, if given.
        context: The context of the trial, if given: ``m`` numbers or ``batch_shape x
            m``.
        pending: The pending trials, in the layout of ``train_X``, if there are any.
        constraints: Constraints on the rows of trials.
        safe: Which trials are safe.
        feasibility: Which trials are feasible.
        before: The selection before the last pending trials were added.

    Example:
        >>> selection = Selection(model, space, SearchOptions())
        >>> trial = selection.maximize_trial(BernoulliMutualInformation(model))
    """

    answered_model: LatentGP
    space: ContextSpace
    options: SearchOptions
    goal: Goal | ThresholdMap | None = None
    context: Tensor | None = None
    pending: Tensor | None = None
    constraints: Constraints | None = None
    safe: Safety | None = None
    feasibility: Feasibility | None = None
    before: Selection | None = None

    @cached_property
    def model(self) -> LatentGP:
        """The model as if pending trials had come out as expected."""
        if self.before is None or self.pending is None:
            return self.answered_model
        known = 0
        if self.before.pending is not None:
            known = self.before.pending.shape[self._trial_dim]
        last = self.pending.shape[self._trial_dim] - known
        asked = self.pending.narrow(self._trial_dim, known, last)
        return expect_outcomes(self.before.model, asked)

    @property
    def _trial_dim(self) -> int:
        """The dimension of the trials in the layout of ``train_X``."""
        return -self.answered_model.functional.trial_dim - 1

    @cached_property
    def trials(self) -> TrialSpace:
        """The box of whole trials."""
        functional = self.answered_model.functional
        return TrialSpace(self.space, functional, self.context, self.constraints)

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

    def await_trials(self, pending: Tensor) -> Selection:
        r"""The same selection, with more trials pending.

        Args:
            pending: The trials, in the layout of ``train_X``; the same for all elements
                of the model's batch if they have no batch dimensions.

        Returns:
            A selection that takes them into account.
        """
        model = self.answered_model
        check_pending(model, pending)
        shape = pending.shape[self._trial_dim :]
        pending = pending.expand(*model.batch_shape, *shape)
        if self.pending is not None:
            pending = torch.cat([self.pending, pending], dim=self._trial_dim)
        return replace(self, pending=pending, before=self)

    @property
    def coarse_options(self) -> SearchOptions:
        """Less effort, for expensive functions whose last digits do not matter."""
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
        shape = self.answered_model.batch_shape
        seed = draw_point_set()
        size = self.answered_model.train_targets.shape[-1]
        return maximize(function, bounds, shape, options, starts, seed, size)[0]

    def maximize_goal(self, score: Callable[[Tensor], Tensor]) -> Tensor:
        r"""The parameters that maximize a score of parameters.

        Args:
            score: Maps ``r x batch_shape x (d - m)`` parameters to ``r x batch_shape``
                values.

        Returns:
            A ``batch_shape x 1 x (d - m)`` tensor.
        """
        return self.maximize_sides(lambda sides: score(sides.squeeze(-2)), 1)

    def maximize_sides(
        self,
        score: Callable[[Tensor], Tensor],
        num_sides: int,
        options: SearchOptions | None = None,
    ) -> Tensor:
        r"""The sides of a trial that maximize a score of their parameters.

        Args:
            score: Maps ``r x batch_shape x num_sides x (d - m)`` parameters to
                ``r x batch_shape`` values.
            num_sides: The number of sides: two for a duel.
            options: The effort of the search.

        Returns:
            A ``batch_shape x num_sides x (d - m)`` tensor.
        """
        bounds = torch.cat([self.space.parameter_bounds] * num_sides, dim=-1)
        shape = num_sides, len(self.space.parameter_dims)

        def score_of(u: Tensor) -> Tensor:
            sides = u.unflatten(-1, shape)
            values = score(sides)
            if not self.is_restricted:
                return values
            return avoid(values, self._most_slack(sides))

        return self.maximize(score_of, bounds, options).unflatten(-1, shape)

    def _most_slack(self, sides: Tensor) -> Tensor:
        """The slack of sides in the context where it is largest."""
        contexts = [self.context]
        if self.context is None and self.space.num_contexts > 0:
            contexts = list(draw_points(self.space.context_bounds, NUM_CONTEXTS, 0))
        trials = [
            sides if s is None else self.space.join(sides, s.unsqueeze(-2))
            for s in contexts
        ]
        return torch.stack([self.slack(part) for part in trials]).amax(dim=0)

    def slack(self, trials: Tensor) -> Tensor:
        r"""The slack of trials: the margin by which they are safe and feasible.

        Args:
            trials: ``r x batch_shape x num_rows x d`` trials.

        Returns:
            An ``r x batch_shape`` tensor, negative where they are not; infinite if
            trials are not restricted in this way.
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

    def draw(
        self,
        decode: Callable[[Tensor], Tensor],
        bounds: Tensor,
        starts: Tensor | None = None,
    ) -> Tensor:
        r"""A random trial, uniformly among the safe and feasible ones.

        If none of many draws is allowed, a random walk from the safest trial explores
        the small allowed region.

        Args:
            decode: Maps ``r x batch_shape x k`` variables to trials.
            bounds: The ``2 x k`` box of the variables.
            starts: Where to look for the safest trial, ``r x batch_shape x k``.

        Returns:
            A ``batch_shape x num_rows x d`` tensor.
        """
        shape = self.answered_model.batch_shape
        low, high = bounds
        number = NUM_RANDOM_TRIALS if self.is_restricted else 1
        unit = torch.rand(
            (number, *shape, len(low)), dtype=low.dtype, device=low.device
        )
        drawn = low + (high - low) * unit
        if not self.is_restricted:
            return decode(drawn)[0]
        allowed = self.slack(decode(drawn)) >= 0
        first = allowed.to(torch.int8).argmax(dim=0)[None, ..., None]
        chosen = drawn.gather(0, first.expand(1, *drawn.shape[1:]))[0]
        found = allowed.any(dim=0)
        if not bool(found.all()):
            safest = self.maximize(
                lambda u: self.slack(decode(u)), bounds, starts=starts
            )
            walked = walk(
                lambda u: self.slack(decode(u)) >= 0, safest, bounds, NUM_STEPS
            )
            chosen = torch.where(found.unsqueeze(-1), chosen, walked)
        return decode(chosen)

    def find_safest(self) -> Tensor:
        r"""The trial with the largest slack.

        Returns:
            A ``batch_shape x num_rows x d`` tensor.
        """
        return self.maximize_trial(self.slack, starts=self.safe_starts())

    def safe_starts(self) -> Tensor | None:
        r"""The variables of the safest answered trials, to start searches from.

        Returns:
            An ``r x batch_shape x k`` tensor; None if a trial has several rows.
        """
        if self.trials.num_rows > 1:
            return None
        rows = self.answered_model.original_datapoints.movedim(-2, 0)
        parts = [self.space.contexts(rows), self.space.parameters(rows)]
        known = torch.cat(parts[0 if self.context is None else 1 :], dim=-1)
        known = known.clamp(*self.trials.bounds)
        slack = self.slack(self.trials.decode(known))
        return choose_best(known, slack, NUM_SAFE_STARTS)

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
        return self.maximize(
            lambda s: self._guard(score, self.test(parameters, s)),
            self.space.context_bounds,
            options,
        )

    def test(self, parameters: Tensor, contexts: Tensor) -> Tensor:
        r"""The trials that test parameters in contexts.

        Args:
            parameters: A ``batch_shape x num_rows x (d - m)`` tensor.
            contexts: A ``... x batch_shape x m`` tensor.

        Returns:
            A ``... x batch_shape x num_rows x d`` tensor that meets the constraints.
        """
        trials = self.space.join(parameters, contexts.unsqueeze(-2))
        if self.constraints is None:
            return trials
        return self.constraints.apply(self.space, trials)

    def maximize_parameters(self, score: Callable[[Tensor], Tensor]) -> Tensor:
        r"""The parameters that maximize a score of trials in the context of the goal.

        Args:
            score: Maps ``r x batch_shape x K x d`` trials, the same parameters in each
                context of the goal, to ``r x batch_shape`` values. For a goal in a
                single context, such as the reference context, there is one row.

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

    A rule for one kind of trials may say so with an attribute ``functional``, for
    example ``VALUE`` for pass/fail outcomes.

    Example:
        >>> def by_information(selection: Selection) -> Tensor:
        ...     acqf = BernoulliMutualInformation(selection.model)
        ...     return selection.maximize_trial(acqf)
        >>> trial = suggest(model, space, rule=by_information)
    """

    def __call__(self, selection: Selection, /) -> Tensor:
        r"""Choose a trial for every element of the model's batch.

        Args:
            selection: The model, space, goal and restrictions.

        Returns:
            The rows of the trials, ``batch_shape x num_rows x d``.
        """
        ...


def draw_point_set() -> int:
    r"""The seed of one of the sets of quasi-random points."""
    return int(torch.randint(NUM_POINT_SETS, (1,), device="cpu"))
