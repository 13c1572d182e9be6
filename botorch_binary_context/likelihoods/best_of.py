r"""
The likelihood of contests: which of ``k`` settings is the best.

Every setting is judged with its own noise, ``u_i = f(z_i) + e_i`` with ``e_i ~ N(0,
½)``, and the highest wins; so contests of two are plain duels. Given the noise ``e`` of
the winner, the losers are independent, and each of them loses with the probability
``Φ(√2 (f(z_w) - f(z_j) + e))``. So a contest is ``k - 1`` observations of contrasts
that share a term ``e``: the noise is part of the prior covariance of the contrasts, and
no approximation is needed beyond the one for duels.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from botorch.exceptions import InputDataError
from botorch.utils.sampling import draw_sobol_normal_samples
from torch import Tensor

from botorch_binary_context.bivariate import bivariate_normal_cdf
from botorch_binary_context.checks import describe
from botorch_binary_context.functionals import DIFFERENCE, Functional
from botorch_binary_context.likelihoods.base import LogDerivatives, OutcomeLikelihood
from botorch_binary_context.likelihoods.probit import ProbitLikelihood
from botorch_binary_context.numerics.covariance import raise_variance
from botorch_binary_context.probability import hermite, normal_cdf, probit_mean

#: The variance of the noise of each setting, so that differences are as noisy as duels.
NOISE = 0.5
_SCALE = 1 / math.sqrt(NOISE)
_PROBIT = ProbitLikelihood()
NUM_DRAWS = 1024


class ContestLikelihood(OutcomeLikelihood):
    r"""One loser of a contest, ``p(c=1|g) = Φ(√2 g)``.

    The contrast ``g`` includes the noise of the winner: ``k - 1`` consecutive trials,
    which are pairs of the winner and a loser with the label 1, share that noise.

    Example:
        >>> model = BestOfGP(train_X, winners)  # n x k x d settings
    """

    functional: Functional = DIFFERENCE

    def __init__(self, num_options: int = 3) -> None:
        r"""
        Args:
            num_options: ``k``, the number of settings, at least 2.
        """
        super().__init__()
        if not (isinstance(num_options, int) and num_options >= 2):
            raise InputDataError(
                "Expected ``num_options`` to be a whole number of at least 2, but got "
                f"{describe(num_options)}."
            )
        self.num_options = num_options

    @property
    def num_sharing(self) -> int:
        """The number of consecutive trials that share their noise, ``k - 1``."""
        return self.num_options - 1

    @property
    def noise_variance(self) -> float:
        """The variance of that noise."""
        return NOISE

    @property
    def is_log_concave(self) -> bool:
        """True: ``log p(c|g)`` is concave in ``g``."""
        return True

    def _settings(self) -> tuple[Any, ...]:
        return (self.num_options,)

    def probability(self, contrast: Tensor) -> Tensor:
        r"""``Φ(√2 g)``.

        Args:
            contrast: ``g``, of any shape.

        Returns:
            A tensor of the same shape.
        """
        return normal_cdf(_SCALE * contrast)

    def expected_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""The exact mean of the probability, for Gaussian contrasts.

        Args:
            mean: The mean of ``g``.
            variance: Its variance, of the same shape.

        Returns:
            A tensor of the same shape.
        """
        return probit_mean(_SCALE * mean, variance / NOISE)

    def log_prob(self, contrast: Tensor, targets: Tensor) -> Tensor:
        r"""``log p(c|g)``.

        Args:
            contrast: A ``... x n`` tensor of contrasts.
            targets: A ``... x n`` tensor of labels.

        Returns:
            A ``... x n`` tensor.
        """
        return _PROBIT.log_prob(_SCALE * contrast, targets)

    def log_derivatives(self, contrast: Tensor, targets: Tensor) -> LogDerivatives:
        r"""``log p(c|g)`` and its first and second derivatives in ``g``.

        Args:
            contrast: A ``... x n`` tensor of contrasts.
            targets: A ``... x n`` tensor of labels.

        Returns:
            The value, the gradient and the curvatures, ``... x n`` each.
        """
        return _rescale(_PROBIT.log_derivatives(_SCALE * contrast, targets))

    def tilted_derivatives(
        self, mean: Tensor, variance: Tensor, targets: Tensor
    ) -> LogDerivatives:
        r"""``log E p(c|g)`` for Gaussian contrasts, and its derivatives in their mean.

        Args:
            mean: The mean of the contrasts, ``... x n``.
            variance: Their variance, ``... x n``.
            targets: Labels, ``... x n``.

        Returns:
            The value and the derivatives, ``... x n`` each.
        """
        return _rescale(
            _PROBIT.tilted_derivatives(_SCALE * mean, variance / NOISE, targets)
        )


