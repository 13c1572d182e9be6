r"""
The contextual binary knowledge gradient.

How much one more trial is expected to raise the maximum of the posterior mean in the
reference context (section 3.2 and supplements 2 and 3 of [Fauvel2022contextual]_). Only
two outcomes exist, so the expectation is exact: two fantasy posteriors for each
candidate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from botorch_binary_context.acquisition.base import (
    TrialAcquisitionFunction,
    match_space,
)
from botorch_binary_context.acquisition.contrasts import Contrasts
from botorch_binary_context.acquisition.fantasies import (
    COARSE,
    EXACT,
    Accuracy,
    Shared,
    fantasy_weights,
)
from botorch_binary_context.acquisition.posterior_mean import maximize_posterior_mean
from botorch_binary_context.batching import expand_batch, fold, unfold
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.covariance import covariance
from botorch_binary_context.models.laplace_gp import LaplaceGP
from botorch_binary_context.optim import climb

POLISH_EVALUATIONS = 30
# The envelope theorem holds at the maximum: the gradient's error is that of the
# maximiser, the square root of what the search leaves of the value.
POLISH_GAIN = 1e-12


@dataclass(frozen=True)
class FantasyPosteriors:
    r"""The posterior means after both outcomes of ``T`` candidates.

    Attributes:
        model: The model.
        contrasts: The contrasts of the candidates.
        success: The probability of a pass, ``batch_shape x T``.
        a: The weights of the data, ``batch_shape x n x C`` with ``C = 2T``: first after
            all passes, then after all fails.
        a_new: The weights of the candidates, ``batch_shape x C``.
    """

    model: LaplaceGP
    contrasts: Contrasts
    success: Tensor
    a: Tensor
    a_new: Tensor

    @classmethod
    def of(
        cls,
        model: LaplaceGP,
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
        contrasts = Contrasts.of(model, X)
        mean, variance = contrasts.moments()
        success = model.likelihood.expected_probability(mean, variance)
        ones = torch.ones_like(mean)
        a, a_new = fantasy_weights(
            shared,
            torch.cat([contrasts.cross, contrasts.cross], dim=-1),
            torch.cat([contrasts.prior_mean, contrasts.prior_mean], dim=-1),
            torch.cat([contrasts.prior_variance, contrasts.prior_variance], dim=-1),
            torch.cat([ones, torch.zeros_like(ones)], dim=-1),
            accuracy,
        )
        return cls(model, contrasts, success, a, a_new)

    def detach(self) -> FantasyPosteriors:
        """The same without a graph, for the search of the inner maxima."""
        contrasts = replace(self.contrasts, rows=self.contrasts.rows.detach())
        return replace(
            self, contrasts=contrasts, a=self.a.detach(), a_new=self.a_new.detach()
        )

    def means_at_shared(self, points: Tensor, cross: Tensor) -> Tensor:
        """At ``batch_shape x J x d`` points: a ``batch_shape x C x J`` tensor."""
        kernel, contrast = self.model.covar_module, self.model.likelihood.contrast
        to_new = contrast(covariance(kernel, self.contrasts.rows, points), dim=-2)
        to_new = torch.cat([to_new, to_new], dim=-2)
        update = self.a.mT @ cross + self.a_new.unsqueeze(-1) * to_new
        return self.model.prior_mean(points).unsqueeze(-2) + update

    def means_at_own(self, points: Tensor) -> Tensor:
        """Each at its own point of ``batch_shape x C x d``: ``batch_shape x C``."""
        model, contrast = self.model, self.model.likelihood.contrast
        cross = contrast(covariance(model.covar_module, points, model.datapoints))
        num_rows = model.likelihood.points_per_trial
        rows = self.contrasts.rows.unflatten(-2, (-1, num_rows))
        rows = torch.cat([rows, rows], dim=-3)  # batch_shape x C x q x d
        # C small matrices: kernels with a batch shape want it next to the matrix.
        pairs = points.unsqueeze(-2).movedim(-3, 0), rows.movedim(-3, 0)
        to_new = contrast(covariance(model.covar_module, *pairs)).movedim(0, -3)
        update = (cross * self.a.mT).sum(dim=-1) + self.a_new * to_new[..., 0, 0]
        return model.prior_mean(points) + update

    def expectation(self, values: Tensor) -> Tensor:
        """The expectation over the outcomes of ``batch_shape x C`` values."""
        passed, failed = values.chunk(2, dim=-1)
        return self.success * passed + (1 - self.success) * failed


class KnowledgeGradientBase(TrialAcquisitionFunction):
    r"""What the nested and the one-shot form share."""

    def __init__(
        self,
        model: LaplaceGP,
        space: ContextSpace,
        current_value: Tensor | None = None,
    ) -> None:
        r"""
        Args:
            model: A model of pass/fail outcomes or duels.
            space: The box of the trials.
            current_value: The maximum of the posterior mean, ``batch_shape``; computed
                if not given.
        """
        super().__init__(model)
        model.eval()
        self.space = match_space(space, model)
        self.shared = Shared.of(model)
        best = self.space.parameter_bounds[:0].expand(*model.batch_shape, -1, -1)
        if current_value is None:
            maximizer, current_value = maximize_posterior_mean(model, self.space)
            best = maximizer.unsqueeze(-2)
        self.best = best  # batch_shape x 1 x (d - m), or x 0 if it is not known
        self.current_value = current_value

    def at_reference(self, parameters: Tensor) -> Tensor:
        r"""Transformed points in the reference context.

        Args:
            parameters: A ``... x (d - m)`` tensor.

        Returns:
            A ``... x d`` tensor.
        """
        return self.model.transform_inputs(self.space.at_reference(parameters))

    def evaluate_at(
        self, X: Tensor, inner_parameters: Tensor, accuracy: Accuracy = EXACT
    ) -> Tensor:
        r"""The value with given inner points in the place of the inner maximisers.

        Args:
            X: ``t x batch_shape x q x d`` candidates.
            inner_parameters: ``t x batch_shape x 2 x (d - m)``, for a pass and a fail.
            accuracy: How well to solve for the modes of fantasies.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        posteriors = FantasyPosteriors.of(self.model, self.shared, X, accuracy)
        inner = self.at_reference(inner_parameters)
        inner = expand_batch(inner, self.model.batch_shape)
        num_batch = len(self.model.batch_shape)
        rows = [fold(inner[..., i, None, :], num_batch) for i in range(2)]
        values = posteriors.means_at_own(torch.cat(rows, dim=-2))
        return self.expected_gain(posteriors, values)

    def expected_gain(self, posteriors: FantasyPosteriors, values: Tensor) -> Tensor:
        r"""What the expected value after the outcomes adds to the current one.

        Args:
            posteriors: The posteriors after the outcomes of candidates.
            values: The values after the outcomes, ``batch_shape x C``.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        gain = posteriors.expectation(values) - self.current_value.unsqueeze(-1)
        return posteriors.contrasts.unfold(gain)


class ContextualBinaryKnowledgeGradient(KnowledgeGradientBase):
    r"""The contextual binary knowledge gradient (cBKG).

    ``KG(s,x) = Σ_c p(c|s,x) max_{x'} E[f(s₀,x')|D,(s,x,c)] - max_{x'} E[f(s₀,x')|D]``
    (Eq. S31 of [Fauvel2022contextual]_). The inner maximum is sought among points of
    the box and then polished by a local search; its gradient follows from the envelope
    theorem with ``x'`` held fixed. Laplace posteriors are not exactly a martingale, so
    the value may be negative: slightly, or more if few trials meet a wide prior.

    On a preference model a candidate is a duel (``q = 2``): the preferential knowledge
    gradient. A space without context columns gives the plain binary one.

    Example:
        >>> acqf = ContextualBinaryKnowledgeGradient(model, space)
        >>> acqf(X)  # of b x 1 x d trials
    """

    def __init__(
        self,
        model: LaplaceGP,
        space: ContextSpace,
        num_points: int = 128,
        current_value: Tensor | None = None,
        seed: int = 0,
    ) -> None:
        r"""
        Args:
            model: A model of pass/fail outcomes or duels.
            space: The box of the trials; the inner maximum is in its reference context.
            num_points: How many quasi-random points the inner maximum is first sought
                among, beside those of the training data and the current best.
            current_value: The maximum of the posterior mean, ``batch_shape``; computed
                if not given.
            seed: The seed of the quasi-random points.
        """
        super().__init__(model, space, current_value)
        sobol = draw_sobol_samples(
            self.space.parameter_bounds, n=num_points, q=1, seed=seed
        )
        self._set_points(sobol.squeeze(-2))

    def _set_points(self, sobol: Tensor) -> None:
        model, batch_shape = self.model, self.model.batch_shape
        low, high = self.space.parameter_bounds
        train = self.space.parameters(model.original_datapoints).clamp(low, high)
        parts = [sobol, train, self.best]
        parts = [part.expand(*batch_shape, *part.shape[-2:]) for part in parts]
        self.parameters_searched = torch.cat(parts, dim=-2).detach()
        with torch.no_grad():
            self.points = self.at_reference(self.parameters_searched)
            cross = covariance(model.covar_module, model.datapoints, self.points)
            self.cross = model.likelihood.contrast(cross, dim=-2)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The knowledge gradient.

        Args:
            X: ``t x batch_shape x 1 x d`` trials or ``t x batch_shape x 2 x d`` duels.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        posteriors = FantasyPosteriors.of(self.model, self.shared, X)
        maximizers = self._inner_maximizers(posteriors.detach())
        return self.expected_gain(posteriors, posteriors.means_at_own(maximizers))

    def screen(self, X: Tensor) -> Tensor:
        r"""A quick estimate of the value, to choose where to look closer.

        The inner maximum is that among the searched points, and the fantasies are
        coarse.

        Args:
            X: ``t x batch_shape x q x d`` candidates.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        posteriors = FantasyPosteriors.of(self.model, self.shared, X, COARSE)
        values = posteriors.means_at_shared(self.points, self.cross).amax(dim=-1)
        return self.expected_gain(posteriors, values)

    def _best_searched(self, posteriors: FantasyPosteriors) -> Tensor:
        """The best of the searched points, ``batch_shape x C x (d - m)`` parameters."""
        with torch.no_grad():
            means = posteriors.means_at_shared(self.points, self.cross)
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
            ``t x batch_shape x 2 x (d - m)`` parameters, for a pass and for a fail.
        """
        posteriors = FantasyPosteriors.of(self.model, self.shared, X)
        passed, failed = self._best_searched(posteriors).chunk(2, dim=-2)
        num_batch = len(self.model.batch_shape)
        batch = posteriors.contrasts.batch
        parts = [unfold(part, batch, 1, num_batch) for part in (passed, failed)]
        return torch.cat(parts, dim=-2)

    def _inner_maximizers(self, posteriors: FantasyPosteriors) -> Tensor:
        """The transformed maximisers of the fantasies' means, ``... x C x d``."""
        low, high = self.space.parameter_bounds
        start = self._best_searched(posteriors)

        def mean_at(U: Tensor) -> Tensor:
            points = self.at_reference(low + (high - low) * U.squeeze(0))
            return posteriors.means_at_own(points).unsqueeze(0)

        start = ((start - low) / (high - low)).unsqueeze(0)
        U, _ = climb(mean_at, start, POLISH_EVALUATIONS, POLISH_GAIN)
        with torch.no_grad():
            return self.at_reference(low + (high - low) * U)
