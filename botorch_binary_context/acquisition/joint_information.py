r"""
The information in one more outcome, beyond the outcomes of pending trials.

With ``P`` pending trials of ``K`` outcomes there are ``K^P`` joint outcomes. Given the
latent values of the pending trials, the latent value of a candidate is Gaussian and its
outcome has a known probability; so every joint probability is an integral over ``P``
latent values, by quadrature for one or two of them and by quasi-random points for more.

.. [Kirsch2019batchbald]
    A. Kirsch, J. van Amersfoort, Y. Gal. BatchBALD: efficient and diverse batch
    acquisition for deep Bayesian active learning. NeurIPS 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import product

import torch
from botorch.utils.sampling import draw_sobol_normal_samples
from torch import Tensor

from botorch_binary_context.goals.sampled import joint_root
from botorch_binary_context.models.functional_values import (
    FunctionalValues,
    compute_beside,
)
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.covariance import clamp_variance
from botorch_binary_context.probability import entropy, hermite

#: The maximum number of pending trials of two outcomes whose joint outcomes are all
#: enumerated.
MAX_JOINT = 6
# The number of quadrature nodes over each of one or two latent values, and of points
# over more.
NUM_NODES = {1: 32, 2: 14}
NUM_POINTS = 256


def most_joint(num_outcomes: int) -> int:
    r"""The maximum number of pending trials whose joint outcomes are all enumerated.

    Args:
        num_outcomes: The number of outcomes of each trial.

    Returns:
        The largest number with no more joint outcomes than ``MAX_JOINT`` trials of two
        outcomes have.
    """
    number = 1
    while num_outcomes ** (number + 1) <= 2**MAX_JOINT:
        number += 1
    return number


@lru_cache(maxsize=32)
def _nodes(dim: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Standard normal points and their weights, ``S x dim`` and ``S``."""
    with torch.inference_mode(False):
        if dim in NUM_NODES:
            x, w = hermite(dtype, device, NUM_NODES[dim])
            points = torch.cartesian_prod(*[x] * dim).reshape(-1, dim)
            weights = torch.cartesian_prod(*[w] * dim).reshape(-1, dim).prod(dim=-1)
            return points, weights
        points = draw_sobol_normal_samples(dim, NUM_POINTS, device, dtype, seed=0)
        return points, torch.full_like(points[:, 0], 1 / NUM_POINTS)


@dataclass(frozen=True)
class PendingOutcomes:
    r"""The joint outcomes of ``P`` pending trials.

    Attributes:
        values: What the pending trials observe.
        projected: ``values.project()``, ``batch_shape x n x P``.
        root: A factor of their posterior covariance, ``batch_shape x P x P``.
        weights: The probability of each node of the latent values together with each
            joint outcome, ``batch_shape x S x K^P``.
    """

    values: FunctionalValues
    projected: Tensor
    root: Tensor
    weights: Tensor

    @classmethod
    def of(cls, model: LatentGP, trials: Tensor) -> PendingOutcomes:
        r"""The joint outcomes of trials.

        Args:
            model: The model of the answered trials.
            trials: The rows of the pending trials,
                ``batch_shape x P x num_rows x d``.

        Returns:
            The outcomes, without a graph.
        """
        with torch.no_grad():
            values = model.values_of(trials.movedim(-3, 0))
            projected = values.project()
            root = joint_root(values.covariance(values, projected))
            points, weights = _nodes(root.shape[-1], root.dtype, root.device)
            latent = values.mean().unsqueeze(-2) + points @ root.mT  # ... x S x P
            p = model.likelihood.probabilities(latent.flatten(-2))
            p = p.unflatten(-1, latent.shape[-2:])
            p = p.movedim(0, -1).unbind(dim=-2)  # ... x S x K
            joint = torch.stack(
                [
                    reduce(torch.mul, outcomes)
                    for outcomes in product(*[part.unbind(dim=-1) for part in p])
                ],
                dim=-1,
            )
            return cls(values, projected, root, weights.unsqueeze(-1) * joint)

    def information_beyond(self, candidates: FunctionalValues) -> Tensor:
        r"""``E H(c | c_pending) - E H(c | f)``: what one more outcome would tell.

        Args:
            candidates: What the candidates observe.

        Returns:
            A ``batch_shape x T`` tensor, in nats.
        """
        prior = compute_beside(candidates, self.values)  # batch_shape x T x P
        mean, variance = candidates.moments()
        covar = prior - candidates.cross.mT @ self.projected
        noise = candidates.model.likelihood.expected_entropy(mean, variance)
        open_ = self._conditional_entropy(mean, variance, covar)
        return (open_ - noise).clamp_min(0.0)

    def _conditional_entropy(
        self, mean: Tensor, variance: Tensor, covar: Tensor
    ) -> Tensor:
        """The entropy of candidates' outcomes given the pending outcomes, in nats."""
        loading = torch.linalg.solve_triangular(self.root, covar.mT, upper=False)
        points, _ = _nodes(self.root.shape[-1], mean.dtype, mean.device)
        means = mean.unsqueeze(-1) + loading.mT @ points.mT  # ... x T x S
        left = clamp_variance(variance - loading.square().sum(dim=-2))
        left = left.unsqueeze(-1).expand_as(means)
        expected = self.values.model.likelihood.expected_probabilities
        outcomes = expected(means.flatten(-2), left.flatten(-2))
        outcomes = outcomes.unflatten(-1, means.shape[-2:])
        probability = self.weights.sum(dim=-2, keepdim=True)  # ... x 1 x K^P
        given = (outcomes @ self.weights) / probability.clamp_min(
            torch.finfo(probability.dtype).tiny
        )
        return (probability * entropy(given.clamp(0.0, 1.0))).sum(dim=-1)
