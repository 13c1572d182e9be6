r"""
The likelihood of contests: which of ``k`` settings is the best.

Every setting is judged with noise of its own, ``u_i = f(z_i) + e_i`` with
``e_i ~ N(0, ½)``, and the highest wins; so contests of two are plain duels. Given the
noise ``e`` of the winner, the losers are independent, and each of them loses with the
probability ``Φ(√2 (f(z_w) - f(z_j) + e))``. So a contest is ``k - 1`` observations of
contrasts that share a term ``e``: the noise is part of the prior covariance of the
contrasts, and nothing is approximated that would not be in duels.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_binary_context.checks import describe
from botorch_binary_context.functionals import DIFFERENCE, Functional
from botorch_binary_context.likelihoods.base import LogDerivatives, OutcomeLikelihood
from botorch_binary_context.likelihoods.probit import ProbitLikelihood
from botorch_binary_context.probability import normal_cdf, probit_mean

#: The variance of the noise of each setting, so that differences have that of duels.
NOISE = 0.5
_SCALE = 1 / math.sqrt(NOISE)
_PROBIT = ProbitLikelihood()


class ContestLikelihood(OutcomeLikelihood):
    r"""One loser of a contest, ``p(c=1|g) = Φ(√2 g)``.

    The contrast ``g`` has the noise of the winner in it: ``k - 1`` consecutive trials,
    which are pairs of the winner and a loser with the label 1, share that noise.

    Example:
        >>> model = BestOfGP(train_X, winners)  # n x k x d settings
    """

    functional: Functional = DIFFERENCE

    def __init__(self, num_options: int = 3) -> None:
        r"""
        Args:
            num_options: ``k``, at least 2.
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
        """How many consecutive trials share their noise: ``k - 1``."""
        return self.num_options - 1

    @property
    def noise_variance(self) -> float:
        """The variance of that noise."""
        return NOISE

    @property
    def is_log_concave(self) -> bool:
        """Whether ``log p(c|g)`` is concave in ``g``: it is."""
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
    """Derivatives in ``g`` from those in ``√2 g``."""
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
