r"""
The expected utility of the best option: the expected value of a duel's better side.

.. [Lin2022preference]
    Z. J. Lin, R. Astudillo, P. I. Frazier, E. Bakshy. Preference exploration for
    efficient Bayesian optimization with multiple outcomes. AISTATS 2022.
"""

from __future__ import annotations

import torch
from botorch.exceptions import UnsupportedError
from botorch.utils.probability.utils import phi
from torch import Tensor

from botorch_binary_context.acquisition.base import (
    TrialAcquisitionFunction,
    match_space,
)
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.functionals import DIFFERENCE, Functional
from botorch_binary_context.goals import AtReference, Goal, LinearGoal
from botorch_binary_context.goals.sampled import draw_joint_values
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.probability import normal_cdf


class ExpectedBestOption(TrialAcquisitionFunction):
    r"""The expected value of the better of two settings (EUBO), for a goal.

    ``E max(G(x₁), G(x₂))`` [Lin2022preference]_, in closed form for a linear goal. The
    contexts of candidates are ignored; those of the goal are used.

    Example:
        >>> acqf = ExpectedBestOption(model, space)
        >>> acqf(X)  # of b x 2 x d duels
    """

    def __init__(
        self,
        model: LatentGP,
        space: ContextSpace,
        goal: Goal = AtReference(),  # noqa: B008
        X_pending: Tensor | None = None,
    ) -> None:
        r"""
        Args:
            model: A model that includes duels.
            space: The box of the trials.
            goal: What the parameters should be good at.
            X_pending: The rows of pending duels.
        """
        super().__init__(model, functional=DIFFERENCE)
        self.space = match_space(space, self.model)
        self.goal = goal
        self.set_X_pending(X_pending)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The expected value of the better side.

        Args:
            X: ``t x batch_shape x 2 x d`` duels.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        if X.shape[-2] != 2:
            raise UnsupportedError(
                "Expected candidates of ``X`` to be a duel, two rows, but got "
                f"{X.shape[-2]} rows."
            )
        return self.value_at(self.space.parameters(X))

    def value_at(self, parameters: Tensor) -> Tensor:
        r"""The expected value of the better of two settings.

        Args:
            parameters: A ``t x batch_shape x 2 x (d - m)`` tensor.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        first, second = parameters.unbind(dim=-2)
        model = self.model
        space = self.space
        goal = self.goal
        rows = [goal.rows(space, side) for side in (first, second)]
        both = torch.cat(rows, dim=-2)  # t x batch_shape x 2K x d
        if not isinstance(goal, LinearGoal):
            one, other = draw_joint_values(model, both).chunk(2, dim=-1)
            values = goal.combine(one, model), goal.combine(other, model)
            return torch.maximum(*values).mean(dim=0)
        weights = goal.functional.weights
        contrast = Functional((*weights, *(-weight for weight in weights)))
        gap, variance = model.moments(both, contrast)
        deviation = variance.sqrt()
        z = gap / deviation
        better = gap * normal_cdf(z) + deviation * phi(z)
        return goal.mean(model, space, second) + better
