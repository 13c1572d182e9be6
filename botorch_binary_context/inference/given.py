r"""
The posterior given what trials observe: Gaussian process regression.

Given a draw of the contrasts of the training trials from their true posterior, the
latent function is Gaussian. A model that is conditioned on one such draw, a
*hallucination* [Takeno2023hallucination]_, is one of the functions that the true,
skewed posterior is a mixture of.

.. [Takeno2023hallucination]
    S. Takeno, M. Nomura, M. Karasuyama. Towards practical preferential Bayesian
    optimization with skew Gaussian processes. ICML 2023.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_binary_context.inference.gaussian import (
    GaussianApproximation,
    Inference,
    Start,
    TrialLikelihood,
    factorize,
)

# A little noise keeps the covariance well conditioned where trials repeat each other.
NOISE = 0.03


@dataclass(frozen=True, kw_only=True)
class GivenApproximation(GaussianApproximation):
    r"""The posterior given the values of the contrasts, up to a little noise.

    Attributes:
        values: The contrasts, ``batch_shape x n``.
    """

    values: Tensor

    @property
    def log_evidence(self) -> Tensor:
        r"""The log density of the values, ``batch_shape``."""
        error = self.values - self.prior_mean
        square = (error * self.weights).sum(dim=-1)
        diagonal = self.cholesky.diagonal(dim1=-2, dim2=-1)
        logs = 2 * (diagonal.log() - self.sqrt_information.log()).sum(dim=-1)
        return -(square + logs + error.shape[-1] * math.log(2 * math.pi)) / 2

    @property
    def start(self) -> Start:
        r"""Empty, since there is no search to start."""
        return Start(torch.zeros_like(self.values).unsqueeze(-1))

    def as_sites(self) -> Tensor:
        r"""The site parameters ``τ`` and ``ν``, ``batch_shape x n x 2``."""
        precision = self.sqrt_information.square()
        return torch.stack([precision, precision * self.values], dim=-1)


class GivenContrasts(Inference):
    r"""Inference with given contrasts of the training trials; labels are ignored.

    Example:
        >>> draws = model.sample_contrasts(256).values
        >>> hallucinated = model.with_inference(GivenContrasts(draws[0]))
    """

    def __init__(self, values: Tensor, noise: float = NOISE) -> None:
        r"""
        Args:
            values: The contrasts, ``batch_shape x n``.
            noise: The standard deviation of their noise.
        """
        self.values = values
        self.noise = noise

    def approximate(
        self,
        likelihood: TrialLikelihood,
        prior_mean: Tensor,
        K: Tensor,
        targets: Tensor,
        start: Start | None = None,
    ) -> GivenApproximation:
        r"""The posterior given the contrasts.

        Args:
            likelihood: Not used.
            prior_mean: The prior mean ``m``, ``batch_shape x n``.
            K: The prior covariance, ``batch_shape x n x n``.
            targets: Not used.
            start: Not used.
        """
        values = self.values.to(K).expand_as(prior_mean)
        root = torch.full_like(values, 1.0 / self.noise)
        cholesky = factorize(K, root)
        scaled = (root * (values - prior_mean)).unsqueeze(-1)
        weights = root * torch.cholesky_solve(scaled, cholesky).squeeze(-1)
        return GivenApproximation(
            prior_mean=prior_mean,
            prior_covariance=K,
            weights=weights,
            sqrt_information=root,
            cholesky=cholesky,
            values=values,
        )

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)
