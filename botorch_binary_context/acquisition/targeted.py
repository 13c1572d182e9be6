r"""
Targeted information: what a trial tells about the value in the reference context.

Active learning looks for trials where the latent function is unknown, whether knowing
it there helps or not. This criterion instead measures what the answer says about the
same parameters in the context that matters.
"""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_binary_context.acquisition.base import TrialAcquisitionFunction
from botorch_binary_context.functionals import VALUE
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.covariance import clamp_variance


class TargetedInformation(TrialAcquisitionFunction):
    r"""The information of a trial's outcome about other latent values.

    ``I(c; t | z)`` in nats, where ``c`` is the outcome at ``z`` and ``t`` the contrast
    of the target: most often the contrast of the same parameters in the reference
    context, or a weighted sum of latent values, such as an average over contexts. If
    the contrast of the trial is ``N(μ, σ²)`` and its correlation with the target ``ρ``,
    the target explains ``ρ²σ²`` of the variance of the contrast, and the rest is noise.
    So the value equals
    :class:`~botorch_binary_context.acquisition.BernoulliMutualInformation` at the
    target itself, and is no larger than that elsewhere.

    Example:
        >>> acqf = TargetedInformation(model, space.at_reference(x))  # x: 1 x (d - m)
        >>> acqf(space.join(x, s))
    """

    target: Tensor
    weights: Tensor

    def __init__(
        self,
        model: LatentGP,
        target: Tensor,
        X_pending: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> None:
        r"""
        Args:
            model: A model of pass/fail outcomes, duels or other answers.
            target: The rows to learn about, ``batch_shape x q x d``.
            X_pending: The rows of pending trials.
            weights: The weight of each row, ``batch_shape x q``; by default the rows
                belong to one trial, with the weights of its functional.
        """
        super().__init__(model)
        if weights is None:
            weights = target.new_tensor(self.model.functional.weights)
        self.register_buffer("target", target)
        self.register_buffer("weights", weights)
        self.set_X_pending(X_pending)

    def prepare(self) -> None:
        r"""Compute the posterior of the target."""
        with torch.no_grad():
            rows = self.target.movedim(-2, 0).unsqueeze(-2)  # q x batch_shape x 1 x d
            self._values = self.model.values_of(rows, VALUE)
            self._projected = self._values.project()  # batch_shape x n x q
            covar = self._values.covariance(self._values, self._projected)
            variance = (self._sum(covar) * self.weights).sum(dim=-1, keepdim=True)
            self._variance = clamp_variance(variance)  # batch_shape x 1

    def _sum(self, covar: Tensor) -> Tensor:
        """Covariances with the target, of ``batch_shape x T x q`` with its rows."""
        return (covar @ self.weights.unsqueeze(-1)).squeeze(-1)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The mutual information, in ``[0, ln K]`` with ``K`` outcomes.

        Args:
            X: ``t x batch_shape x 1 x d`` trials or ``t x batch_shape x 2 x d`` duels.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        trials = self.model.values_of(X)
        mean, variance = trials.moments()  # batch_shape x T
        covar = self._sum(trials.covariance(self._values, self._projected))
        explained = torch.minimum(covar.square() / self._variance, variance)
        information = self.model.likelihood.targeted_information
        return trials.unfold(information(mean, explained, variance - explained))
