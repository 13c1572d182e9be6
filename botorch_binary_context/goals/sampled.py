r"""
Goals that are not linear in ``f``: worst cases, quantiles, averages of probabilities.

Their moments are averages over joint draws of the values in all contexts, always with
the same quasi-random numbers: smooth enough to optimize, and repeatable.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from botorch.exceptions import InputDataError
from botorch.utils.sampling import draw_sobol_normal_samples
from torch import Tensor

from botorch_binary_context.context import ContextSpace
from botorch_binary_context.goals.base import (
    Contexts,
    Goal,
    at_contexts,
    read_contexts,
    success_likelihood,
)
from botorch_binary_context.goals.linear import LinearGoal, contest_rows
from botorch_binary_context.likelihoods import OutcomeLikelihood
from botorch_binary_context.models.latent_gp import LatentGP

NUM_DRAWS = 128
# Values in different contexts may determine each other: a little noise, relative to
# their variance, keeps their covariance positive definite.
JITTER = 1e-9


def normal_points(dim: int, number: int, like: Tensor) -> Tensor:
    r"""Quasi-random draws from a standard normal, always the same.

    Args:
        dim: The number of variables.
        number: The number of draws.
        like: A tensor with the dtype and device of the result.

    Returns:
        A ``number x dim`` tensor.
    """
    return _normal_points(dim, number, like.dtype, like.device)


@lru_cache(maxsize=64)
def _normal_points(
    dim: int, number: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    with torch.inference_mode(False):
        return draw_sobol_normal_samples(dim, number, device, dtype, seed=0)


def draw_joint_values(
    model: LatentGP, rows: Tensor, num_draws: int = NUM_DRAWS
) -> Tensor:
    r"""Joint draws of the latent function at a few rows, with fixed random numbers.

    Args:
        model: The model.
        rows: A ``t x batch_shape x K x d`` tensor.
        num_draws: The number of draws.

    Returns:
        A ``num_draws x t x batch_shape x K`` tensor, differentiable in the rows.
    """
    posterior = model.posterior(rows)
    mean = posterior.mean.squeeze(-1)
    root = joint_root(posterior.distribution.covariance_matrix)  # pyright: ignore
    points = normal_points(mean.shape[-1], num_draws, mean)
    return mean + torch.einsum("...kj,sj->s...k", root, points)


def joint_root(covariance: Tensor) -> Tensor:
    r"""A Cholesky factor of covariances that may be singular.

    Args:
        covariance: A ``... x K x K`` tensor.

    Returns:
        A ``... x K x K`` tensor.
    """
    diagonal = covariance.diagonal(dim1=-2, dim2=-1)
    # At least the rounding error for this many numbers.
    share = max(JITTER, 10 * diagonal.shape[-1] * torch.finfo(covariance.dtype).eps)
    noise = share * diagonal.detach().mean(dim=-1, keepdim=True)
    lifted = covariance.diagonal_scatter(diagonal + noise, dim1=-2, dim2=-1)
    return torch.linalg.cholesky(lifted)


def expected_slopes(goal: Goal, model: LatentGP, rows: Tensor) -> Tensor:
    r"""The expected derivative of a goal in each of its latent values.

    By Stein's lemma the covariance of any latent value with the goal is that with the
    sum of the goal's latent values, weighted by these slopes.

    Args:
        goal: The goal.
        model: The model.
        rows: The rows of the goal, ``t x batch_shape x K x d``.

    Returns:
        A ``t x batch_shape x K`` tensor.
    """
    with torch.no_grad():
        values = draw_joint_values(model, rows)
    with torch.enable_grad():
        values.requires_grad_()
        total = goal.combine(values, model).sum()
        (slopes,) = torch.autograd.grad(total, values)
    return slopes.mean(dim=0)


def latent_weights(goal: Goal, model: LatentGP, rows: Tensor) -> Tensor:
    r"""How much each latent value counts in a goal, exactly or on average.

    Args:
        goal: The goal.
        model: The model.
        rows: The rows of the goal, ``t x batch_shape x K x d``.

    Returns:
        A ``t x batch_shape x K`` tensor: the weights of a linear goal, and the expected
        slopes of any other.
    """
    if isinstance(goal, LinearGoal):
        return rows.new_tensor(goal.functional.weights).expand(rows.shape[:-1])
    return expected_slopes(goal, model, rows)


class SampledGoal(Goal):
    r"""A goal whose moments are averages over joint draws of ``f`` in all contexts."""

    def __init__(self, contexts: Contexts) -> None:
        r"""
        Args:
            contexts: The contexts, ``K x m``, or ``K`` numbers if there is one context
                column.
        """
        self.contexts = read_contexts(contexts)

    def rows(self, space: ContextSpace, parameters: Tensor) -> Tensor:
        r"""The parameters in all contexts.

        Args:
            space: The box of the trials.
            parameters: A ``... x (d - m)`` tensor.

        Returns:
            A ``... x K x d`` tensor.
        """
        return at_contexts(space, parameters, self.contexts)

    def draw(self, model: LatentGP, space: ContextSpace, parameters: Tensor) -> Tensor:
        r"""Draws of the goal.

        Args:
            model: The model.
            space: The box of the trials.
            parameters: The parameters.

        Returns:
            A ``num_draws x t x batch_shape`` tensor.
        """
        values = draw_joint_values(model, self.rows(space, parameters))
        return self.combine(values, model)

    def moments(
        self, model: LatentGP, space: ContextSpace, parameters: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""The posterior mean and variance of the goal.

        Args:
            model: The model.
            space: The box of the trials.
            parameters: The parameters.
        """
        return _moments(self.draw(model, space, parameters))

    def probability_moments(
        self, model: LatentGP, space: ContextSpace, parameters: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""The moments of the success probability of a test with that latent value.

        Args:
            model: A model of pass/fail outcomes, alone or together with others.
            space: The box of the trials.
            parameters: The parameters.

        Returns:
            The mean and the variance of the success probability.
        """
        draws = self.draw(model, space, parameters)
        return _moments(_probability(success_likelihood(model), draws))

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
        rows = contest_rows(self, space, parameters, incumbent)
        first, second = draw_joint_values(model, rows).chunk(2, dim=-1)
        contrast = self.combine(first, model) - self.combine(second, model)
        return _moments(_probability(model.likelihood, contrast))[1]


def _probability(likelihood: OutcomeLikelihood, values: Tensor) -> Tensor:
    # Rates that are learned have a trailing dimension for trials.
    return likelihood.probability(values.unsqueeze(-1)).squeeze(-1)


def _moments(draws: Tensor) -> tuple[Tensor, Tensor]:
    return draws.mean(dim=0), draws.var(dim=0)


class WorstContext(SampledGoal):
    r"""To be good in the worst of some contexts: ``min_k f(s_k, x)``.

    Example:
        >>> suggest(model, space, "ts-ald", goal=WorstContext([0.2, 0.5, 0.8]))
    """

    def combine(self, values: Tensor, model: LatentGP) -> Tensor:
        r"""The smallest value.

        Args:
            values: The values of ``f``, ``... x K``.
            model: Not used.

        Returns:
            A ``...`` tensor.
        """
        return values.amin(dim=-1)

    def __repr__(self) -> str:
        return f"WorstContext({self.contexts.tolist()})"


class ContextQuantile(SampledGoal):
    r"""To be good in most contexts: a quantile of ``f(s_k, x)`` over the contexts.

    At a share of 0.1, nine tenths of the contexts are at least as good. The quantile is
    interpolated between contexts.

    Example:
        >>> goal = ContextQuantile(context_grid(space, 11), share=0.1)
    """

    def __init__(self, contexts: Contexts, share: float) -> None:
        r"""
        Args:
            contexts: The contexts, ``K x m``, or ``K`` numbers if there is one context
                column.
            share: The share of the contexts that may be worse, from 0 (the worst
                counts) to 1 (the best).
        """
        super().__init__(contexts)
        if not 0.0 <= share <= 1.0:
            raise InputDataError(
                f"Expected ``share`` to be between 0 and 1, but got {share}."
            )
        self.share = share

    def combine(self, values: Tensor, model: LatentGP) -> Tensor:
        r"""The quantile of the values.

        Args:
            values: The values of ``f``, ``... x K``.
            model: Not used.

        Returns:
            A ``...`` tensor.
        """
        ordered = values.sort(dim=-1).values
        position = self.share * (values.shape[-1] - 1)
        below = int(position)
        above = min(below + 1, values.shape[-1] - 1)
        return torch.lerp(ordered[..., below], ordered[..., above], position - below)

    def __repr__(self) -> str:
        return f"ContextQuantile({self.contexts.tolist()}, share={self.share})"


class ContextCVaR(SampledGoal):
    r"""To be good on average over the worst contexts: the conditional value at risk.

    At a share of 0.2 it is the average over the worst fifth of the contexts; at 1 it is
    the average over all.

    Example:
        >>> goal = ContextCVaR(context_grid(space, 10), share=0.2)
    """

    def __init__(self, contexts: Contexts, share: float) -> None:
        r"""
        Args:
            contexts: The contexts, ``K x m``, or ``K`` numbers if there is one context
                column.
            share: The share of the contexts, from the worst, that is averaged over,
                above 0 and at most 1.
        """
        super().__init__(contexts)
        if not 0.0 < share <= 1.0:
            raise InputDataError(
                f"Expected ``share`` to be above 0 and at most 1, but got {share}."
            )
        self.share = share

    def combine(self, values: Tensor, model: LatentGP) -> Tensor:
        r"""The average of the smallest values.

        Args:
            values: The values of ``f``, ``... x K``.
            model: Not used.

        Returns:
            A ``...`` tensor.
        """
        number = values.shape[-1]
        before = torch.arange(number, dtype=values.dtype, device=values.device)
        # The last context may count only in part.
        counted = (self.share * number - before).clamp(0.0, 1.0)
        return values.sort(dim=-1).values @ (counted / counted.sum())

    def __repr__(self) -> str:
        return f"ContextCVaR({self.contexts.tolist()}, share={self.share})"
