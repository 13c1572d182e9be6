r"""
The Laplace approximation of a latent Gaussian process, as pure functions.

Everything is written for the prior mean ``m`` and covariance ``K`` of the *contrasts*
that the trials observe (``f(z)`` for a pass/fail trial, ``f(z₁) - f(z₂)`` for a duel),
with any number of leading batch dimensions. How the mode is found (:func:`find_mode`)
and how it is differentiated (:func:`attach_gradient`) are two things apart.

.. [Rasmussen2006gpml]
    C. E. Rasmussen, C. K. I. Williams. Gaussian Processes for Machine Learning. 2006.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from botorch_binary_context.likelihoods import LogDerivatives, ProbitLikelihood

MAX_NEWTON_STEPS = 100
MAX_HALVINGS = 20
NEAR = 1e-2


@dataclass(frozen=True)
class LaplaceApproximation:
    r"""A Gaussian approximation of the posterior of the contrasts.

    Attributes:
        mode: The posterior mode ``f̂``, ``batch_shape x n``.
        residual: ``f̂ - m``, ``batch_shape x n``.
        weights: ``a = ∇ log p(c|f̂)``, ``batch_shape x n``; the posterior mean at a
            point is ``m* + k*ᵀ a``.
        sqrt_information: ``W½``, ``batch_shape x n``.
        prior_covariance: ``K``, ``batch_shape x n x n``.
        cholesky: The factor of ``B = I + W½ K W½``, ``batch_shape x n x n``.
        log_likelihood: ``Σ log p(c|f̂)``, ``batch_shape``.
    """

    mode: Tensor
    residual: Tensor
    weights: Tensor
    sqrt_information: Tensor
    prior_covariance: Tensor
    cholesky: Tensor
    log_likelihood: Tensor

    @property
    def log_evidence(self) -> Tensor:
        r"""``log Z = Σ log p(c|f̂) - ½ aᵀ(f̂ - m) - ½ log |B|``, ``batch_shape``.

        Eq. 3.32 of [Rasmussen2006gpml]_.
        """
        fit = (self.weights * self.residual).sum(dim=-1) / 2
        log_det = self.cholesky.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)
        return self.log_likelihood - fit - log_det

    def whiten(self, cross_covariance: Tensor) -> Tensor:
        r"""``V = L⁻¹ W½ k*``, so that the posterior covariance is ``k** - Vᵀ V``.

        Args:
            cross_covariance: A ``batch_shape x n x q`` tensor ``k*``.

        Returns:
            A ``batch_shape x n x q`` tensor.
        """
        return torch.linalg.solve_triangular(
            self.cholesky,
            self.sqrt_information.unsqueeze(-1) * cross_covariance,
            upper=False,
        )


def laplace_approximation(
    likelihood: ProbitLikelihood,
    prior_mean: Tensor,
    K: Tensor,
    targets: Tensor,
    initial_weights: Tensor | None = None,
) -> LaplaceApproximation:
    r"""Approximate the posterior of the contrasts by a Gaussian at its mode.

    Args:
        likelihood: The likelihood of the trials.
        prior_mean: The prior mean ``m``, ``batch_shape x n``.
        K: The prior covariance, ``batch_shape x n x n``.
        targets: Labels in {0, 1}, ``batch_shape x n``.
        initial_weights: Weights near those of the mode, if known: a warm start.

    Returns:
        The approximation, exactly differentiable in ``prior_mean`` and ``K``.
    """
    with torch.no_grad():
        state = _Search(likelihood, prior_mean, K, targets).run(initial_weights)
    mode, derivatives = state.contrast, state.derivatives
    if torch.is_grad_enabled() and (K.requires_grad or prior_mean.requires_grad):
        mode = attach_gradient(likelihood, prior_mean, K, targets, mode)
        derivatives = likelihood.log_derivatives(mode, targets)
    sqrt_information = derivatives.information.sqrt()
    return LaplaceApproximation(
        mode=mode,
        residual=mode - prior_mean,
        weights=derivatives.gradient,
        sqrt_information=sqrt_information,
        prior_covariance=K,
        cholesky=factorize(K, sqrt_information),
        log_likelihood=derivatives.value.sum(dim=-1),
    )


def find_mode(
    likelihood: ProbitLikelihood,
    prior_mean: Tensor,
    K: Tensor,
    targets: Tensor,
    initial_weights: Tensor | None = None,
) -> Tensor:
    r"""Newton's method for the posterior mode, in the weights ``a`` of ``f = m + K a``.

    Algorithm 3.1 of [Rasmussen2006gpml]_, batched: every step factors
    ``B = I + W½ K W½``, whose eigenvalues are at least one, and never inverts ``K``. A
    step that does not raise the log posterior is halved; an element of the batch that
    is done stops moving. The end is reached when ``a = ∇ log p(c|f)`` to rounding, and
    so for the contrasts that follow from both. Where the likelihood is not log-concave,
    ``W`` is the Fisher information, which always climbs but converges slowly: near the
    end the true Hessian takes over.

    Args:
        likelihood: The likelihood of the trials.
        prior_mean: The prior mean ``m``, ``batch_shape x n``.
        K: The prior covariance, ``batch_shape x n x n``.
        targets: Labels in {0, 1}, ``batch_shape x n``.
        initial_weights: Where to start, ``batch_shape x n``; by default at the prior
            mean.

    Returns:
        The mode, ``batch_shape x n``.
    """
    return _Search(likelihood, prior_mean, K, targets).run(initial_weights).contrast


@dataclass(frozen=True)
class _State:
    weights: Tensor
    contrast: Tensor
    residual: Tensor
    derivatives: LogDerivatives
    objective: Tensor  # the log posterior of the contrasts, up to a constant
    error: Tensor  # how far the weights are from the gradient they equal at the mode


@dataclass(frozen=True)
class _Search:
    likelihood: ProbitLikelihood
    prior_mean: Tensor
    K: Tensor
    targets: Tensor

    def run(self, initial_weights: Tensor | None) -> _State:
        """Step until the weights and the contrasts are stationary, to rounding."""
        if initial_weights is None:
            initial_weights = torch.zeros_like(self.prior_mean)
        state = self.evaluate(initial_weights)
        # What rounding allows: the gradient is smooth in f, and f is a sum of n terms.
        tolerance = 1e3 * torch.finfo(self.K.dtype).eps
        error = state.error
        for _ in range(MAX_NEWTON_STEPS):
            active = error > tolerance
            if not bool(active.any()):  # the weights agree; the contrasts must, too
                active = (error > 0) & (self.spread(state) > 32 * tolerance)
                if not bool(active.any()):
                    break
            last, state = state, self.step(state, active)
            slow, error = state.error > error / 2, state.error
            if bool(slow.any()):
                # Neither upwards nor towards stationarity: only rounding is left.
                stalled = slow & (state.objective <= last.objective)
                error = error.masked_fill(stalled, 0.0)
        return state

    def evaluate(self, weights: Tensor) -> _State:
        residual = _matvec(self.K, weights)
        contrast = self.prior_mean + residual
        derivatives = self.likelihood.log_derivatives(contrast, self.targets)
        objective = (derivatives.value - weights * residual / 2).sum(dim=-1)
        error = _largest(derivatives.gradient - weights)
        return _State(weights, contrast, residual, derivatives, objective, error)

    def spread(self, state: _State) -> Tensor:
        """How far the contrasts are from those that follow from the gradient."""
        return _largest(_matvec(self.K, state.derivatives.gradient - state.weights))

    def newton_weights(self, state: _State) -> Tensor:
        """The weights to which the quadratic model of the log posterior points."""
        information = state.derivatives.information
        root = information.sqrt()
        b = torch.addcmul(state.derivatives.gradient, information, state.residual)
        rhs = (root * _matvec(self.K, b)).unsqueeze(-1)
        solution = torch.cholesky_solve(rhs, factorize(self.K, root)).squeeze(-1)
        return torch.addcmul(b, root, solution, value=-1)

    def hessian_weights(self, state: _State) -> Tensor:
        """The weights to which Newton's method points with the true Hessian."""
        hessian = state.derivatives.negative_hessian
        b = torch.addcmul(state.derivatives.gradient, hessian, state.residual)
        system = hessian.unsqueeze(-1) * self.K
        system.diagonal(dim1=-2, dim2=-1).add_(1.0)
        return torch.linalg.solve(system, b.unsqueeze(-1)).squeeze(-1)

    def target_weights(self, state: _State) -> Tensor:
        """Where to step: with the true Hessian only near the end."""
        if self.likelihood.is_log_concave:
            return self.newton_weights(state)
        near = state.error < NEAR
        if not bool(near.any()):
            return self.newton_weights(state)
        target = self.hessian_weights(state)
        if bool(near.all()):
            return target
        return torch.where(near.unsqueeze(-1), target, self.newton_weights(state))

    def step(self, state: _State, active: Tensor) -> _State:
        """One damped Newton step of the active elements of the batch."""
        newton = self.target_weights(state)
        if active.ndim:
            newton = torch.where(active.unsqueeze(-1), newton, state.weights)
        trial = self.evaluate(newton)
        rejected = self.is_rejected(trial, state)
        if not bool(rejected.any()):
            return trial
        size = torch.ones_like(state.objective)
        for _ in range(MAX_HALVINGS):
            size = torch.where(rejected, size / 2, size)
            weights = torch.lerp(state.weights, newton, size.unsqueeze(-1))
            trial = self.evaluate(weights)
            rejected = self.is_rejected(trial, state)
            if not bool(rejected.any()):
                return trial
        return self.evaluate(torch.where(rejected[..., None], state.weights, weights))

    def is_rejected(self, trial: _State, state: _State) -> Tensor:
        """Whether a step lowered the log posterior beyond rounding, or to NaN."""
        # A sum of n terms of order one: the search climbs from log ½ per trial.
        slack = 8 * torch.finfo(self.K.dtype).eps * (1 + self.K.shape[-1])
        return ~(trial.objective - state.objective >= -slack)


