r"""
Acquisition functions in closed form: binary UCB, BALD, maximally uncertain challenge.

.. [Fauvel2021efficient]
    T. Fauvel, M. Chalk. Efficient exploration in binary and preferential Bayesian
    optimization. 2021.
"""

from __future__ import annotations

from statistics import NormalDist

from botorch.acquisition import AcquisitionFunction
from botorch.utils.transforms import (
    average_over_ensemble_models,
    t_batch_mode_transform,
)
from torch import Tensor

from botorch_binary_context.acquisition.contrasts import contrast_moments, pair_with
from botorch_binary_context.models.laplace_gp import LaplaceGP

DEFAULT_BETA = NormalDist().inv_cdf(0.95)


class BinaryUpperConfidenceBound(AcquisitionFunction):
    r"""The upper confidence bound of the success probability.

    ``α(z) = E Φ(f(z)) + β sqrt(V Φ(f(z)))`` (Eq. 8 of [Fauvel2022contextual]_), with
    the exact moments. ``β`` multiplies the standard deviation, where BoTorch's
    ``UpperConfidenceBound`` takes its square root. The context is that of the row
    ``z``; the selection rules put the reference context there.

    Example:
        >>> acqf = BinaryUpperConfidenceBound(model)
        >>> acqf(space.at_reference(x).unsqueeze(-2))
    """

    model: LaplaceGP

    def __init__(self, model: LaplaceGP, beta: float = DEFAULT_BETA) -> None:
        r"""
        Args:
            model: A model of pass/fail outcomes.
            beta: The weight of the standard deviation.
        """
        super().__init__(model=model)
        self.beta = beta

    @t_batch_mode_transform(expected_q=1)  # pyright: ignore[reportArgumentType]
    @average_over_ensemble_models  # pyright: ignore[reportArgumentType]
    def forward(self, X: Tensor) -> Tensor:
        r"""Evaluate the bound.

        Args:
            X: A ``batch_shape x 1 x d`` tensor of trials.

        Returns:
            A ``batch_shape`` tensor.
        """
        return self.evaluate(X)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The value, without the checks of shapes that :meth:`forward` adds.

        Args:
            X: ``t x batch_shape x q x d`` candidates.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        mean, variance = contrast_moments(self.model, X)
        mean, variance = self.model.likelihood.probability_moments(mean, variance)
        return mean + self.beta * variance.sqrt()


class LatentUpperConfidenceBound(AcquisitionFunction):
    r"""The upper confidence bound of the latent performance, ``μ(z) + β σ(z)``.

    Unlike :class:`BinaryUpperConfidenceBound` it does not saturate where ``Φ`` does.

    Example:
        >>> acqf = LatentUpperConfidenceBound(model)
    """

    model: LaplaceGP

    def __init__(self, model: LaplaceGP, beta: float = DEFAULT_BETA) -> None:
        r"""
        Args:
            model: A model of pass/fail outcomes.
            beta: The weight of the standard deviation.
        """
        super().__init__(model=model)
        self.beta = beta

    @t_batch_mode_transform(expected_q=1)  # pyright: ignore[reportArgumentType]
    @average_over_ensemble_models  # pyright: ignore[reportArgumentType]
    def forward(self, X: Tensor) -> Tensor:
        r"""Evaluate the bound.

        Args:
            X: A ``batch_shape x 1 x d`` tensor of trials.

        Returns:
            A ``batch_shape`` tensor.
        """
        return self.evaluate(X)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The value, without the checks of shapes that :meth:`forward` adds.

        Args:
            X: ``t x batch_shape x q x d`` candidates.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        mean, variance = contrast_moments(self.model, X)
        return mean + self.beta * variance.sqrt()


class BernoulliMutualInformation(AcquisitionFunction):
    r"""The information that a trial's outcome gives about the latent function (BALD).

    ``I(c, f | z) = H(E p(c=1|f)) - E H(p(c=1|f))`` in nats [Houlsby2011bald]_, exact,
    with the guess and lapse rates of the model's likelihood. On a model of pass/fail
    outcomes a candidate is one row; on a preference model it is a duel, a ``q = 2``
    batch.

    Example:
        >>> acqf = BernoulliMutualInformation(model)
        >>> optimize_acqf(acqf, bounds, q=1, num_restarts=10, raw_samples=512,
        ...               options={"nonnegative": True})
    """

    model: LaplaceGP

    @t_batch_mode_transform()  # pyright: ignore[reportArgumentType]
    @average_over_ensemble_models  # pyright: ignore[reportArgumentType]
    def forward(self, X: Tensor) -> Tensor:
        r"""Evaluate the mutual information.

        Args:
            X: ``batch_shape x 1 x d`` trials or ``batch_shape x 2 x d`` duels.

        Returns:
            A ``batch_shape`` tensor with values in ``[0, ln 2]``.
        """
        return self.evaluate(X)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The value, without the checks of shapes that :meth:`forward` adds.

        Args:
            X: ``t x batch_shape x q x d`` candidates.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        mean, variance = contrast_moments(self.model, X)
        return self.model.likelihood.mutual_information(mean, variance)


class MaximallyUncertainChallenge(AcquisitionFunction):
    r"""How uncertain the outcome of a duel against the incumbent is (MUC).

    ``α(z) = V Φ(f(z) - f(z*))``, the variance of the probability that the challenger is
    preferred to the incumbent ``z*`` [Fauvel2021efficient]_.

    Example:
        >>> acqf = MaximallyUncertainChallenge(model, incumbent)
    """

    model: LaplaceGP
    incumbent: Tensor

    def __init__(self, model: LaplaceGP, incumbent: Tensor) -> None:
        r"""
        Args:
            model: A preference model.
            incumbent: The current best trial, a ``batch_shape x d`` tensor with the
                context that the challenger is compared in.
        """
        super().__init__(model=model)
        self.register_buffer("incumbent", incumbent)

    @t_batch_mode_transform(expected_q=1)  # pyright: ignore[reportArgumentType]
    @average_over_ensemble_models  # pyright: ignore[reportArgumentType]
    def forward(self, X: Tensor) -> Tensor:
        r"""Evaluate the variance of the outcome's probability.

        Args:
            X: A ``batch_shape x 1 x d`` tensor of challengers.

        Returns:
            A ``batch_shape`` tensor.
        """
        return self.evaluate(X)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The value, without the checks of shapes that :meth:`forward` adds.

        Args:
            X: ``t x batch_shape x q x d`` candidates.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        duels = pair_with(X, self.incumbent)
        mean, variance = contrast_moments(self.model, duels)
        return self.model.likelihood.probability_moments(mean, variance)[1]
