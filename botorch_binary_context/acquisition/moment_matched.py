r"""
The knowledge gradient in closed form, for a Gaussian posterior.

The product of a Gaussian posterior and the likelihood of one more trial is not
Gaussian, but its mean is known: with the candidate's contrast ``g ~ N(μ_g, σ²)``, the
probability ``Z = E p(c|g)`` of an outcome and ``w = ∂Z/∂μ_g``, the posterior mean
anywhere moves by ``cov(f(·), g) w / Z`` [Wu2026knowledge]_. No posterior has to be
refitted, and the expectation over the outcomes is that of a martingale: the knowledge
gradient is never negative.

.. [Wu2026knowledge]
    K. Wu, J. R. Gardner. Knowledge gradient for preference learning.
    arXiv 2601.22335, 2026.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_binary_context.acquisition.base import (
    TrialAcquisitionFunction,
    check_linear,
    match_space,
)
from botorch_binary_context.acquisition.outcomes import in_a_row, repeat
from botorch_binary_context.acquisition.posterior_mean import maximize_posterior_mean
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.goals import AtReference, LinearGoal
from botorch_binary_context.models.functional_values import (
    FunctionalValues,
    compute_together,
)
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.batching import expand_batch, fold, unfold
from botorch_binary_context.numerics.covariance import clamp_variance
from botorch_binary_context.numerics.optim import (
    SearchOptions,
    climb,
    draw_points,
)

POLISH_EVALUATIONS = 30
# The envelope theorem holds at the maximum, so the gradient is as inaccurate as the
# maximizer: its error is the square root of the error of the maximum.
POLISH_GAIN = 1e-12


@dataclass(frozen=True)
class LookAhead:
    r"""The posterior mean after every outcome of ``T`` candidates.

    Outcomes come from the highest label down: first a pass, then a fail.

    Attributes:
        candidates: What the candidates observe.
        projected: ``P k`` of the candidates, ``batch_shape x n x T``.
        weight: ``Z``, the probability of each outcome, ``batch_shape x K T`` with the
            number ``K`` of outcomes.
        slope: ``w``, its derivative in the mean of the contrast, ``batch_shape x K T``.
    """

    candidates: FunctionalValues
    projected: Tensor
    weight: Tensor
    slope: Tensor

    @classmethod
    def of(cls, candidates: FunctionalValues, projection: Tensor) -> LookAhead:
        r"""The posterior means after the outcomes of candidates.

        Args:
            candidates: What the candidates observe.
            projection: ``P`` of the approximation, ``batch_shape x n x n``.

        Returns:
            The look-ahead, differentiable in the candidates.
        """
        projected = projection @ candidates.cross
        explained = (candidates.cross * projected).sum(dim=-2)
        variance = clamp_variance(candidates.prior_variance - explained)
        mean = candidates.mean()
        likelihood = candidates.model.likelihood
        weight = likelihood.expected_probabilities(mean, variance)
        slope = likelihood.probability_slopes(mean, variance)
        return cls(candidates, projected, in_a_row(weight), in_a_row(slope))

    @property
    def num_outcomes(self) -> int:
        """The number of outcomes ``K``."""
        return self.candidates.model.likelihood.num_outcomes

    def detach(self) -> LookAhead:
        """The same without a graph, for the search of the inner maxima."""
        return LookAhead(
            self.candidates.detach(),
            self.projected.detach(),
            self.weight.detach(),
            self.slope.detach(),
        )

    def at_shared(self, points: FunctionalValues, mean: Tensor) -> Tensor:
        r"""The means at points, each times the probability of its outcome.

        Args:
            points: ``J`` points, the same for all candidates.
            mean: The posterior mean there, ``batch_shape x J``.

        Returns:
            A ``batch_shape x K T x J`` tensor; passes come first.
        """
        covar = (
            self.candidates.prior_covariance(points) - self.projected.mT @ points.cross
        )
        covar = torch.cat([covar] * self.num_outcomes, dim=-2)
        change = self.slope.unsqueeze(-1) * covar
        return self.weight.unsqueeze(-1) * mean.unsqueeze(-2) + change

    def at_own(self, points: FunctionalValues) -> Tensor:
        r"""The same products, each mean at its own point.

        Args:
            points: ``K T`` points.

        Returns:
            A ``batch_shape x K T`` tensor.
        """
        covar = points.paired_prior_covariance(repeat(self.candidates))
        projected = torch.cat([self.projected] * self.num_outcomes, dim=-1)
        covar = covar - (points.cross * projected).sum(dim=-2)
        return self.weight * points.mean() + self.slope * covar


class MomentMatchedKnowledgeGradient(TrialAcquisitionFunction):
    r"""The knowledge gradient of a Gaussian posterior, in closed form.

        ``KG(z) = Σ_c max[Z_c μ + w_c C] - max μ``

    with the posterior mean ``μ`` of the goal, by default ``f`` in the reference
    context, its posterior covariance ``C`` with what the trial ``z`` observes, the
    probability ``Z_c`` of an outcome and its slope ``w_c``. This is the expected rise
    of the best posterior mean after one more outcome; it is never negative. The inner
    maxima are found among points of the box and then refined by a local search; the
    gradient follows from the envelope theorem.

    It works for pass/fail outcomes, for duels (``q = 2``) and for both together, on any
    inference; expectation propagation suits it best, since it takes the Gaussian
    posterior as exact.

    Example:
        >>> acqf = MomentMatchedKnowledgeGradient(model, space)
        >>> acqf(X)  # of b x 1 x d trials
    """

    def __init__(
        self,
        model: LatentGP,
        space: ContextSpace,
        num_points: int = 128,
        options: SearchOptions = SearchOptions(),  # noqa: B008
        seed: int = 0,
        goal: LinearGoal = AtReference(),  # noqa: B008
        X_pending: Tensor | None = None,
    ) -> None:
        r"""
        Args:
            model: A model of pass/fail outcomes, duels or both.
            space: The box of the trials.
            num_points: The number of quasi-random points among which the inner maximum
                is first sought, in addition to the training data and the current best.
            options: The effort of the search for the current best.
            seed: The seed of the quasi-random points.
            goal: What the parameters should be good at.
            X_pending: The rows of pending trials.
        """
        super().__init__(model)
        self.model.eval()
        self.space = match_space(space, self.model)
        self.goal = check_linear(goal, type(self).__name__)
        self.options = options
        self._sobol = num_points, seed
        self.set_X_pending(X_pending)

    def prepare(self) -> None:
        r"""Find the current best, and choose the points to search for inner maxima."""
        model = self.model.eval()
        bounds = self.space.parameter_bounds
        with torch.no_grad():
            self.projection = model.approximation.projection()
        best, value = maximize_posterior_mean(
            model, self.space, self.options, goal=self.goal
        )
        number, seed = self._sobol
        sobol = draw_points(bounds, number, seed)
        train = self.space.parameters(model.original_datapoints).clamp(*bounds)
        parts = [sobol, train, best.unsqueeze(-2)]
        parts = [part.expand(*model.batch_shape, *part.shape[-2:]) for part in parts]
        self.parameters_searched = torch.cat(parts, dim=-2).detach()
        with torch.no_grad():
            self.points = self.values_at(self.parameters_searched)
            self.mean = self.points.mean()
            # So that no point is better than the current best, not even by rounding.
            self.current_value = torch.maximum(value, self.mean.amax(dim=-1))

    def values_at(self, parameters: Tensor) -> FunctionalValues:
        r"""The goal at parameters.

        Args:
            parameters: A ``batch_shape x J x (d - m)`` tensor.

        Returns:
            The ``J`` values of the goal for each element of the batch, folded.
        """
        return self.goal.values(self.model, self.space, parameters)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The knowledge gradient.

        Args:
            X: ``t x batch_shape x 1 x d`` trials or ``t x batch_shape x 2 x d`` duels.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        ahead = LookAhead.of(self.model.values_of(X), self.projection)
        maximizers = self._inner_maximizers(ahead.detach(), X)
        return self._gain(ahead, ahead.at_own(self.values_at(maximizers)))

    def evaluate_joint(self, X: Tensor, inner_parameters: Tensor) -> Tensor:
        r"""The value with given inner points instead of the inner maximizers.

        Args:
            X: ``t x batch_shape x q x d`` candidates.
            inner_parameters: ``t x batch_shape x K x (d - m)``, for every outcome from
                the highest label down.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        batch_shape = self.model.batch_shape
        inner = expand_batch(inner_parameters, batch_shape)
        parts = [fold(part, len(batch_shape)) for part in inner.split(1, dim=-2)]
        points = self.values_at(torch.cat(parts, dim=-2))
        candidates = self.model.values_of(X)
        compute_together(candidates, points)
        ahead = LookAhead.of(candidates, self.projection)
        return self._gain(ahead, ahead.at_own(points))

    def screen(self, X: Tensor) -> Tensor:
        r"""A quick estimate of the value, with the inner maximum among a few points.

        Args:
            X: ``t x batch_shape x q x d`` candidates.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        ahead = LookAhead.of(self.model.values_of(X), self.projection)
        return self._gain(ahead, self._choose_starts(ahead, X)[1].amax(dim=0))

    def inner_starts(self, X: Tensor) -> Tensor:
        r"""Where to start the search for the inner maxima of candidates.

        Args:
            X: ``t x batch_shape x q x d`` candidates.

        Returns:
            ``t x batch_shape x K x (d - m)`` parameters, for every outcome from the
            highest label down.
        """
        ahead = LookAhead.of(self.model.values_of(X), self.projection)
        batch = ahead.candidates.batch
        num_batch = len(self.model.batch_shape)
        starts, values = self._choose_starts(ahead, X)
        index = values.argmax(dim=0)[None, ..., None].expand(1, *starts.shape[1:])
        parts = starts.gather(0, index).squeeze(0).chunk(ahead.num_outcomes, dim=-2)
        return torch.cat([unfold(part, batch, 1, num_batch) for part in parts], dim=-2)

    def _gain(self, ahead: LookAhead, values: Tensor) -> Tensor:
        """The expected value after the outcomes minus the current value."""
        total = values.unflatten(-1, (ahead.num_outcomes, -1)).sum(dim=-2)
        return ahead.candidates.unfold(total - self.current_value.unsqueeze(-1))

    def _choose_starts(self, ahead: LookAhead, X: Tensor) -> tuple[Tensor, Tensor]:
        """Starts of inner maxima, ``r x batch_shape x K T x (d - m)``, with values.

        These are the best of the searched points and the rows of the candidate itself.
        """
        with torch.no_grad():
            values, index = ahead.at_shared(self.points, self.mean).max(dim=-1)
            searched = self.parameters_searched
            index = index.unsqueeze(-1).expand(*index.shape, searched.shape[-1])
            starts = [searched.gather(-2, index), *self._shown(X)]
            shown = [ahead.at_own(self.values_at(start)) for start in starts[1:]]
            return torch.stack(starts), torch.stack([values, *shown])

    def _shown(self, X: Tensor) -> list[Tensor]:
        """The parameters of each row of candidates, ``batch_shape x K T x (d - m)``."""
        number = self.model.likelihood.num_outcomes
        batch_shape = self.model.batch_shape
        bounds = self.space.parameter_bounds
        parameters = self.space.parameters(X.detach()).clamp(*bounds)
        rows = expand_batch(parameters, batch_shape).split(1, dim=-2)
        return [
            torch.cat([fold(row, len(batch_shape))] * number, dim=-2) for row in rows
        ]

    def _inner_maximizers(self, ahead: LookAhead, X: Tensor) -> Tensor:
        """The parameters of the inner maxima, ``batch_shape x K T x (d - m)``."""
        low, high = self.space.parameter_bounds
        starts, _ = self._choose_starts(ahead, X)

        def value_at(U: Tensor) -> Tensor:
            values = [
                ahead.at_own(self.values_at(low + (high - low) * u)) for u in U.unbind()
            ]
            return torch.stack(values)

        U, _ = climb(
            value_at, (starts - low) / (high - low), POLISH_EVALUATIONS, POLISH_GAIN
        )
        return low + (high - low) * U
