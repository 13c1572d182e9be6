r"""
Acquisition functions for contests: the value of learning which setting is the best.

.. [Astudillo2023qeubo]
    R. Astudillo, Z. J. Lin, E. Bakshy, P. I. Frazier. qEUBO: a decision-theoretic
    acquisition function for preferential Bayesian optimization. AISTATS 2023.
"""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_binary_context.acquisition.base import match_space
from botorch_binary_context.acquisition.moment_matched import (
    MomentMatchedKnowledgeGradient,
)
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.functionals import VALUE
from botorch_binary_context.goals.sampled import draw_joint_values
from botorch_binary_context.likelihoods.best_of import winner_slopes
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.batching import expand_batch


class ExpectedBestOfContest:
    r"""The expected value of the best of several settings in the reference context.

    ``E max f(s₀, x_i)`` (qEUBO of [Astudillo2023qeubo]_), by quasi-random draws.

    Example:
        >>> value = ExpectedBestOfContest(model, space)
        >>> value(contests)  # of t x k x d settings
    """

    def __init__(self, model: LatentGP, space: ContextSpace) -> None:
        r"""
        Args:
            model: A model of contests, duels or other trials.
            space: The box of the trials.
        """
        self.model = model.eval()
        self.space = match_space(space, model)

    def __call__(self, X: Tensor) -> Tensor:
        r"""The expected value.

        Args:
            X: The settings of contests, ``t x batch_shape x k x d``.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        rows = self.space.at_reference(self.space.parameters(X))
        return draw_joint_values(self.model, rows).amax(dim=-1).mean(dim=0)


class ContestKnowledgeGradient:
    r"""The knowledge gradient of contests, in closed form for a Gaussian posterior.

        ``KG = Σ_w max[P_w μ + Σ_i (∂P_w/∂μ_i) C_i] - max μ``

    with the probability ``P_w`` that the setting ``w`` wins, the posterior mean ``μ``
    of ``f`` in the reference context and its posterior covariance ``C_i`` with ``f`` at
    each setting. This is the expected rise of the best posterior mean once the winner
    is known. The inner maxima are taken over quasi-random points, the points of the
    training data, the current best and the settings themselves. Contests of two have
    the value of :class:`MomentMatchedKnowledgeGradient` over the same points.

    Example:
        >>> value = ContestKnowledgeGradient(model, space)
        >>> value(contests)  # of t x k x d settings
    """

    def __init__(
        self, model: LatentGP, space: ContextSpace, num_points: int = 128, seed: int = 0
    ) -> None:
        r"""
        Args:
            model: A model of contests, duels or other trials.
            space: The box of the trials.
            num_points: The number of quasi-random points.
            seed: Their seed.
        """
        self.model = model.eval()
        self.space = match_space(space, model)
        nested = MomentMatchedKnowledgeGradient(
            model, self.space, num_points, seed=seed
        )
        self.points = nested.points.detach()
        self.mean = nested.mean
        self.projection = nested.projection
        self.current_value = nested.current_value

    def __call__(self, X: Tensor) -> Tensor:
        r"""The knowledge gradient.

        Args:
            X: The settings of contests, ``t x batch_shape x k x d``.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        X = expand_batch(X, self.model.batch_shape)
        k = X.shape[-2]
        shown = self.space.at_reference(self.space.parameters(X))
        posterior = self.model.posterior(torch.cat([X, shown], dim=-2))
        mean = posterior.mean.squeeze(-1)
        covar: Tensor = posterior.distribution.covariance_matrix  # pyright: ignore
        weight, slope = winner_slopes(mean[..., :k], covar[..., :k, :k])
        anywhere = self._covariance(X)  # t x batch_shape x k x J
        best = [
            (weight.unsqueeze(-1) * center.unsqueeze(-2) + slope @ known).amax(dim=-1)
            for center, known in (
                (self.mean, anywhere),
                (mean[..., k:], covar[..., :k, k:]),
            )
        ]
        return torch.maximum(*best).sum(dim=-1) - self.current_value

    def _covariance(self, X: Tensor) -> Tensor:
        """The posterior covariance of the settings with the points."""
        number = X.shape[-2]
        rows = X.movedim(-2, 0).unsqueeze(-2)  # k x t x batch_shape x 1 x d
        values = self.model.values_of(rows.flatten(0, 1), VALUE)
        projected = self.projection @ values.cross
        covar = values.prior_covariance(self.points) - projected.mT @ self.points.cross
        # batch_shape x (k t) x J, in the order of the folded rows.
        covar = covar.unflatten(-2, (number, -1)).movedim((-3, -2), (0, 1))
        return covar.movedim(0, -2)
