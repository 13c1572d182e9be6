r"""
The average of success probabilities over contexts, with exact moments.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from botorch_binary_context.bivariate import probit_covariance
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.functionals import VALUE
from botorch_binary_context.goals.base import Contexts, success_likelihood
from botorch_binary_context.goals.linear import contest_rows, read_weights
from botorch_binary_context.goals.sampled import SampledGoal, draw_joint_values
from botorch_binary_context.likelihoods import ProbitLikelihood
from botorch_binary_context.models.latent_gp import LatentGP


class AverageSuccess(SampledGoal):
    r"""To pass as often as possible: ``Σ w_k p(c=1|f(s_k, x))``.

    The mean is exact. With a probit link, so is the variance: it is the sum, over pairs
    of contexts, of the covariance of two success probabilities, computed from a
    bivariate normal probability. The model must have pass/fail outcomes.

    Example:
        >>> goal = AverageSuccess(draw_contexts(Normal(0.5, 0.1), 16))
        >>> suggest(model, space, "ucb-ald", goal=goal)
    """

    def __init__(
        self, contexts: Contexts, weights: Sequence[float] | Tensor | None = None
    ) -> None:
        r"""
        Args:
            contexts: The contexts, ``K x m``, or ``K`` numbers if there is one context
                column.
            weights: The weight of each context, ``K`` positive numbers, which are
                scaled to sum to one; by default all are equal.
        """
        super().__init__(contexts)
        self.weights = read_weights(weights, len(self.contexts))

    def combine(self, values: Tensor, model: LatentGP) -> Tensor:
        r"""The average success probability.

        Args:
            values: The values of ``f``, ``... x K``.
            model: The model, which knows guess and lapse rates.

        Returns:
            A ``...`` tensor of probabilities.
        """
        return self._average(success_likelihood(model).probability(values))

    def _average(self, values: Tensor) -> Tensor:
        return values @ values.new_tensor(self.weights)

    def mean(self, model: LatentGP, space: ContextSpace, parameters: Tensor) -> Tensor:
        r"""The exact mean of the average success probability.

        Args:
            model: The model.
            space: The box of the trials.
            parameters: The parameters.
        """
        rows = self.rows(space, parameters).movedim(-2, 0).unsqueeze(-2)
        expected = success_likelihood(model).expected_probability
        return self._average(
            model.values_of(rows, VALUE).evaluate(expected).movedim(0, -1)
        )

    def moments(
        self, model: LatentGP, space: ContextSpace, parameters: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""The exact mean and variance of the average success probability.

        Args:
            model: The model.
            space: The box of the trials.
            parameters: The parameters.
        """
        likelihood = success_likelihood(model)
        if not isinstance(likelihood, ProbitLikelihood):
            return super().moments(model, space, parameters)
        posterior = model.posterior(self.rows(space, parameters))
        mean = posterior.mean.squeeze(-1)  # ... x K
        covar: Tensor = posterior.distribution.covariance_matrix  # pyright: ignore
        shrink = (1 + covar.diagonal(dim1=-2, dim2=-1)).rsqrt()
        h = mean * shrink
        rho = covar * shrink.unsqueeze(-1) * shrink.unsqueeze(-2)
        pairs = probit_covariance(h.unsqueeze(-1), h.unsqueeze(-2), rho)
        success_range = 1 - likelihood.guess_rate - likelihood.lapse_rate
        # A learned rate has a trailing dimension, as the contrasts of trials have.
        success_range = (
            success_range.squeeze(-1)
            if isinstance(success_range, Tensor)
            else success_range
        )
        variance = success_range**2 * self._average(self._average(pairs))
        return self.mean(model, space, parameters), variance.clamp_min(0.0)

    def probability_moments(
        self, model: LatentGP, space: ContextSpace, parameters: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""The same as :meth:`moments`: the goal is a probability.

        Args:
            model: The model.
            space: The box of the trials.
            parameters: The parameters.
        """
        return self.moments(model, space, parameters)

    def challenge(
        self,
        model: LatentGP,
        space: ContextSpace,
        parameters: Tensor,
        incumbent: Tensor,
    ) -> Tensor:
        r"""The variance of the difference from an incumbent, by joint draws.

        Args:
            model: A model of pass/fail outcomes and duels.
            space: The box of the trials.
            parameters: The parameters of the challengers.
            incumbent: ``batch_shape x (d - m)`` parameters.
        """
        rows = contest_rows(self, space, parameters, incumbent)
        first, second = draw_joint_values(model, rows).chunk(2, dim=-1)
        difference = self.combine(first, model) - self.combine(second, model)
        return difference.var(dim=0)

    def __repr__(self) -> str:
        return f"AverageSuccess({self.contexts.tolist()}, {list(self.weights)})"