def _rescale(at: LogDerivatives) -> LogDerivatives:
    """Derivatives in ``g`` from derivatives in ``√2 g``."""
    curvature = at.negative_hessian / NOISE
    return LogDerivatives(_SCALE * at.gradient, curvature, curvature, lambda: at.value)


def shared_noise(likelihood: OutcomeLikelihood, number: int, like: Tensor) -> Tensor:
    r"""The covariance of the noise that trials share.

    Args:
        likelihood: Their likelihood.
        number: Their number.
        like: A tensor with the dtype and device of the result.

    Returns:
        A ``number x number`` tensor, zero for trials without such noise.
    """
    if not isinstance(likelihood, ContestLikelihood):
        return like.new_zeros(number, number)
    group = torch.arange(number, device=like.device) // likelihood.num_sharing
    same = group.unsqueeze(0) == group.unsqueeze(1)
    return likelihood.noise_variance * same.to(like)


def winner_probabilities(mean: Tensor, covar: Tensor) -> Tensor:
    r"""The probability that each of ``k`` settings wins a contest.

    This is a closed form for two and three settings. For more, it averages over
    quasi-random draws of their values, given which it is a one-dimensional integral.

    Args:
        mean: The mean of their latent values, ``... x k``.
        covar: The covariance of these, ``... x k x k``.

    Returns:
        A ``... x k`` tensor.
    """
    k = mean.shape[-1]
    if k > 3:
        return _by_draws(mean, covar)
    return torch.stack([_beats_all(mean, covar, i) for i in range(k)], dim=-1)


def winner_slopes(mean: Tensor, covar: Tensor) -> tuple[Tensor, Tensor]:
    r"""The probabilities of winning, and their derivatives in the means.

    With a Gaussian posterior, the mean of ``f`` anywhere moves by ``Σ_i cov(f, f_i)
    ∂ log P_w / ∂ μ_i`` when ``w`` wins.

    Args:
        mean: The mean of the latent values, ``... x k``.
        covar: The covariance of these, ``... x k x k``.

    Returns:
        The probabilities, ``... x k``, and the derivatives of each (in the last but one
        dimension) in every mean, ``... x k x k``.
    """
    keeps_graph = torch.is_grad_enabled() and (
        mean.requires_grad or covar.requires_grad
    )
    with torch.enable_grad():
        at = mean if mean.requires_grad else mean.detach().requires_grad_()
        p = winner_probabilities(at, covar)
        slopes = [
            torch.autograd.grad(
                part.sum(), at, retain_graph=True, create_graph=keeps_graph
            )[0]
            for part in p.unbind(dim=-1)
        ]
    slope = torch.stack(slopes, dim=-2)
    return (p, slope) if keeps_graph else (p.detach(), slope.detach())


def _beats_all(mean: Tensor, covar: Tensor, i: int) -> Tensor:
    """The probability that one of two or three normal variables is the highest."""
    k = mean.shape[-1]
    A = torch.zeros(k - 1, k, dtype=mean.dtype, device=mean.device)
    A[:, i] = 1.0
    others = [j for j in range(k) if j != i]
    A[torch.arange(k - 1, device=mean.device), others] = -1.0
    noise = NOISE * torch.eye(k, dtype=mean.dtype, device=mean.device)
    gap = mean @ A.mT
    joint_covar = A @ (covar + noise) @ A.mT
    deviation = joint_covar.diagonal(dim1=-2, dim2=-1).sqrt()
    z = gap / deviation
    if k == 2:
        return normal_cdf(z[..., 0])
    rho = joint_covar[..., 0, 1] / (deviation[..., 0] * deviation[..., 1])
    return bivariate_normal_cdf(z[..., 0], z[..., 1], rho.clamp(-1.0, 1.0))


def _by_draws(mean: Tensor, covar: Tensor) -> Tensor:
    """The same for any number, with values drawn and noise integrated out."""
    k = mean.shape[-1]
    nodes, weights = hermite(mean.dtype, mean.device)
    points = draw_sobol_normal_samples(k, NUM_DRAWS, mean.device, mean.dtype, seed=0)
    root = torch.linalg.cholesky(raise_variance(covar))
    f = mean.unsqueeze(-2) + points @ root.mT  # batch_shape x S x k
    gaps = (f.unsqueeze(-1) - f.unsqueeze(-2)).unsqueeze(-1)  # winner x loser x 1
    beaten = normal_cdf((gaps + NOISE**0.5 * nodes) / NOISE**0.5)
    own = torch.eye(k, dtype=torch.bool, device=mean.device).unsqueeze(-1)
    wins = torch.where(own, 1.0, beaten).prod(dim=-2) @ weights  # batch_shape x S x k
    found = wins.mean(dim=-2)
    return found / found.sum(dim=-1, keepdim=True)
