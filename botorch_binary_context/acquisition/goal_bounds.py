r"""
Upper confidence bounds of a goal.
"""

from __future__ import annotations

from torch import Tensor

from botorch_binary_context.acquisition.analytic import DEFAULT_BETA, check_one_row
from botorch_binary_context.acquisition.base import (
    TrialAcquisitionFunction,
    match_space,
)
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.goals import AtReference, Goal
from botorch_binary_context.models.latent_gp import LatentGP


class GoalUpperConfidenceBound(TrialAcquisitionFunction):
    r"""The upper confidence bound of a goal, as a success probability.

    For a goal in one context, it is :class:`~.analytic.BinaryUpperConfidenceBound`
    there. For an average of ``f`` over contexts, or for its worst value, it bounds the
    success probability of a test with that latent value. The contexts of candidates are
    ignored; those of the goal are used.

    Example:
        >>> acqf = GoalUpperConfidenceBound(model, space, WorstContext([0.2, 0.8]))
        >>> acqf(X)  # of b x 1 x d rows
    """

    def __init__(
        self,
        model: LatentGP,
        space: ContextSpace,
        goal: Goal = AtReference(),  # noqa: B008
        beta: float = DEFAULT_BETA,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""
        Args:
            model: A model of pass/fail outcomes, alone or together with others.
            space: The box of the trials.
            goal: What the parameters should be good at.
            beta: The weight of the standard deviation.
            X_pending: The rows of pending trials.
        """
        super().__init__(model)
        self.space = match_space(space, self.model)
        self.goal = goal
        self.beta = beta
        self.set_X_pending(X_pending)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The bound.

        Args:
            X: ``t x batch_shape x 1 x d`` rows.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        check_one_row(X)
        return self.bound_at(self.space.parameters(X.squeeze(-2)))

    def bound_at(self, parameters: Tensor) -> Tensor:
        r"""The bound at parameters.

        Args:
            parameters: A ``t x batch_shape x (d - m)`` tensor.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        mean, variance = self._moments(parameters)
        return mean + self.beta * variance.sqrt()

    def _moments(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        return self.goal.probability_moments(self.model, self.space, parameters)


class LatentGoalUpperConfidenceBound(GoalUpperConfidenceBound):
    r"""The upper confidence bound of a goal itself, for any model.

    Unlike :class:`GoalUpperConfidenceBound` it does not saturate where the success
    probability does.

    Example:
        >>> acqf = LatentGoalUpperConfidenceBound(preferences, space)
    """

    def _moments(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        return self.goal.moments(self.model, self.space, parameters)
