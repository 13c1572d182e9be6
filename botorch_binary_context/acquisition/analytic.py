r"""
Acquisition functions in closed form: binary UCB, BALD, maximally uncertain challenge.

.. [Fauvel2021efficient]
    T. Fauvel, M. Chalk. Efficient exploration in binary and preferential Bayesian
    optimization. 2021.
"""

from __future__ import annotations

from statistics import NormalDist

from torch import Tensor

from botorch_binary_context.acquisition.base import TrialAcquisitionFunction
from botorch_binary_context.acquisition.contrasts import contrast_moments, pair_with
from botorch_binary_context.models.laplace_gp import LaplaceGP

DEFAULT_BETA = NormalDist().inv_cdf(0.95)


class BinaryUpperConfidenceBound(TrialAcquisitionFunction):
    r"""The upper confidence bound of the success probability.

    ``α(z) = E Φ(f(z)) + β sqrt(V Φ(f(z)))`` (Eq. 8 of [Fauvel2022contextual]_), with
    the exact moments. ``β`` multiplies the standard deviation, where BoTorch's
    ``UpperConfidenceBound`` takes its square root. The context is that of the row
    ``z``; the selection rules put the reference context there.

    Example:
        >>> acqf = BinaryUpperConfidenceBound(model)
        >>> acqf(space.at_reference(x).unsqueeze(-2))
    """

    def __init__(self, model: LaplaceGP, beta: float = DEFAULT_BETA) -> None:
        r"""
        Args:
            model: A model of pass/fail outcomes.
            beta: The weight of the standard deviation.
        """
        super().__init__(model, points_per_trial=1)
        self.beta = beta

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The bound.

        Args:
            X: ``t x batch_shape x 1 x d`` trials.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        mean, variance = self._moments(X)
        return mean + self.beta * variance.sqrt()

    def _moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """The mean and the variance of what is bounded."""
        mean, variance = contrast_moments(self.model, X)
        return self.model.likelihood.probability_moments(mean, variance)


class LatentUpperConfidenceBound(BinaryUpperConfidenceBound):
    r"""The upper confidence bound of the latent performance, ``μ(z) + β σ(z)``.

    Unlike :class:`BinaryUpperConfidenceBound` it does not saturate where ``Φ`` does.

    Example:
        >>> acqf = LatentUpperConfidenceBound(model)
    """

    def _moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        return contrast_moments(self.model, X)


class BernoulliMutualInformation(TrialAcquisitionFunction):
    r"""The information that a trial's outcome gives about the latent function (BALD).

    ``I(c, f | z) = H(E p(c=1|f)) - E H(p(c=1|f))`` in nats [Houlsby2011bald]_, by
    quadrature, with the guess and lapse rates of the model's likelihood. On a model of
    pass/fail outcomes a candidate is one row; on a preference model it is a duel, a
    ``q = 2`` batch.

    Example:
        >>> acqf = BernoulliMutualInformation(model)
        >>> optimize_acqf(acqf, bounds, q=1, num_restarts=10, raw_samples=512,
        ...               options={"nonnegative": True})
    """

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The mutual information, in ``[0, ln 2]``.

        Args:
            X: ``t x batch_shape x 1 x d`` trials or ``t x batch_shape x 2 x d`` duels.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        mean, variance = contrast_moments(self.model, X)
        return self.model.likelihood.mutual_information(mean, variance)


class MaximallyUncertainChallenge(TrialAcquisitionFunction):
    r"""How uncertain the outcome of a duel against the incumbent is (MUC).

    ``α(z) = V Φ(f(z) - f(z*))``, the variance of the probability that the challenger is
    preferred to the incumbent ``z*`` [Fauvel2021efficient]_.

    Example:
        >>> acqf = MaximallyUncertainChallenge(model, incumbent)
    """

    incumbent: Tensor

    def __init__(self, model: LaplaceGP, incumbent: Tensor) -> None:
        r"""
        Args:
            model: A preference model.
            incumbent: The current best trial, a ``batch_shape x d`` tensor with the
                context that the challenger is compared in.
        """
        super().__init__(model, points_per_trial=2)
        self.register_buffer("incumbent", incumbent)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The variance of the outcome's probability.

        Args:
            X: ``t x batch_shape x 1 x d`` challengers.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        duels = pair_with(X, self.incumbent)
        mean, variance = contrast_moments(self.model, duels)
        return self.model.likelihood.probability_moments(mean, variance)[1]
