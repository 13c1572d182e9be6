r"""
The search for the mode of a posterior: Newton's method in the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from botorch_binary_context.inference.gaussian import (
    TrialLikelihood,
    factorize,
    matvec,
)
from botorch_binary_context.likelihoods.base import LogDerivatives

MAX_NEWTON_STEPS = 100
MAX_HALVINGS = 20
# For likelihoods that are not log-concave, the error below which the true Hessian is
# used.
NEAR = 1e-2
# From this size on a factorization costs more than a few products with vectors.
SLIDING_SIZE = 100
MAX_SLIDES = 12
# The error below which the curvature of a nearby point is tried, and the factor by
# which the error has to shrink each time.
NEAR_ENOUGH = 0.2
SHRINKAGE = 0.3


@dataclass(frozen=True)
class ModeState:
    r"""A point of the search for the mode.

    Attributes:
        weights: ``a``, ``batch_shape x n``.
        contrast: ``f = m + K a``, ``batch_shape x n``.
        residual: ``K a``, ``batch_shape x n``.
        derivatives: The derivatives of the log-likelihood there.
        objective: The log posterior of the contrasts, up to a constant.
        error: How far the weights are from the gradient that they equal at the mode.
    """

    weights: Tensor
    contrast: Tensor
    residual: Tensor
    derivatives: LogDerivatives
    objective: Tensor
    error: Tensor


@dataclass(frozen=True)
class Curvature:
    r"""The curvature of the log posterior at some contrasts, factored.

    Attributes:
        root: ``W½``, ``batch_shape x n``.
        cholesky: The factor of ``B = I + W½ K W½``, ``batch_shape x n x n``.
    """

    root: Tensor
    cholesky: Tensor

    @classmethod
    def at(cls, K: Tensor, state: ModeState) -> Curvature:
        r"""The curvature at a point of a search.

        Args:
            K: The prior covariance, ``batch_shape x n x n``.
            state: The point of the search.
        """
        root = state.derivatives.information.sqrt()
        return cls(root, factorize(K, root))

    def solve(self, K: Tensor, vector: Tensor) -> Tensor:
        r"""``(I + W K)⁻¹ v = v - W½ B⁻¹ W½ K v``.

        Args:
            K: The prior covariance, ``batch_shape x n x n``.
            vector: ``v``, ``batch_shape x n``.

        Returns:
            A ``batch_shape x n`` tensor.
        """
        rhs = self.root * matvec(K, vector)
        solution = self._invert(rhs.unsqueeze(-1)).squeeze(-1)
        return torch.addcmul(vector, self.root, solution, value=-1)

    def _invert(self, columns: Tensor) -> Tensor:
        """``B⁻¹`` times columns."""
        return torch.cholesky_solve(columns, self.cholesky)

    def append(self, K: Tensor, known: Tensor, root: Tensor) -> GrownCurvature:
        r"""The curvature of these trials and new ones, in ``O(n²)``.

        Args:
            K: The prior covariance of all trials, ``batch_shape x n x n``.
            known: Which of them are known here, ``n`` booleans.
            root: ``W½`` of all trials; only its values for new trials are used.

        Returns:
            The curvature of all trials, which reuses the factor of the known ones.
        """
        old, new = _split(known)
        root = root.clone()
        root[..., old] = self.root
        to_new = root.unsqueeze(-1) * K[..., new] * root[..., None, new]
        corner = to_new[..., new, :]
        corner.diagonal(dim1=-2, dim2=-1).add_(1.0)
        side = torch.linalg.solve_triangular(
            self.cholesky, to_new[..., old, :], upper=False
        )
        corner = psd_safe_cholesky(corner - side.mT @ side)
        return GrownCurvature(root, self.cholesky, side, corner, old, new)


@dataclass(frozen=True)
class GrownCurvature(Curvature):
    r"""A curvature with a few more trials than its factor.

    The factor of all trials contains the factor of the old ones unchanged, with the new
    trials below it. It is not assembled, since that would copy it.

    Attributes:
        root: ``W½`` of all trials, ``batch_shape x n``.
        cholesky: The factor of the old ones, ``batch_shape x m x m``.
        side: The block below it, transposed, ``batch_shape x m x k``.
        corner: The factor of the new ones given the old ones, ``batch_shape x k x k``.
        old: The indices of the old trials, ``m``.
        new: The indices of the new trials, ``k``.
    """

    side: Tensor
    corner: Tensor
    old: Tensor | slice
    new: Tensor | slice

    def _invert(self, columns: Tensor) -> Tensor:
        solve = torch.linalg.solve_triangular
        first = solve(self.cholesky, columns[..., self.old, :], upper=False)
        second = columns[..., self.new, :] - self.side.mT @ first
        second = torch.cholesky_solve(second, self.corner)
        first = solve(self.cholesky.mT, first - self.side @ second, upper=True)
        solution = torch.empty_like(columns)
        solution[..., self.old, :] = first
        solution[..., self.new, :] = second
        return solution


@dataclass(frozen=True)
class ModeSearch:
    r"""Newton's method for the mode of a batch of posteriors.

    Attributes:
        likelihood: The likelihood of the trials.
        prior_mean: ``m``, ``batch_shape x n``.
        K: The prior covariance, ``batch_shape x n x n``.
        targets: Labels, ``batch_shape x n``.
    """

    likelihood: TrialLikelihood
    prior_mean: Tensor
    K: Tensor
    targets: Tensor

    def run(
        self,
        initial_weights: Tensor | None,
        grow: Callable[[ModeState], Curvature] | None = None,
    ) -> ModeState:
        r"""Step until the weights and the contrasts are stationary, to rounding.

        Args:
            initial_weights: Where to start, by default at the prior mean.
            grow: Finds the curvature near there from a known one, if there is one.

        Returns:
            The end of the search.
        """
        if initial_weights is None:
            initial_weights = torch.zeros_like(self.prior_mean)
        state = self.evaluate(initial_weights)
        if grow is not None:
            curvature = grow(state)
            gap = state.derivatives.gradient - state.weights
            trial = self.evaluate(state.weights + curvature.solve(self.K, gap))
            if bool((trial.objective >= state.objective).all()):
                state = self.slide(trial, curvature)
        tolerance = self.tolerance
        error = state.error
        for _ in range(MAX_NEWTON_STEPS):
            active = error > tolerance
            if not bool(active.any()):  # the weights agree; the contrasts must, too
                active = (error > 0) & (self.contrast_error(state) > 32 * tolerance)
                if not bool(active.any()):
                    break
            curvature = Curvature.at(self.K, state)
            last = state
            state = self.step(state, active, curvature)
            if self.K.shape[-1] >= SLIDING_SIZE and self.likelihood.is_log_concave:
                state = self.slide(state, curvature)
            slow = state.error > error / 2
            error = state.error
            if bool(slow.any()):
                # No progress in value or slope: only rounding is left.
                stalled = slow & (state.objective <= last.objective)
                error = error.masked_fill(stalled, 0.0)
        return state

    @property
    def tolerance(self) -> float:
        """What rounding allows: f is a sum of n terms, and the gradient smooth in f."""
        return 1e3 * torch.finfo(self.K.dtype).eps

    def slide(self, state: ModeState, curvature: Curvature) -> ModeState:
        r"""Newton steps with the curvature of a nearby point, as long as they pay off.

        They cost a few products of matrices and vectors, and near the end each of them
        gains about as many digits as the first one did.

        Args:
            state: The point of the search.
            curvature: The curvature near there.

        Returns:
            The point that the steps reach.
        """
        for _ in range(MAX_SLIDES):
            moves = state.error > self.tolerance
            if not bool((moves & (state.error < NEAR_ENOUGH)).any()):
                break
            step = curvature.solve(self.K, state.derivatives.gradient - state.weights)
            if moves.ndim:
                step = torch.where(moves.unsqueeze(-1), step, 0.0)
            trial = self.evaluate(state.weights + step)
            if not bool((~moves | (trial.error < SHRINKAGE * state.error)).all()):
                break
            state = trial
        return state

    def evaluate(self, weights: Tensor) -> ModeState:
        r"""The log posterior at weights.

        Args:
            weights: ``batch_shape x n``.

        Returns:
            The point of the search with these weights.
        """
        residual = matvec(self.K, weights)
        contrast = self.prior_mean + residual
        derivatives = self.likelihood.log_derivatives(contrast, self.targets)
        objective = (derivatives.value - weights * residual / 2).sum(dim=-1)
        error = _largest(derivatives.gradient - weights)
        return ModeState(weights, contrast, residual, derivatives, objective, error)

    def contrast_error(self, state: ModeState) -> Tensor:
        """The distance of the contrasts from what follows from the gradient."""
        return _largest(matvec(self.K, state.derivatives.gradient - state.weights))

    def newton_weights(self, state: ModeState, curvature: Curvature) -> Tensor:
        """The maximizer of the quadratic model of the log posterior, as weights."""
        information = state.derivatives.information
        b = torch.addcmul(state.derivatives.gradient, information, state.residual)
        return curvature.solve(self.K, b)

    def hessian_weights(self, state: ModeState) -> Tensor:
        """The weights after a Newton step with the true Hessian."""
        hessian = state.derivatives.negative_hessian
        b = torch.addcmul(state.derivatives.gradient, hessian, state.residual)
        system = hessian.unsqueeze(-1) * self.K
        system.diagonal(dim1=-2, dim2=-1).add_(1.0)
        return torch.linalg.solve(system, b.unsqueeze(-1)).squeeze(-1)

    def target_weights(self, state: ModeState, curvature: Curvature) -> Tensor:
        """Where to step: with the true Hessian only near the end."""
        if self.likelihood.is_log_concave:
            return self.newton_weights(state, curvature)
        near = state.error < NEAR
        if not bool(near.any()):
            return self.newton_weights(state, curvature)
        target = self.hessian_weights(state)
        if bool(near.all()):
            return target
        return torch.where(
            near.unsqueeze(-1), target, self.newton_weights(state, curvature)
        )

    def step(self, state: ModeState, active: Tensor, curvature: Curvature) -> ModeState:
        """One damped Newton step of the active elements of the batch."""
        newton = self.target_weights(state, curvature)
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

    def is_rejected(self, trial: ModeState, state: ModeState) -> Tensor:
        """Whether a step lowered the log posterior beyond rounding, or to NaN."""
        # A sum of n terms of order one: the search climbs from log ½ per trial.
        slack = 8 * torch.finfo(self.K.dtype).eps * (1 + self.K.shape[-1])
        return ~(trial.objective - state.objective >= -slack)


def _split(known: Tensor) -> tuple[Tensor | slice, Tensor | slice]:
    """The indices of known trials and of new ones; slices if the new are the last."""
    number = int(known.sum())
    if bool(known[:number].all()):
        return slice(number), slice(number, None)
    return known.nonzero().squeeze(-1), (~known).nonzero().squeeze(-1)


def _largest(vector: Tensor) -> Tensor:
    """The largest magnitude of each vector, zero for empty ones."""
    return vector.abs().amax(dim=-1) if vector.shape[-1] else vector.sum(dim=-1)
