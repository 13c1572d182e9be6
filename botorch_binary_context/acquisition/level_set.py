r"""
Acquisition functions that learn where the success probability has a given value.

At reference points all over the box, a trial's outcome changes the probability that the
latent function is below its value on this level set. Under a Gaussian posterior these
probabilities are bivariate normal, with the guess and lapse rates of the trial.

.. [Letham2022look]
    B. Letham, P. Guan, C. Tymms, E. Bakshy, M. Shvartsman. Look-ahead acquisition
    functions for Bernoulli level set estimation. AISTATS 2022.
.. [Bryan2005active]
    B. Bryan, J. Schneider, R. Nichol, C. Miller, C. Genovese, L. Wasserman. Active
    learning for identifying function threshold boundaries. NeurIPS 2005.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from botorch_binary_context.acquisition.base import (
    TrialAcquisitionFunction,
    match_space,
)
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.functionals import VALUE
from botorch_binary_context.goals.maps import contrast_at_probability
from botorch_binary_context.likelihoods import OrdinalLikelihood, ProbitLikelihood
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.optim import draw_points
from botorch_binary_context.probability import bernoulli_entropy, normal_cdf

NUM_POINTS = 128
STRADDLE_WIDTH = 1.96


class LevelSetLookAhead(TrialAcquisitionFunction):
    r"""The base of acquisition functions that look one outcome ahead at a level set."""

    points: Tensor

    def __init__(
        self,
        model: LatentGP,
        space: ContextSpace,
        probability: float | None = None,
        num_points: int = NUM_POINTS,
        seed: int = 0,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""
        Args:
            model: A model of pass/fail outcomes, alone or together with others.
            space: The box of the trials.
            probability: The success probability whose level set is sought, by default
                halfway between guesses and lapses.
            num_points: The number of quasi-random reference points.
            seed: Their seed.
            X_pending: The rows of pending trials.
        """
        super().__init__(model)
        if not isinstance(self.model.likelihood, ProbitLikelihood | OrdinalLikelihood):
            raise UnsupportedError(
                f"Expected ``model`` to have a probit link for {type(self).__name__}, "
                f"but got a {type(self.model.likelihood).__name__}."
            )
        self.space = match_space(space, self.model)
        self.contrast = contrast_at_probability(self.model, probability)
        points = draw_points(self.space.bounds, num_points, seed)
        self.register_buffer("points", points)
        self.set_X_pending(X_pending)

    def prepare(self) -> None:
        r"""Compute the posterior at the reference points."""
        with torch.no_grad():
            shape = (*[1] * len(self.model.batch_shape), 1, self.space.dim)
            rows = self.points.reshape(-1, *shape)
            self.references = self.model.values_of(rows, VALUE)
            self.projected = self.references.project()
            mean, variance = self.references.moments()  # batch_shape x Q
            self.deviation = variance.sqrt()
            self.below = (self.contrast - mean) / self.deviation

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The value of candidates.

        Args:
            X: ``t x batch_shape x 1 x d`` trials or ``t x batch_shape x 2 x d`` duels.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        candidates = self.model.values_of(X)
        likelihood = self.model.likelihood
        assert isinstance(likelihood, ProbitLikelihood | OrdinalLikelihood)
        mean, variance = candidates.moments()  # batch_shape x T
        covar = candidates.covariance(self.references, self.projected)
        covar = covar / self.deviation.unsqueeze(-2)  # batch_shape x T x Q
        below = self.below.unsqueeze(-2)  # batch_shape x 1 x Q
        joint = likelihood.probabilities_below(
            *(
                part.expand_as(covar).flatten(-2)
                for part in (mean.unsqueeze(-1), variance.unsqueeze(-1), below, covar)
            )
        ).unflatten(-1, covar.shape[-2:])
        outcomes = likelihood.expected_probabilities(mean, variance).unsqueeze(-1)
        return candidates.unfold(self.score(normal_cdf(below), joint, outcomes))

    @abstractmethod
    def score(self, now: Tensor, joint: Tensor, outcomes: Tensor) -> Tensor:
        r"""The value of candidates, given what their outcomes would change.

        Args:
            now: The probability that each reference point is below the threshold,
                ``batch_shape x 1 x Q``.
            joint: The joint probability of that and of every outcome of the candidate,
                ``K x batch_shape x T x Q``.
            outcomes: The probability of every outcome, ``K x batch_shape x T x 1``.

        Returns:
            A ``batch_shape x T`` tensor.
        """


class GlobalMutualInformation(LevelSetLookAhead):
    r"""The information of a trial about what is below the threshold (GlobalMI).

    ``Σ_q H(P_q) - Σ_c Z_c H(P_q|c)`` over the reference points ``q``, as an average in
    nats, where ``P_q`` is the probability of being below the threshold and ``Z_c`` the
    probability of an outcome [Letham2022look]_.

    Example:
        >>> acqf = GlobalMutualInformation(model, space, probability=0.75)
        >>> acqf(X)  # of b x 1 x d trials
    """

    def score(self, now: Tensor, joint: Tensor, outcomes: Tensor) -> Tensor:
        r"""The average information.

        Args:
            now: As in the base class.
            joint: As in the base class.
            outcomes: As in the base class.

        Returns:
            A ``batch_shape x T`` tensor.
        """
        left = (outcomes * _entropy(joint, outcomes)).sum(dim=0)
        return (bernoulli_entropy(now) - left).mean(dim=-1)


def _entropy(joint: Tensor, probability: Tensor) -> Tensor:
    tiny = torch.finfo(joint.dtype).tiny
    share = (joint / probability.clamp_min(tiny)).clamp(0.0, 1.0)
    return bernoulli_entropy(share)


class ExpectedAbsoluteVolumeChange(LevelSetLookAhead):
    r"""How much a trial is expected to change the volume below the threshold (EAVC).

    ``Σ_c Z_c |Σ_q (P_q - P_q|c)|`` over the outcomes ``c``, as a fraction of the box
    [Letham2022look]_.

    Example:
        >>> acqf = ExpectedAbsoluteVolumeChange(model, space, probability=0.75)
        >>> acqf(X)  # of b x 1 x d trials
    """

    def score(self, now: Tensor, joint: Tensor, outcomes: Tensor) -> Tensor:
        r"""The expected change.

        Args:
            now: As in the base class.
            joint: As in the base class.
            outcomes: As in the base class.

        Returns:
            A ``batch_shape x T`` tensor.
        """
        return (now * outcomes - joint).mean(dim=-1).abs().sum(dim=0)


class Straddle(TrialAcquisitionFunction):
    r"""How well a point straddles the threshold: ``1.96 σ(z) - |μ(z) - l|``.

    The latent function there is uncertain and near ``l``, its value at the threshold
    [Bryan2005active]_.

    Example:
        >>> acqf = Straddle(model, probability=0.75)
        >>> acqf(X)  # of b x 1 x d trials
    """

    def __init__(
        self,
        model: LatentGP,
        probability: float | None = None,
        width: float = STRADDLE_WIDTH,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""
        Args:
            model: A model of pass/fail outcomes.
            probability: The success probability whose level set is sought, by default
                halfway between guesses and lapses.
            width: The weight of the standard deviation.
            X_pending: Pending trials, ``n x d``.
        """
        super().__init__(model, functional=VALUE)
        self.contrast = contrast_at_probability(self.model, probability)
        self.width = width
        self.set_X_pending(X_pending)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""How well trials straddle the threshold.

        Args:
            X: ``t x batch_shape x 1 x d`` trials.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        mean, variance = self.model.moments(X)
        return self.width * variance.sqrt() - (mean - self.contrast).abs()
