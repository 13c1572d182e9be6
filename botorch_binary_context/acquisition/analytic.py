r"""
Acquisition functions in closed form: binary UCB, BALD, maximally uncertain challenge.

.. [Fauvel2021efficient]
    T. Fauvel, M. Chalk. Efficient exploration in binary and preferential Bayesian
    optimization. 2021.
"""

from __future__ import annotations

from statistics import NormalDist

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from botorch_binary_context.acquisition.base import TrialAcquisitionFunction
from botorch_binary_context.acquisition.joint_information import (
    PendingOutcomes,
    most_joint,
)
from botorch_binary_context.functionals import DIFFERENCE, VALUE
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.pending import check_pending, expect_outcomes

DEFAULT_BETA = NormalDist().inv_cdf(0.95)


class BinaryUpperConfidenceBound(TrialAcquisitionFunction):
    r"""The upper confidence bound of the success probability.

    ``α(z) = E Φ(f(z)) + β sqrt(V Φ(f(z)))`` (Eq. 8 of [Fauvel2022contextual]_), with
    the exact moments. ``β`` multiplies the standard deviation; BoTorch's
    ``UpperConfidenceBound`` multiplies it by the square root of its ``beta``. The row
    ``z`` includes the context; rules put the reference context there.

    Example:
        >>> acqf = BinaryUpperConfidenceBound(model)
        >>> acqf(space.at_reference(x).unsqueeze(-2))
    """

    def __init__(
        self,
        model: LatentGP,
        beta: float = DEFAULT_BETA,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""
        Args:
            model: A model of pass/fail outcomes.
            beta: The weight of the standard deviation.
            X_pending: Pending trials, ``n x d``.
        """
        super().__init__(model, functional=VALUE)
        self.beta = beta
        self.set_X_pending(X_pending)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The bound.

        Args:
            X: ``t x batch_shape x 1 x d`` trials.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        return self.model.values_of(X).evaluate(self._bound)

    def _bound(self, mean: Tensor, variance: Tensor) -> Tensor:
        """The bound, given the moments of the latent function."""
        mean, variance = self.model.likelihood.probability_moments(mean, variance)
        return mean + self.beta * variance.sqrt()


class LatentUpperConfidenceBound(BinaryUpperConfidenceBound):
    r"""The upper confidence bound of the latent performance, ``μ(z) + β σ(z)``.

    Unlike :class:`BinaryUpperConfidenceBound` it does not saturate where ``Φ`` does.

    Example:
        >>> acqf = LatentUpperConfidenceBound(model)
    """

    def _bound(self, mean: Tensor, variance: Tensor) -> Tensor:
        return mean + self.beta * variance.sqrt()


class BernoulliMutualInformation(TrialAcquisitionFunction):
    r"""The information of a trial's outcome about the latent function (BALD).

    ``I(c, f | z) = H(E p(c|f)) - E H(p(c|f))`` in nats [Houlsby2011bald]_, by
    quadrature, with the guess and lapse rates of the model's likelihood, and with all
    of its outcomes if there are more than two. On a model of pass/fail outcomes a
    candidate is one row; on a preference model it is a duel, a ``q = 2`` batch.

    With pending trials it is the additional information, given all of their joint
    outcomes [Kirsch2019batchbald]_: trials that it chooses one by one form a batch that
    is informative as a whole. If more than ``joint_information.MAX_JOINT`` are pending,
    or fewer with more than two outcomes, the first of them are assumed to come out as
    expected.

    Example:
        >>> acqf = BernoulliMutualInformation(model)
        >>> optimize_acqf(acqf, bounds, q=4, num_restarts=10, raw_samples=512,
        ...               sequential=True, options={"nonnegative": True})
    """

    def __init__(self, model: LatentGP, X_pending: Tensor | None = None) -> None:
        r"""
        Args:
            model: A model of pass/fail outcomes or duels.
            X_pending: The rows of pending trials.
        """
        super().__init__(model)
        self.joint: PendingOutcomes | None = None
        self.set_X_pending(X_pending)

    def expect(self, pending: Tensor | None) -> LatentGP:
        r"""The model given the expected outcomes of pending trials beyond the limit.

        Args:
            pending: The trials, in the layout of ``train_X``, or None.
        """
        self.joint = None
        if pending is None:
            return self.answered
        check_pending(self.answered, pending)
        functional = self.answered.functional
        dim = -functional.trial_dim - 1
        most = most_joint(self.answered.likelihood.num_outcomes)
        many = max(pending.shape[dim] - most, 0)
        first, rest = pending.split([many, pending.shape[dim] - many], dim=dim)
        model = expect_outcomes(self.answered, first)
        rows = functional.rows(rest)
        rows = rows.unflatten(-2, (-1, functional.num_rows))
        shape = (*model.batch_shape, *rows.shape[-3:])
        self.joint = PendingOutcomes.of(model, rows.expand(shape))
        return model

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The mutual information, in ``[0, ln K]`` with ``K`` outcomes.

        Args:
            X: ``t x batch_shape x 1 x d`` trials or ``t x batch_shape x 2 x d`` duels.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        candidates = self.model.values_of(X)
        if self.joint is None:
            return candidates.evaluate(self.model.likelihood.mutual_information)
        return candidates.unfold(self.joint.information_beyond(candidates))


class MaximallyUncertainChallenge(TrialAcquisitionFunction):
    r"""How uncertain the outcome of a duel against the incumbent is (MUC).

    ``α(z) = V Φ(f(z) - f(z*))``, the variance of the probability that the challenger is
    preferred to the incumbent ``z*`` [Fauvel2021efficient]_.

    Example:
        >>> acqf = MaximallyUncertainChallenge(model, incumbent)
    """

    incumbent: Tensor

    def __init__(
        self, model: LatentGP, incumbent: Tensor, X_pending: Tensor | None = None
    ) -> None:
        r"""
        Args:
            model: A preference model.
            incumbent: The current best trial, a ``batch_shape x d`` tensor, in the
                context in which challengers are compared with it.
            X_pending: The rows of pending duels, ``2n x d``.
        """
        super().__init__(model, functional=DIFFERENCE)
        self.register_buffer("incumbent", incumbent)
        self.set_X_pending(X_pending)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The variance of the outcome's probability.

        Args:
            X: ``t x batch_shape x 1 x d`` challengers.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        moments = self.model.likelihood.probability_moments
        duels = self.model.values_of(pair_with(X, self.incumbent))
        return duels.evaluate(lambda mean, variance: moments(mean, variance)[1])


def check_one_row(X: Tensor) -> None:
    r"""Raise an error unless candidates are one row each.

    Args:
        X: A ``batch_shape x q x d`` tensor of candidates.
    """
    if X.shape[-2] != 1:
        raise UnsupportedError(
            f"Expected candidates of ``X`` to be one row, but got {X.shape[-2]} rows."
        )


def pair_with(X: Tensor, opponent: Tensor) -> Tensor:
    r"""Duels of every candidate against an opponent.

    Args:
        X: A ``batch_shape x 1 x d`` tensor of candidates.
        opponent: A ``batch_shape' x d`` tensor that broadcasts to ``batch_shape``.

    Returns:
        A ``batch_shape x 2 x d`` tensor, the candidate first.
    """
    check_one_row(X)
    opponent = opponent.unsqueeze(-2).to(X)
    shape = torch.broadcast_shapes(X.shape, opponent.shape)
    return torch.cat([X.expand(shape), opponent.expand(shape)], dim=-2)
