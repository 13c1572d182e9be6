r"""
Sample paths: functions drawn from the posterior of a model.

A decoupled path is a function drawn from the prior, a finite sum of features, plus the
exact update by the data in terms of the kernel [Wilson2020efficiently]_, so that the
features need not resolve the data. Paths in weight space, which condition the features
themselves, are included for comparison: away from the data their variance is often too
large, and with few features and many trials far too small.

.. [Wilson2020efficiently]
    J. T. Wilson, V. Borovitskiy, A. Terenin, P. Mostowsky, M. P. Deisenroth.
    Efficiently sampling functions from Gaussian process posteriors. ICML 2020.
"""

from __future__ import annotations

from typing import Any

import torch
from botorch.exceptions import UnsupportedError
from botorch.models.transforms.input import ChainedInputTransform
from botorch.sampling.pathwise.paths import SamplePath
from botorch.utils.sampling import manual_seed
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from botorch_binary_context.checks import check_count
from botorch_binary_context.inference.gaussian import solve_columns
from botorch_binary_context.likelihoods.best_of import ContestLikelihood
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.sampling.basis import Features, weighted_sum
from botorch_binary_context.sampling.features import FeatureOptions, kernel_features

# The noise of exact paths, in units of the noise of a trial, which is one.
PATH_NOISE = 0.03
NUM_CONTRASTS = 256
MAX_CORNER_DIM = 12  # of boxes with few enough corners to transform each of them


class PosteriorSamplePaths(SamplePath):
    r"""Functions drawn from the posterior of the latent function.

    Points are broadcast against the paths as everywhere in BoTorch: the batch
    dimensions of ``X`` end in ``sample_shape x batch_shape``, or in ``batch_shape`` if
    all paths are evaluated at the same points.

    Example:
        >>> paths = draw_sample_paths(model, 16, bounds=space.bounds)
        >>> paths(X)  # q x d points: 16 x q values
        >>> paths(X.unsqueeze(-3))  # batch x q x d points: batch x 16 x q values
    """

    def __init__(
        self,
        model: LatentGP,
        features: Features,
        weights: Tensor,
        update: Tensor | None,
    ) -> None:
        r"""
        Args:
            model: The model; its hyperparameters must not change while the paths live.
            features: Features of the kernel.
            weights: The weights of the features, ``sample_shape x batch_shape x m``.
            update: The weights of the kernel at the training contrasts,
                ``sample_shape x batch_shape x n``; None for paths in weight space.
        """
        super().__init__()
        self.model = model
        self.input_transform = getattr(model, "input_transform", None)
        self.features = features
        self.weights = weights
        self.prior = features.weigh(weights)
        self.update = update

    def forward(self, X: Tensor) -> Tensor:
        r"""Evaluate the paths.

        Args:
            X: Points, ``... x sample_shape x batch_shape x q x d`` or
                ``batch_shape x q x d``.

        Returns:
            A ``... x sample_shape x batch_shape x q`` tensor.
        """
        values = self.model.prior_mean(X) + self.prior(X)
        if self.update is None:
            return values
        cross = self.model.prior_covariance(X, self.model.datapoints)
        return values + weighted_sum(self.model.trial_functional(cross), self.update)

    def contrast(self, X: Tensor) -> Tensor:
        r"""What trials observe of the paths: for duels the difference of the values.

        Args:
            X: As in :meth:`forward`; for duels consecutive rows are pairs.

        Returns:
            The contrasts of the trials, antisymmetric in the two sides of a duel.
        """
        return self.model.functional(self(X))

    def set_ensemble_as_batch(self, ensemble_as_batch: bool) -> None:
        r"""Nothing to do: the model is not an ensemble.

        Args:
            ensemble_as_batch: Not used.
        """


