r"""
The base class of goals, and functions that read contexts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from botorch.exceptions import InputDataError, UnsupportedError
from torch import Tensor

from botorch_binary_context.context import ContextSpace
from botorch_binary_context.functionals import VALUE
from botorch_binary_context.likelihoods import OutcomeLikelihood
from botorch_binary_context.models.latent_gp import LatentGP

#: Contexts as tensors or lists, a row of ``m`` numbers for each.
Contexts = Tensor | Sequence[Sequence[float]] | Sequence[float]


class Goal(ABC):
    r"""A rating of parameters, computed from the values of ``f`` in some contexts.

    Where ``parameters`` are ``t x batch_shape x (d - m)``, results are
    ``t x batch_shape``; ``batch_shape`` is the model's batch shape.
    """

    @abstractmethod
    def rows(self, space: ContextSpace, parameters: Tensor) -> Tensor:
        r"""The trials whose latent values determine the goal.

        Args:
            space: The box of the trials.
            parameters: A ``... x (d - m)`` tensor.

        Returns:
            A ``... x K x d`` tensor, a row for each context.
        """

    @abstractmethod
    def combine(self, values: Tensor, model: LatentGP) -> Tensor:
        r"""The value of the goal, given the values of the latent function.

        Args:
            values: The values at :meth:`rows`, ``... x K``.
            model: The model, which knows how trials are answered.

        Returns:
            A ``...`` tensor of values of the goal.
        """

    @abstractmethod
    def moments(
        self, model: LatentGP, space: ContextSpace, parameters: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""The posterior mean and variance of the goal.

        Args:
            model: The model.
            space: The box of the trials.
            parameters: The parameters.
        """

    def mean(self, model: LatentGP, space: ContextSpace, parameters: Tensor) -> Tensor:
        r"""The posterior mean of the goal.

        Args:
            model: The model.
            space: The box of the trials.
            parameters: The parameters.
        """
        return self.moments(model, space, parameters)[0]

    @abstractmethod
    def probability_moments(
        self, model: LatentGP, space: ContextSpace, parameters: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""The posterior mean and variance of the goal as a success probability.

        Args:
            model: A model that includes pass/fail outcomes.
            space: The box of the trials.
            parameters: The parameters.

        Returns:
            The mean and the variance of the success probability.
        """

    @abstractmethod
    def challenge(
        self,
        model: LatentGP,
        space: ContextSpace,
        parameters: Tensor,
        incumbent: Tensor,
    ) -> Tensor:
        r"""How uncertain it is whether parameters are better than an incumbent.

        Args:
            model: A model of duels.
            space: The box of the trials.
            parameters: The parameters of the challengers.
            incumbent: ``batch_shape x (d - m)`` parameters.

        Returns:
            The variance of the probability that the parameters are preferred.
        """


def success_likelihood(model: LatentGP) -> OutcomeLikelihood:
    r"""The likelihood of a model's pass/fail trials.

    Args:
        model: A model of pass/fail outcomes, alone or together with other trials.
    """
    for likelihood in (model.likelihood, *model.kinds):
        if likelihood.functional == VALUE:
            return likelihood
    raise UnsupportedError(
        "Expected ``model`` to have pass/fail outcomes, whose success probability the "
        f"goal looks at, but got a {type(model).__name__} without any."
    )


def read_contexts(contexts: Contexts, name: str = "contexts") -> Tensor:
    r"""Contexts as a tensor.

    Args:
        contexts: A ``K x m`` tensor or list, or ``K`` numbers if there is one context
            column.
        name: The name of the argument.

    Returns:
        A ``K x m`` tensor.
    """
    given = contexts
    if not isinstance(contexts, Tensor):
        contexts = torch.tensor(contexts, dtype=torch.double, device="cpu")
    if contexts.ndim == 1:
        contexts = contexts.unsqueeze(-1)
    if contexts.ndim != 2 or contexts.numel() == 0 or not contexts.isfinite().all():
        raise InputDataError(
            f"Expected ``{name}`` to hold a row of finite numbers for each context, "
            f"``K x m``, but got {given!r}."
        )
    return contexts


def match_contexts(contexts: Tensor, space: ContextSpace, name: str) -> Tensor:
    r"""Contexts with the dtype and device of a space; an error if they are not in it.

    Args:
        contexts: A ``... x m`` tensor.
        space: The box of the trials.
        name: The name of the argument.
    """
    contexts = contexts.to(space.bounds)
    low, high = space.context_bounds
    if contexts.shape[-1] != space.num_contexts:
        raise InputDataError(
            f"Expected ``{name}`` to have one number for each of the "
            f"{space.num_contexts} context columns, but got {contexts.tolist()}."
        )
    if not bool(((low <= contexts) & (contexts <= high)).all()):
        raise InputDataError(
            f"Expected ``{name}`` to lie within the bounds of the context columns, "
            f"{low.tolist()} to {high.tolist()}, but got {contexts.tolist()}."
        )
    return contexts


def at_contexts(space: ContextSpace, parameters: Tensor, contexts: Tensor) -> Tensor:
    r"""Trials of the same parameters in several contexts.

    Args:
        space: The box of the trials.
        parameters: A ``... x (d - m)`` tensor.
        contexts: A ``K x m`` tensor.

    Returns:
        A ``... x K x d`` tensor.
    """
    contexts = match_contexts(contexts, space, "contexts").to(parameters)
    return space.join(parameters.unsqueeze(-2), contexts)
