r"""
Gaussian process models of the value function behind duels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models.transforms.input import InputTransform
from botorch.utils.datasets import RankingDataset, SupervisedDataset
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from botorch_binary_context.context import normalize_context_dims
from botorch_binary_context.inference import Inference, Laplace
from botorch_binary_context.kernels import context_dims_of
from botorch_binary_context.likelihoods import OutcomeLikelihood, PreferenceLikelihood
from botorch_binary_context.models.defaults import duel_covar_module
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.models.observations import Observations
from botorch_binary_context.models.validation import check_duel_contexts


class PreferenceGP(LatentGP):
    r"""A model of the value function behind duels in a context.

    ``p(c=1|z₁,z₂) = Φ(f(z₁) - f(z₂))`` with a Gaussian process prior on ``f`` (section
    3.4 of [Fauvel2022contextual]_). The posterior is over the value function ``f``, so
    every BoTorch acquisition function works on it; a constant added to ``f``, about
    which duels say nothing, keeps its prior. Inference is in the space of the ``n``
    duels, however many points they compare.

    A duel is a ``q = 2`` batch: label posteriors and fantasies take consecutive pairs
    of rows.

    Example:
        >>> pairs = torch.rand(20, 2, 3, dtype=torch.double)
        >>> train_Y = (pairs[:, :1].sum(-1) > pairs[:, 1:].sum(-1)).double()
        >>> model = PreferenceGP(pairs, train_Y)
        >>> model.posterior(test_X).mean  # of the value function
        >>> model.probability_posterior(pair).mean  # that the first row is preferred
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        likelihood: OutcomeLikelihood | None = None,
        covar_module: Kernel | None = None,
        mean_module: Mean | None = None,
        input_transform: InputTransform | None = None,
        inference: Inference | None = None,
        context_dims: Sequence[int] | None = None,
    ) -> None:
        r"""
        Args:
            train_X: The duels, ``batch_shape x n x 2 x d``; ``n`` may be zero.
            train_Y: Their outcomes, ``batch_shape x n x 1``: 1 where the first row of
                the pair is preferred, 0 where the second is. With a ``TiesLikelihood``,
                2 where the first row is preferred, 1 for a tie.
            likelihood: By default a ``PreferenceLikelihood``.
            covar_module: The kernel of the value function. By default a squared
                exponential with priors, for inputs in the unit cube.
            mean_module: The prior mean of the value function, by default zero.
            input_transform: Applied to the inputs of duels and of test points.
            inference: How the posterior is approximated, by default by expectation
                propagation.
            context_dims: Columns that the two sides of every duel share; by default
                those that the kernel treats as context.
        """
        likelihood = PreferenceLikelihood() if likelihood is None else likelihood
        super().__init__(
            [Observations(train_X, train_Y, likelihood)],
            covar_module=covar_module,
            mean_module=mean_module,
            input_transform=input_transform,
            inference=inference,
        )
        if context_dims is None:
            context_dims = context_dims_of(self.covar_module)
        columns = normalize_context_dims(context_dims, train_X.shape[-1])
        check_duel_contexts(train_X, columns)

    def _make_covar_module(self, dim: int) -> Kernel:
        return duel_covar_module(dim, self.batch_shape)

    @classmethod
    def from_comparisons(
        cls, datapoints: Tensor, comparisons: Tensor, **kwargs: Any
    ) -> Self:
        r"""A model of the comparisons that ``botorch.models.PairwiseGP`` takes.

        Args:
            datapoints: The items, ``batch_shape x m x d``.
            comparisons: Integer pairs of rows of ``datapoints``,
                ``batch_shape x n x 2``; the first of a pair is preferred to the second.
            kwargs: Further arguments of the constructor.
        """
        if comparisons.shape[-1] != 2 or comparisons.is_floating_point():
            raise InputDataError(
                "Expected ``comparisons`` to be integers, ``batch_shape x n x 2``, "
                f"but got {comparisons.dtype} of shape {list(comparisons.shape)}."
            )
        m = datapoints.shape[-2]
        if (
            comparisons.numel()
            and not 0 <= int(comparisons.min()) <= int(comparisons.max()) < m
        ):
            raise InputDataError(
                f"Expected ``comparisons`` to be rows 0 to {m - 1} of ``datapoints``, "
                f"but got {int(comparisons.min())} to {int(comparisons.max())}."
            )
        pairs = _gather_rows(datapoints, comparisons)
        return cls(pairs, torch.ones_like(pairs[..., 0, :1]), **kwargs)

    @classmethod
    def construct_inputs(cls, training_data: SupervisedDataset) -> dict[str, Any]:
        r"""Constructor arguments from a ``RankingDataset`` of pairs.

        Args:
            training_data: The data set; rank 0 is the preferred item.

        Returns:
            A dict with ``train_X`` and ``train_Y``.
        """
        if not isinstance(training_data, RankingDataset):
            raise UnsupportedError(
                "Expected ``training_data`` to be a ``RankingDataset``, but got "
                f"{type(training_data).__name__}."
            )
        container: Any = training_data._X
        values = container.values
        indices = container.indices
        ranks = training_data.Y
        if ranks.shape[-1] != 2 or bool((ranks[..., 0] == ranks[..., 1]).any()):
            raise UnsupportedError(
                "Expected ``training_data`` to rank pairs without ties, but got ranks "
                f"{ranks.tolist()}."
            )
        preferred = ranks[..., :1] < ranks[..., 1:]
        return {
            "train_X": _gather_rows(values, indices),
            "train_Y": preferred.to(values),
        }


class PreferenceLaplaceGP(PreferenceGP):
    r"""A :class:`PreferenceGP` whose posterior is approximated by Laplace's method.

    This is the model of the paper.

    Example:
        >>> model = PreferenceLaplaceGP(pairs, train_Y)
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        likelihood: OutcomeLikelihood | None = None,
        covar_module: Kernel | None = None,
        mean_module: Mean | None = None,
        input_transform: InputTransform | None = None,
        context_dims: Sequence[int] | None = None,
    ) -> None:
        r"""
        Args:
            train_X: The duels, ``batch_shape x n x 2 x d``; ``n`` may be zero.
            train_Y: Their outcomes, ``batch_shape x n x 1``: 1 where the first row of
                the pair is preferred, 0 where the second is. With a ``TiesLikelihood``,
                2 where the first row is preferred, 1 for a tie.
            likelihood: By default a ``PreferenceLikelihood``.
            covar_module: The kernel of the value function, as in
                :class:`PreferenceGP`.
            mean_module: The prior mean of the value function, by default zero.
            input_transform: Applied to the inputs of duels and of test points.
            context_dims: Columns that the two sides of every duel share.
        """
        super().__init__(
            train_X,
            train_Y,
            likelihood=likelihood,
            covar_module=covar_module,
            mean_module=mean_module,
            input_transform=input_transform,
            inference=Laplace(),
            context_dims=context_dims,
        )


def _gather_rows(datapoints: Tensor, indices: Tensor) -> Tensor:
    """Rows of ``batch_shape x m x d`` at ``batch_shape x n x 2`` indices."""
    index = (
        indices.flatten(-2)
        .unsqueeze(-1)
        .expand(*indices.shape[:-2], -1, datapoints.shape[-1])
    )
    return datapoints.gather(-2, index).unflatten(-2, (-1, 2))
