r"""
The base class of likelihoods of trials.

A likelihood says how a trial is answered, given what it observes of the latent
function: its *contrast*, the value of a :mod:`functional
<botorch_binary_context.functionals>`. Contrasts and labels have the shape ``... x
batch_shape x n``, with trials along the last dimension.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from botorch.exceptions import InputDataError
from gpytorch.distributions import MultivariateNormal
from gpytorch.likelihoods import Likelihood
from scipy.optimize import brentq
from torch import Tensor
from torch.distributions import Bernoulli, Categorical

from botorch_binary_context.functionals import VALUE, Functional
from botorch_binary_context.likelihoods.probit_terms import ProbitTerms
from botorch_binary_context.probability import (
    entropy,
    gaussian_expectation,
    hermite,
)

FAR = 30.0  # a contrast past which no answer is in doubt
# Enough nodes for a likelihood's step under a Gaussian ten times as wide.
TILTED_NODES = 128


def _both(success: Tensor) -> Tensor:
    """The probabilities of a fail and of a pass."""
    return torch.stack([1 - success, success])


def _labels(probabilities: Tensor) -> Bernoulli | Categorical:
    """The distribution of labels with the given probabilities, outcomes first."""
    if len(probabilities) == 2:
        return Bernoulli(probs=probabilities[1])
    return Categorical(probs=probabilities.movedim(0, -1))


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
    _information_slope: Callable[[], Tensor] | None = None

    @property
    def value(self) -> Tensor:
        """``log p(c|f)``, computed when asked for."""
        return self._log_prob()

    @property
    def information_slope(self) -> Tensor | None:
        """The derivative of the information in ``f``, if it has a closed form."""
        return None if self._information_slope is None else self._information_slope()


class OutcomeLikelihood(Likelihood, ABC):
    r"""A likelihood of labels in {0, ..., ``num_outcomes`` - 1}.

    A subclass implements :meth:`probability`, :meth:`log_prob` and
    :meth:`log_derivatives`; everything else follows by Gauss-Hermite quadrature, unless
    the subclass knows a closed form. *The* probability is the probability of a success:
    of the label 1 or, with more than two outcomes, of all labels from :attr:`passing`
    up. A subclass with more outcomes implements :meth:`probabilities`,
    :meth:`expected_probabilities` and :meth:`probability_slopes`, too.
    """

    has_analytic_marginal: bool = True
    #: What a trial observes of the latent function.
    functional: Functional = VALUE
    #: Labels are 0, ..., ``num_outcomes - 1``.
    num_outcomes: int = 2
    #: The lowest label that counts as a success.
    passing: int = 1

    @property
    def is_log_concave(self) -> bool:
        """Whether ``log p(c|f)`` is concave in ``f``."""
        return False

    @property
    def requires_grad(self) -> bool:
        """Whether it has parameters that are learned."""
        return any(parameter.requires_grad for parameter in self.parameters())

    def is_like(self, other: OutcomeLikelihood) -> bool:
        r"""Whether another likelihood is of the same kind, with the same settings.

        Args:
            other: The other likelihood.

        Returns:
            Whether trials of both can be joined into one set.
        """
        return type(self) is type(other) and self._settings() == other._settings()

    def _settings(self) -> tuple[Any, ...]:
        """The settings in which likelihoods of one class may differ."""
        return ()

    @abstractmethod
    def probability(self, contrast: Tensor) -> Tensor:
        r"""The probability of success of trials with the given contrasts.

        Args:
            contrast: A tensor of any shape.

        Returns:
            A tensor of the same shape.
        """

    def probabilities(self, contrast: Tensor) -> Tensor:
        r"""``p(c|f)`` of every outcome.

        Args:
            contrast: A ``... x n`` tensor of contrasts.

        Returns:
            A ``num_outcomes x ... x n`` tensor.
        """
        return _both(self.probability(contrast))

    @abstractmethod
    def log_prob(self, contrast: Tensor, targets: Tensor) -> Tensor:
        r"""``log p(c|f)``, finite for any finite contrast.

        Args:
            contrast: A ``... x n`` tensor of contrasts.
            targets: A ``... x n`` tensor of labels.

        Returns:
            A ``... x n`` tensor.
        """

    @abstractmethod
    def log_derivatives(self, contrast: Tensor, targets: Tensor) -> LogDerivatives:
        r"""``log p(c|f)`` and its first and second derivatives in ``f``.

        Args:
            contrast: A ``... x n`` tensor of contrasts.
            targets: A ``... x n`` tensor of labels.

        Returns:
            The value, the gradient and the curvatures, ``... x n`` each.
        """

    def probit_terms(self, targets: Tensor) -> ProbitTerms | None:
        r"""The answers in NumPy, for searches over few trials.

        Args:
            targets: The labels of ``... x n`` trials, on the CPU.

        Returns:
            The answers; None if they have no probit link, or rates that are learned.
        """
        return None

    def contrast_at(self, probability: float) -> float:
        r"""The contrast at which tests are passed with a given probability.

        Args:
            probability: ``p(c=1|f)``, between its values for a hopeless and for a
                trivial test.
        """

        def excess(f: float) -> float:
            contrast = torch.tensor([f], dtype=torch.double, device="cpu")
            return float(self.probability(contrast)) - probability

        low, high = -FAR, FAR
        if not excess(low) < 0.0 < excess(high):
            raise InputDataError(
                f"Expected ``probability`` to be between {excess(low) + probability:g} "
                f"and {excess(high) + probability:g}, but got {probability}."
            )
        return float(brentq(excess, low, high))  # pyright: ignore

    def tilted_derivatives(
        self, mean: Tensor, variance: Tensor, targets: Tensor
    ) -> LogDerivatives:
        r"""``log E p(c|f)`` for Gaussian contrasts, and its derivatives in their mean.

        They give the moments of the Gaussian times the likelihood, which expectation
        propagation matches.

        Args:
            mean: The mean of the contrasts, ``... x n``.
            variance: Their variance, ``... x n``.
            targets: Labels, ``... x n``.

        Returns:
            The value and the derivatives, ``... x n`` each.
        """
        nodes, weights = hermite(mean.dtype, mean.device, TILTED_NODES)
        x = nodes.reshape(-1, *[1] * mean.ndim)
        scale = (variance + torch.finfo(variance.dtype).eps).sqrt()
        f = mean + scale * x
        log_p = self.log_prob(f, targets.expand_as(f))
        largest = log_p.detach().amax(dim=0)
        p = (log_p - largest).exp()
        moments = torch.stack([p, p * x, p * (x.square() - 1)])
        mass, first, second = torch.tensordot(weights, moments.movedim(1, 0), dims=1)
        gradient = first / (scale * mass)
        curvature = gradient.square() - second / (scale.square() * mass)
        return LogDerivatives(
            gradient, curvature, curvature.clamp_min(0.0), lambda: largest + mass.log()
        )

    def expected_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""The mean of ``p(c=1|f)`` for Gaussian contrasts.

        Args:
            mean: The mean of the contrasts.
            variance: Their variance, of the same shape.

        Returns:
            The mean of the success probability.
        """
        mean, variance = torch.broadcast_tensors(mean, variance)
        return gaussian_expectation(self.probability, mean, variance)

    def expected_probabilities(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""The mean of ``p(c|f)`` of every outcome, for Gaussian contrasts.

        Args:
            mean: The mean of the contrasts, ``... x n``.
            variance: Their variance, of the same shape.

        Returns:
            A ``num_outcomes x ... x n`` tensor.
        """
        return _both(self.expected_probability(mean, variance))

    def probability_slopes(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""The derivatives of the expected probabilities in the mean of the contrasts.

        Args:
            mean: The mean of the contrasts, ``... x n``.
            variance: Their variance, of the same shape.

        Returns:
            A ``num_outcomes x ... x n`` tensor.
        """
        slope = self.probability_slope(mean, variance)
        return torch.stack([-slope, slope])

    def probability_slope(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""The derivative of the expected probability in the mean of the contrasts.

        Args:
            mean: The mean of the contrasts.
            variance: Their variance, of the same shape.

        Returns:
            A tensor of the same shape.
        """
        tilted = self.tilted_derivatives(mean, variance, torch.ones_like(mean))
        return tilted.value.exp() * tilted.gradient

    def probability_moments(
        self, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""The mean and variance of ``p(c=1|f)`` for Gaussian contrasts.

        Args:
            mean: The mean of the contrasts.
            variance: Their variance, of the same shape.

        Returns:
            The mean and the variance of the success probability.
        """
        center = self.expected_probability(mean, variance)
        squares = gaussian_expectation(
            lambda f: (self.probability(f) - center).square(), mean, variance
        )
        return center, squares

    def mutual_information(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""The information, in nats, of a label about its Gaussian contrast.

        Args:
            mean: The mean of the contrasts.
            variance: Their variance, of the same shape.

        Returns:
            A non-negative tensor of the same shape.
        """
        predicted = entropy(self.expected_probabilities(mean, variance))
        known = gaussian_expectation(
            lambda f: entropy(self.probabilities(f)), mean, variance
        )
        return (predicted - known).clamp_min(0.0)

    def expected_entropy(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""The entropy, in nats, that a label keeps once its contrast is known.

        Args:
            mean: The mean of the contrasts.
            variance: Their variance, of the same shape.

        Returns:
            A tensor of the same shape.
        """
        predicted = entropy(self.expected_probabilities(mean, variance))
        return predicted - self.mutual_information(mean, variance)

    def targeted_information(
        self, mean: Tensor, variance: Tensor, noise: Tensor
    ) -> Tensor:
        r"""The information, in nats, of a label about a part of its contrast.

        Args:
            mean: The mean of the contrasts.
            variance: The variance of the part, of the same shape.
            noise: The variance of the rest, of the same shape.

        Returns:
            A non-negative tensor of the same shape.
        """
        predicted = entropy(self.expected_probabilities(mean, variance + noise))
        known = gaussian_expectation(
            lambda f: entropy(self.expected_probabilities(f, noise.expand_as(f))),
            mean,
            variance,
        )
        return (predicted - known).clamp_min(0.0)

    def forward(
        self, function_samples: Tensor, *args: Any, **kwargs: Any
    ) -> Bernoulli | Categorical:
        r"""The distribution of the labels given latent values of all rows."""
        return _labels(self.probabilities(self.functional(function_samples)))

    def marginal(
        self, function_dist: MultivariateNormal, *args: Any, **kwargs: Any
    ) -> Bernoulli | Categorical:
        r"""The distribution of the labels with their latent values integrated out."""
        contrasts = self.functional.of_distribution(function_dist)
        return _labels(self.expected_probabilities(contrasts.mean, contrasts.variance))

    def log_marginal(
        self,
        observations: Tensor,
        function_dist: MultivariateNormal,
        *args: Any,
        **kwargs: Any,
    ) -> Tensor:
        r"""``log E p(c|f)`` of each trial."""
        contrasts = self.functional.of_distribution(function_dist)
        tilted = self.tilted_derivatives(
            contrasts.mean, contrasts.variance, observations
        )
        return tilted.value

    def expected_log_prob(
        self,
        observations: Tensor,
        function_dist: MultivariateNormal,
        *args: Any,
        **kwargs: Any,
    ) -> Tensor:
        r"""``E log p(c|f)`` of each trial, by Gauss-Hermite quadrature."""
        contrasts = self.functional.of_distribution(function_dist)
        return gaussian_expectation(
            lambda contrast: self.log_prob(contrast, observations),
            contrasts.mean,
            contrasts.variance,
        )
