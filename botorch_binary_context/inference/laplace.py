r"""
The Laplace approximation of a latent Gaussian process, as pure functions.

Everything is written for the prior mean ``m`` and covariance ``K`` of the *contrasts*
that the trials observe (``f(z)`` for a pass/fail trial, ``f(z₁) - f(z₂)`` for a duel),
with any number of leading batch dimensions. Finding the mode (:func:`find_mode`) and
differentiating it (:func:`attach_gradient`) are separate.

.. [Rasmussen2006gpml]
    C. E. Rasmussen, C. K. I. Williams. Gaussian Processes for Machine Learning. 2006.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from botorch_binary_context.inference.gaussian import (
    GaussianApproximation,
    Inference,
    Start,
    TrialLikelihood,
    factorize,
    matvec,
)
from botorch_binary_context.inference.mode_search import (
    Curvature,
    ModeSearch,
    ModeState,
)
from botorch_binary_context.inference.slopes import Slopes, attach_slopes
from botorch_binary_context.inference.small import SmallMode, SmallProblem, to_slopes
from botorch_binary_context.likelihoods.probit_terms import Array

# The maximum number of new trials that are added to the curvature of a former
# approximation.
MAX_NEW_TRIALS = 16


class Laplace(Inference):
    r"""Laplace's method: a Gaussian at the posterior mode, with the curvature there.

    It is the fastest approximation, and the paper's. Its mean is the mode, which
    differs from the posterior mean wherever the posterior is skewed.

    Example:
        >>> model = BinaryGP(train_X, train_Y, inference=Laplace())
    """

    def approximate(
        self,
        likelihood: TrialLikelihood,
        prior_mean: Tensor,
        K: Tensor,
        targets: Tensor,
        start: Start | None = None,
    ) -> LaplaceApproximation:
        r"""Approximate the posterior of the contrasts by a Gaussian at its mode.

        Args:
            likelihood: The likelihood of the trials.
            prior_mean: The prior mean ``m``, ``batch_shape x n``.
            K: The prior covariance, ``batch_shape x n x n``.
            targets: Labels, ``batch_shape x n``.
            start: The ``start`` of a similar approximation, if known.

        Returns:
            The approximation, exactly differentiable in ``prior_mean`` and ``K``.
        """
        return laplace_approximation(likelihood, prior_mean, K, targets, start)

    def evidence(
        self,
        likelihood: TrialLikelihood,
        prior_mean: Tensor,
        K: Tensor,
        targets: Tensor,
        start: Start | None = None,
    ) -> tuple[Tensor, Start]:
        r"""The approximate log evidence, and where to start the next time.

        Its slopes in the prior have a closed form. Only if parameters of the likelihood
        are learned does a graph lead through the approximation.

        Args:
            likelihood: The likelihood of the trials.
            prior_mean: The prior mean ``m``, ``batch_shape x n``.
            K: The prior covariance, ``batch_shape x n x n``.
            targets: Labels, ``batch_shape x n``.
            start: The ``start`` of a similar approximation, if known.

        Returns:
            ``log p(c)``, ``batch_shape``, and the ``start`` of this approximation.
        """
        if likelihood.requires_grad:
            return super().evidence(likelihood, prior_mean, K, targets, start)
        data = likelihood, prior_mean, K, targets
        attached = K.requires_grad or prior_mean.requires_grad
        attached = attached and torch.is_grad_enabled()
        small = _small_mode(*data, start)
        slopes = None
        if small is not None:
            value = K.new_tensor(small.log_evidence[0])
            begin = Start(torch.from_numpy(small.start[0]))
            slopes = to_slopes(small) if attached else None
        else:
            with torch.no_grad():
                found = laplace_approximation(*data, start)
            value = found.log_evidence
            begin = found.start
            if attached:
                slopes = evidence_slopes(likelihood, targets, found)
        if not attached or slopes is None:
            return value, begin

        def evaluate(mean: Tensor, K: Tensor) -> Tensor:
            return laplace_approximation(likelihood, mean, K, targets).log_evidence

        return attach_slopes(value, prior_mean, K, slopes, evaluate), begin

    def find_small(
        self, problem: SmallProblem, start: Array | None = None
    ) -> SmallMode | None:
        r"""The modes of models of few trials.

        Args:
            problem: The priors and the answers.
            start: The weights to start from, ``b x n x 1``.

        Returns:
            The modes; None if the log-likelihood is not concave.
        """
        return problem.find_mode(None if start is None else start[..., 0])


@dataclass(frozen=True, kw_only=True)
class LaplaceApproximation(GaussianApproximation):
    r"""A Gaussian at the posterior mode of the contrasts.

    Its weights are ``a = ∇ log p(c|f̂)``, its information ``W`` the curvature there.

    Attributes:
        mode: The posterior mode ``f̂``, ``batch_shape x n``.
        residual: ``f̂ - m``, ``batch_shape x n``.
        log_likelihood: ``Σ log p(c|f̂)``, ``batch_shape``.
    """

    mode: Tensor
    residual: Tensor
    log_likelihood: Tensor

    @property
    def log_evidence(self) -> Tensor:
        r"""``log Z = Σ log p(c|f̂) - ½ aᵀ(f̂ - m) - ½ log |B|``, ``batch_shape``.

        Eq. 3.32 of [Rasmussen2006gpml]_.
        """
        fit = (self.weights * self.residual).sum(dim=-1) / 2
        log_det = self.cholesky.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)
        return self.log_likelihood - fit - log_det

    def as_sites(self) -> Tensor:
        """The site parameters ``τ`` and ``ν``, ``batch_shape x n x 2``."""
        precision = self.sqrt_information.square()
        location = self.weights + precision * self.mode
        return torch.stack([precision, location], dim=-1).detach()

    @property
    def start(self) -> Start:
        """The weights."""
        return Start(self.weights.detach().unsqueeze(-1))


def laplace_approximation(
    likelihood: TrialLikelihood,
    prior_mean: Tensor,
    K: Tensor,
    targets: Tensor,
    start: Start | None = None,
) -> LaplaceApproximation:
    r"""Approximate the posterior of the contrasts by a Gaussian at its mode.

    Args:
        likelihood: The likelihood of the trials.
        prior_mean: The prior mean ``m``, ``batch_shape x n``.
        K: The prior covariance, ``batch_shape x n x n``.
        targets: Labels in {0, 1}, ``batch_shape x n``.
        start: The ``start`` of a similar approximation, if known.

    Returns:
        The approximation, exactly differentiable in ``prior_mean`` and ``K``.
    """
    attached = K.requires_grad or prior_mean.requires_grad or likelihood.requires_grad
    attached = attached and torch.is_grad_enabled()
    with torch.no_grad():
        small = _small_mode(likelihood, prior_mean, K, targets, start)
        if small is not None and not attached:
            return _from_small(small, prior_mean, K)
        search = ModeSearch(likelihood, prior_mean, K, targets)
        if small is not None:
            state = search.evaluate(torch.from_numpy(small.weights[0]))
        else:
            weights = None if start is None else start.values[..., 0]
            state = search.run(weights, _grower(search, start))
    mode = state.contrast
    derivatives = state.derivatives
    if attached:
        mode = attach_gradient(likelihood, prior_mean, K, targets, mode)
        derivatives = likelihood.log_derivatives(mode, targets)
    sqrt_information = derivatives.information.sqrt()
    return LaplaceApproximation(
        prior_mean=prior_mean,
        mode=mode,
        residual=mode - prior_mean,
        weights=derivatives.gradient,
        sqrt_information=sqrt_information,
        prior_covariance=K,
        cholesky=factorize(K, sqrt_information),
        log_likelihood=derivatives.value.sum(dim=-1),
    )


def _small_mode(
    likelihood: TrialLikelihood,
    prior_mean: Tensor,
    K: Tensor,
    targets: Tensor,
    start: Start | None,
) -> SmallMode | None:
    """The mode of a small problem, if it is one."""
    problem = SmallProblem.of(likelihood, prior_mean, K, targets)
    if problem is None:
        return None
    weights = None if start is None else start.values[None, :, 0].numpy()
    found = problem.find_mode(weights)
    return found if found is not None and found.is_found.all() else None


def _from_small(
    found: SmallMode, prior_mean: Tensor, K: Tensor
) -> LaplaceApproximation:
    """The approximation at the mode of a small problem."""
    residual = torch.from_numpy(found.residual[0])
    return LaplaceApproximation(
        prior_mean=prior_mean,
        mode=prior_mean + residual,
        residual=residual,
        weights=torch.from_numpy(found.weights[0]),
        sqrt_information=torch.from_numpy(found.root[0]),
        prior_covariance=K,
        cholesky=torch.from_numpy(found.cholesky[0]),
        log_likelihood=K.new_tensor(found.log_likelihood[0]),
    )


def _grower(
    search: ModeSearch, start: Start | None
) -> Callable[[ModeState], Curvature] | None:
    """A function that extends the curvature of some trials to all trials."""
    if start is None or start.known is None or not search.likelihood.is_log_concave:
        return None
    known = start.known
    former = start.former
    if not isinstance(former, LaplaceApproximation):
        return None
    if int((~known).sum()) > MAX_NEW_TRIALS:
        return None
    curvature = Curvature(former.sqrt_information, former.cholesky)

    def grow(state: ModeState) -> Curvature:
        root = state.derivatives.information.sqrt()
        return curvature.append(search.K, known, root)

    return grow


def evidence_slopes(
    likelihood: TrialLikelihood, targets: Tensor, found: LaplaceApproximation
) -> Slopes:
    r"""The slopes of the log evidence in the prior mean and covariance.

    The log posterior is stationary at the mode, so a move of the mode affects only the
    curvature: with ``s = ∂(-½ log |B|) / ∂f̂`` and ``u = (I + H K)⁻¹ s`` the slopes are
    ``a + u`` and ``½ a aᵀ - ½ P + u aᵀ`` (Eq. 5.21 to 5.24 of [Rasmussen2006gpml]_).

    Args:
        likelihood: The likelihood of the trials.
        targets: Labels, ``batch_shape x n``.
        found: The approximation.
    """
    with torch.no_grad():
        K = found.prior_covariance
        root = found.sqrt_information
        inverse = torch.cholesky_inverse(found.cholesky)
        share = 1 - inverse.diagonal(dim1=-2, dim2=-1)  # ``W Σ``
        P = inverse.mul_(root.unsqueeze(-1)).mul_(root.unsqueeze(-2))
        s = -share * _relative_change(likelihood, targets, found) / 2
        u = s - matvec(P, matvec(K, s))
        if not likelihood.is_log_concave:
            hessian = likelihood.log_derivatives(found.mode, targets).negative_hessian
            system = hessian.unsqueeze(-1) * K
            system.diagonal(dim1=-2, dim2=-1).add_(1.0)
            u = torch.linalg.solve(system, s.unsqueeze(-1)).squeeze(-1)
        left = torch.add(u, found.weights, alpha=0.5)
        outer = left.unsqueeze(-1) * found.weights.unsqueeze(-2)
        return Slopes(found.weights + u, outer.sub_(P, alpha=0.5))


def _relative_change(
    likelihood: TrialLikelihood, targets: Tensor, found: LaplaceApproximation
) -> Tensor:
    """``∂ log W / ∂f̂``, zero where a trial says nothing."""
    derivatives = likelihood.log_derivatives(found.mode, targets)
    information = derivatives.information
    change = derivatives.information_slope
    if change is None:
        with torch.enable_grad():
            mode = found.mode.detach().requires_grad_()
            attached = likelihood.log_derivatives(mode, targets).information
            (change,) = torch.autograd.grad(attached.sum(), mode)
    return torch.where(information > 0, change / information, 0.0)


def find_mode(
    likelihood: TrialLikelihood,
    prior_mean: Tensor,
    K: Tensor,
    targets: Tensor,
    initial_weights: Tensor | None = None,
) -> Tensor:
    r"""Newton's method for the posterior mode, in the weights ``a`` of ``f = m + K a``.

    Algorithm 3.1 of [Rasmussen2006gpml]_, batched: every step factors
    ``B = I + W½ K W½``, whose eigenvalues are at least one, and never inverts ``K``. A
    step that does not raise the log posterior is halved; an element of the batch that
    is done stops moving. The search ends when ``a = ∇ log p(c|f)`` to rounding, and the
    contrasts that follow from the two sides agree, too. Where the likelihood is not
    log-concave, ``W`` is the Fisher information, which always climbs but converges
    slowly: near the end the true Hessian takes over.

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
    return ModeSearch(likelihood, prior_mean, K, targets).run(initial_weights).contrast


