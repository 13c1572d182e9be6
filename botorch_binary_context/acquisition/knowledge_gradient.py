r"""
The contextual binary knowledge gradient, nested and one-shot.

How much one more trial is expected to raise the maximum of the posterior mean in the
reference context (section 3.2 and supplements 2 and 3 of [Fauvel2022contextual]_). Only
two outcomes exist, so the expectation is exact: two fantasy posteriors for each
candidate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction, OneShotAcquisitionFunction
from botorch.exceptions import UnsupportedError
from botorch.utils.sampling import draw_sobol_samples
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_binary_context.acquisition.contrasts import Contrasts
from botorch_binary_context.acquisition.fantasies import (
    TOLERANCE,
    Shared,
    fantasy_weights,
)
from botorch_binary_context.batching import expand_batch, fold, unfold
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.covariance import covariance
from botorch_binary_context.models.laplace_gp import LaplaceGP
from botorch_binary_context.optim import (
    SearchOptions,
    climb,
    find_starts,
    maximize,
    maximize_from,
)

POLISH_EVALUATIONS = 30
SCREEN_TOLERANCE = 1e-3


@dataclass(frozen=True)
class _Posteriors:
    """The posterior means after both outcomes of ``T`` candidates; ``C = 2T``."""

    model: LaplaceGP
    contrasts: Contrasts
    success: Tensor  # batch_shape x T, the probability of the first outcome
    a: Tensor  # batch_shape x n x C, first all passes, then all fails
    a_new: Tensor  # batch_shape x C

    @classmethod
    def of(
        cls,
        model: LaplaceGP,
        shared: Shared,
        X: Tensor,
        tolerance: float = TOLERANCE,
    ) -> _Posteriors:
        contrasts = Contrasts.of(model, X)
        mean, variance = contrasts.moments()
        success, _ = model.likelihood.probability_moments(mean, variance)
        ones = torch.ones_like(mean)
        a, a_new = fantasy_weights(
            shared,
            torch.cat([contrasts.cross, contrasts.cross], dim=-1),
            torch.cat([contrasts.prior_mean, contrasts.prior_mean], dim=-1),
            torch.cat([contrasts.prior_variance, contrasts.prior_variance], dim=-1),
            torch.cat([ones, torch.zeros_like(ones)], dim=-1),
            tolerance,
        )
        return cls(model, contrasts, success, a, a_new)

    def detach(self) -> _Posteriors:
        contrasts = self.contrasts
        detached = Contrasts(
            contrasts.model,
            contrasts.batch,
            contrasts.rows.detach(),
            contrasts.cross.detach(),
            contrasts.prior_mean.detach(),
            contrasts.prior_variance.detach(),
        )
        return _Posteriors(
            self.model, detached, self.success, self.a.detach(), self.a_new.detach()
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


class _KnowledgeGradient(AcquisitionFunction):
    """What the nested and the one-shot form share."""

    model: LaplaceGP

    def __init__(
        self, model: LaplaceGP, space: ContextSpace, current_value: Tensor | None
    ) -> None:
        super().__init__(model=model)
        model.eval()
        self.space = space.to(model.datapoints)
        self.shared = Shared.of(model)
        best = self.space.parameter_bounds[:0].expand(*model.batch_shape, -1, -1)
        if current_value is None:
            maximizer, current_value = maximize_posterior_mean(model, self.space)
            best = maximizer.unsqueeze(-2)
        self.best = best  # batch_shape x 1 x (d - m), or x 0 if it is not known
        self.current_value = current_value

    def _at_reference(self, parameters: Tensor) -> Tensor:
        """Transformed points in the reference context."""
        return self.model.transform_inputs(self.space.at_reference(parameters))


class ContextualBinaryKnowledgeGradient(_KnowledgeGradient):
    r"""The contextual binary knowledge gradient (cBKG).

    ``KG(s,x) = Σ_c p(c|s,x) max_{x'} E[f(s₀,x')|D,(s,x,c)] - max_{x'} E[f(s₀,x')|D]``
    (Eq. S26 of [Fauvel2022contextual]_). The inner maximum is sought among points of
    the box and then polished by a local search; its gradient follows from the envelope
    theorem with ``x'`` held fixed. Laplace posteriors are not exactly a martingale, so
    the value may be slightly negative.

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
            self.points = self._at_reference(self.parameters_searched)
            cross = covariance(model.covar_module, model.datapoints, self.points)
            self.cross = model.likelihood.contrast(cross, dim=-2)

    @t_batch_mode_transform()  # pyright: ignore[reportArgumentType]
    def forward(self, X: Tensor) -> Tensor:
        r"""Evaluate the knowledge gradient.

        Args:
            X: ``batch_shape x 1 x d`` trials or ``batch_shape x 2 x d`` duels.

        Returns:
            A ``batch_shape`` tensor.
        """
        return self.evaluate(X)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The value, without the checks of shapes that :meth:`forward` adds.

        Args:
            X: ``t x batch_shape x q x d`` candidates.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        posteriors = _Posteriors.of(self.model, self.shared, X)
        maximizers = self._inner_maximizers(posteriors.detach())
        values = posteriors.means_at_own(maximizers)
        gain = posteriors.expectation(values) - self.current_value.unsqueeze(-1)
        return posteriors.contrasts.unfold(gain)

    def screen(self, X: Tensor) -> Tensor:
        r"""A quick estimate of the value, to choose where to look closer.

        The inner maximum is that among the searched points, and the fantasies are
        solved to a thousandth.

        Args:
            X: ``t x batch_shape x q x d`` candidates.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        posteriors = _Posteriors.of(self.model, self.shared, X, SCREEN_TOLERANCE)
        values = posteriors.means_at_shared(self.points, self.cross).amax(dim=-1)
        gain = posteriors.expectation(values) - self.current_value.unsqueeze(-1)
        return posteriors.contrasts.unfold(gain)

    def _best_searched(self, posteriors: _Posteriors) -> Tensor:
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
        posteriors = _Posteriors.of(self.model, self.shared, X)
        passed, failed = self._best_searched(posteriors).chunk(2, dim=-2)
        num_batch = len(self.model.batch_shape)
        batch = posteriors.contrasts.batch
        parts = [unfold(part, batch, 1, num_batch) for part in (passed, failed)]
        return torch.cat(parts, dim=-2)

    def _inner_maximizers(self, posteriors: _Posteriors) -> Tensor:
        """The transformed maximisers of the fantasies' means, ``... x C x d``."""
        low, high = self.space.parameter_bounds
        start = self._best_searched(posteriors)

        def mean_at(U: Tensor) -> Tensor:
            points = self._at_reference(low + (high - low) * U.squeeze(0))
            return posteriors.means_at_own(points).unsqueeze(0)

        U, _ = climb(
            mean_at, ((start - low) / (high - low)).unsqueeze(0), POLISH_EVALUATIONS
        )
        with torch.no_grad():
            return self._at_reference(low + (high - low) * U)


