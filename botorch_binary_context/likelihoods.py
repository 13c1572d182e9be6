r"""
Likelihoods of pass/fail outcomes and of duels, with a probit link.

Both see the latent function through a *contrast*: a pass/fail trial observes ``f(z)``,
a duel ``f(z₁) - f(z₂)``. Beside what GPyTorch asks of a likelihood, they give the first
and second derivatives of the log-likelihood that the Laplace approximation needs.

.. [Fauvel2022contextual]
    T. Fauvel, M. Chalk. Contextual Bayesian optimization with binary outputs. 2022.
.. [Wichmann2001psychometric]
    F. A. Wichmann, N. J. Hill. The psychometric function: I. Fitting, sampling, and
    goodness of fit. Perception & Psychophysics 63, 2001.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.utils.probability.utils import log_phi
from gpytorch.distributions import MultivariateNormal
from gpytorch.likelihoods import Likelihood
from linear_operator import to_dense, to_linear_operator
from torch import Tensor
from torch.distributions import Bernoulli
from torch.special import log_ndtr

from botorch_binary_context.covariance import raise_variance
from botorch_binary_context.probability import (
    bernoulli_mutual_information,
    gaussian_expectation,
    inverse_mills_ratio,
    normal_cdf,
    probit_mean,
    probit_moments,
)


@dataclass(frozen=True)
class LogDerivatives:
    r"""The log-likelihood of each trial and its derivatives in the contrast.

    Attributes:
        gradient: ``∂ log p(c|f) / ∂f``.
        negative_hessian: ``-∂² log p(c|f) / ∂f²``; negative where the likelihood is
            not log-concave.
        information: A non-negative curvature, the ``W`` of the Laplace approximation:
            the negative Hessian where the likelihood is log-concave. With a guess or
            lapse rate the Hessian changes its sign, and the Fisher information, its
            expectation over the outcome, takes its place.
    """

    gradient: Tensor
    negative_hessian: Tensor
    information: Tensor
    _log_prob: Callable[[], Tensor]

    @property
    def value(self) -> Tensor:
        """``log p(c|f)``, computed when asked for."""
        return self._log_prob()


class ProbitLikelihood(Likelihood):
    r"""Pass/fail outcomes, ``p(c=1|f) = γ + (1 - γ - λ) Φ(f)``.

    The guess rate ``γ`` is the chance of passing without any ability (``1/n`` in an
    ``n``-alternative forced choice), the lapse rate ``λ`` that of failing in spite of
    it [Wichmann2001psychometric]_. With both zero this is Eq. 2 of
    [Fauvel2022contextual]_.

    Example:
        >>> likelihood = ProbitLikelihood(guess_rate=1 / 26)
        >>> model = BinaryLaplaceGP(train_X, train_Y, likelihood=likelihood)
    """

    has_analytic_marginal: bool = True
    #: How many rows of ``X`` one trial shows.
    points_per_trial: int = 1

    def __init__(self, guess_rate: float = 0.0, lapse_rate: float = 0.0) -> None:
        r"""
        Args:
            guess_rate: ``γ``, the success probability at ``f = -∞``.
            lapse_rate: ``λ``, the failure probability at ``f = +∞``.
        """
        super().__init__()
        for name, rate in (("guess_rate", guess_rate), ("lapse_rate", lapse_rate)):
            if not 0.0 <= rate < 1.0:
                raise InputDataError(
                    f"Expected ``{name}`` to be in [0, 1), but got {rate}."
                )
        if guess_rate + lapse_rate >= 1.0:
            raise InputDataError(
                "Expected ``guess_rate`` and ``lapse_rate`` to sum to less than 1, but "
                f"got {guess_rate} and {lapse_rate}."
            )
        self.guess_rate = float(guess_rate)
        self.lapse_rate = float(lapse_rate)

    @property
    def is_log_concave(self) -> bool:
        """Whether ``log p(c|f)`` is concave: only without guesses and lapses."""
        return self.guess_rate == 0.0 and self.lapse_rate == 0.0

    @property
    def _range(self) -> float:
        return 1.0 - self.guess_rate - self.lapse_rate

    def contrast(self, values: Tensor, dim: int = -1) -> Tensor:
        r"""What each trial observes of the values of the rows it shows.

        Args:
            values: A tensor with the rows of all trials along ``dim``.
            dim: The dimension of the rows, negative.

        Returns:
            A tensor with the trials along ``dim``; here the values themselves.
        """
        return values

    def contrast_distribution(
        self, function_dist: MultivariateNormal
    ) -> MultivariateNormal:
        r"""The joint distribution of what the trials observe.

        Args:
            function_dist: The distribution of the latent values of all rows.

        Returns:
            The distribution of the trials' contrasts.
        """
        return function_dist

    def probability(self, contrast: Tensor) -> Tensor:
        r"""``p(c=1|f)`` of trials with the given contrasts.

        Args:
            contrast: A tensor of any shape.

        Returns:
            A tensor of the same shape.
        """
        return self._rescale(normal_cdf(contrast))

    def contrast_at(self, probability: float) -> float:
        r"""The contrast that is passed with a probability.

        Args:
            probability: ``p(c=1|f)``, between the guess rate and one less the lapse
                rate.

        Returns:
            ``f``.
        """
        share = (probability - self.guess_rate) / self._range
        if not 0.0 < share < 1.0:
            raise InputDataError(
                f"Expected ``probability`` to be between {self.guess_rate:g} and "
                f"{1 - self.lapse_rate:g}, the guess rate and one less the lapse rate, "
                f"but got {probability}."
            )
        return NormalDist().inv_cdf(share)

    def expected_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""The exact mean of ``p(c=1|f)`` for Gaussian contrasts.

        Args:
            mean: The mean of the contrasts.
            variance: Their variance, of the same shape.

        Returns:
            The mean of the success probability.
        """
        return self._rescale(probit_mean(mean, variance))

    def probability_moments(
        self, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""The exact mean and variance of ``p(c=1|f)`` for Gaussian contrasts.

        Args:
            mean: The mean of the contrasts.
            variance: Their variance, of the same shape.

        Returns:
            The mean and the variance of the success probability.
        """
        probability, spread = probit_moments(mean, variance)
        return self._rescale(probability), self._range**2 * spread

    def mutual_information(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""The information, in nats, of a label about its Gaussian contrast.

        Args:
            mean: The mean of the contrasts.
            variance: Their variance, of the same shape.

        Returns:
            A non-negative tensor of the same shape.
        """
        return bernoulli_mutual_information(
            mean, variance, self.guess_rate, self.lapse_rate
        )

    def log_prob(self, contrast: Tensor, targets: Tensor) -> Tensor:
        r"""``log p(c|f)``, finite for any finite contrast.

        Args:
            contrast: A ``... x n`` tensor of contrasts.
            targets: A ``... x n`` tensor of labels in {0, 1}.

        Returns:
            A ``... x n`` tensor.
        """
        return self._log_prob((2 * targets - 1) * contrast, targets)

    def log_derivatives(self, contrast: Tensor, targets: Tensor) -> LogDerivatives:
        r"""``log p(c|f)`` and its first and second derivatives in ``f``.

        With ``t = 2c - 1``, ``z = t f`` and ``r = (1 - γ - λ) φ(z) / p(c|f)`` these are
        ``t r`` and ``-r (z + r)``.

        Args:
            contrast: A ``... x n`` tensor of contrasts.
            targets: A ``... x n`` tensor of labels in {0, 1}.

        Returns:
            The value, the gradient and the curvatures, ``... x n`` each.
        """
        sign = 2 * targets - 1
        z = sign * contrast
        if self.is_log_concave:
            ratio = inverse_mills_ratio(z)
            # In (0, 1); rounding must not take it out of there.
            curvature = (ratio * (z + ratio)).clamp(0.0, 1.0)
            return LogDerivatives(
                sign * ratio, curvature, curvature, lambda: log_ndtr(z)
            )
        value = self._log_prob(z, targets)
        ratio = self._ratio(z, value)
        other = self._ratio(z, self._log_prob(-z, 1 - targets))
        hessian = ratio * (z + ratio)
        return LogDerivatives(sign * ratio, hessian, ratio * other, lambda: value)

    def forward(self, function_samples: Tensor, *args: Any, **kwargs: Any) -> Bernoulli:
        r"""The distribution of the labels given latent values of all rows."""
        return Bernoulli(probs=self.probability(self.contrast(function_samples)))

    def marginal(
        self, function_dist: MultivariateNormal, *args: Any, **kwargs: Any
    ) -> Bernoulli:
        r"""The distribution of the labels with their latent values integrated out."""
        contrasts = self.contrast_distribution(function_dist)
        mean = self.expected_probability(contrasts.mean, contrasts.variance)
        return Bernoulli(probs=mean)

    def log_marginal(
        self,
        observations: Tensor,
        function_dist: MultivariateNormal,
        *args: Any,
        **kwargs: Any,
    ) -> Tensor:
        r"""``log E p(c|f)`` of each trial."""
        contrasts = self.contrast_distribution(function_dist)
        # E Φ(t f) = Φ(t h): the likelihood itself, at a shrunken contrast.
        h = contrasts.mean / (1 + contrasts.variance).sqrt()
        return self.log_prob(h, observations)

    def expected_log_prob(
        self,
        observations: Tensor,
        function_dist: MultivariateNormal,
        *args: Any,
        **kwargs: Any,
    ) -> Tensor:
        r"""``E log p(c|f)`` of each trial, by Gauss-Hermite quadrature."""
        contrasts = self.contrast_distribution(function_dist)
        return gaussian_expectation(
            lambda contrast: self.log_prob(contrast, observations),
            contrasts.mean,
            contrasts.variance,
        )

    def _rescale(self, probability: Tensor) -> Tensor:
        if self.is_log_concave:
            return probability
        return self.guess_rate + self._range * probability

    def _log_prob(self, z: Tensor, targets: Tensor) -> Tensor:
        """``log p(c|f)``, ``z`` positive where the contrast speaks for the label."""
        if self.is_log_concave:
            return log_ndtr(z)
        # The probability of the label when the contrast is all against it.
        floor = self.guess_rate * targets + self.lapse_rate * (1 - targets)
        return torch.logaddexp(floor.log(), log_ndtr(z) + math.log(self._range))

    def _ratio(self, z: Tensor, log_prob: Tensor) -> Tensor:
        """``(1 - γ - λ) φ(z) / p(c|f)``."""
        return (log_phi(z) + math.log(self._range) - log_prob).exp()


class PreferenceLikelihood(ProbitLikelihood):
    r"""Duels, ``p(c=1|f) = Φ(f(z₁) - f(z₂))``: the first of the two is preferred.

    Latent values come in consecutive pairs: rows ``2i`` and ``2i + 1`` are the two
    sides of duel ``i``. So a ``q = 2`` batch is one duel, and a variational model is
    trained on the ``2n x d`` rows of ``n`` duels, with ``num_data=2n`` in its
    objective.

    Example:
        >>> likelihood = PreferenceLikelihood()
        >>> likelihood(model(pairs.flatten(-3, -2))).probs  # of n x 2 x d pairs: n
    """

    points_per_trial: int = 2

    def __init__(self) -> None:
        super().__init__()

    def contrast(self, values: Tensor, dim: int = -1) -> Tensor:
        r"""The difference of the two values of each pair.

        Args:
            values: A tensor with ``2n`` rows along ``dim``.
            dim: The dimension of the rows, negative.

        Returns:
            A tensor with ``n`` duels along ``dim``.
        """
        if values.shape[dim] % 2:
            raise UnsupportedError(
                "Expected the rows of duels to come in pairs, but got "
                f"{values.shape[dim]} of them."
            )
        first, second = values.unflatten(dim, (-1, 2)).unbind(dim)
        return first - second

    def contrast_distribution(
        self, function_dist: MultivariateNormal
    ) -> MultivariateNormal:
        r"""The joint distribution of the differences of the pairs.

        Args:
            function_dist: The distribution of the latent values of ``2n`` rows.

        Returns:
            The distribution of ``n`` differences.
        """
        covariance = to_dense(function_dist.lazy_covariance_matrix)
        covariance = self.contrast(self.contrast(covariance, dim=-1), dim=-2)
        return MultivariateNormal(
            self.contrast(function_dist.mean),
            to_linear_operator(raise_variance(covariance)),
        )
