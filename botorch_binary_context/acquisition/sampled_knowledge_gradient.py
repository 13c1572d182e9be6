r"""
The knowledge gradient of any goal, by joint draws.

The expectation of a goal ``G(x')`` after an outcome ``c`` of a trial with the contrast
``g`` is ``E[G(x') p(c|g)] / E p(c|g)``. Given the latent values that ``G(x')`` is made
of, ``g`` is Gaussian and ``E p(c|g)`` is known; so only these few values are drawn, and
the rest is exact.
"""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_binary_context.acquisition.base import (
    TrialAcquisitionFunction,
    match_space,
)
from botorch_binary_context.acquisition.posterior_mean import maximize_posterior_mean
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.functionals import VALUE
from botorch_binary_context.goals import Goal
from botorch_binary_context.goals.sampled import joint_root, normal_points
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.covariance import clamp_variance
from botorch_binary_context.numerics.optim import SearchOptions, draw_points

NUM_DRAWS = 32
NUM_TRAINING_POINTS = 16


class SampledKnowledgeGradient(TrialAcquisitionFunction):
    r"""The expected rise of the best posterior mean of a goal after one more outcome.

        ``KG(z) = Σ_c max_{x'} E[G(x') p(c|z)] - max_{x'} E G(x')``

    with ``x'`` among quasi-random points, the best of the training data and the current
    best. It is never negative. For a linear goal,
    :class:`~.moment_matched.MomentMatchedKnowledgeGradient` is the closed form.

    Example:
        >>> acqf = SampledKnowledgeGradient(model, space, WorstContext([0.2, 0.8]))
        >>> acqf(X)  # of b x 1 x d trials
    """

    def __init__(
        self,
        model: LatentGP,
        space: ContextSpace,
        goal: Goal,
        num_points: int = 32,
        options: SearchOptions = SearchOptions(),  # noqa: B008
        seed: int = 0,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""
        Args:
            model: A model of pass/fail outcomes, duels or both.
            space: The box of the trials.
            goal: What the parameters should be good at.
            num_points: The number of quasi-random points among which the inner maximum
                is sought.
            options: The effort of the search for the current best.
            seed: The seed of the quasi-random points.
            X_pending: The rows of pending trials.
        """
        super().__init__(model)
        self.space = match_space(space, self.model)
        self.goal = goal
        self.options = options
        self._sobol = num_points, seed
        self.set_X_pending(X_pending)

    def prepare(self) -> None:
        r"""Draw the goal at the points among which the inner maximum is sought."""
        with torch.no_grad():
            points = self.choose_points()  # batch_shape x J x (d - m)
            rows = self.goal.rows(self.space, points.movedim(-2, 0)).movedim(0, -3)
            self.values = self.model.values_of(
                rows.flatten(-3, -2).movedim(-2, 0).unsqueeze(-2), VALUE
            )
            self.projected = self.values.project()
            joint = self.model.posterior(rows.movedim(-3, 0))
            covar: Tensor = joint.distribution.covariance_matrix  # pyright: ignore
            self.root = joint_root(covar).movedim(0, -3)  # batch_shape x J x K x K
            mean = joint.mean.squeeze(-1).movedim(0, -2).unsqueeze(-2)
            self.noise = normal_points(rows.shape[-2], NUM_DRAWS, mean)
            latent = mean + self.noise @ self.root.mT  # batch_shape x J x S x K
            draws = self.goal.combine(latent.movedim((-3, -2), (0, 1)), self.model)
            self.draws = draws.movedim((0, 1), (-2, -1))  # batch_shape x J x S
            self.current_value = self.draws.mean(dim=-1).amax(dim=-1)

    def choose_points(self) -> Tensor:
        r"""The parameters among which the inner maximum is sought.

        Returns:
            A ``batch_shape x J x (d - m)`` tensor.
        """
        model = self.model
        space = self.space
        number, seed = self._sobol
        bounds = space.parameter_bounds
        best, _ = maximize_posterior_mean(model, space, self.options, goal=self.goal)
        train = space.parameters(model.original_datapoints).clamp(*bounds)
        means = self.goal.mean(model, space, train.movedim(-2, 0))
        count = min(NUM_TRAINING_POINTS, train.shape[-2])
        index = means.topk(count, dim=0).indices.movedim(0, -1).unsqueeze(-1)
        train = train.gather(-2, index.expand(*index.shape[:-1], train.shape[-1]))
        parts = [draw_points(bounds, number, seed), train, best.unsqueeze(-2)]
        parts = [part.expand(*model.batch_shape, *part.shape[-2:]) for part in parts]
        return torch.cat(parts, dim=-2)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The knowledge gradient.

        Args:
            X: ``t x batch_shape x 1 x d`` trials or ``t x batch_shape x 2 x d`` duels.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        candidates = self.model.values_of(X)
        mean, variance = candidates.moments()  # batch_shape x T
        covar = candidates.covariance(self.values, self.projected)
        num_points = self.root.shape[-3]
        covar = covar.mT.unflatten(-2, (num_points, -1))  # batch_shape x J x K x T
        loading = torch.linalg.solve_triangular(self.root, covar, upper=False)
        left = variance.unsqueeze(-2) - loading.square().sum(dim=-2)
        means = mean[..., None, None, :] + self.noise @ loading  # ... x J x S x T
        left = clamp_variance(left).unsqueeze(-2).expand_as(means)
        expected = self.model.likelihood.expected_probabilities
        outcomes = expected(means.flatten(-3), left.flatten(-3))
        outcomes = outcomes.unflatten(-1, means.shape[-3:])
        values = (self.draws.unsqueeze(-1) * outcomes).mean(dim=-2)  # K x ... x J x T
        gain = values.amax(dim=-2).sum(dim=0)
        return candidates.unfold(gain - self.current_value.unsqueeze(-1))
