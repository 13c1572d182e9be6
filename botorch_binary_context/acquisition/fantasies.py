r"""
Posterior modes after one more trial, for many candidates and both outcomes at once.

The data of a model stay the same while candidates vary, so one factorisation serves all
of them. The mode of the data plus a fantasised trial is found by a chord iteration:
Newton's method with the curvature of the old data held at the old mode, bordered by the
row of the new trial with its own curvature. Every step is a product with shared
``n x n`` matrices. Its derivative in the candidate follows from the implicit function
theorem, with an adjoint system that is solved by the same iteration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from botorch_binary_context.likelihoods import LogDerivatives, ProbitLikelihood
from botorch_binary_context.models.laplace import find_mode
from botorch_binary_context.models.laplace_gp import LaplaceGP

MAX_CHORD_STEPS = 25
START_STEPS = 4
# The error of weights at which the iteration ends, and beyond which it has failed.
TOLERANCE, FAILURE = 1e-11, 1e-10
# The most numbers of the covariances that are repaired at once.
MAX_ENTRIES = 4_000_000


@dataclass(frozen=True)
class Shared:
    r"""What all candidates share: the data, and the factor of the old posterior.

    Attributes:
        likelihood: The likelihood of the trials.
        targets: The old labels, ``batch_shape x n x 1``.
        prior_mean: Of the old contrasts, ``batch_shape x n x 1``.
        weights: ``a`` of the old posterior, ``batch_shape x n x 1``.
        K: The prior covariance of the old contrasts, ``batch_shape x n x n``.
        P: ``W½ B⁻¹ W½ = (K + W⁻¹)⁻¹``, ``batch_shape x n x n``.
        S: ``I - P K = (I + W K)⁻¹``, ``batch_shape x n x n``.
    """

    likelihood: ProbitLikelihood
    targets: Tensor
    prior_mean: Tensor
    weights: Tensor
    K: Tensor
    P: Tensor
    S: Tensor

    @classmethod
    def of(cls, model: LaplaceGP) -> Shared:
        r"""What the candidates of a model share.

        Args:
            model: The model.

        Returns:
            The shared parts, without a graph.
        """
        with torch.no_grad():
            approximation = model.laplace_approximation
            K = approximation.prior_covariance.detach()
            root = approximation.sqrt_information.unsqueeze(-1)
            scaling = torch.diag_embed(root.squeeze(-1))
            P = root * torch.cholesky_solve(scaling, approximation.cholesky)
            S = -P @ K
            S.diagonal(dim1=-2, dim2=-1).add_(1.0)
            prior_mean = approximation.mode - approximation.residual
            return cls(
                likelihood=model.likelihood,
                targets=model.train_targets.unsqueeze(-1),
                prior_mean=prior_mean.unsqueeze(-1),
                weights=approximation.weights.unsqueeze(-1).detach(),
                K=K,
                P=P,
                S=S,
            )


@dataclass(frozen=True)
class Fantasies:
    r"""``C`` fantasised trials, each added to the same data on its own.

    Attributes:
        shared: What they share.
        cross: The prior covariance with the old contrasts, ``batch_shape x n x C``.
        prior_mean: Of the new contrasts, ``batch_shape x C``.
        prior_variance: Of the new contrasts, ``batch_shape x C``.
        labels: The fantasised labels, ``batch_shape x C``.
    """

    shared: Shared
    cross: Tensor
    prior_mean: Tensor
    prior_variance: Tensor
    labels: Tensor

    def derivatives(self, f: Tensor, f_new: Tensor) -> tuple[LogDerivatives, ...]:
        """Of the log-likelihoods of the old trials and of the new ones."""
        likelihood, targets = self.shared.likelihood, self.shared.targets
        return (
            likelihood.log_derivatives(f, targets.expand_as(f)),
            likelihood.log_derivatives(f_new, self.labels),
        )

    def contrasts(self, a: Tensor, a_new: Tensor) -> tuple[Tensor, Tensor]:
        """The old and the new contrasts that weights give."""
        f = (
            self.shared.prior_mean
            + self.shared.K @ a
            + self.cross * a_new.unsqueeze(-2)
        )
        f_new = self.prior_mean + _dot(self.cross, a) + self.prior_variance * a_new
        return f, f_new

    def start(self, projected: Tensor, spread: Tensor) -> tuple[Tensor, Tensor]:
        """The mode of the old Gaussian posterior times the new likelihood."""
        mean = self.prior_mean + _dot(self.cross, self.shared.weights)
        f_new = mean
        for _ in range(START_STEPS):
            new = self.shared.likelihood.log_derivatives(f_new, self.labels)
            gap = mean + spread * new.gradient - f_new
            f_new = f_new + gap / (1 + spread * new.information)
        a_new = self.shared.likelihood.log_derivatives(f_new, self.labels).gradient
        return self.shared.weights - projected * a_new.unsqueeze(-2), a_new

    def solve(self, tolerance: float = TOLERANCE) -> tuple[Tensor, Tensor]:
        r"""The weights of the old and the new trials at the new modes.

        Args:
            tolerance: The error of the weights at which the iteration ends.

        Returns:
            ``batch_shape x n x C`` and ``batch_shape x C`` tensors, without a graph.
        """
        projected = self.shared.P @ self.cross
        spread = self.prior_variance - _dot(self.cross, projected)
        start = a, a_new = self.start(projected, spread)
        limit = max(tolerance, 1e2 * torch.finfo(a.dtype).eps)
        error = last = first = torch.full_like(a_new, torch.inf)
        for step_number in range(MAX_CHORD_STEPS):
            f, f_new = self.contrasts(a, a_new)
            old, new = self.derivatives(f, f_new)
            r, r_new = old.gradient - a, new.gradient - a_new
            error = torch.maximum(_largest(r), r_new.abs())
            first = error if step_number == 0 else first
            if bool(((error <= limit) | ~(error < last / 2)).all()):
                break
            last = torch.minimum(error, last)
            r = self.shared.S @ r
            w = new.information
            step = (r_new - w * _dot(self.cross, r)) / (1 + w * spread)
            a = a + r - projected * step.unsqueeze(-2)
            a_new = a_new + step
        if tolerance <= TOLERANCE:
            return self._repair(a, a_new, ~(error <= FAILURE / TOLERANCE * limit))
        # Coarse weights are taken as they are, unless the start was better.
        worse = ~(error <= first)
        a = torch.where(worse.unsqueeze(-2), start[0], a)
        return a, torch.where(worse, start[1], a_new)

    def _repair(
        self, a: Tensor, a_new: Tensor, failed: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Where the chord iteration did not converge, Newton's method from scratch."""
        if not bool(failed.any()):
            return a, a_new
        a, a_new = a.clone(), a_new.clone()
        for chosen in self._chunks(failed):
            K, prior_mean, labels = self._assemble(chosen)
            mode = find_mode(self.shared.likelihood, prior_mean, K, labels)
            weights = self.shared.likelihood.log_derivatives(mode, labels).gradient
            a.mT[chosen] = weights[..., :-1]
            a_new[chosen] = weights[..., -1]
        return a, a_new

    def _chunks(self, chosen: Tensor) -> Iterator[Tensor]:
        """The chosen trials in sets whose covariances fit in a bounded memory."""
        size = max(1, MAX_ENTRIES // (self.cross.shape[-2] + 1) ** 2)
        for index in chosen.nonzero().split(size):
            mask = torch.zeros_like(chosen)
            mask[tuple(index.T)] = True
            yield mask

    def _assemble(self, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Covariance, prior mean and labels of the data with each chosen trial."""
        cross = self.cross.mT[chosen]  # F x n

        def columns(shared: Tensor, new: Tensor) -> Tensor:
            old = shared.mT.expand_as(self.cross.mT)[chosen]
            return torch.cat([old, new[chosen].unsqueeze(-1)], dim=-1)

        old = self.shared.K.unsqueeze(-3).expand(*chosen.shape, -1, -1)[chosen]
        border = torch.cat([cross, self.prior_variance[chosen].unsqueeze(-1)], dim=-1)
        K = torch.cat([old, cross.unsqueeze(-2)], dim=-2)
        K = torch.cat([K, border.unsqueeze(-1)], dim=-1)
        prior_mean = columns(self.shared.prior_mean, self.prior_mean)
        return K, prior_mean, columns(self.shared.targets, self.labels)

    def solve_adjoint(
        self,
        a: Tensor,
        a_new: Tensor,
        b: Tensor,
        b_new: Tensor,
        tolerance: float = TOLERANCE,
    ) -> tuple[Tensor, Tensor]:
        r"""The adjoint of the linearised equations of the mode.

        Solves ``[[I + K H, h k], [kᵀH, 1 + h κ]] [λ, λ'] = [b, b']`` with the true
        curvatures ``H`` and ``h`` at the new mode.

        Args:
            a: The old trials' weights at the new mode, ``batch_shape x n x C``.
            a_new: The new trials' weights, ``batch_shape x C``.
            b: ``batch_shape x n x C``.
            b_new: ``batch_shape x C``.
            tolerance: That of the weights; the relative error is a tenth of it.

        Returns:
            ``H λ`` and ``h λ'``, in the shapes of ``b`` and ``b'``.
        """
        old, new = self.derivatives(*self.contrasts(a, a_new))
        H, h = old.negative_hessian, new.negative_hessian
        projected = self.shared.P @ self.cross
        spread = self.prior_variance - _dot(self.cross, projected)
        x, x_new = torch.zeros_like(b), torch.zeros_like(b_new)
        r, r_new = b, b_new
        scale = torch.maximum(_largest(b), b_new.abs())
        limit = max(tolerance / 10, 1e1 * torch.finfo(b.dtype).eps) * scale
        error = last = torch.full_like(b_new, torch.inf)
        for _ in range(2 * MAX_CHORD_STEPS):
            step = (r_new - _dot(projected, r)) / (1 + h * spread)
            x = x + self.shared.S.mT @ (r - self.cross * (h * step).unsqueeze(-2))
            x_new = x_new + step
            Hx, hx = H * x, h * x_new
            r = b - x - self.shared.K @ Hx - self.cross * hx.unsqueeze(-2)
            r_new = b_new - _dot(self.cross, Hx) - x_new - self.prior_variance * hx
            error = torch.maximum(_largest(r), r_new.abs())
            if bool(((error <= limit) | ~(error < last / 2)).all()):
                break
            last = torch.minimum(error, last)
        x, x_new = self._repair_adjoint(
            H, h, b, b_new, x, x_new, ~(error <= 1e3 * limit)
        )
        return H * x, h * x_new

    def _repair_adjoint(
        self,
        H: Tensor,
        h: Tensor,
        b: Tensor,
        b_new: Tensor,
        x: Tensor,
        x_new: Tensor,
        failed: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Where the iteration did not converge, a direct solution."""
        if not bool(failed.any()):
            return x, x_new
        x, x_new = x.clone(), x_new.clone()
        for chosen in self._chunks(failed):
            K, _, _ = self._assemble(chosen)
            curvature = torch.cat([H.mT[chosen], h[chosen].unsqueeze(-1)], dim=-1)
            rhs = torch.cat([b.mT[chosen], b_new[chosen].unsqueeze(-1)], dim=-1)
            system = K * curvature.unsqueeze(-2)
            system.diagonal(dim1=-2, dim2=-1).add_(1.0)
            solution = torch.linalg.solve(system, rhs.unsqueeze(-1)).squeeze(-1)
            x.mT[chosen] = solution[..., :-1]
            x_new[chosen] = solution[..., -1]
        return x, x_new


class _FantasyWeights(torch.autograd.Function):
    """The weights at the new modes, as functions of the candidates' prior moments."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        cross: Tensor,
        prior_mean: Tensor,
        prior_variance: Tensor,
        labels: Tensor,
        shared: Shared,
        tolerance: float,
    ) -> tuple[Tensor, Tensor]:
        fantasies = Fantasies(shared, cross, prior_mean, prior_variance, labels)
        a, a_new = fantasies.solve(tolerance)
        ctx.fantasies, ctx.tolerance = fantasies, tolerance
        ctx.save_for_backward(a, a_new)
        return a, a_new

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        a, a_new = ctx.saved_tensors
        # a = g(m + K a + k a'), a' = g(m' + kᵀa + κ a'): only k, m' and κ vary.
        Hx, hx = ctx.fantasies.solve_adjoint(a, a_new, *grad_outputs, ctx.tolerance)
        grad_cross = -Hx * a_new.unsqueeze(-2) - a * hx.unsqueeze(-2)
        return grad_cross, -hx, -hx * a_new, None, None, None


def fantasy_weights(
    shared: Shared,
    cross: Tensor,
    prior_mean: Tensor,
    prior_variance: Tensor,
    labels: Tensor,
    tolerance: float = TOLERANCE,
) -> tuple[Tensor, Tensor]:
    r"""The weights at the posterior modes after each of ``C`` fantasised trials.

    The posterior mean of the latent function is then ``m(·) + k(·,X) a + k(·,z) a'``.

    Args:
        shared: What the fantasies share.
        cross: Prior covariance of the trials with the data, ``batch_shape x n x C``.
        prior_mean: Prior mean of the trials, ``batch_shape x C``.
        prior_variance: Prior variance of the trials, ``batch_shape x C``.
        labels: Their fantasised labels, ``batch_shape x C``.
        tolerance: The error of the weights; a coarse one saves steps.

    Returns:
        ``a``, ``batch_shape x n x C``, and ``a'``, ``batch_shape x C``; differentiable
        once in the prior moments of the trials.
    """
    return _FantasyWeights.apply(  # pyright: ignore[reportReturnType]
        cross, prior_mean, prior_variance, labels, shared, tolerance
    )


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(dim=-2)


def _largest(columns: Tensor) -> Tensor:
    if columns.shape[-2] == 0:
        return columns.sum(dim=-2)
    return columns.abs().amax(dim=-2)
