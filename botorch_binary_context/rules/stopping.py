r"""
When to stop: the value of another trial, and the uncertainty of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import torch
from botorch.exceptions import InputDataError
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_binary_context.acquisition.base import match_space
from botorch_binary_context.acquisition.joint_search import maximize_knowledge_gradient
from botorch_binary_context.acquisition.moment_matched import (
    MomentMatchedKnowledgeGradient,
)
from botorch_binary_context.acquisition.sampled_knowledge_gradient import (
    SampledKnowledgeGradient,
)
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.feasibility import Feasibility
from botorch_binary_context.goals import AtReference, Goal, LinearGoal
from botorch_binary_context.models.inference_mode import outside_inference_mode
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.optim import SearchOptions, avoid, maximize
from botorch_binary_context.rules.suggestion import frozen, recommend
from botorch_binary_context.trials import TrialSpace


def value_of_next_trial(
    model: LatentGP,
    space: ContextSpace,
    goal: Goal | None = None,
    options: SearchOptions = SearchOptions(max_evaluations=40),  # noqa: B008
    seed: int = 0,
    feasibility: Feasibility | None = None,
) -> Tensor:
    r"""How much the best next trial is expected to improve the recommendation.

    It is the maximum of the knowledge gradient, in units of the goal: of the latent
    function or, for averages of success, of a probability.

    Args:
        model: A model of the trials so far.
        space: The box of the trials.
        goal: What the parameters should be good at, by default in the reference
            context.
        options: The effort of the search.
        seed: The seed of the search.
        feasibility: If given, only trials that are feasible according to this model
            count. What they tell about infeasible parameters counts, too.

    Returns:
        A non-negative ``batch_shape`` tensor.

    Example:
        >>> if value_of_next_trial(model, space) < 0.01:
        ...     best = recommend(model, space)
    """
    goal = AtReference() if goal is None else goal
    space = match_space(space, model.eval())
    trials = TrialSpace(space, model.functional)
    with (
        manual_seed(seed),
        outside_inference_mode(model) as model,
        frozen(model),
        torch.no_grad(),
    ):
        if not isinstance(goal, LinearGoal):
            acqf = SampledKnowledgeGradient(model, space, goal)
        else:
            acqf = MomentMatchedKnowledgeGradient(model, space, goal=goal)
            if feasibility is None:
                variables, _ = maximize_knowledge_gradient(
                    acqf, trials.decode, trials.bounds, options, seed
                )
                return acqf.evaluate(trials.decode(variables).unsqueeze(0))[0]

        def score(u: Tensor) -> Tensor:
            X = trials.decode(u)
            values = acqf.evaluate(X)
            return (
                values if feasibility is None else avoid(values, feasibility.slack(X))
            )

        bounds = trials.bounds
        _, value = maximize(score, bounds, model.batch_shape, options, seed=seed)
        return value.clamp_min(0.0)  # zero if no trial is feasible


def uncertainty_of_answer(
    model: LatentGP,
    space: ContextSpace,
    goal: Goal | None = None,
    credible: float = 0.9,
) -> Tensor:
    r"""The width of the interval of the goal at the recommended parameters.

    Args:
        model: A model of the trials so far.
        space: The box of the trials.
        goal: What the parameters should be good at, by default in the reference
            context.
        credible: The probability of the interval.

    Returns:
        A ``batch_shape`` tensor of widths, in units of the goal.

    Example:
        >>> if uncertainty_of_answer(model, space) < 0.5:
        ...     best = recommend(model, space)
    """
    goal = AtReference() if goal is None else goal
    space = match_space(space, model.eval())
    best = recommend(model, space, goal=goal)
    with outside_inference_mode(model) as model, frozen(model), torch.no_grad():
        _, variance = goal.moments(model, space, best)
    return 2 * NormalDist().inv_cdf((1 + credible) / 2) * variance.sqrt()


@dataclass(frozen=True)
class StoppingRule:
    r"""Stop when another trial is not worth it, or when the answer is certain enough.

    Attributes:
        value: Stop when no trial is expected to add more than this, as ``value`` of
            the :class:`~botorch_binary_context.experiment.Stop` of experiments.
        width: Stop when the interval of the answer is no wider than this.
        credible: The probability of that interval.

    Example:
        >>> rule = StoppingRule(value=0.01)
        >>> rule.is_met(model, space)
    """

    value: float | None = None
    width: float | None = None
    credible: float = 0.9

    def __post_init__(self) -> None:
        if self.value is None and self.width is None:
            raise InputDataError(
                "Expected ``value`` or ``width`` to be given, but got neither."
            )

    def is_met(
        self, model: LatentGP, space: ContextSpace, goal: Goal | None = None
    ) -> Tensor:
        r"""Whether to stop now.

        Args:
            model: A model of the trials so far.
            space: The box of the trials.
            goal: What the parameters should be good at.

        Returns:
            A ``batch_shape`` tensor of booleans.
        """
        targets = model.train_targets
        met = targets.new_zeros(model.batch_shape, dtype=torch.bool)
        if self.width is not None:
            uncertainty = uncertainty_of_answer(model, space, goal, self.credible)
            met = met | (uncertainty <= self.width)
        if self.value is not None:
            met = met | (value_of_next_trial(model, space, goal) <= self.value)
        return met