class OneShotContextualBinaryKnowledgeGradient(
    _KnowledgeGradient, OneShotAcquisitionFunction
):
    r"""The knowledge gradient with the inner maximisers among the variables.

    A candidate carries two further rows, the points ``x'`` for a pass and for a fail
    (their context columns are ignored). Maximised jointly, the value at the optimum is
    that of :class:`ContextualBinaryKnowledgeGradient`, without an inner search.

    Example:
        >>> acqf = OneShotContextualBinaryKnowledgeGradient(model, space)
        >>> optimize_acqf(acqf, space.bounds, q=1, num_restarts=10, raw_samples=256,
        ...
        ic_generator=gen_one_shot_knowledge_gradient_initial_conditions)
    """

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
        super().__init__(model, space, current_value)

    def get_augmented_q_batch_size(self, q: int) -> int:
        r"""The number of rows of a candidate together with the inner maximisers.

        Args:
            q: The number of rows of a trial.

        Returns:
            ``q + 2``.
        """
        return q + 2

    def extract_candidates(self, X_full: Tensor) -> Tensor:
        r"""The trials without the inner maximisers.

        Args:
            X_full: A ``batch_shape x (q + 2) x d`` tensor.

        Returns:
            A ``batch_shape x q x d`` tensor.
        """
        return X_full[..., :-2, :]

    @t_batch_mode_transform()  # pyright: ignore[reportArgumentType]
    def forward(self, X: Tensor) -> Tensor:
        r"""Evaluate the one-shot knowledge gradient.

        Args:
            X: A ``batch_shape x (q + 2) x d`` tensor.

        Returns:
            A ``batch_shape`` tensor.
        """
        if X.shape[-2] != self.model.likelihood.points_per_trial + 2:
            raise UnsupportedError(
                "Expected ``X`` to have the rows of a trial and two more, "
                f"{self.model.likelihood.points_per_trial + 2}, but got {X.shape[-2]}."
            )
        return self.evaluate(X[..., :-2, :], self.space.parameters(X[..., -2:, :]))

    def evaluate(self, X: Tensor, inner_parameters: Tensor) -> Tensor:
        r"""The value for given inner points.

        Args:
            X: ``t x batch_shape x q x d`` candidates.
            inner_parameters: ``t x batch_shape x 2 x (d - m)``, for a pass and a fail.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        posteriors = _Posteriors.of(self.model, self.shared, X)
        inner = self._at_reference(inner_parameters)
        inner = expand_batch(inner, self.model.batch_shape)
        num_batch = len(self.model.batch_shape)
        rows = [fold(inner[..., i, None, :], num_batch) for i in range(2)]
        values = posteriors.means_at_own(torch.cat(rows, dim=-2))
        gain = posteriors.expectation(values) - self.current_value.unsqueeze(-1)
        return posteriors.contrasts.unfold(gain)


def gen_one_shot_knowledge_gradient_initial_conditions(
    acq_function: OneShotContextualBinaryKnowledgeGradient,
    bounds: Tensor,
    q: int,
    num_restarts: int,
    raw_samples: int,
    fixed_features: dict[int, float] | None = None,
    options: dict[str, Any] | None = None,
    **kwargs: Any,
) -> Tensor:
    r"""Initial conditions for ``optimize_acqf`` on the one-shot knowledge gradient.

    The best of quasi-random candidates under the nested form, each with the maximisers
    of its two fantasy posteriors.

    Args:
        acq_function: The acquisition function.
        bounds: The ``2 x d`` bounds of the trials.
        q: The number of rows of a trial.
        num_restarts: The number of initial conditions.
        raw_samples: The number of quasi-random candidates.
        fixed_features: Columns of the trial to hold at a value.
        options: May hold a ``seed``.
        kwargs: Not used; what else ``optimize_acqf`` passes.

    Returns:
        A ``num_restarts x (q + 2) x d`` tensor.
    """
    model, space = acq_function.model, acq_function.space
    nested = ContextualBinaryKnowledgeGradient(model, space)
    seed = (options or {}).get("seed")
    X = draw_sobol_samples(bounds, n=raw_samples, q=q, seed=seed).to(bounds)
    if q == 2:  # the two sides of a duel share their context
        X[:, 1, list(space.context_dims)] = X[:, 0, list(space.context_dims)]
    for column, value in (fixed_features or {}).items():
        X[..., column] = value
    with torch.no_grad():
        best = nested.screen(X).topk(min(num_restarts, raw_samples)).indices
        X = X[best]
        inner = space.at_reference(nested.inner_starts(X))
    return torch.cat([X, inner], dim=-2)


def maximize_knowledge_gradient(
    model: LaplaceGP,
    space: ContextSpace,
    decode: Callable[[Tensor], Tensor],
    bounds: Tensor,
    options: SearchOptions = SearchOptions(),  # noqa: B008
    seed: int | None = None,
) -> tuple[Tensor, Tensor]:
    r"""The variables whose trial has the largest knowledge gradient.

    Starts are chosen by the nested form among the searched points; from there the trial
    and the two inner maximisers climb together, as in the one-shot form.

    Args:
        model: A model of pass/fail outcomes or duels.
        space: The box of the trials.
        decode: Maps ``r x batch_shape x k`` variables to trials.
        bounds: The ``2 x k`` bounds of the variables.
        options: The effort of the search.
        seed: The seed of the search.

    Returns:
        The variables, ``batch_shape x k``, and the knowledge gradient, ``batch_shape``.
    """
    nested = ContextualBinaryKnowledgeGradient(model, space)
    one_shot = OneShotContextualBinaryKnowledgeGradient(
        model, space, current_value=nested.current_value
    )
    k = bounds.shape[-1]
    starts = find_starts(
        lambda u: nested.screen(decode(u)), bounds, model.batch_shape, options, seed
    )
    inner = nested.inner_starts(decode(starts)).flatten(-2)
    variables, value = maximize_from(
        lambda u: one_shot.evaluate(
            decode(u[..., :k]), u[..., k:].unflatten(-1, (2, -1))
        ),
        torch.cat([starts, inner], dim=-1),
        torch.cat([bounds] + [space.parameter_bounds] * 2, dim=-1),
        options,
    )
    return variables[..., :k], value


def maximize_posterior_mean(
    model: LaplaceGP,
    space: ContextSpace,
    options: SearchOptions = SearchOptions(),  # noqa: B008
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    r"""The maximum of the posterior mean in the reference context.

    Args:
        model: A model of pass/fail outcomes or duels.
        space: The box of the trials.
        options: The effort of the search.
        seed: The seed of the search.

    Returns:
        The maximisers, ``batch_shape x (d - m)`` parameters, and the maxima,
        ``batch_shape``.
    """

    def mean_at(parameters: Tensor) -> Tensor:
        return model.posterior_mean(
            space.at_reference(parameters).unsqueeze(-2)
        ).squeeze(-1)

    low, high = space.parameter_bounds
    train = space.parameters(model.original_datapoints).clamp(low, high)
    starts = _best_rows(mean_at, train)
    return maximize(
        mean_at, space.parameter_bounds, model.batch_shape, options, starts, seed
    )


def _best_rows(function: Any, rows: Tensor) -> Tensor | None:
    """The best of ``batch_shape x m x k`` rows, as one start."""
    if rows.shape[-2] == 0:
        return None
    with torch.no_grad():
        values = function(rows.movedim(-2, 0))
    index = values.argmax(dim=0)[..., None, None].expand(
        *rows.shape[:-2], 1, rows.shape[-1]
    )
    return rows.gather(-2, index).movedim(-2, 0).detach()