class _ImplicitMode(torch.autograd.Function):
    """The mode as a function of ``m`` and ``K``, by the implicit function theorem.

    At the mode ``f = m + K g(f)`` with ``g = ∇ log p``, so that
    ``df = (I + K H)⁻¹ (dm + dK g + K dg)``, ``H = -∇² log p``, where ``dg`` is the
    change of ``g`` with the parameters of the likelihood. The backward pass is written
    in terms of the mode *with* its graph, which makes derivatives in ``m`` and ``K`` of
    every order exact.
    """

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        prior_mean: Tensor,
        K: Tensor,
        shift: Tensor | None,
        mode: Tensor,
        targets: Tensor,
        likelihood: TrialLikelihood,
    ) -> Tensor:
        mode = mode.clone()
        ctx.save_for_backward(K, mode, targets)
        ctx.likelihood = likelihood
        return mode

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        K, mode, targets = ctx.saved_tensors
        derivatives = ctx.likelihood.log_derivatives(mode, targets)
        hessian = derivatives.negative_hessian
        gradient = derivatives.gradient
        system = hessian.unsqueeze(-1) * K
        system.diagonal(dim1=-2, dim2=-1).add_(1.0)  # (I + K H)ᵀ
        adjoint = torch.linalg.solve(system, grad_outputs[0].unsqueeze(-1)).squeeze(-1)
        grad_K = adjoint.unsqueeze(-1) * gradient.unsqueeze(-2)
        grad_shift = matvec(K, adjoint) if ctx.needs_input_grad[2] else None
        return adjoint, grad_K, grad_shift, None, None, None


def attach_gradient(
    likelihood: TrialLikelihood,
    prior_mean: Tensor,
    K: Tensor,
    targets: Tensor,
    mode: Tensor,
) -> Tensor:
    r"""Make the mode a differentiable function of the prior it belongs to.

    The true Hessian of the likelihood is used, even where :func:`find_mode` stepped
    with the Fisher information.

    Args:
        likelihood: The likelihood of the trials.
        prior_mean: The prior mean ``m``, ``batch_shape x n``.
        K: The prior covariance, ``batch_shape x n x n``.
        targets: Labels in {0, 1}, ``batch_shape x n``.
        mode: The posterior mode, ``batch_shape x n``.

    Returns:
        The same mode, with its gradient in ``prior_mean``, ``K`` and the parameters of
        the likelihood.
    """
    shape = mode.shape
    mode = mode.detach()
    shift = None
    if likelihood.requires_grad:  # zero, except for its slopes
        gradient = likelihood.log_derivatives(mode, targets).gradient
        shift = gradient - gradient.detach()
    return _ImplicitMode.apply(  # pyright: ignore[reportReturnType]
        prior_mean.expand(shape),
        K.expand(*shape, shape[-1]),
        shift,
        mode,
        targets.expand(shape),
        likelihood,
    )
