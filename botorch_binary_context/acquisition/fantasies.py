r"""
Posterior modes after one more trial, for many candidates and outcomes at once.

The data of a model stay the same while candidates vary, so one factorization serves all
of them. The mode of the data plus a fantasized trial is found by a chord iteration:
Newton's method with the curvature of the old data held at the old mode, bordered by the
row of the new trial with its own curvature. Every step is a product with shared
``n x n`` matrices. Where one outcome changes the curvature of the old data much, chords
alone would converge slowly or not at all; Anderson's acceleration helps. The derivative
in the candidate follows from the implicit function theorem, with an adjoint system that
is solved by the same iteration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from botorch_binary_context.inference.laplace import find_mode
from botorch_binary_context.likelihoods import (
    LogDerivatives,
    OutcomeLikelihood,
    StackedLikelihood,
)
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.anderson import (
    AndersonMixing,
    Watch,
    column_dot,
)

START_STEPS = 4
FAILURE = 10.0


@dataclass(frozen=True)
class Accuracy:
    r"""The accuracy of the modes of fantasies.

    Attributes:
        tolerance: The error of the weights at which the iteration ends.
        max_steps: The maximum number of its steps; the adjoint system may take twice as
            many.
        is_exact: Whether weights with more than ``FAILURE`` times that error are found
            by Newton's method instead. If not, they are taken as they are.
    """

    tolerance: float
    max_steps: int
    is_exact: bool = False


EXACT = Accuracy(1e-11, 25, is_exact=True)
#: For gradients that a search follows.
FINE = Accuracy(1e-7, 10)
#: For a first choice among many candidates.
COARSE = Accuracy(1e-3, 5)
# The maximum number of covariance entries that are repaired at once.
MAX_ENTRIES = 4_000_000


@dataclass(frozen=True)
class Shared:
    r"""What all candidates share: the data, and the factor of the old posterior.

    Attributes:
        likelihood: The likelihood of the old trials.
        new_likelihood: The likelihood of the candidates.
        targets: The old labels, ``batch_shape x n x 1``.
        prior_mean: The prior mean of the old contrasts, ``batch_shape x n x 1``.
        weights: ``a`` of the old posterior, ``batch_shape x n x 1``.
        K: The prior covariance of the old contrasts, ``batch_shape x n x n``.
        P: ``W½ B⁻¹ W½ = (K + W⁻¹)⁻¹``, ``batch_shape x n x n``.
        S: ``I - P K = (I + W K)⁻¹``, ``batch_shape x n x n``.
    """

    likelihood: StackedLikelihood
    new_likelihood: OutcomeLikelihood
    targets: Tensor
    prior_mean: Tensor
    weights: Tensor
    K: Tensor
    P: Tensor
    S: Tensor

    @classmethod
    def of(cls, model: LatentGP) -> Shared:
        r"""What the candidates of a model share.

        Args:
            model: The model.

        Returns:
            The shared parts, without a graph.
        """
        with torch.no_grad():
            approximation = model.laplace_approximation
            K = approximation.prior_covariance.detach()
            P = approximation.projection()
            S = -P @ K
            S.diagonal(dim1=-2, dim2=-1).add_(1.0)
            # Rounded in the same way as the mode.
            prior_mean = approximation.mode - approximation.residual
            return cls(
                likelihood=model.trial_likelihood,
                new_likelihood=model.likelihood,
                targets=model.train_targets.unsqueeze(-1),
                prior_mean=prior_mean.unsqueeze(-1),
                weights=approximation.weights.unsqueeze(-1).detach(),
                K=K,
                P=P,
                S=S,
            )

    @cached_property
    def all_likelihoods(self) -> StackedLikelihood:
        """The likelihood of the old trials and of a new one."""
        return self.likelihood.append(self.new_likelihood, 1)


@dataclass(frozen=True)
class Fantasies:
    r"""``C`` fantasized trials, each added to the same data on its own.

    Attributes:
        shared: What they share.
        cross: The prior covariance with the old contrasts, ``batch_shape x n x C``.
        prior_mean: The prior mean of the new contrasts, ``batch_shape x C``.
        prior_variance: The prior variance of the new contrasts, ``batch_shape x C``.
        labels: The fantasized labels, ``batch_shape x C``.
    """

    shared: Shared
    cross: Tensor
    prior_mean: Tensor
    prior_variance: Tensor
    labels: Tensor

    @cached_property
    def all_labels(self) -> Tensor:
        """The labels of the old and the new trials, ``batch_shape x (n + 1) x C``."""
        return _join(self.shared.targets.expand_as(self.cross), self.labels)

    @cached_property
    def all_means(self) -> Tensor:
        """The prior means of the old and the new trials, in the shape of the labels."""
        return _join(self.shared.prior_mean.expand_as(self.cross), self.prior_mean)

    @cached_property
    def projected(self) -> Tensor:
        """``P k``, ``batch_shape x n x C``."""
        return self.shared.P @ self.cross

    @cached_property
    def new_variance(self) -> Tensor:
        """The variance of the new contrasts under the old posterior."""
        return self.prior_variance - column_dot(self.cross, self.projected)

    def apply_prior(self, x: Tensor) -> Tensor:
        """The prior covariance of the old and the new trial times weights of both."""
        a, a_new = _split(x)
        return _join(
            self.shared.K @ a + self.cross * a_new.unsqueeze(-2),
            column_dot(self.cross, a) + self.prior_variance * a_new,
        )

    def derivatives(self, x: Tensor) -> LogDerivatives:
        """The derivatives of the log-likelihoods at the contrasts that weights give."""
        f = self.all_means + self.apply_prior(x)
        likelihood = self.shared.all_likelihoods
        if len(likelihood.parts) == 1 and not likelihood.requires_grad:
            return likelihood.log_derivatives(f, self.all_labels)
        # Trials should be the last dimension.
        at = likelihood.log_derivatives(
            f.movedim(-1, 0), self.all_labels.movedim(-1, 0)
        )
        return LogDerivatives(
            at.gradient.movedim(0, -1),
            at.negative_hessian.movedim(0, -1),
            at.information.movedim(0, -1),
            lambda: at.value.movedim(0, -1),
        )

    def start(self) -> Tensor:
        """The mode of the old Gaussian posterior times the new likelihood."""
        mean = self.prior_mean + column_dot(self.cross, self.shared.weights)
        f_new = mean
        for _ in range(START_STEPS):
            new = self.shared.new_likelihood.log_derivatives(f_new, self.labels)
            gap = mean + self.new_variance * new.gradient - f_new
            f_new = f_new + gap / (1 + self.new_variance * new.information)
        a_new = self.shared.new_likelihood.log_derivatives(f_new, self.labels).gradient
        return _join(self.shared.weights - self.projected * a_new.unsqueeze(-2), a_new)

    def solve(self, accuracy: Accuracy = EXACT) -> tuple[Tensor, Tensor]:
        r"""The weights of the old and the new trials at the new modes.

        Args:
            accuracy: How well to solve for the modes.

        Returns:
            ``batch_shape x n x C`` and ``batch_shape x C`` tensors, without a graph.
        """
        x = start = self.start()
        limit = max(accuracy.tolerance, 1e2 * torch.finfo(x.dtype).eps)
        mixing = AndersonMixing()
        watch = Watch(limit)
        first = error = torch.full_like(self.new_variance, torch.inf)
        for step_number in range(accuracy.max_steps):
            derivatives = self.derivatives(x)
            residual = derivatives.gradient - x
            error = _largest(residual)
            first = error if step_number == 0 else first
            if watch.is_over(error):
                break
            r, r_new = _split(residual.where((error > limit).unsqueeze(-2), 0.0))
            r = self.shared.S @ r
            w = _split(derivatives.information)[1]
            step = (r_new - w * column_dot(self.cross, r)) / (1 + w * self.new_variance)
            r = r - self.projected * step.unsqueeze(-2)
            x = mixing.advance(x, _join(r, step))
        if accuracy.is_exact:
            return _split(self._repair(x, ~(error <= FAILURE * limit)))
        # Unless the start was better.
        return _split(x.where((error <= first).unsqueeze(-2), start))

    def whiten(self, a: Tensor, a_new: Tensor, cross: Tensor) -> Tensor:
        r"""Whitened prior covariances, whose products are what the trials explain.

        That is ``V = L⁻¹ W½ k`` with ``L Lᵀ = I + W½ K W½`` at the new modes, for the
        old trials and each of the new ones: ``VᵀV = kᵀ (K + W⁻¹)⁻¹ k``.

        Args:
            a: The old trials' weights at the new mode, ``batch_shape x n x C``.
            a_new: The new trials' weights, ``batch_shape x C``.
            cross: The prior covariance of the trials with ``M`` values,
                ``batch_shape x C x (n + 1) x M``.

        Returns:
            A ``batch_shape x C x (n + 1) x M`` tensor.
        """
        information = self.derivatives(_join(a, a_new)).information
        least = torch.finfo(information.dtype).tiny  # where the root has a slope
        root = information.clamp_min(least).sqrt().mT.unsqueeze(-1)
        everything = torch.ones_like(self.labels, dtype=torch.bool)
        K = self._assemble(everything)[0].unflatten(0, self.labels.shape)
        B = root * K * root.mT
        identity = torch.eye(B.shape[-1], dtype=B.dtype, device=B.device)
        L = torch.linalg.cholesky(B + identity)
        return torch.linalg.solve_triangular(L, root * cross, upper=False)

    def _repair(self, x: Tensor, failed: Tensor) -> Tensor:
        """Use Newton's method from scratch where the iteration did not converge."""
        if not bool(failed.any()):
            return x
        x = x.clone()
        for chosen in self._chunks(failed):
            K, prior_mean, labels = self._assemble(chosen)
            likelihood = self.shared.all_likelihoods
            mode = find_mode(likelihood, prior_mean, K, labels)
            weights = likelihood.log_derivatives(mode, labels).gradient
            x.mT[chosen] = weights
        return x

    def _chunks(self, chosen: Tensor) -> Iterator[Tensor]:
        """The chosen trials, in sets whose covariances fit in bounded memory."""
        size = max(1, MAX_ENTRIES // (self.cross.shape[-2] + 1) ** 2)
        for index in chosen.nonzero().split(size):
            mask = torch.zeros_like(chosen)
            mask[tuple(index.T)] = True
            yield mask

    def _assemble(self, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Covariance, prior mean and labels of the data with each chosen trial."""
        cross = self.cross.mT[chosen]  # F x n
        old = self.shared.K.unsqueeze(-3).expand(*chosen.shape, -1, -1)[chosen]
        border = torch.cat([cross, self.prior_variance[chosen].unsqueeze(-1)], dim=-1)
        K = torch.cat([old, cross.unsqueeze(-2)], dim=-2)
        K = torch.cat([K, border.unsqueeze(-1)], dim=-1)
        return K, self.all_means.mT[chosen], self.all_labels.mT[chosen]

    def solve_adjoint(
        self,
        a: Tensor,
        a_new: Tensor,
        b: Tensor,
        b_new: Tensor,
        accuracy: Accuracy = EXACT,
    ) -> tuple[Tensor, Tensor]:
        r"""The adjoint of the linearized equations of the mode.

        Solves ``[[I + K H, h k], [kᵀH, 1 + h κ]] [λ, λ'] = [b, b']`` with the true
        curvatures ``H`` and ``h`` at the new mode.

        Args:
            a: The old trials' weights at the new mode, ``batch_shape x n x C``.
            a_new: The new trials' weights, ``batch_shape x C``.
            b: ``batch_shape x n x C``.
            b_new: ``batch_shape x C``.
            accuracy: The accuracy of the weights; the relative error of the adjoint is
                a tenth of their error.

        Returns:
            ``H λ`` and ``h λ'``, in the shapes of ``b`` and ``b'``.
        """
        curvature = self.derivatives(_join(a, a_new)).negative_hessian
        h = _split(curvature)[1]
        rhs = residual = _join(b, b_new)
        x = torch.zeros_like(rhs)
        scale = _largest(rhs)
        limit = max(accuracy.tolerance / 10, 1e1 * torch.finfo(b.dtype).eps) * scale
        mixing = AndersonMixing()
        watch = Watch(limit)
        error = scale
        for _ in range(2 * accuracy.max_steps):
            r, r_new = _split(residual.where((error > limit).unsqueeze(-2), 0.0))
            step = (r_new - column_dot(self.projected, r)) / (1 + h * self.new_variance)
            r = self.shared.S.mT @ (r - self.cross * (h * step).unsqueeze(-2))
            x = mixing.advance(x, _join(r, step))
            residual = rhs - x - self.apply_prior(curvature * x)
            error = _largest(residual)
            if watch.is_over(error):
                break
        x = self._repair_adjoint(curvature, rhs, x, ~(error <= 1e3 * limit))
        return _split(curvature * x)

    def _repair_adjoint(
        self, curvature: Tensor, rhs: Tensor, x: Tensor, failed: Tensor
    ) -> Tensor:
        """Solve directly where the iteration did not converge."""
        if not bool(failed.any()):
            return x
        x = x.clone()
        for chosen in self._chunks(failed):
            K, _, _ = self._assemble(chosen)
            system = K * curvature.mT[chosen].unsqueeze(-2)
            system.diagonal(dim1=-2, dim2=-1).add_(1.0)
            b = rhs.mT[chosen].unsqueeze(-1)
            x.mT[chosen] = torch.linalg.solve(system, b).squeeze(-1)
        return x


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
        accuracy: Accuracy,
    ) -> tuple[Tensor, Tensor]:
        fantasies = Fantasies(shared, cross, prior_mean, prior_variance, labels)
        a, a_new = fantasies.solve(accuracy)
        ctx.fantasies = fantasies
        ctx.accuracy = accuracy
        ctx.save_for_backward(a, a_new)
        return a, a_new

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        a, a_new = ctx.saved_tensors
        # a = g(m + K a + k a'), a' = g(m' + kᵀa + κ a'): only k, m' and κ vary.
        Hx, hx = ctx.fantasies.solve_adjoint(a, a_new, *grad_outputs, ctx.accuracy)
        grad_cross = -Hx * a_new.unsqueeze(-2) - a * hx.unsqueeze(-2)
        return grad_cross, -hx, -hx * a_new, None, None, None


def fantasy_weights(
    shared: Shared,
    cross: Tensor,
    prior_mean: Tensor,
    prior_variance: Tensor,
    labels: Tensor,
    accuracy: Accuracy = EXACT,
) -> tuple[Tensor, Tensor]:
    r"""The weights at the posterior modes after each of ``C`` fantasized trials.

    The posterior mean of the latent function is then ``m(·) + k(·,X) a + k(·,z) a'``.

    Args:
        shared: What the fantasies share.
        cross: Prior covariance of the trials with the data, ``batch_shape x n x C``.
        prior_mean: Prior mean of the trials, ``batch_shape x C``.
        prior_variance: Prior variance of the trials, ``batch_shape x C``.
        labels: Their fantasized labels, ``batch_shape x C``.
        accuracy: How well to solve for the modes.

    Returns:
        ``a``, ``batch_shape x n x C``, and ``a'``, ``batch_shape x C``; differentiable
        once in the prior moments of the trials.
    """
    return _FantasyWeights.apply(  # pyright: ignore[reportReturnType]
        cross, prior_mean, prior_variance, labels, shared, accuracy
    )


def _join(old: Tensor, new: Tensor) -> Tensor:
    """Columns of old trials, ``... x n x C``, with the new ones, ``... x C``."""
    return torch.cat([old, new.unsqueeze(-2)], dim=-2)


def _split(columns: Tensor) -> tuple[Tensor, Tensor]:
    """The parts of what :func:`_join` returned."""
    return columns[..., :-1, :], columns[..., -1, :]


def _largest(columns: Tensor) -> Tensor:
    return columns.abs().amax(dim=-2)
