r"""
The knowledge gradient of any goal, by refitted posteriors.

A posterior by Laplace's method after each outcome of each candidate gives the mean and
the covariance of the latent values that a goal is made of; the expectation of the goal
is an average over joint draws of these values, with the same random numbers before and
after the outcome.
"""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_binary_context.acquisition.fantasies import Shared
from botorch_binary_context.acquisition.knowledge_gradient import (
    FantasyPosteriors,
    refit_by_laplace,
)
from botorch_binary_context.acquisition.sampled_knowledge_gradient import (
    SampledKnowledgeGradient,
)
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.goals import Goal
from botorch_binary_context.goals.sampled import joint_root
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.optim import SearchOptions

# The maximum number of covariance entries that are held at once.
MAX_ENTRIES = 8_000_000


class RefittedKnowledgeGradient(SampledKnowledgeGradient):
    r"""The expected rise of the best posterior mean of any goal after one more outcome.

    ``KG(z) = Σ_c p(c|z) max_{x'} E[G(x')|D,(z,c)] - max_{x'} E[G(x')|D]``

    as in :class:`ContextualBinaryKnowledgeGradient`, which is for linear goals and
    polishes the inner maxima. Here ``x'`` is among quasi-random points, the best of the
    training data and the current best. Laplace posteriors are not exactly a martingale,
    so the value may be slightly negative.

    Example:
        >>> acqf = RefittedKnowledgeGradient(model, space, WorstContext([0.2, 0.8]))
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
            model: A model of pass/fail outcomes, duels or both. The fantasies are
                refitted by Laplace's method, so its posterior is approximated by it,
                too.
            space: The box of the trials.
            goal: What the parameters should be good at.
            num_points: The number of quasi-random points among which the inner maximum
                is sought.
            options: The effort of the search for the current best.
            seed: The seed of the quasi-random points.
            X_pending: The rows of pending trials.
        """
        model = refit_by_laplace(model)
        super().__init__(model, space, goal, num_points, options, seed, X_pending)

    def prepare(self) -> None:
        r"""Factor the old posterior, and draw the goal at the points to search."""
        super().prepare()
        self.shared = Shared.of(self.model)
        with torch.no_grad():
            num_points, _, num_contexts = self.root.shape[-3:]
            rows = self.values.rows.unflatten(-2, (num_points, num_contexts))
            prior = self.model.prior_covariance(*[rows.movedim(-3, 0)] * 2)
            self.prior = prior.movedim(0, -3).unsqueeze(-4)  # ... x 1 x J x K x K

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The knowledge gradient.

        Args:
            X: ``t x batch_shape x 1 x d`` trials or ``t x batch_shape x 2 x d`` duels.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        num_trials = self.model.train_targets.shape[-1] + 1
        num_values = self.values.rows.shape[-2] + num_trials
        entries = num_trials * num_values * self.model.batch_shape.numel()
        size = max(1, MAX_ENTRIES // (entries * self.model.likelihood.num_outcomes))
        return torch.cat([self._gain(part) for part in X.split(size)])

    def _gain(self, X: Tensor) -> Tensor:
        posteriors = FantasyPosteriors.of(self.model, self.shared, X)
        num_points = self.root.shape[-3]
        mean = posteriors.means_at_shared(self.values).unflatten(-1, (num_points, -1))
        explained = posteriors.explained_at_shared(self.values, num_points)
        root = joint_root(self.prior - explained)  # batch_shape x C x J x K x K
        latent = mean.unsqueeze(-2) + self.noise @ root.mT  # ... x C x J x S x K
        draws = self.goal.combine(latent.movedim((-4, -3, -2), (0, 1, 2)), self.model)
        values = draws.mean(dim=2).amax(dim=1).movedim(0, -1)  # batch_shape x C
        gain = posteriors.expectation(values) - self.current_value.unsqueeze(-1)
        return posteriors.candidates.unfold(gain)