def _largest(vector: Tensor) -> Tensor:
    """The largest magnitude of each vector, zero for empty ones."""
    return vector.abs().amax(dim=-1) if vector.shape[-1] else vector.sum(dim=-1)


def factorize(K: Tensor, sqrt_information: Tensor) -> Tensor:
    r"""The Cholesky factor of ``B = I + W½ K W½``.

    Args:
        K: The prior covariance, ``batch_shape x n x n``.
        sqrt_information: ``W½``, ``batch_shape x n``.

    Returns:
        A lower triangular ``batch_shape x n x n`` tensor.
    """
    B = sqrt_information.unsqueeze(-1) * K * sqrt_information.unsqueeze(-2)
    B.diagonal(dim1=-2, dim2=-1).add_(1.0)
    cholesky, info = torch.linalg.cholesky_ex(B)
    # Only rounding of a huge K can make it fail.
    return psd_safe_cholesky(B) if bool(info.any()) else cholesky


class _ImplicitMode(torch.autograd.Function):
    """The mode as a function of ``m`` and ``K``, by the implicit function theorem.

    At the mode ``f = m + K g(f)`` with ``g = ∇ log p``, so that
    ``df = (I + K H)⁻¹ (dm + dK g)``, ``H = -∇² log p``. The backward pass is written in
    terms of the mode *with* its graph, which makes derivatives of every order exact.
    """

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        prior_mean: Tensor,
        K: Tensor,
        mode: Tensor,
        targets: Tensor,
        likelihood: ProbitLikelihood,
    ) -> Tensor:
        mode = mode.clone()
        ctx.save_for_backward(K, mode, targets)
        ctx.likelihood = likelihood
        return mode

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        K, mode, targets = ctx.saved_tensors
        derivatives = ctx.likelihood.log_derivatives(mode, targets)
        hessian, gradient = derivatives.negative_hessian, derivatives.gradient
        system = hessian.unsqueeze(-1) * K
        system.diagonal(dim1=-2, dim2=-1).add_(1.0)  # (I + K H)ᵀ
        adjoint = torch.linalg.solve(system, grad_outputs[0].unsqueeze(-1)).squeeze(-1)
        grad_K = adjoint.unsqueeze(-1) * gradient.unsqueeze(-2)
        return adjoint, grad_K, None, None, None


def attach_gradient(
    likelihood: ProbitLikelihood,
    prior_mean: Tensor,
    K: Tensor,
    targets: Tensor,
    mode: Tensor,
) -> Tensor:
    r"""Make the mode a differentiable function of the prior it belongs to.

    The true Hessian of the likelihood is used, also where :func:`find_mode` stepped
    with the Fisher information.

    Args:
        likelihood: The likelihood of the trials.
        prior_mean: The prior mean ``m``, ``batch_shape x n``.
        K: The prior covariance, ``batch_shape x n x n``.
        targets: Labels in {0, 1}, ``batch_shape x n``.
        mode: The posterior mode, ``batch_shape x n``.

    Returns:
        The same mode, with its gradient in ``prior_mean`` and ``K``.
    """
    shape = mode.shape
    return _ImplicitMode.apply(  # pyright: ignore[reportReturnType]
        prior_mean.expand(shape),
        K.expand(*shape, shape[-1]),
        mode.detach(),
        targets.expand(shape),
        likelihood,
    )


def _matvec(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)