def draw_sample_paths(
    model: LatentGP,
    num_paths: int | torch.Size = 1,
    bounds: Tensor | None = None,
    max_features: int = 2048,
    seed: int | None = None,
) -> PosteriorSamplePaths:
    r"""Draw functions from the posterior by decoupled bases.

    ``f(·) = m(·) + φ(·)ᵀω + k(·,X) (a - W½ B⁻¹ (W½ Φω + ε))`` with ``ω`` and ``ε``
    standard normal: Matheron's rule (Eq. S42 of [Fauvel2022contextual]_) for a Gaussian
    approximation, in a form that never divides by the information ``W`` of a saturated
    trial.

    Args:
        model: A model of pass/fail outcomes or duels.
        num_paths: The number of paths, or the shape of the set of paths. Each path has
            one function for each element of the batch of models.
        bounds: The ``2 x d`` box in which the paths are evaluated. Within it, the
            prior has Hilbert-space features; without it, or in many dimensions, random
            Fourier features.
        max_features: The maximum number of features of each stationary part of the
            kernel.
        seed: The seed of the draw.
    """
    with torch.no_grad(), manual_seed(seed):
        features, weights = _draw_prior(model, num_paths, bounds, max_features)
        values = weighted_sum(features(model.datapoints), weights)
        contrasts = model.draw_shared_noise(model.trial_functional(values))
        update = model.approximation.draw_weights(contrasts)
    return PosteriorSamplePaths(model, features, weights, update)


def draw_exact_paths(
    model: LatentGP,
    num_paths: int = 1,
    bounds: Tensor | None = None,
    max_features: int = 2048,
    seed: int | None = None,
    num_contrasts: int = NUM_CONTRASTS,
) -> PosteriorSamplePaths:
    r"""Draw functions from the true posterior, without a Gaussian approximation.

    Each path passes through a draw of the training contrasts, by Matheron's rule with a
    little noise, which keeps it well conditioned where trials are repeated.

    Args:
        model: A model of pass/fail outcomes or duels.
        num_paths: The number of paths. Each has one function for each element of the
            batch of models.
        bounds: The ``2 x d`` box in which the paths are evaluated.
        max_features: The maximum number of features of each stationary part of the
            kernel.
        seed: The seed of the draw.
        num_contrasts: The number of draws of the training contrasts, which the model
            caches; the first of them are used.

    Example:
        >>> paths = draw_exact_paths(model, 64, bounds=space.bounds, seed=0)
        >>> low, high = paths(X).quantile(torch.tensor([0.05, 0.95]).to(X), dim=0)
    """
    with torch.no_grad(), manual_seed(seed):
        features, weights = _draw_prior(model, num_paths, bounds, max_features)
        samples = model.sample_contrasts(max(num_paths, num_contrasts), seed or 0)
        target = samples.values[:num_paths] - samples.prior_mean
        prior = model.trial_functional(
            weighted_sum(features(model.datapoints), weights)
        )
        prior = model.draw_shared_noise(prior)
        # Noise of the prior function and of the values it should pass through.
        noise = 2**0.5 * PATH_NOISE * torch.randn_like(prior)
        system = samples.K.clone()
        system.diagonal(dim1=-2, dim2=-1).add_(PATH_NOISE**2)
        error = target - prior + noise
        update = solve_columns(psd_safe_cholesky(system), error)
    return PosteriorSamplePaths(model, features, weights, update)


