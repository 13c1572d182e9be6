r"""
What candidate trials observe of the latent function, and its posterior.

A candidate is a ``q = 1`` batch on a model of pass/fail outcomes and a ``q = 2`` batch,
a duel, on a preference model. Everything is computed for the candidates' contrasts
directly, in the folded layout of :mod:`botorch_binary_context.batching`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from botorch_binary_context.batching import expand_batch, fold, unfold
from botorch_binary_context.covariance import clamp_variance, covariance, variance
from botorch_binary_context.models.laplace_gp import LaplaceGP


@dataclass(frozen=True)
class Contrasts:
    r"""The contrasts of ``T`` candidates under the prior, folded.

    Attributes:
        model: The model.
        batch: The batch shape of the candidates, ``t x batch_shape``.
        rows: The transformed rows of the candidates, ``batch_shape x (T q) x d``.
        cross: The prior covariance with the training contrasts,
            ``batch_shape x n x T``.
        prior_mean: ``batch_shape x T``.
        prior_variance: ``batch_shape x T``.
    """

    model: LaplaceGP
    batch: torch.Size
    rows: Tensor
    cross: Tensor
    prior_mean: Tensor
    prior_variance: Tensor

    @classmethod
    def of(cls, model: LaplaceGP, X: Tensor) -> Contrasts:
        r"""The contrasts of candidates.

        Args:
            model: The model.
            X: One trial per candidate, ``t x batch_shape x 1 x d``, or one duel,
                ``t x batch_shape x 2 x d``.

        Returns:
            The contrasts.
        """
        _check_candidates(model, X)
        if model.training:
            model.eval()
        contrast = model.likelihood.contrast
        X = expand_batch(model.transform_inputs(X), model.batch_shape)
        rows = fold(X, len(model.batch_shape))
        cross = contrast(covariance(model.covar_module, model.datapoints, rows), dim=-2)
        return cls(
            model=model,
            batch=X.shape[:-2],
            rows=rows,
            cross=contrast(cross),
            prior_mean=contrast(model.prior_mean(rows)),
            prior_variance=_prior_variance(model, rows),
        )

    def moments(self) -> tuple[Tensor, Tensor]:
        r"""The posterior mean and variance of the contrasts, ``batch_shape x T``."""
        approximation = self.model.laplace_approximation
        weights = approximation.weights.unsqueeze(-2)
        mean = self.prior_mean + (weights @ self.cross).squeeze(-2)
        explained = approximation.whiten(self.cross).square().sum(dim=-2)
        return mean, clamp_variance(self.prior_variance - explained)

    def unfold(self, values: Tensor) -> Tensor:
        r"""Values of the candidates in the shape they came in.

        Args:
            values: A ``batch_shape x T`` tensor.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        num_batch = len(self.model.batch_shape)
        return unfold(values.unsqueeze(-1), self.batch, 1, num_batch)[..., 0, 0]


def contrast_moments(model: LaplaceGP, X: Tensor) -> tuple[Tensor, Tensor]:
    r"""The posterior mean and variance of the contrast of each candidate.

    Args:
        model: The model.
        X: One trial per candidate, ``batch_shape x 1 x d``, or one duel,
            ``batch_shape x 2 x d``.

    Returns:
        The mean and the variance of ``f(z)`` or of ``f(z₁) - f(z₂)``, ``batch_shape``.
    """
    contrasts = Contrasts.of(model, X)
    mean, spread = contrasts.moments()
    return contrasts.unfold(mean), contrasts.unfold(spread)


def pair_with(X: Tensor, opponent: Tensor) -> Tensor:
    r"""Duels of every candidate against an opponent.

    Args:
        X: A ``batch_shape x 1 x d`` tensor of candidates.
        opponent: A ``batch_shape' x d`` tensor that broadcasts to ``batch_shape``.

    Returns:
        A ``batch_shape x 2 x d`` tensor, the candidate first.
    """
    if X.shape[-2] != 1:
        raise UnsupportedError(
            f"Expected candidates of ``X`` to be one row, but got {X.shape[-2]} rows."
        )
    opponent = opponent.unsqueeze(-2).to(X)
    shape = torch.broadcast_shapes(X.shape, opponent.shape)
    return torch.cat([X.expand(shape), opponent.expand(shape)], dim=-2)


def _check_candidates(model: LaplaceGP, X: Tensor) -> None:
    points = model.likelihood.points_per_trial
    if X.shape[-2] != points:
        kind = "one row" if points == 1 else "a duel, two rows"
        raise UnsupportedError(
            f"Expected candidates of ``X`` to be {kind}, but got {X.shape[-2]} rows."
        )


def _prior_variance(model: LaplaceGP, rows: Tensor) -> Tensor:
    """The prior variance of the contrasts that rows make."""
    if model.likelihood.points_per_trial == 1:
        return variance(model.covar_module, rows)
    pairs = rows.unflatten(-2, (-1, 2)).movedim(-3, 0)  # T x batch_shape x 2 x d
    K = covariance(model.covar_module, pairs, pairs)
    contrast = model.likelihood.contrast
    return contrast(contrast(K), dim=-2)[..., 0, 0].movedim(0, -1)
