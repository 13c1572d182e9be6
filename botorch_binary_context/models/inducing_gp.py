r"""
A model of very many trials, summarized by the latent values at a few points.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models.transforms.input import InputTransform
from botorch.models.utils.inducing_point_allocators import GreedyVarianceReduction
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from gpytorch.mlls import MarginalLogLikelihood
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from botorch_binary_context.checks import check_count
from botorch_binary_context.functionals import VALUE, StackedFunctional
from botorch_binary_context.inference.inducing import (
    InducingApproximation,
    InducingPrior,
    approximate_inducing,
)
from botorch_binary_context.likelihoods import (
    OutcomeLikelihood,
    PreferenceLikelihood,
    ProbitLikelihood,
)
from botorch_binary_context.models.fitting import fit
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.models.mll import ApproximateMarginalLogLikelihood
from botorch_binary_context.models.observations import Observations
from botorch_binary_context.numerics.batching import fold
from botorch_binary_context.numerics.covariance import covariance

INDUCING_POINTS = 256
# The maximum number of rows from which inducing points are chosen.
MAX_CANDIDATES = 4096
# The maximum number of trials from which hyperparameters are learned.
MAX_FIT_TRIALS = 600
# The number of trials whose covariances with the inducing points are computed at once.
CHUNK = 4096


class InducingGP(LatentGP):
    r"""A model of up to a hundred thousand trials, whose cost grows linearly.

    The trials are summarized by the latent values at a few inducing points, spread over
    their rows, by variational inference (see
    :mod:`botorch_binary_context.inference.inducing`). Rules that use only moments of
    the posterior work on it. Rules that imagine further answers one by one (``cbkg``),
    draws from the true posterior, and averages over hyperparameters need a model of all
    trials.

    Example:
        >>> model = InducingGP(pairs, train_Y, inducing_points=200)  # n x 2 x d: duels
        >>> fit_gpytorch_mll(ApproximateMarginalLogLikelihood(model.likelihood, model))
        >>> suggest(model, space, "muc-ald")
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        likelihood: OutcomeLikelihood | None = None,
        inducing_points: int = INDUCING_POINTS,
        covar_module: Kernel | None = None,
        mean_module: Mean | None = None,
        input_transform: InputTransform | None = None,
    ) -> None:
        r"""
        Args:
            train_X: The trials, ``n x d``, or duels, ``n x 2 x d``.
            train_Y: Their labels, ``n x 1``.
            likelihood: By default a ``ProbitLikelihood`` of trials and a
                ``PreferenceLikelihood`` of duels.
            inducing_points: The maximum number of inducing points.
            covar_module: The kernel of the latent function. By default a squared
                exponential with priors, for inputs in the unit cube.
            mean_module: The prior mean of the latent function, by default zero.
            input_transform: Applied to the inputs of trials and of test points.
        """
        check_count("inducing_points", inducing_points)
        if likelihood is None:
            is_duels = train_X.ndim == 3
            likelihood = PreferenceLikelihood() if is_duels else ProbitLikelihood()
        if train_X.ndim != 1 + likelihood.functional.trial_dim or not len(train_X):
            raise InputDataError(
                "Expected ``train_X`` to be some ``n x d`` trials or ``n x 2 x d`` "
                f"duels without a batch, but got shape {list(train_X.shape)}."
            )
        super().__init__(
            [Observations(train_X, train_Y, likelihood)],
            covar_module=covar_module,
            mean_module=mean_module,
            input_transform=input_transform,
        )
        self._num_inducing = inducing_points
        self._chosen: Tensor | None = None

    @property
    def inducing_rows(self) -> Tensor:
        """Which rows of the trials are inducing points."""
        if self._chosen is None:
            self.eval()
            rows = super().datapoints
            candidates = _evenly_spaced(len(rows), MAX_CANDIDATES, rows.device)
            with torch.no_grad():
                points = GreedyVarianceReduction().allocate_inducing_points(
                    inputs=rows[candidates],
                    covar_module=self.covar_module,
                    num_inducing=min(self._num_inducing, len(candidates)),
                    input_batch_shape=torch.Size(),
                )
            same = (rows[candidates].unsqueeze(-3) == points.unsqueeze(-2)).all(dim=-1)
            self._chosen = candidates[same.to(torch.uint8).argmax(dim=-1)]
        return self._chosen

    @property
    def datapoints(self) -> Tensor:
        r"""The inducing points, ``m x d``, which stand for the rows of the trials."""
        return super().datapoints[self.inducing_rows]

    @property
    def original_datapoints(self) -> Tensor:
        r"""The inducing points, before any input transform."""
        return super().original_datapoints[self.inducing_rows]

    @property
    def trial_functional(self) -> StackedFunctional:
        """What is observed at the inducing points: their values."""
        return StackedFunctional([(VALUE, len(self.inducing_rows))])

    def _approximate(self) -> InducingApproximation:
        with torch.no_grad():
            return approximate_inducing(
                self.trial_likelihood, self._prior(), self.train_targets, self._start
            )

    def _prior(self) -> InducingPrior:
        """The prior of the trials in terms of the inducing points."""
        functional = self.functional
        Z = self.datapoints
        rows = self._rows(self.train_inputs)
        K = covariance(self.covar_module, Z, Z)
        cholesky = psd_safe_cholesky(_lift(K))
        features = []
        for part in rows.split(CHUNK * functional.num_rows):
            cross = functional(covariance(self.covar_module, Z, part))
            features.append(torch.linalg.solve_triangular(cholesky, cross, upper=False))
        Phi = torch.cat(features, dim=-1)
        left = self.prior_variance(rows, functional) - Phi.square().sum(dim=-2)
        return InducingPrior(
            mean=functional(self.prior_mean(rows)),
            features=Phi,
            left=left.clamp_min(torch.finfo(left.dtype).eps),
            inducing_mean=self.prior_mean(Z),
            K=K,
            cholesky=cholesky,
        )

    def cross_covariance(self, X: Tensor) -> Tensor:
        r"""The prior covariance of the inducing points with latent values at points.

        Args:
            X: A ``t x q x d`` tensor of transformed points.

        Returns:
            An ``m x (t q)`` tensor.
        """
        return covariance(self.covar_module, self.datapoints, fold(X, 0))

    def custom_fit(
        self, mll: MarginalLogLikelihood, **kwargs: Any
    ) -> MarginalLogLikelihood:
        r"""Learn hyperparameters from several hundred trials, spread evenly over all.

        Args:
            mll: An ``ApproximateMarginalLogLikelihood`` of this model.
            kwargs: The arguments of ``fit_gpytorch_mll``.

        Returns:
            The marginal likelihood, in ``eval`` mode.
        """
        self.eval()
        targets = self.train_targets
        (trials,) = self.train_inputs
        chosen = _evenly_spaced(len(targets), MAX_FIT_TRIALS, targets.device)
        some = Observations(
            trials[chosen].detach(), targets[chosen].unsqueeze(-1), self.likelihood
        )
        model = LatentGP(
            [some], covar_module=self.covar_module, mean_module=self.mean_module
        )
        fit(ApproximateMarginalLogLikelihood(model.likelihood, model), **kwargs)
        self._drop_cache()
        self._chosen = None
        return mll.eval()

    @property
    def laplace_approximation(self) -> NoReturn:
        """Not available."""
        _refuse("Laplace's method, which ``cbkg`` and ``kg`` take,")

    def sample_contrasts(self, num_samples: int = 4096, seed: int = 0) -> NoReturn:
        r"""Not available.

        Args:
            num_samples: Not used.
            seed: Not used.
        """
        _refuse("draws from the true posterior,")

    def expand_data(self, shape: torch.Size) -> NoReturn:
        r"""Not available.

        Args:
            shape: Not used.
        """
        _refuse("batches and averages over hyperparameters,")

    def log_posterior_of_hyperparameters(self) -> NoReturn:
        """Not available."""
        _refuse("the evidence as a function of hyperparameters,")


def _refuse(what: str) -> NoReturn:
    raise UnsupportedError(
        f"Expected a model of all trials for {what} but got an ``InducingGP``: take a "
        "``BinaryGP`` or ``PreferenceGP`` of fewer trials, or another rule."
    )


def _evenly_spaced(number: int, most: int, device: torch.device) -> Tensor:
    """At most ``most`` indices, spread evenly over all."""
    count = min(number, most)
    return (torch.arange(count, device=device) * number) // max(count, 1)


def _lift(K: Tensor) -> Tensor:
    """Add a little variance, so that close points can be factored."""
    jitter = 1e-6 if K.dtype == torch.double else 1e-4
    return K + torch.diag_embed(jitter * K.diagonal(dim1=-2, dim2=-1))
