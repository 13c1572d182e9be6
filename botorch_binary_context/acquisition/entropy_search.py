r"""
Contextual joint entropy search: trials that teach most about the optimum itself.

.. [Hvarfner2022joint]
    C. Hvarfner, F. Hutter, L. Nardi. Joint entropy search for maximally-informed
    Bayesian optimization. NeurIPS 2022.
"""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_binary_context.acquisition.base import (
    TrialAcquisitionFunction,
    match_space,
)
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.functionals import VALUE
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.covariance import clamp_variance
from botorch_binary_context.numerics.optim import SearchOptions, maximize
from botorch_binary_context.probability import bernoulli_entropy
from botorch_binary_context.sampling.paths import (
    PosteriorSamplePaths,
    draw_sample_paths,
)

PATH_SEARCH = SearchOptions(num_restarts=4, raw_samples=512, max_evaluations=40)
# For many paths at once: their maxima need not be exact to say where optima may lie.
ROUGH_PATH_SEARCH = SearchOptions(2, 512, max_evaluations=20, relative_gain=1e-5)
MAX_FEATURES = 1024


def maximize_paths(
    paths: PosteriorSamplePaths,
    space: ContextSpace,
    seed: int = 0,
    options: SearchOptions = PATH_SEARCH,
) -> tuple[Tensor, Tensor]:
    r"""The maxima of sample paths in the reference context.

    Args:
        paths: The paths.
        space: The box of the trials.
        seed: The seed of the search.
        options: The effort of the search.

    Returns:
        The maximisers, ``sample_shape x batch_shape x (d - m)`` parameters, and the
        maxima, ``sample_shape x batch_shape``.
    """

    def values_at(parameters: Tensor) -> Tensor:
        return paths(space.at_reference(parameters).unsqueeze(-2)).squeeze(-1)

    shape = paths.weights.shape[:-1]
    return maximize(values_at, space.parameter_bounds, shape, options, seed=seed)


class ContextualJointEntropySearch(TrialAcquisitionFunction):
    r"""The information of a trial about where the optimum is and how good it is.

    With ``M`` functions drawn from the posterior, ``(x*_m, f*_m)`` their maxima in the
    reference context and ``p_m`` the success probability after conditioning the
    Gaussian posterior on ``f(s₀, x*_m) = f*_m`` (a rank-one update),

        ``α(s,x) = H(p) - (1/M) Σ_m H(p_m)``

    with the predictive ``p`` of the model, joint in the context and the parameters, as
    joint entropy search [Hvarfner2022joint]_ is for Gaussian observations. With
    ``mixture=True`` the mean ``p̄`` of the ``p_m`` takes the place of ``p``: the value
    is then never negative. On a preference model a candidate is a duel (``q = 2``).

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
    ) -> None:
        r"""
        Args:
            model: A model of pass/fail outcomes or duels.
            space: The box of the trials.
            num_paths: The number ``M`` of functions drawn from the posterior.
            mixture: Whether the first entropy is that of the mixture of the conditioned
                predictions, or of the model's prediction.
            seed: The seed of the draw.
        """
        super().__init__(model)
        space = match_space(space, model)
        paths = draw_sample_paths(model, num_paths, space.bounds, MAX_FEATURES, seed)
        optima, values = maximize_paths(paths, space, options=ROUGH_PATH_SEARCH)
        self.mixture = mixture
        self.set_optima(
            space.at_reference(optima).movedim(0, -2), values.movedim(0, -1)
        )

    def set_optima(self, optima: Tensor, values: Tensor) -> None:
        r"""Set the optima that candidates are to be informative about.

        Args:
            optima: ``batch_shape x M x d`` points in the reference context.
            values: The values there, ``batch_shape x M``.
        """
        with torch.no_grad():
            # Of all optima at once: they are rows of one matrix.
            self.optima = self.model.values_of(
                optima.movedim(-2, 0)[..., None, :], VALUE
            )
            # With the candidate's k, the explained part of the covariance.
            self.projected = self.optima.project()  # batch_shape x n x M
            mean, self.variance = self.optima.moments()
            self.surprise = (values - mean) / self.variance  # batch_shape x M

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
        covar = candidates.covariance(self.optima, self.projected)
        explained = covar.square() / self.variance.unsqueeze(-2)
        conditioned = likelihood.expected_probability(
            mean.unsqueeze(-1) + covar * self.surprise.unsqueeze(-2),
            clamp_variance(squares.unsqueeze(-1) - explained),
        )  # batch_shape x T x M
        if self.mixture:
            predicted = conditioned.mean(dim=-1)
        else:
            predicted = likelihood.expected_probability(mean, squares)
        known = bernoulli_entropy(conditioned).mean(dim=-1)
        return candidates.unfold(bernoulli_entropy(predicted) - known)
