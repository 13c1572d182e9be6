r"""
Contextual joint entropy search: trials that are most informative about the optimum.

.. [Hvarfner2022joint]
    C. Hvarfner, F. Hutter, L. Nardi. Joint entropy search for maximally-informed
    Bayesian optimization. NeurIPS 2022.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from botorch_binary_context.acquisition.base import (
    TrialAcquisitionFunction,
    match_space,
)
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.functionals import VALUE, Functional
from botorch_binary_context.goals import AtReference, Goal, LinearGoal
from botorch_binary_context.goals.sampled import joint_root
from botorch_binary_context.models.functional_values import FunctionalValues
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.covariance import clamp_variance
from botorch_binary_context.numerics.optim import (
    SearchOptions,
    avoid,
    choose_best,
    maximize,
)
from botorch_binary_context.probability import entropy
from botorch_binary_context.sampling.paths import (
    PosteriorSamplePaths,
    draw_sample_paths,
)

PATH_SEARCH = SearchOptions(num_restarts=4, raw_samples=512, max_evaluations=40)
# The maxima of many paths need not be exact to show where optima may be.
ROUGH_PATH_SEARCH = SearchOptions(2, 512, max_evaluations=20, relative_gain=1e-5)
MAX_FEATURES = 1024
NUM_TRIAL_STARTS = 2
# With more parameters than this, so few points miss peaks: use twice as many.
FEW_PARAMETERS = 3


def maximize_paths(
    paths: PosteriorSamplePaths,
    space: ContextSpace,
    seed: int = 0,
    options: SearchOptions = PATH_SEARCH,
    goal: Goal = AtReference(),  # noqa: B008
    slack: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    r"""The maxima of a goal on sample paths.

    Args:
        paths: The paths.
        space: The box of the trials.
        seed: The seed of the search.
        options: The effort of the search.
        goal: What the parameters should be good at.
        slack: Maps parameters to numbers that are negative where they may not be
            recommended; None if all may be.

    Returns:
        The maximizers, ``sample_shape x batch_shape x (d - m)`` parameters, and the
        maxima, ``sample_shape x batch_shape``.
    """

    def values_at(parameters: Tensor) -> Tensor:
        values = goal.combine(paths(goal.rows(space, parameters)), paths.model)
        return values if slack is None else avoid(values, slack(parameters))

    shape = paths.weights.shape[:-1]
    starts = _best_trials(values_at, paths, space, shape)
    bounds = space.parameter_bounds
    if bounds.shape[-1] > FEW_PARAMETERS:
        options = replace(
            options,
            num_restarts=2 * options.num_restarts,
            raw_samples=2 * options.raw_samples,
        )
    return maximize(values_at, bounds, shape, options, starts, seed)


def _best_trials(
    values_at: Callable[[Tensor], Tensor],
    paths: PosteriorSamplePaths,
    space: ContextSpace,
    shape: torch.Size,
) -> Tensor | None:
    """The parameters of training trials that are best on each path, as starts."""
    model = paths.model
    train = space.parameters(model.original_datapoints).movedim(-2, 0)
    if len(train) == 0:
        return None
    extra = len(shape) - len(model.batch_shape)
    train = train.reshape(len(train), *[1] * extra, *train.shape[1:])
    train = train.clamp(*space.parameter_bounds).expand(-1, *shape, -1)
    with torch.no_grad():
        return choose_best(train, values_at(train), NUM_TRIAL_STARTS)


@dataclass(frozen=True)
class KnownOptima:
    r"""The posterior that would follow if the optimum of a function were known.

    The optimum of each of ``M`` functions is given by ``R`` numbers: one for a linear
    goal, for other goals its value in each context.

    Attributes:
        values: The numbers, ``M R`` in all.
        projected: ``values.project()``, ``batch_shape x n x (M R)``.
        root: A factor of their covariance, ``batch_shape x M x R x R``.
        surprise: Their deviation from expectation, in the coordinates of the factor,
            ``batch_shape x M x R``.
    """

    values: FunctionalValues
    projected: Tensor
    root: Tensor
    surprise: Tensor

    @classmethod
    def of(
        cls,
        model: LatentGP,
        rows: Tensor,
        values: Tensor,
        functional: Functional | None = None,
    ) -> KnownOptima:
        r"""Optima that are given by the values of the latent function.

        Args:
            model: The model.
            rows: The rows of the optima, ``M x batch_shape x K x d``.
            values: A functional of the rows, ``M x batch_shape``, or the latent values
                of all of them, ``M x batch_shape x K``.
            functional: The functional, or None.

        Returns:
            The optima, without a graph.
        """
        with torch.no_grad():
            if functional is None:
                rows = rows.movedim(-2, 1).flatten(0, 1).unsqueeze(-2)
            else:
                values = values.unsqueeze(-1)
            number = values.shape[0]
            size = values.shape[-1]
            # Of all optima at once: they are rows of one matrix.
            known = model.values_of(rows, VALUE if functional is None else functional)
            projected = known.project()  # batch_shape x n x (M R)
            mean, variance = known.moments()
            root = variance.sqrt()[..., None, None]
            if size > 1:
                root = _blocks(known.covariance(known, projected), number)
                root = joint_root(root)
            gap = values.movedim(0, -2) - mean.unflatten(-1, (number, size))
            return cls(known, projected, root, _solve(root, gap.unsqueeze(-1)))

    def expected_probabilities(
        self, candidates: FunctionalValues, mean: Tensor, variance: Tensor
    ) -> Tensor:
        r"""The probabilities of candidates' outcomes if one optimum were known.

        Args:
            candidates: What the candidates observe.
            mean: The posterior mean of what they observe, ``batch_shape x T``.
            variance: The posterior variance of what they observe, ``batch_shape x T``.

        Returns:
            A ``num_outcomes x batch_shape x T x M`` tensor.
        """
        covar = candidates.covariance(self.values, self.projected)
        number = self.root.shape[-3]
        # batch_shape x M x R x T
        covar = covar.unflatten(-1, (number, -1)).movedim(-3, -1)
        loading = torch.linalg.solve_triangular(self.root, covar, upper=False)
        shift = (loading * self.surprise.unsqueeze(-1)).sum(dim=-2).mT
        explained = loading.square().sum(dim=-2).mT
        means = mean.unsqueeze(-1) + shift
        left = clamp_variance(variance.unsqueeze(-1) - explained)
        expected = self.values.model.likelihood.expected_probabilities
        probabilities = expected(means.flatten(-2), left.flatten(-2))
        return probabilities.unflatten(-1, means.shape[-2:])


def _solve(root: Tensor, gap: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(root, gap, upper=False).squeeze(-1)


def _blocks(covar: Tensor, number: int) -> Tensor:
    """The blocks on the diagonal of ``... x (M R) x (M R)``, ``... x M x R x R``."""
    blocks = covar.unflatten(-1, (number, -1)).unflatten(-3, (number, -1))
    return blocks.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)


class ContextualJointEntropySearch(TrialAcquisitionFunction):
    r"""The information of a trial about where the optimum is and how good it is.

    With ``M`` functions drawn from the posterior, ``(x*_m, f*_m)`` their maxima in the
    reference context and ``p_m`` the probabilities of the outcomes after conditioning
    the Gaussian posterior on ``f(s₀, x*_m) = f*_m`` (a rank-one update),

        ``α(s,x) = H(p) - (1/M) Σ_m H(p_m)``

    with the predictive ``p`` of the model, joint in the context and the parameters, as
    joint entropy search [Hvarfner2022joint]_ is for Gaussian observations. With
    ``mixture=True`` the mean ``p̄`` of the ``p_m`` replaces ``p``: the value is then
    never negative. On a preference model a candidate is a duel (``q = 2``).

    Example:
        >>> acqf = ContextualJointEntropySearch(model, space)
        >>> acqf(X)  # of b x 1 x d trials
    """

    def __init__(
        self,
        model: LatentGP,
        space: ContextSpace,
        num_paths: int = 16,
        mixture: bool = False,
        seed: int | None = None,
        goal: Goal = AtReference(),  # noqa: B008
        X_pending: Tensor | None = None,
    ) -> None:
        r"""
        Args:
            model: A model of pass/fail outcomes or duels.
            space: The box of the trials.
            num_paths: The number ``M`` of functions drawn from the posterior.
            mixture: Whether the first entropy is that of the mixture of the conditioned
                predictions instead of the model's prediction.
            seed: The seed of the draw.
            goal: What the parameters should be good at.
            X_pending: The rows of pending trials.
        """
        super().__init__(model)
        self.space = match_space(space, self.model)
        self.goal = goal
        self.mixture = mixture
        self._draw = num_paths, seed
        self.set_X_pending(X_pending)

    def prepare(self) -> None:
        r"""Draw functions, and find their optima."""
        space = self.space
        number, seed = self._draw
        paths = draw_sample_paths(self.model, number, space.bounds, MAX_FEATURES, seed)
        optima, values = maximize_paths(
            paths, space, options=ROUGH_PATH_SEARCH, goal=self.goal
        )
        self.optima = optima  # M x batch_shape x (d - m)
        rows = self.goal.rows(space, optima)  # M x batch_shape x K x d
        if isinstance(self.goal, LinearGoal):
            self.known = KnownOptima.of(self.model, rows, values, self.goal.functional)
        else:
            self.known = KnownOptima.of(self.model, rows, paths(rows))

    def set_optima(self, optima: Tensor, values: Tensor) -> None:
        r"""Set the optima that candidates should be informative about.

        Args:
            optima: ``batch_shape x M x d`` points in one context.
            values: The values there, ``batch_shape x M``.
        """
        rows = optima.movedim(-2, 0).unsqueeze(-2)
        self.known = KnownOptima.of(self.model, rows, values.movedim(-1, 0), VALUE)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The information about the optimum.

        Args:
            X: ``t x batch_shape x 1 x d`` trials or ``t x batch_shape x 2 x d`` duels.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        likelihood = self.model.likelihood
        candidates = self.model.values_of(X)
        mean, squares = candidates.moments()  # batch_shape x T
        conditioned = self.known.expected_probabilities(candidates, mean, squares)
        if self.mixture:
            predicted = conditioned.mean(dim=-1)
        else:
            predicted = likelihood.expected_probabilities(mean, squares)
        known = entropy(conditioned).mean(dim=-1)
        return candidates.unfold(entropy(predicted) - known)
