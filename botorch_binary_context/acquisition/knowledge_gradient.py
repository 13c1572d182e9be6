r"""
The contextual binary knowledge gradient.

It is the amount by which one more trial is expected to raise the maximum of the
posterior mean in the reference context (section 3.2 and supplements 2 and 3 of
[Fauvel2022contextual]_). There are only two outcomes, or a few, so the expectation is
exact: it takes one fantasy posterior for each outcome of each candidate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from botorch_binary_context.acquisition.base import (
    TrialAcquisitionFunction,
    check_linear,
    match_space,
    only_model,
)
from botorch_binary_context.acquisition.fantasies import (
    COARSE,
    EXACT,
    FINE,
    Accuracy,
    Fantasies,
    Shared,
    fantasy_weights,
)
from botorch_binary_context.acquisition.outcomes import in_a_row, repeat
from botorch_binary_context.acquisition.posterior_mean import maximize_posterior_mean
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.goals import AtReference, LinearGoal
from botorch_binary_context.inference import Laplace
from botorch_binary_context.models.functional_values import FunctionalValues
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.batching import expand_batch, fold, unfold
from botorch_binary_context.numerics.optim import climb, draw_points

POLISH_EVALUATIONS = 30
# The envelope theorem holds at the maximum, so the gradient is as inaccurate as the
# maximizer: its error is the square root of the error of the maximum.
POLISH_GAIN = 1e-12


@dataclass(frozen=True)
class FantasyPosteriors:
    r"""The posterior means after every outcome of ``T`` candidates.

    Attributes:
        model: The model.
        candidates: What the candidates observe.
        fantasies: The candidates with their outcomes, ``C`` trials.
        probability: The probability of each outcome, ``batch_shape x C``.
        a: The weights of the data, ``batch_shape x n x C`` with ``C = K T`` for ``K``
            outcomes. These are ordered from the highest label down: passes come first.
        a_new: The weights of the candidates, ``batch_shape x C``.
    """

    model: LatentGP
    candidates: FunctionalValues
    fantasies: Fantasies
    probability: Tensor
    a: Tensor
    a_new: Tensor

    @classmethod
    def of(
        cls,
        model: LatentGP,
        shared: Shared,
        X: Tensor,
        accuracy: Accuracy = EXACT,
    ) -> FantasyPosteriors:
        r"""The posteriors after the outcomes of candidates.

        Args:
            model: The model.
            shared: What the candidates share.
            X: ``t x batch_shape x q x d`` candidates.
            accuracy: How well to solve for the posterior modes.

        Returns:
            The posteriors, differentiable once in ``X``.
        """
        candidates = model.values_of(X)
        mean, variance = candidates.moments()
        probabilities = model.likelihood.expected_probabilities(mean, variance)
        number = len(probabilities)
        labels = torch.arange(number, dtype=mean.dtype, device=mean.device)
        labels = labels.view(-1, *[1] * mean.ndim).expand_as(probabilities)
        fantasies = Fantasies(
            shared,
            torch.cat([candidates.cross] * number, dim=-1),
            torch.cat([candidates.prior_mean] * number, dim=-1),
            torch.cat([candidates.prior_variance] * number, dim=-1),
            in_a_row(labels),
        )
        moments = fantasies.cross, fantasies.prior_mean, fantasies.prior_variance
        a, a_new = fantasy_weights(shared, *moments, fantasies.labels, accuracy)
        return cls(model, candidates, fantasies, in_a_row(probabilities), a, a_new)

    @property
    def num_outcomes(self) -> int:
        """The number of outcomes ``K``."""
        return self.model.likelihood.num_outcomes

    def detach(self) -> FantasyPosteriors:
        """The same without a graph, for the search of the inner maxima."""
        return replace(
            self,
            candidates=self.candidates.detach(),
            a=self.a.detach(),
            a_new=self.a_new.detach(),
        )

    def means_at_shared(self, points: FunctionalValues) -> Tensor:
        """The means at ``J`` points, the same for all, ``batch_shape x C x J``."""
        to_new = self.candidates.prior_covariance(points)
        to_new = torch.cat([to_new] * self.num_outcomes, dim=-2)
        update = self.a.mT @ points.cross + self.a_new.unsqueeze(-1) * to_new
        return points.prior_mean.unsqueeze(-2) + update

    def explained_at_shared(self, points: FunctionalValues, number: int) -> Tensor:
        r"""How much of the points' covariances the data and the outcomes explain.

        Args:
            points: ``J m`` points, the same for all.
            number: ``J``, the number of groups of points.

        Returns:
            A ``batch_shape x C x J x m x m`` tensor, for each group separately.
        """
        to_new = self.candidates.prior_covariance(points)
        to_new = torch.cat([to_new] * self.num_outcomes, dim=-2).unsqueeze(-2)
        to_old = points.cross.unsqueeze(-3).expand(*to_new.shape[:-2], -1, -1)
        cross = torch.cat([to_old, to_new], dim=-2)  # batch_shape x C x (n + 1) x J m
        white = self.fantasies.whiten(self.a, self.a_new, cross)
        white = white.unflatten(-1, (number, -1)).movedim(-2, -3)
        return white.mT @ white

    def means_at_own(self, points: FunctionalValues) -> Tensor:
        """The mean of each posterior at its own point, ``batch_shape x C``."""
        to_new = points.paired_prior_covariance(repeat(self.candidates))
        # Sum along contiguous memory.
        known = (points.cross.mT.contiguous() * self.a.mT).sum(dim=-1)
        return points.prior_mean + (known + self.a_new * to_new)

    def expectation(self, values: Tensor) -> Tensor:
        """The expectation over the outcomes of ``batch_shape x C`` values."""
        weighted = self.probability * values
        return weighted.unflatten(-1, (self.num_outcomes, -1)).sum(dim=-2)


def refit_by_laplace(model: LatentGP) -> LatentGP:
    r"""The model with Laplace's approximation, with which fantasies are refitted.

    Args:
        model: A model, or a ``ModelList`` of one.

    Returns:
        The model itself if it already uses it, else a copy.
    """
    model = only_model(model)
    if isinstance(model.inference, Laplace):
        return model
    return model.with_inference(Laplace())


class KnowledgeGradientBase(TrialAcquisitionFunction):
    r"""The base class of the nested and the one-shot form."""

    def __init__(
        self,
        model: LatentGP,
        space: ContextSpace,
        current_value: Tensor | None = None,
        goal: LinearGoal = AtReference(),  # noqa: B008
        X_pending: Tensor | None = None,
    ) -> None:
        r"""
        Args:
            model: A model of pass/fail outcomes or duels. Fantasies are refitted by
                Laplace's method, so the model's posterior is, too.
            space: The box of the trials.
            current_value: The maximum of the posterior mean, ``batch_shape``; computed
                if not given.
            goal: What the parameters should be good at.
            X_pending: The rows of pending trials.
        """
        super().__init__(refit_by_laplace(model))
        self.model.eval()
        self.space = match_space(space, self.model)
        self.goal = check_linear(goal, type(self).__name__)
        self._given_value = current_value
        self.set_X_pending(X_pending)

    def prepare(self) -> None:
        r"""Factor the old posterior, and find the current best."""
        model = self.model
        value = self._given_value
        self.shared = Shared.of(model)
        best = self.space.parameter_bounds[:0].expand(*model.batch_shape, -1, -1)
        if value is None:
            maximizer, value = maximize_posterior_mean(
                model, self.space, goal=self.goal
            )
            best = maximizer.unsqueeze(-2)
        self.best = best  # batch_shape x 1 x (d - m), or x 0 if it is not known
        self.current_value = value

    def values_at(self, parameters: Tensor) -> FunctionalValues:
        r"""The goal at parameters.

        Args:
            parameters: A ``batch_shape x J x (d - m)`` tensor.

        Returns:
            The ``J`` values of the goal for each element of the batch, folded.
        """
        return self.goal.values(self.model, self.space, parameters)

    def evaluate_at(
        self, X: Tensor, inner_parameters: Tensor, accuracy: Accuracy = EXACT
    ) -> Tensor:
        r"""The value with given inner points instead of the inner maximizers.

        Args:
            X: ``t x batch_shape x q x d`` candidates.
            inner_parameters: ``t x batch_shape x K x (d - m)``, for every outcome from
                the highest label down.
            accuracy: How well to solve for the modes of fantasies.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        posteriors = FantasyPosteriors.of(self.model, self.shared, X, accuracy)
        batch_shape = self.model.batch_shape
        inner = expand_batch(inner_parameters, batch_shape)
        parts = [fold(part, len(batch_shape)) for part in inner.split(1, dim=-2)]
        values = posteriors.means_at_own(self.values_at(torch.cat(parts, dim=-2)))
        return self.expected_gain(posteriors, values)

    def expected_gain(self, posteriors: FantasyPosteriors, values: Tensor) -> Tensor:
        r"""The expected value after the outcomes minus the current value.

        Args:
            posteriors: The posteriors after the outcomes of candidates.
            values: The values after the outcomes, ``batch_shape x C``.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        gain = posteriors.expectation(values) - self.current_value.unsqueeze(-1)
        return posteriors.candidates.unfold(gain)


class ContextualBinaryKnowledgeGradient(KnowledgeGradientBase):
    r"""The contextual binary knowledge gradient (cBKG).

    ``KG(s,x) = Σ_c p(c|s,x) max_{x'} E[f(s₀,x')|D,(s,x,c)] - max_{x'} E[f(s₀,x')|D]``
    (Eq. S31 of [Fauvel2022contextual]_). The inner maximum is found among points of the
    box and then refined by a local search; its gradient follows from the envelope
    theorem with ``x'`` held fixed. Laplace posteriors are not exactly a martingale, so
    the value may be negative: slightly, or more so if trials are few and the prior is
    wide.

    On a preference model a candidate is a duel (``q = 2``): the preferential knowledge
    gradient. A space without context columns gives the plain binary one.

    Example:
        >>> acqf = ContextualBinaryKnowledgeGradient(model, space)
        >>> acqf(X)  # of b x 1 x d trials
    """

    def __init__(
        self,
        model: LatentGP,
        space: ContextSpace,
        num_points: int = 128,
        current_value: Tensor | None = None,
        seed: int = 0,
        goal: LinearGoal = AtReference(),  # noqa: B008
        X_pending: Tensor | None = None,
    ) -> None:
        r"""
        Args:
            model: A model of pass/fail outcomes or duels.
            space: The box of the trials.
            num_points: The number of quasi-random points among which the inner maximum
                is first sought, in addition to the training data and the current best.
            current_value: The maximum of the posterior mean, ``batch_shape``; computed
                if not given.
            seed: The seed of the quasi-random points.
            goal: What the parameters should be good at.
            X_pending: The rows of pending trials.
        """
        self._sobol = num_points, seed
        super().__init__(model, space, current_value, goal, X_pending)

    def prepare(self) -> None:
        r"""Choose the points among which the inner maximum is first sought."""
        super().prepare()
        model = self.model
        batch_shape = self.model.batch_shape
        number, seed = self._sobol
        sobol = draw_points(self.space.parameter_bounds, number, seed)
        low, high = self.space.parameter_bounds
        train = self.space.parameters(model.original_datapoints).clamp(low, high)
        parts = [sobol, train, self.best]
        parts = [part.expand(*batch_shape, *part.shape[-2:]) for part in parts]
        self.parameters_searched = torch.cat(parts, dim=-2).detach()
        self.points = self.values_at(self.parameters_searched)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The knowledge gradient.

        Args:
            X: ``t x batch_shape x 1 x d`` trials or ``t x batch_shape x 2 x d`` duels.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        posteriors = FantasyPosteriors.of(self.model, self.shared, X)
        maximizers = self.values_at(self._inner_maximizers(posteriors.detach()))
        return self.expected_gain(posteriors, posteriors.means_at_own(maximizers))

    def screen(self, X: Tensor) -> Tensor:
        r"""A quick estimate of the value, to choose where to look closer.

        The inner maximum is taken over the searched points, and the fantasies are
        coarse.

        Args:
            X: ``t x batch_shape x q x d`` candidates.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        posteriors = FantasyPosteriors.of(self.model, self.shared, X, COARSE)
        values = posteriors.means_at_shared(self.points).amax(dim=-1)
        return self.expected_gain(posteriors, values)

    def evaluate_joint(self, X: Tensor, inner_parameters: Tensor) -> Tensor:
        r"""Like :meth:`evaluate_at`, with modes only as accurate as a search needs.

        Args:
            X: ``t x batch_shape x q x d`` candidates.
            inner_parameters: ``t x batch_shape x K x (d - m)``, for every outcome from
                the highest label down.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        return self.evaluate_at(X, inner_parameters, FINE)

    def _best_searched(self, posteriors: FantasyPosteriors) -> Tensor:
        """The best of the searched points, ``batch_shape x C x (d - m)`` parameters."""
        with torch.no_grad():
            means = posteriors.means_at_shared(self.points)
            index = means.argmax(dim=-1).unsqueeze(-1)
            searched = self.parameters_searched
            return searched.gather(
                -2, index.expand(*index.shape[:-1], searched.shape[-1])
            )

    def inner_starts(self, X: Tensor) -> Tensor:
        r"""Where to start the search for the inner maxima of candidates.

        Args:
            X: ``t x batch_shape x q x d`` candidates.

        Returns:
            ``t x batch_shape x K x (d - m)`` parameters, for every outcome from the
            highest label down.
        """
        posteriors = FantasyPosteriors.of(self.model, self.shared, X)
        parts = self._best_searched(posteriors).chunk(posteriors.num_outcomes, dim=-2)
        num_batch = len(self.model.batch_shape)
        batch = posteriors.candidates.batch
        return torch.cat([unfold(part, batch, 1, num_batch) for part in parts], dim=-2)

    def _inner_maximizers(self, posteriors: FantasyPosteriors) -> Tensor:
        """The maximizers of the fantasies' means, ``... x C x (d - m)``."""
        low, high = self.space.parameter_bounds
        start = self._best_searched(posteriors)

        def mean_at(U: Tensor) -> Tensor:
            points = self.values_at(low + (high - low) * U.squeeze(0))
            return posteriors.means_at_own(points).unsqueeze(0)

        start = ((start - low) / (high - low)).unsqueeze(0)
        U, _ = climb(mean_at, start, POLISH_EVALUATIONS, POLISH_GAIN)
        return low + (high - low) * U
