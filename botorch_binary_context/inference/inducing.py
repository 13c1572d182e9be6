r"""
A Gaussian approximation of the latent values at a few points, given very many trials.

With ``u`` the latent values at ``m`` inducing points, ``K = L Lᵀ`` their prior
covariance and ``u = m_u + L v``, the contrast of trial ``i`` is ``φ_iᵀ v`` plus a part
that the inducing points do not determine. The Gaussian ``q(v)`` that maximizes the
evidence lower bound [Hensman2015scalable]_ has one site ``exp(ν f - ½ τ f²)`` for each
trial, with ``τ = -E ∂² log p`` and ``ν = E ∂ log p + τ E f``. A sweep that sets all
sites to these values is a natural gradient step [Khan2017conjugate]_; it costs
``O(n m²)``.

.. [Hensman2015scalable]
    J. Hensman, A. Matthews, Z. Ghahramani. Scalable variational Gaussian process
    classification. AISTATS 2015.
.. [Khan2017conjugate]
    M. E. Khan, W. Lin. Conjugate-computation variational inference: converting
    variational inference in non-conjugate models to inferences in conjugate models.
    AISTATS 2017.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_binary_context.inference.gaussian import (
    GaussianApproximation,
    Start,
    TrialLikelihood,
    matvec,
)
from botorch_binary_context.inference.sites import Sites
from botorch_binary_context.numerics.notices import warn_of_inaccuracy
from botorch_binary_context.probability import hermite

TOLERANCE = 1e-5
MAX_SWEEPS = 100
SMALLEST_STEP = 0.1
NODES = 20


@dataclass(frozen=True, kw_only=True)
class InducingApproximation(GaussianApproximation):
    r"""A Gaussian approximation of the latent values at inducing points.

    They take the place of the training contrasts: ``prior_mean``,
    ``prior_covariance`` and ``weights`` belong to the inducing points, and ``cholesky``
    is the factor of ``B = I + Φ T Φᵀ``. ``sqrt_information`` is one for each of them.

    Attributes:
        root: ``R``, ``m x m``, with ``P = Rᵀ R``.
        unwhiten: ``L⁻ᵀ``, ``m x m``.
        sites: The sites of the trials, ``n`` each.
        bound: The lower bound of the log evidence, a scalar.
    """

    root: Tensor
    unwhiten: Tensor
    sites: Sites
    bound: Tensor

    @property
    def log_evidence(self) -> Tensor:
        r"""The lower bound of ``log p(c)``."""
        return self.bound

    @property
    def start(self) -> Start:
        """The site parameters."""
        return Start(self.as_sites())

    def as_sites(self) -> Tensor:
        r"""The site parameters ``τ`` and ``ν`` of the trials, ``n x 2``."""
        return self.sites.stack()

    def whiten(self, cross_covariance: Tensor) -> Tensor:
        r"""``V = R k*``; the explained covariance is ``VᵀV``.

        Args:
            cross_covariance: An ``m x q`` tensor ``k*``.

        Returns:
            An ``m x q`` tensor.
        """
        return self.root @ cross_covariance

    def project(self, cross_covariance: Tensor) -> Tensor:
        r"""``P k*``, so that the posterior covariance with ``k`` is ``k** - kᵀ P k*``.

        Args:
            cross_covariance: An ``m x q`` tensor ``k*``.

        Returns:
            An ``m x q`` tensor.
        """
        return self.root.mT @ (self.root @ cross_covariance)

    def projection(self) -> Tensor:
        r"""``P``, ``m x m``."""
        return self.root.mT @ self.root

    def draw_weights(self, values: Tensor) -> Tensor:
        r"""Weights that turn draws from the prior into draws from the posterior.

        Args:
            values: Draws from the prior with zero mean, at the inducing points,
                ``samples x m``.

        Returns:
            A ``samples x m`` tensor.
        """
        # v ~ N(mean, B⁻¹) takes the place of the v of the prior function.
        noise = torch.randn_like(values).unsqueeze(-1)
        drawn = torch.linalg.solve_triangular(self.cholesky.mT, noise, upper=True)
        move = drawn - self.unwhiten.mT @ values.unsqueeze(-1)
        return self.weights + (self.unwhiten @ move).squeeze(-1)


@dataclass(frozen=True)
class InducingPrior:
    r"""The prior of the trials in terms of inducing points.

    Attributes:
        mean: The prior mean of the contrasts, ``n``.
        features: ``Φ``, ``m x n``.
        left: The prior variance of the contrasts that inducing points do not explain,
            ``n``.
        inducing_mean: The prior mean at the inducing points, ``m``.
        K: Their prior covariance, ``m x m``.
        cholesky: ``L``, the factor of ``K``, ``m x m``.
    """

    mean: Tensor
    features: Tensor
    left: Tensor
    inducing_mean: Tensor
    K: Tensor
    cholesky: Tensor


@dataclass(frozen=True)
class _Posterior:
    """``q(v)`` for sites, and the marginals of the contrasts."""

    cholesky: Tensor
    center: Tensor
    mean: Tensor
    variance: Tensor

    @classmethod
    def of(cls, prior: InducingPrior, sites: Sites) -> _Posterior:
        B = (prior.features * sites.precision) @ prior.features.mT
        B.diagonal().add_(1.0)
        cholesky = torch.linalg.cholesky(B)
        b = matvec(prior.features, sites.location - sites.precision * prior.mean)
        center = torch.cholesky_solve(b.unsqueeze(-1), cholesky).squeeze(-1)
        mean = prior.mean + matvec(prior.features.mT, center)
        V = torch.linalg.solve_triangular(cholesky, prior.features, upper=False)
        variance = prior.left + V.square_().sum(dim=-2)
        return cls(cholesky, center, mean, variance)

    def divergence(self) -> Tensor:
        """The divergence of ``q(v)`` from the standard normal."""
        inverse = torch.cholesky_inverse(self.cholesky)
        excess = inverse.diagonal().sum() - len(self.center)
        log_det = 2 * self.cholesky.diagonal().log().sum()
        return (excess + self.center.square().sum() + log_det) / 2


def approximate_inducing(
    likelihood: TrialLikelihood,
    prior: InducingPrior,
    targets: Tensor,
    start: Start | None = None,
) -> InducingApproximation:
    r"""The Gaussian at the inducing points that maximizes the evidence lower bound.

    Sites that would widen the posterior, as a guess does that contradicts what was
    believed, are given no precision.

    Args:
        likelihood: The likelihood of the trials.
        prior: The prior of the trials.
        targets: Labels, ``n``.
        start: The ``start`` of a similar approximation, if known.

    Returns:
        The approximation, without a graph.
    """
    zeros = torch.zeros_like(prior.mean)
    sites = Sites(zeros, zeros) if start is None else Sites.unstack(start.values)
    with torch.no_grad():
        sites, posterior, error = _sweep(likelihood, prior, targets, sites)
        if error > TOLERANCE:
            warn_of_inaccuracy(
                f"Variational inference did not reach its tolerance of {TOLERANCE:.1g} "
                f"in {MAX_SWEEPS} sweeps; the mean of some trial still changes by "
                f"{error:.1g} posterior standard deviations.",
            )
        return _assemble(likelihood, prior, targets, sites, posterior)


def _sweep(
    likelihood: TrialLikelihood, prior: InducingPrior, targets: Tensor, sites: Sites
) -> tuple[Sites, _Posterior, float]:
    """Natural gradient steps until the means settle; smaller ones if they diverge."""
    posterior = _Posterior.of(prior, sites)
    error = torch.inf
    size = 1.0
    for _ in range(MAX_SWEEPS):
        matched = _match(likelihood, posterior, targets)
        sites = Sites(
            torch.lerp(sites.precision, matched.precision, size),
            torch.lerp(sites.location, matched.location, size),
        )
        last = posterior
        posterior = _Posterior.of(prior, sites)
        change = (posterior.mean - last.mean).abs() * posterior.variance.rsqrt()
        former = error
        error = change.max().item() / size if len(change) else 0.0
        if error <= TOLERANCE:
            break
        if error > former:
            size = max(size / 2, SMALLEST_STEP)
    return sites, posterior, error


def _match(
    likelihood: TrialLikelihood, posterior: _Posterior, targets: Tensor
) -> Sites:
    """The sites at which the lower bound is stationary, given the marginals."""
    gradient = torch.zeros_like(posterior.mean)
    curvature = torch.zeros_like(posterior.mean)
    for weight, contrast in _quadrature(posterior):
        derivatives = likelihood.log_derivatives(contrast, targets)
        gradient.add_(derivatives.gradient * weight)
        curvature.add_(derivatives.negative_hessian * weight)
    curvature.clamp_min_(0.0)
    return Sites(curvature, gradient + curvature * posterior.mean)


def _quadrature(posterior: _Posterior) -> list[tuple[Tensor, Tensor]]:
    """Weights and contrasts whose weighted sums are expectations."""
    nodes, weights = hermite(posterior.mean.dtype, posterior.mean.device, NODES)
    scale = posterior.variance.sqrt()
    contrasts = (torch.addcmul(posterior.mean, scale, node) for node in nodes)
    return list(zip(weights, contrasts, strict=True))


def _assemble(
    likelihood: TrialLikelihood,
    prior: InducingPrior,
    targets: Tensor,
    sites: Sites,
    posterior: _Posterior,
) -> InducingApproximation:
    fit = sum(
        (likelihood.log_prob(contrast, targets).sum() * weight)
        for weight, contrast in _quadrature(posterior)
    )
    identity = torch.eye(len(prior.K), dtype=prior.K.dtype, device=prior.K.device)
    whitening = torch.linalg.solve_triangular(prior.cholesky, identity, upper=False)
    # I - B⁻¹ = M Mᵀ with B = Q D Qᵀ.
    B = posterior.cholesky @ posterior.cholesky.mT
    values, vectors = torch.linalg.eigh(B)
    M = vectors * (1 - 1 / values.clamp_min(1.0)).sqrt()
    return InducingApproximation(
        prior_mean=prior.inducing_mean,
        prior_covariance=prior.K,
        weights=matvec(whitening.mT, posterior.center),
        sqrt_information=torch.ones_like(posterior.center),
        cholesky=posterior.cholesky,
        root=M.mT @ whitening,
        unwhiten=whitening.mT,
        sites=sites,
        bound=fit - posterior.divergence(),
    )
