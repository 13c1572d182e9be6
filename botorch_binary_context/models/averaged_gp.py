r"""
A model averaged over draws of its hyperparameters.
"""

from __future__ import annotations

from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_binary_context.checks import check_kind
from botorch_binary_context.models.hyperparameters import draw_hyperparameters
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.batching import expand_batch
from botorch_binary_context.posteriors import AveragedPosterior


class AveragedGP:
    r"""A model averaged over draws of its hyperparameters.

    Unlike a model with learned hyperparameters, it has intervals that allow for
    lengthscales, scales and slopes that are not known exactly.

    Example:
        >>> averaged = AveragedGP(model, num_draws=32)
        >>> averaged.exact_posterior(test_X).quantile(torch.tensor([0.05, 0.95]))
    """

    def __init__(self, model: LatentGP, num_draws: int = 32, seed: int = 0) -> None:
        r"""
        Args:
            model: A model whose hyperparameters were learned.
            num_draws: The number of draws of the hyperparameters.
            seed: The seed of the draws.
        """
        check_kind("model", model, LatentGP)
        if num_draws < 2:
            raise InputDataError(
                f"Expected ``num_draws`` to be at least 2, but got {num_draws}."
            )
        self.model = model
        self.draws = draw_hyperparameters(model, num_draws, seed)

    @property
    def num_draws(self) -> int:
        """The number of draws of the hyperparameters."""
        return self.draws.batch_shape[0]

    def exact_posterior(
        self, X: Tensor, num_samples: int = 4096, seed: int = 0
    ) -> AveragedPosterior:
        r"""The true posterior of the latent function, by sampling.

        Args:
            X: A ``batch_shape x q x d`` tensor; for the probabilities of duels,
                consecutive rows are pairs.
            num_samples: The number of draws, over all hyperparameters.
            seed: The seed of the draws.

        Returns:
            A posterior over the ``q`` latent values.
        """
        num_batch = len(self.model.batch_shape)
        X = expand_batch(X, self.model.batch_shape).unsqueeze(-3 - num_batch)
        each = -(-num_samples // self.num_draws)
        parts = self.draws.exact_posterior(X, each, seed)
        return AveragedPosterior(parts, dim=-2 - num_batch)
