r"""
Targeted information: what a trial tells about the value in the reference context.

Active learning looks for trials where the latent function is unknown, whether knowing
it there helps or not. This criterion instead measures what the answer says about the
same parameters in the context that matters.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_binary_context.acquisition.base import TrialAcquisitionFunction
from botorch_binary_context.functionals import VALUE
from botorch_binary_context.goals.sampled import joint_root
from botorch_binary_context.models.functional_values import FunctionalValues
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.covariance import raise_variance


@dataclass(frozen=True)
class Contrasts:
    r"""Weighted sums of latent values, to learn about.

    Attributes:
        values: The ``q`` latent values.
        projected: ``values.project()``, ``batch_shape x n x q``.
        weights: The weights of ``k`` sums, ``batch_shape x k x q``.
        root: A factor of their covariance, ``batch_shape x k x k``.
    """

    values: FunctionalValues
    projected: Tensor
    weights: Tensor
    root: Tensor

    @classmethod
    def of(cls, model: LatentGP, rows: Tensor, weights: Tensor) -> Contrasts:
        r"""Weighted sums of the latent values of rows.

        Args:
            model: The model.
            rows: The rows, ``batch_shape x q x d``.
            weights: The weights, ``batch_shape x k x q``.

        Returns:
            The sums, without a graph.
        """
        with torch.no_grad():
            rows = rows.movedim(-2, 0).unsqueeze(-2)  # q x batch_shape x 1 x d
            values = model.values_of(rows, VALUE)
            projected = values.project()
            covar = weights @ values.covariance(values, projected) @ weights.mT
            root = joint_root(raise_variance(covar))
        return cls(values, projected, weights, root)

    def information(self, trials: FunctionalValues) -> Tensor:
        r"""The information of the outcomes of trials about all sums together, in nats.

        Args:
            trials: What the trials observe.

        Returns:
            A tensor in the shape of the trials.
        """
        mean, variance = trials.moments()  # batch_shape x T
        covar = trials.covariance(self.values, self.projected)
        loading = torch.linalg.solve_triangular(
            self.root, self.weights @ covar.mT, upper=False
        )
        explained = torch.minimum(loading.square().sum(dim=-2), variance)
        information = trials.model.likelihood.targeted_information
        return trials.unfold(information(mean, explained, variance - explained))


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
        weights = self.weights.unsqueeze(-2)
        self._contrasts = Contrasts.of(self.model, self.target, weights)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The mutual information, in ``[0, ln K]`` with ``K`` outcomes.

        Args:
            X: ``t x batch_shape x 1 x d`` trials or ``t x batch_shape x 2 x d`` duels.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        return self._contrasts.information(self.model.values_of(X))
