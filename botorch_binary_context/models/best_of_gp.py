r"""
Gaussian process models of contests: which of several settings is the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from botorch.exceptions import InputDataError
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models.transforms.input import InputTransform
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from botorch_binary_context.inference import Inference
from botorch_binary_context.likelihoods import PreferenceLikelihood
from botorch_binary_context.likelihoods.best_of import (
    ContestLikelihood,
    winner_probabilities,
)
from botorch_binary_context.models.mixed_gp import MixedGP
from botorch_binary_context.models.observations import Observations
from botorch_binary_context.models.validation import check_labels


def contests(train_X: Tensor, train_Y: Tensor) -> Observations:
    r"""Contests as pairs of the winner with each loser.

    Args:
        train_X: The settings of each contest, ``batch_shape x n x k x d``.
        train_Y: The winners, ``batch_shape x n x 1``, from 0 to ``k - 1``.

    Returns:
        Observations for a :class:`MixedGP`, along with those of other kinds.

    Example:
        >>> model = MixedGP([duels, contests(settings, winners)])
    """
    if train_X.ndim < 3 or train_Y.shape != (*train_X.shape[:-2], 1):
        raise BotorchTensorDimensionError(
            "Expected ``train_X`` to be ``batch_shape x n x k x d`` and ``train_Y`` to "
            "have one winner for each contest, but got shapes "
            f"{list(train_X.shape)} and {list(train_Y.shape)}."
        )
    k = train_X.shape[-2]
    likelihood = ContestLikelihood(k)
    check_labels(train_Y, num_outcomes=k)
    shift = torch.arange(k, device=train_X.device)
    order = (train_Y.long() + shift) % k  # the winner first, batch_shape x n x k
    index = order.unsqueeze(-1).expand(train_X.shape)
    ordered = train_X.gather(-2, index)
    winner, losers = ordered[..., :1, :], ordered[..., 1:, :]
    pairs = torch.stack([winner.expand_as(losers), losers], dim=-2)
    pairs = pairs.flatten(-4, -3)  # batch_shape x (n (k - 1)) x 2 x d
    return Observations(pairs, torch.ones_like(pairs[..., 0, :1]), likelihood)


class BestOfGP(MixedGP):
    r"""A model of the value function behind contests of ``k`` settings.

    The winner has the highest ``f(z_i) + e_i`` with noise ``e_i ~ N(0, ½)``, so that
    contests of two are the duels of :class:`PreferenceGP`. Candidates of acquisition
    functions are duels; :meth:`winner_probabilities` predicts contests.

    Example:
        >>> settings = torch.rand(20, 3, 2, dtype=torch.double)  # 20 contests of 3
        >>> winners = settings.sum(dim=-1).argmax(dim=-1, keepdim=True).double()
        >>> model = BestOfGP(settings, winners)
        >>> model.posterior(test_X).mean  # of the value function
        >>> model.winner_probabilities(settings[0])  # 3
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        others: Sequence[Observations] = (),
        covar_module: Kernel | None = None,
        mean_module: Mean | None = None,
        input_transform: InputTransform | None = None,
        inference: Inference | None = None,
    ) -> None:
        r"""
        Args:
            train_X: The settings of each contest, ``batch_shape x n x k x d``; ``n``
                may be zero.
            train_Y: The winners, ``batch_shape x n x 1``, from 0 to ``k - 1``.
            others: Trials of other kinds about the same function; duels should come
                first, since candidates are trials of the first kind. By default there
                are no duels yet.
            covar_module: The kernel of the value function, as in :class:`MixedGP`.
            mean_module: The prior mean of the value function, by default zero.
            input_transform: Applied to the inputs of trials and of test points.
            inference: How the posterior is approximated, by default by expectation
                propagation.
        """
        observed = contests(train_X, train_Y)
        if not others:
            pairs = observed.X[..., :0, :, :]
            others = [Observations(pairs, pairs[..., 0, :1], PreferenceLikelihood())]
        super().__init__(
            [*others, observed], covar_module, mean_module, input_transform, inference
        )

    @property
    def num_options(self) -> int:
        """The number of settings in a contest, ``k``."""
        likelihood: Any = self.kinds[-1]
        return likelihood.num_options

    def condition_on_contests(self, X: Tensor, Y: Tensor) -> Self:
        r"""The same model, given more contests.

        Args:
            X: The settings, ``batch_shape x n' x k x d``.
            Y: The winners, ``batch_shape x n' x 1``.

        Returns:
            A new model; this one is unchanged.
        """
        if X.shape[-2] != self.num_options:
            raise InputDataError(
                f"Expected ``X`` to hold contests of {self.num_options}, but got "
                f"{X.shape[-2]} settings each."
            )
        return self.condition_on_observations(contests(X, Y))

    def winner_probabilities(self, X: Tensor) -> Tensor:
        r"""The probability that each setting wins its contest.

        This is a closed form for two and three settings. For more, it averages over
        quasi-random draws of their values, given which it is a one-dimensional
        integral.

        Args:
            X: The settings, ``batch_shape x k x d``.

        Returns:
            A ``batch_shape x k`` tensor.
        """
        posterior = self.posterior(X)
        mean = posterior.mean.squeeze(-1)
        covar: Tensor = posterior.distribution.covariance_matrix  # pyright: ignore
        return winner_probabilities(mean, covar)
