r"""The posterior of a small model, and what two of them have in common."""

from __future__ import annotations

import torch
from botorch.posteriors import GPyTorchPosterior
from torch import Tensor

from botorch_binary_context import LabelPosterior
from tests.small_models import AnyModel


def latent(model: AnyModel, X: Tensor) -> GPyTorchPosterior:
    """The posterior of the latent function at points."""
    posterior = model.posterior(X)
    assert isinstance(posterior, GPyTorchPosterior)
    return posterior


def label_posterior(model: AnyModel, X: Tensor) -> LabelPosterior:
    """The posterior of the labels of trials at points."""
    posterior = model.posterior(X, observation_noise=True)
    assert isinstance(posterior, LabelPosterior)
    return posterior


def latent_covariance(model: AnyModel, X: Tensor) -> Tensor:
    """The joint covariance of the latent values at points."""
    covariance_matrix = latent(model, X).distribution.covariance_matrix
    assert isinstance(covariance_matrix, Tensor)
    return covariance_matrix


def assert_same_posterior(
    first: AnyModel, second: AnyModel, X: Tensor, second_X: Tensor | None = None
) -> None:
    """Both moments of the latent posterior agree to 1e-10."""
    second_X = X if second_X is None else second_X
    means = latent(first, X).mean, latent(second, second_X).mean
    torch.testing.assert_close(*means, rtol=0, atol=1e-10)
    covariances = latent_covariance(first, X), latent_covariance(second, second_X)
    torch.testing.assert_close(*covariances, rtol=0, atol=1e-10)
