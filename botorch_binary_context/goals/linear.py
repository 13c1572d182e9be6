r"""
Goals that are weighted sums of the latent function, with closed forms throughout.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_binary_context.checks import to_tensor
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.functionals import VALUE, Functional
from botorch_binary_context.goals.base import (
    Contexts,
    Goal,
    at_contexts,
    match_contexts,
    read_contexts,
    success_likelihood,
)
from botorch_binary_context.models.functional_values import FunctionalValues
from botorch_binary_context.models.latent_gp import LatentGP


class LinearGoal(Goal):
    r"""A weighted sum of the values of ``f`` in some contexts.

    Its posterior is Gaussian. Its success probability is that of a test whose latent
    value is the sum.
    """

    @property
    @abstractmethod
    def functional(self) -> Functional:
        """The weights of the contexts."""

    def combine(self, values: Tensor, model: LatentGP) -> Tensor:
        r"""The weighted sum.

        Args:
            values: The values of ``f``, ``... x K``.
            model: Not used.

        Returns:
            A ``...`` tensor of values of the goal.
        """
        return self.functional(values).squeeze(-1)

    def values(
        self, model: LatentGP, space: ContextSpace, parameters: Tensor
    ) -> FunctionalValues:
        r"""The goal at many parameters, in the folded layout.

        Args:
            model: The model.
            space: The box of the trials.
            parameters: A ``batch_shape x J x (d - m)`` tensor.

        Returns:
            The ``J`` values of the goal for each element of the batch, folded.
        """
        rows = self.rows(space, parameters.movedim(-2, 0)).movedim(0, -3)
        rows = model.transform_inputs(rows.flatten(-3, -2))
        return FunctionalValues(model, self.functional, parameters.shape[:-1], rows)

    def moments(
        self, model: LatentGP, space: ContextSpace, parameters: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""The posterior mean and variance of the sum.

        Args:
            model: The model.
            space: The box of the trials.
            parameters: The parameters.
        """
        return model.moments(self.rows(space, parameters), self.functional)

    def mean(self, model: LatentGP, space: ContextSpace, parameters: Tensor) -> Tensor:
        r"""The posterior mean of the sum.

        Args:
            model: The model.
            space: The box of the trials.
            parameters: The parameters.
        """
        return self.combine(model.mean_at(self.rows(space, parameters)), model)

    def probability_moments(
        self, model: LatentGP, space: ContextSpace, parameters: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""The success probability of a test with that latent value.

        Args:
            model: A model that includes pass/fail outcomes.
            space: The box of the trials.
            parameters: The parameters.

        Returns:
            The mean and the variance of the success probability.
        """
        values = model.values_of(self.rows(space, parameters), self.functional)
        likelihood = success_likelihood(model)
        mean, variance = likelihood.probability_moments(*values.moments())
        return values.unfold(mean), values.unfold(variance)

    def challenge(
        self,
        model: LatentGP,
        space: ContextSpace,
        parameters: Tensor,
        incumbent: Tensor,
    ) -> Tensor:
        r"""The variance of the probability that parameters beat an incumbent.

        Args:
            model: A model of duels.
            space: The box of the trials.
            parameters: The parameters of the challengers.
            incumbent: ``batch_shape x (d - m)`` parameters.
        """
        weights = self.functional.weights
        contrast = Functional((*weights, *(-weight for weight in weights)))
        rows = contest_rows(self, space, parameters, incumbent)
        moments = model.likelihood.probability_moments
        duels = model.values_of(rows, contrast)
        return duels.evaluate(lambda mean, variance: moments(mean, variance)[1])


def contest_rows(
    goal: Goal, space: ContextSpace, parameters: Tensor, incumbent: Tensor
) -> Tensor:
    r"""The rows of parameters, followed by the rows of an incumbent.

    Args:
        goal: The goal.
        space: The box of the trials.
        parameters: A ``t x batch_shape x (d - m)`` tensor.
        incumbent: A ``batch_shape x (d - m)`` tensor.

    Returns:
        A ``t x batch_shape x 2K x d`` tensor.
    """
    first = goal.rows(space, parameters)
    second = goal.rows(space, incumbent.to(parameters))
    shape = torch.broadcast_shapes(first.shape, second.shape)
    return torch.cat([first.expand(shape), second.expand(shape)], dim=-2)


class AtReference(LinearGoal):
    r"""To be good in the reference context of the space: ``f(s₀, x)``.

    Example:
        >>> suggest(model, space, "ucb-ald", goal=AtReference())  # the default
    """

    @property
    def functional(self) -> Functional:
        """The value of ``f``."""
        return VALUE

    def rows(self, space: ContextSpace, parameters: Tensor) -> Tensor:
        r"""The parameters in the reference context.

        Args:
            space: The box of the trials.
            parameters: A ``... x (d - m)`` tensor.

        Returns:
            A ``... x 1 x d`` tensor.
        """
        return space.at_reference(parameters).unsqueeze(-2)

    def __repr__(self) -> str:
        return "AtReference()"


class AtContext(LinearGoal):
    r"""To be good in a given context: ``f(s, x)``.

    Example:
        >>> recommend(model, space, goal=AtContext([0.3]))  # best at 0.3
    """

    def __init__(self, context: Tensor | Sequence[float] | float) -> None:
        r"""
        Args:
            context: One number for each context column, in the order of the columns:
                ``m`` numbers or, one for each element of a model's batch,
                ``batch_shape x m``.
        """
        context = to_tensor("context", context)
        self.context = context.reshape(1) if context.ndim == 0 else context

    @property
    def functional(self) -> Functional:
        """The value of ``f``."""
        return VALUE

    def rows(self, space: ContextSpace, parameters: Tensor) -> Tensor:
        r"""The parameters in the context.

        Args:
            space: The box of the trials.
            parameters: A ``... x (d - m)`` tensor.

        Returns:
            A ``... x 1 x d`` tensor.
        """
        context = match_contexts(self.context, space, "context")
        return space.join(parameters, context).unsqueeze(-2)

    def __repr__(self) -> str:
        return f"AtContext({self.context.tolist()})"


class ContextAverage(LinearGoal):
    r"""To be good on average: ``Σ w_k f(s_k, x)``.

    This averages latent values; to average success probabilities, use
    :class:`~botorch_binary_context.goals.success.AverageSuccess`.

    Example:
        >>> goal = ContextAverage([0.2, 0.5, 0.8])
        >>> recommend(model, space, goal=goal)
    """

    def __init__(
        self, contexts: Contexts, weights: Sequence[float] | Tensor | None = None
    ) -> None:
        r"""
        Args:
            contexts: The contexts, ``K x m``, or ``K`` numbers if there is one context
                column; see :func:`~botorch_binary_context.goals.context_grid` and
                :func:`~botorch_binary_context.goals.draw_contexts`.
            weights: The weight of each context, ``K`` positive numbers, which are
                scaled to sum to one; by default all are equal.
        """
        self.contexts = read_contexts(contexts)
        self.weights = read_weights(weights, len(self.contexts))

    @property
    def functional(self) -> Functional:
        """The average of ``f``."""
        return Functional(self.weights)

    def rows(self, space: ContextSpace, parameters: Tensor) -> Tensor:
        r"""The parameters in all contexts.

        Args:
            space: The box of the trials.
            parameters: A ``... x (d - m)`` tensor.

        Returns:
            A ``... x K x d`` tensor.
        """
        return at_contexts(space, parameters, self.contexts)

    def __repr__(self) -> str:
        return f"ContextAverage({self.contexts.tolist()}, {list(self.weights)})"


def read_weights(
    weights: Sequence[float] | Tensor | None, number: int
) -> tuple[float, ...]:
    r"""Weights that sum to one.

    Args:
        weights: Positive numbers, or None for equal weights.
        number: The expected number of weights.
    """
    if weights is None:
        return (1.0 / number,) * number
    values = weights.tolist() if isinstance(weights, Tensor) else list(weights)
    if len(values) != number or not all(0 < w < float("inf") for w in values):
        raise InputDataError(
            f"Expected ``weights`` to hold a positive number for each of the {number} "
            f"contexts, but got {values}."
        )
    total = sum(values)
    return tuple(float(weight) / total for weight in values)
