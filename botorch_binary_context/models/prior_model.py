r"""
The prior of a latent Gaussian process, and of what trials observe of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from gpytorch.kernels import Kernel
from gpytorch.means import Mean, ZeroMean
from torch import Tensor

from botorch_binary_context.functionals import VALUE, Functional
from botorch_binary_context.likelihoods.best_of import ContestLikelihood, shared_noise
from botorch_binary_context.models.conditioning import ConditionedModel
from botorch_binary_context.numerics.batching import fold
from botorch_binary_context.numerics.covariance import covariance, variance


class PriorModel(ConditionedModel):
    r"""Prior moments of the latent function at points and of the training contrasts.

    Points are already transformed, unlike the arguments of the posterior.
    """

    covar_module: Kernel
    mean_module: Mean

    def _prior_moments(self, trials: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """The prior mean and covariance of the contrasts of trials."""
        functional = self.trial_functional
        rows = self._rows(trials)
        K = functional(functional(covariance(self.covar_module, rows, rows)), dim=-2)
        noise = self.shared_noise_covariance(K)
        K = K if noise is None else K + noise
        if isinstance(self.mean_module, ZeroMean):
            return K.new_zeros(K.shape[:-1]), K
        return functional(self.prior_mean(rows)).expand(K.shape[:-1]), K

    def shared_noise_covariance(self, like: Tensor) -> Tensor | None:
        r"""The covariance of the noise that some of the training trials share.

        Args:
            like: A tensor with the dtype and device of the result.

        Returns:
            An ``n x n`` tensor; None if no trials share any.
        """
        if not self._shares_noise:
            return None
        blocks = [
            shared_noise(known, count, like)
            for known, count in zip(self.kinds, self._counts, strict=True)
        ]
        return torch.block_diag(*blocks)

    @property
    def _shares_noise(self) -> bool:
        return any(isinstance(known, ContestLikelihood) for known in self.kinds)

    def draw_shared_noise(self, values: Tensor) -> Tensor:
        r"""Add a draw of the noise that training trials share to their contrasts.

        Args:
            values: The contrasts of drawn functions, ``... x n``.

        Returns:
            A tensor of the same shape.
        """
        if not self._shares_noise:
            return values
        parts = []
        for known, part in zip(
            self.kinds, values.split(self._counts, dim=-1), strict=True
        ):
            if isinstance(known, ContestLikelihood):
                number = part.shape[-1] // known.num_sharing
                groups = part.unflatten(-1, (number, known.num_sharing))
                noise = torch.randn_like(groups[..., :1]).expand_as(groups)
                part = part + known.noise_variance**0.5 * noise.flatten(-2)
            parts.append(part)
        return torch.cat(parts, dim=-1)

    def prior_of_training_trials(self) -> tuple[Tensor, Tensor]:
        r"""The prior mean and covariance of the contrasts, in ``train`` mode.

        Returns:
            ``batch_shape x n`` and ``batch_shape x n x n``, with a graph.
        """
        return self._prior_moments(self._transform_trials(self.train_inputs))

    def prior_variance(self, X: Tensor, functional: Functional = VALUE) -> Tensor:
        r"""The prior variance of a functional at stacked transformed rows.

        Args:
            X: The rows of ``T`` candidates, ``batch_shape x (T q) x d``.
            functional: The functional.

        Returns:
            A ``batch_shape x T`` tensor.
        """
        if functional == VALUE:
            return variance(self.covar_module, X)
        # T x batch_shape x q x d: kernels want their batch next to the matrix.
        rows = X.unflatten(-2, (-1, functional.num_rows)).movedim(-3, 0)
        K = functional.of_covariance(self.prior_covariance(rows, rows))
        return K[..., 0, 0].movedim(0, -1)

    def prior_covariance(self, X1: Tensor, X2: Tensor) -> Tensor:
        r"""The prior covariance of the latent values at transformed points.

        Args:
            X1: A ``batch_shape x n x d`` tensor.
            X2: A ``batch_shape x m x d`` tensor.

        Returns:
            A ``batch_shape x n x m`` tensor.
        """
        return covariance(self.covar_module, X1, X2)

    def prior_mean(self, X: Tensor) -> Tensor:
        r"""The prior mean of the latent values at transformed points.

        Args:
            X: A ``batch_shape x q x d`` tensor.

        Returns:
            A ``batch_shape x q`` tensor.
        """
        if isinstance(self.mean_module, ZeroMean):
            return X.new_zeros(X.shape[:-1])
        return self.mean_module(X)  # pyright: ignore

    def cross_covariance(self, X: Tensor) -> Tensor:
        r"""The prior covariance of the training contrasts with latent values at points.

        The leading dimensions that only ``X`` has are folded into its rows, which makes
        one matrix of many small ones.

        Args:
            X: A ``t x batch_shape x q x d`` tensor of transformed points.

        Returns:
            A ``batch_shape x n x (t q)`` tensor.
        """
        folded = fold(X, len(self.batch_shape))
        cross = covariance(self.covar_module, self.datapoints, folded)
        return self.trial_functional(cross, dim=-2)
