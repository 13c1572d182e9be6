r"""
Information about the gradient: which way from the current best is better.

Where performance has a peak, its gradient at the parameters that are inferred to be
best says how far they are from the best ones and in which direction. Tests of these
parameters themselves say little of that, since there performance hardly depends on
them; tests on their flanks say more, as long as the context makes them neither too easy
nor too hard.

.. [Mueller2021local]
    S. Müller, A. von Rohr, S. Trimpe. Local policy search with Bayesian optimization.
    Advances in Neural Information Processing Systems 34, 2021.
"""

from __future__ import annotations

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_binary_context.acquisition.base import (
    TrialAcquisitionFunction,
    match_space,
)
from botorch_binary_context.acquisition.posterior_mean import maximize_posterior_mean
from botorch_binary_context.acquisition.targeted import Contrasts
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.goals import AtReference, Goal
from botorch_binary_context.goals.sampled import latent_weights
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.optim import SearchOptions

# The distance over which the gradient is measured, as a fraction of the box.
STEP = 0.03


class GradientInformation(TrialAcquisitionFunction):
    r"""The information of a trial about the gradient at the current best.

    ``I(c; g | z)`` in nats, where ``c`` is the outcome at ``z`` and ``g`` has an entry
    ``G(x̂ + δᵢ) - G(x̂ - δᵢ)`` for each parameter, a small step ``δᵢ`` along it from the
    parameters ``x̂`` with the largest posterior mean of the goal ``G``, by default ``f``
    in the reference context. [Mueller2021local]_ choose trials by what they tell about
    the gradient, too, but with measured values, without contexts, and by the variance
    that they leave.

    It is local: if the posterior mean has several peaks, it stays with the highest one.
    So the model should expect a single peak, as that of
    ``psychometric_gp(..., shape="peak")`` does.

    Example:
        >>> acqf = GradientInformation(model, space)
        >>> acqf(X)  # of b x 1 x d trials
    """

    def __init__(
        self,
        model: LatentGP,
        space: ContextSpace,
        step: float = STEP,
        options: SearchOptions = SearchOptions(),  # noqa: B008
        goal: Goal = AtReference(),  # noqa: B008
        X_pending: Tensor | None = None,
    ) -> None:
        r"""
        Args:
            model: A model of pass/fail outcomes, duels or other answers.
            space: The box of the trials, with at least one parameter.
            step: The length of the steps, as a fraction of each side of the box.
            options: The effort of the search for the current best.
            goal: What the parameters should be good at.
            X_pending: The rows of pending trials.
        """
        super().__init__(model)
        self.space = match_space(space, self.model)
        if not self.space.parameter_dims:
            raise InputDataError(
                "Expected ``space`` to have parameters, along which performance may "
                "rise or fall, but it has none."
            )
        if not 0.0 < step <= 0.5:
            raise InputDataError(
                f"Expected ``step`` to be above 0 and at most 0.5, but got {step}."
            )
        self.step = step
        self.options = options
        self.goal = goal
        self.set_X_pending(X_pending)

    def prepare(self) -> None:
        r"""Find the current best, and compute the posterior of the gradient there."""
        model = self.model
        best, _ = maximize_posterior_mean(
            model, self.space, self.options, goal=self.goal
        )
        low, high = self.space.parameter_bounds
        steps = torch.diag_embed(self.step * (high - low))  # k x k
        steps = torch.cat([steps, -steps])
        around = best + steps.view(-1, *[1] * (best.ndim - 1), len(low))
        around = torch.minimum(torch.maximum(around, low), high)
        rows = self.goal.rows(self.space, around)  # 2k x batch_shape x K x d
        weights = latent_weights(self.goal, model, rows).movedim(0, -2)
        # Each entry of the gradient is the difference of two of these values.
        both = torch.eye(len(low), dtype=low.dtype, device=low.device)
        both = torch.cat([both, -both], dim=-1).unsqueeze(-1)  # k x 2k x 1
        weights = (both * weights.unsqueeze(-3)).flatten(-2)  # batch_shape x k x 2kK
        rows = rows.movedim(0, -3).flatten(-3, -2)
        self._gradient = Contrasts.of(model, rows, weights)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The mutual information, in ``[0, ln K]`` with ``K`` outcomes.

        Args:
            X: ``t x batch_shape x 1 x d`` trials or ``t x batch_shape x 2 x d`` duels.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        return self._gradient.information(self.model.values_of(X))