def draw_weight_space_paths(
    model: LatentGP,
    num_paths: int | torch.Size = 1,
    bounds: Tensor | None = None,
    max_features: int = 2048,
    noise: float = 0.1,
    seed: int | None = None,
) -> PosteriorSamplePaths:
    r"""Draw functions from the posterior of a Bayesian linear model of the features.

    The two steps of supplement 7.2 of [Fauvel2022contextual]_: latent values at the
    training trials from their approximate posterior, then weights given these values.
    Away from the data the variance is wrong: it is far too small with few features and
    many trials, and too large where features oscillate between data. The variance of
    :func:`draw_sample_paths` is right.

    Args:
        model: A model of pass/fail outcomes or duels.
        num_paths: The number of paths, or the shape of the set of paths.
        bounds: The ``2 x d`` box in which the paths are evaluated.
        max_features: The maximum number of features of each stationary part of the
            kernel.
        noise: The standard deviation, relative to the prior's, of the errors with which
            the features fit the latent values.
        seed: The seed of the draw.
    """
    with torch.no_grad(), manual_seed(seed):
        _refuse_contests(model)
        features, weights = _draw_prior(model, num_paths, bounds, max_features)
        latent = _draw_training_values(model, weights.shape[:-1])
        Phi = model.trial_functional(features(model.datapoints), dim=-2)
        gram = Phi @ Phi.mT
        sigma = noise * gram.diagonal(dim1=-2, dim2=-1).mean(-1).sqrt()
        error = (
            latent
            - weighted_sum(Phi, weights)
            - sigma[..., None] * torch.randn_like(latent)
        )
        gram.diagonal(dim1=-2, dim2=-1).add_(sigma[..., None] ** 2)
        solution = solve_columns(psd_safe_cholesky(gram), error)
        weights = weights + weighted_sum(Phi.mT, solution)
    return PosteriorSamplePaths(model, features, weights, update=None)


def _refuse_contests(model: LatentGP) -> None:
    if any(isinstance(known, ContestLikelihood) for known in model.kinds):
        raise UnsupportedError(
            "Expected ``model`` to have no contests, whose noise is not that of "
            "features, but got some: use ``draw_sample_paths``."
        )


def _draw_prior(
    model: LatentGP,
    num_paths: int | torch.Size,
    bounds: Tensor | None,
    max_features: int,
) -> tuple[Features, Tensor]:
    """Features of the kernel, and a set of weights for each path and model."""
    model.eval()
    sample_shape = num_paths if isinstance(num_paths, tuple) else (num_paths,)
    for size in sample_shape:
        check_count("num_paths", size, least=0)
    rows = model.datapoints
    if bounds is not None:
        bounds = _transform_box(model, bounds.to(rows))
    options = FeatureOptions(bounds, rows.shape[-1], max_features)
    features = kernel_features(model.covar_module, options)
    shape = (*sample_shape, *model.batch_shape, features.size)
    return features, torch.randn(shape, dtype=rows.dtype, device=rows.device)


def _transform_box(model: LatentGP, bounds: Tensor) -> Tensor | None:
    """A box in the model's coordinates around a box; None if it takes too long."""
    if bounds.shape[-1] > MAX_CORNER_DIM:
        return None
    for transform in _transforms(model):
        if hasattr(transform, "transform_box"):
            bounds = transform.transform_box(bounds)
        else:  # linear or monotonic: the ends are at corners
            corners = torch.cartesian_prod(*bounds.unbind(dim=-1))
            corners = transform(corners.reshape(-1, bounds.shape[-1]))
            ends = [corners.amin(dim=-2), corners.amax(dim=-2)]
            bounds = torch.stack(ends, dim=-2)
    return bounds


def _transforms(model: LatentGP) -> list[Any]:
    """The input transforms of a model, one after the other."""
    transform: Any = getattr(model, "input_transform", None)
    if isinstance(transform, ChainedInputTransform):
        return list(transform.values())
    return [] if transform is None else [transform]


def _draw_training_values(model: LatentGP, sample_shape: torch.Size) -> Tensor:
    """Draws of the training contrasts' posterior, relative to the prior mean."""
    K = model.approximation.prior_covariance
    shape = (*sample_shape, K.shape[-1])
    prior = torch.randn(shape, dtype=K.dtype, device=K.device)
    # Trials near each other make the matrix singular, which this root of it tolerates.
    eigenvalues, eigenvectors = torch.linalg.eigh(K)
    prior = weighted_sum(
        eigenvectors * eigenvalues.clamp_min(0.0).sqrt()[..., None, :], prior
    )
    return prior + weighted_sum(K, model.approximation.draw_weights(prior))
