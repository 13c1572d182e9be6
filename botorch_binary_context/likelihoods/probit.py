r"""
Likelihoods of pass/fail outcomes and of duels, with a probit link.

.. [Fauvel2022contextual]
    T. Fauvel, M. Chalk. Contextual Bayesian optimization with binary outputs. 2022.
.. [Wichmann2001psychometric]
    F. A. Wichmann, N. J. Hill. The psychometric function: I. Fitting, sampling, and
    goodness of fit. Perception & Psychophysics 63, 2001.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from botorch.exceptions import InputDataError
from botorch.utils.probability.utils import log_phi
from gpytorch.priors import Prior
from torch import Tensor
from torch.special import log_ndtr

from botorch_binary_context.bivariate import bivariate_normal_cdf
from botorch_binary_context.functionals import DIFFERENCE, Functional
from botorch_binary_context.likelihoods.base import LogDerivatives
from botorch_binary_context.likelihoods.probit_terms import ProbitTerms
from botorch_binary_context.likelihoods.rates import (
    RatedLikelihood,
    check_rate,
    rate_as_float,
    set_rate,
)
from botorch_binary_context.likelihoods.success import Step, StepLikelihood
from botorch_binary_context.probability import (
    bernoulli_mutual_information,
    expected_bernoulli_entropy,
    inverse_mills_ratio,
    normal_cdf,
)


class ProbitLikelihood(StepLikelihood):
    r"""Pass/fail outcomes, ``p(c=1|f) = γ + (1 - γ - λ) Φ(f)``.

    The guess rate ``γ`` is the chance of passing without any ability (``1/n`` in an
    ``n``-alternative forced choice), the lapse rate ``λ`` the chance of failing with
    full ability [Wichmann2001psychometric]_. With both zero this is Eq. 2 of
    [Fauvel2022contextual]_. A learned rate is a hyperparameter of the model, fitted
    with the others; it starts at the given value.

    Example:
        >>> likelihood = ProbitLikelihood(guess_rate=1 / 26)
        >>> model = BinaryGP(train_X, train_Y, likelihood=likelihood)
        >>> likelihood = ProbitLikelihood(0.5, lapse_rate=0.02, learn_lapse_rate=True)
    """

    def __init__(
        self,
        guess_rate: float = 0.0,
        lapse_rate: float = 0.0,
        learn_guess_rate: bool = False,
        learn_lapse_rate: bool = False,
        rate_prior: Prior | None = None,
        batch_shape: torch.Size = torch.Size(),  # noqa: B008
    ) -> None:
        r"""
        Args:
            guess_rate: ``γ``, the success probability at ``f = -∞``.
            lapse_rate: ``λ``, the failure probability at ``f = +∞``.
            learn_guess_rate: Whether the guess rate is learned.
            learn_lapse_rate: Whether the lapse rate is learned.
            rate_prior: The prior of rates that are learned, by default
                ``Beta(1.5, 30)``: a median of 0.04, and hardly ever above 0.2.
            batch_shape: The batch shape of the model; rates that are learned have a
                value for each of its elements.
        """
        super().__init__()
        check_rate("guess_rate", guess_rate)
        check_rate("lapse_rate", lapse_rate)
        if guess_rate + lapse_rate >= 1.0:
            raise InputDataError(
                "Expected ``guess_rate`` and ``lapse_rate`` to sum to less than 1, but "
                f"got {guess_rate} and {lapse_rate}."
            )
        # The room that is left for one rate when the other is as large as it may be.
        both = learn_guess_rate and learn_lapse_rate
        for name, rate, other, learn in (
            ("guess_rate", guess_rate, lapse_rate, learn_guess_rate),
            ("lapse_rate", lapse_rate, guess_rate, learn_lapse_rate),
        ):
            highest = 0.5 if both else 1.0 - float(other)
            self._set_up_rate(name, rate, highest, learn, rate_prior, batch_shape)

    @property
    def guess_rate(self) -> float | Tensor:
        """``γ``: a number, or ``batch_shape x 1`` if it is learned."""
        return self._rate("guess_rate")

    @property
    def lapse_rate(self) -> float | Tensor:
        """``λ``: a number, or ``batch_shape x 1`` if it is learned."""
        return self._rate("lapse_rate")

    @lapse_rate.setter
    def lapse_rate(self, value: Tensor) -> None:
        set_rate(self, value, "lapse_rate")

    @property
    def _is_fixed(self) -> bool:
        return len(self._rates) == 2

    @property
    def is_log_concave(self) -> bool:
        """Whether ``log p(c|f)`` is concave: only without guesses and lapses."""
        return self._is_fixed and not any(self._rates.values())

    @property
    def _range(self) -> float | Tensor:
        return 1.0 - self.guess_rate - self.lapse_rate

    def _step(self) -> Step:
        if self.is_log_concave:
            return Step()
        return Step(self.guess_rate, self._range)

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

    def expected_entropy(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""The entropy, in nats, that a label keeps once its contrast is known.

        Args:
            mean: The mean of the contrasts.
            variance: Their variance, of the same shape.

        Returns:
            A tensor of the same shape.
        """
        return expected_bernoulli_entropy(
            mean, variance, self.guess_rate, self.lapse_rate
        )

    def targeted_information(
        self, mean: Tensor, variance: Tensor, noise: Tensor
    ) -> Tensor:
        r"""The information, in nats, of a label about a part of its contrast.

        With ``τ² = 1 + noise`` it equals the information of a trial whose contrast is
        ``N(μ/τ, σ²/τ²)``, since the rest of the contrast acts as noise.

        Args:
            mean: The mean of the contrasts.
            variance: The variance of the part, of the same shape.
            noise: The variance of the rest, of the same shape.

        Returns:
            A non-negative tensor of the same shape.
        """
        total = 1.0 + noise
        return self.mutual_information(mean / total.sqrt(), variance / total)

    def probabilities_below(
        self, mean: Tensor, variance: Tensor, below: Tensor, covariance: Tensor
    ) -> Tensor:
        r"""The joint probability of each outcome and of another variable being low.

        Args:
            mean: The mean of the contrasts, ``... x n``.
            variance: Their variance, of the same shape.
            below: The bound that a standard normal variable is below, of the same
                shape.
            covariance: The covariance of this variable with the contrasts, of the same
                shape.

        Returns:
            A ``2 x ... x n`` tensor.
        """
        shrink = (1 + variance).rsqrt()
        rho = (covariance * shrink).clamp(-1.0, 1.0)
        low = normal_cdf(below)
        passed = bivariate_normal_cdf(mean * shrink, below, -rho)
        passed = self.guess_rate * low + self._range * passed
        return torch.stack([low - passed, passed])

    def log_prob(self, contrast: Tensor, targets: Tensor) -> Tensor:
        r"""``log p(c|f)``, finite for any finite contrast.

        Args:
            contrast: A ``... x n`` tensor of contrasts.
            targets: A ``... x n`` tensor of labels.

        Returns:
            A ``... x n`` tensor.
        """
        return self._log_prob((2 * targets - 1) * contrast, targets)

    def probit_terms(self, targets: Tensor) -> ProbitTerms | None:
        r"""The answers in NumPy, for searches over few trials.

        Args:
            targets: The labels of ``... x n`` trials, on the CPU.

        Returns:
            The answers; None if a rate is learned.
        """
        # A subclass may answer in another way.
        if not self._is_fixed or type(self).__module__ != __name__:
            return None
        labels = targets.double().numpy()
        sign = 2 * labels - 1
        if self.is_log_concave:
            return ProbitTerms(sign)
        guess = rate_as_float(self.guess_rate, "guess_rate")
        lapse = rate_as_float(self.lapse_rate, "lapse_rate")
        floor = np.where(labels > 0, guess, lapse)
        return ProbitTerms(sign, floor, np.full_like(sign, 1 - guess - lapse))

    def log_derivatives(self, contrast: Tensor, targets: Tensor) -> LogDerivatives:
        r"""``log p(c|f)`` and its first and second derivatives in ``f``.

        With ``t = 2c - 1``, ``z = t f`` and ``r = (1 - γ - λ) φ(z) / p(c|f)`` these are
        ``t r`` and ``-r (z + r)``.

        Args:
            contrast: A ``... x n`` tensor of contrasts.
            targets: A ``... x n`` tensor of labels.

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
                sign * ratio,
                curvature,
                curvature,
                lambda: log_ndtr(z),
                lambda: sign * (ratio * (1 - curvature) - curvature * (z + ratio)),
            )
        value = self._log_prob(z, targets)
        ratio = self._ratio(z, value)
        other = self._ratio(z, self._log_prob(-z, 1 - targets))
        hessian = ratio * (z + ratio)
        return LogDerivatives(sign * ratio, hessian, ratio * other, lambda: value)

    def _shrunken_derivatives(
        self, contrast: Tensor, targets: Tensor, scale: Tensor
    ) -> LogDerivatives:
        """The threshold is zero, so there is nothing to scale."""
        return self.log_derivatives(contrast, targets)

    def _log_prob(self, z: Tensor, targets: Tensor) -> Tensor:
        """``log p(c|f)``, with ``z`` positive where the contrast supports the label."""
        if self.is_log_concave:
            return log_ndtr(z)
        # The probability of the label when the contrast is fully against it.
        floor = self.guess_rate * targets + self.lapse_rate * (1 - targets)
        tail = log_ndtr(z) + _log(self._range)
        if self._is_fixed:
            return torch.logaddexp(floor.log(), tail)
        # The logarithm of zero has no slope.
        safe = torch.where(floor > 0, floor, 1.0)
        return torch.where(floor > 0, torch.logaddexp(safe.log(), tail), tail)

    def _ratio(self, z: Tensor, log_prob: Tensor) -> Tensor:
        """``(1 - γ - λ) φ(z) / p(c|f)``."""
        return (log_phi(z) + _log(self._range) - log_prob).exp()


def _log(value: float | Tensor) -> float | Tensor:
    return value.log() if isinstance(value, Tensor) else math.log(value)


class PreferenceLikelihood(ProbitLikelihood):
    r"""Duels, ``p(c=1|f) = λ + (1 - 2λ) Φ(f(z₁) - f(z₂))``: the first is preferred.

    The lapse rate ``λ`` is how often careless raters choose the clearly worse side.
    Latent values come in consecutive pairs: rows ``2i`` and ``2i + 1`` are the two
    sides of duel ``i``. So a ``q = 2`` batch is one duel, and a variational model is
    trained on the ``2n x d`` rows of ``n`` duels, with ``num_data=2n`` in its
    objective.

    Example:
        >>> likelihood = PreferenceLikelihood()
        >>> likelihood(model(pairs.flatten(-3, -2))).probs  # of n x 2 x d pairs: n
        >>> likelihood = PreferenceLikelihood(lapse_rate=0.02, learn_lapse_rate=True)
    """

    functional: Functional = DIFFERENCE

    def __init__(
        self,
        lapse_rate: float = 0.0,
        learn_lapse_rate: bool = False,
        rate_prior: Prior | None = None,
        batch_shape: torch.Size = torch.Size(),  # noqa: B008
    ) -> None:
        r"""
        Args:
            lapse_rate: ``λ``, the rate at which the clearly better side loses.
            learn_lapse_rate: Whether the lapse rate is learned, starting at the given
                value.
            rate_prior: The prior of a rate that is learned, by default
                ``Beta(1.5, 30)``: a median of 0.04, and hardly ever above 0.2.
            batch_shape: The batch shape of the model; a rate that is learned has a
                value for each of its elements.
        """
        RatedLikelihood.__init__(self)
        check_rate("lapse_rate", lapse_rate, 0.5)
        self._set_up_rate(
            "lapse_rate", lapse_rate, 0.5, learn_lapse_rate, rate_prior, batch_shape
        )

    @property
    def guess_rate(self) -> float | Tensor:
        """``λ``, the same on both sides."""
        return self.lapse_rate

    @property
    def _is_fixed(self) -> bool:
        return bool(self._rates)
