r"""
Gaussian process models of ratings.
"""

from __future__ import annotations

from botorch.models.transforms.input import InputTransform
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from botorch_binary_context.inference import Inference
from botorch_binary_context.likelihoods import OrdinalLikelihood, RatingLikelihood
from botorch_binary_context.models.binary_gp import BinaryGP


class RatingGP(BinaryGP):
    r"""A model of the latent performance behind ratings of ordered categories.

    ``p(c ≥ j|z) = Φ(f(z) - t_j)`` with a Gaussian process prior on ``f`` and thresholds
    ``t`` that are learned with the other hyperparameters. It is a :class:`BinaryGP`
    with another likelihood; a success is a rating of at least ``likelihood.passing``.

    Example:
        >>> train_X = torch.rand(20, 2, dtype=torch.double)
        >>> train_Y = (4 * train_X.mean(dim=-1, keepdim=True)).round()  # 0 to 4
        >>> model = RatingGP(train_X, train_Y)
        >>> fit_gpytorch_mll(ApproximateMarginalLogLikelihood(model.likelihood, model))
        >>> model.posterior(test_X).mean  # of the latent f
        >>> model.posterior(test_X, observation_noise=True).probabilities  # of ratings
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        num_outcomes: int = 5,
        likelihood: OrdinalLikelihood | None = None,
        covar_module: Kernel | None = None,
        mean_module: Mean | None = None,
        input_transform: InputTransform | None = None,
        inference: Inference | None = None,
    ) -> None:
        r"""
        Args:
            train_X: The trials, ``batch_shape x n x d``; ``n`` may be zero.
            train_Y: Their ratings, ``batch_shape x n x 1``, from 0 to
                ``num_outcomes - 1``.
            num_outcomes: The number of ratings, if no likelihood is given.
            likelihood: By default a ``RatingLikelihood``, whose thresholds are learned
                for each element of the batch.
            covar_module: The kernel of the latent function, as in :class:`BinaryGP`.
            mean_module: The prior mean of the latent function, by default zero.
            input_transform: Applied to the inputs of trials and of test points.
            inference: How the posterior is approximated, by default by expectation
                propagation.
        """
        if likelihood is None:
            batch_shape = train_X.shape[:-2]
            likelihood = RatingLikelihood(num_outcomes, batch_shape=batch_shape)
        super().__init__(
            train_X,
            train_Y,
            likelihood=likelihood,
            covar_module=covar_module,
            mean_module=mean_module,
            input_transform=input_transform,
            inference=inference,
        )
