r"""
A Gaussian approximation of the posterior of the contrasts, however it was found.

Every approximation here replaces the likelihood of each trial by a Gaussian factor, a
*site* ``exp(ν f - ½ τ f²)``. The posterior of the contrasts, and with it the posterior
of the latent function anywhere, is then the same as in Gaussian process regression, and
takes the same few products: with ``P = (K + T⁻¹)⁻¹``, ``T = diag(τ)``,

    ``mean = m* + k*ᵀ a``,  ``covariance = k** - k*ᵀ P k*``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import torch
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from botorch_binary_context.inference.small import SmallPosterior, SmallProblem
from botorch_binary_context.likelihoods.base import LogDerivatives
from botorch_binary_context.likelihoods.probit_terms import Array, ProbitTerms


class TiltedLikelihood(Protocol):
    r"""The likelihood of all trials, as the matching of moments needs it."""

    def tilted_derivatives(
        self, mean: Tensor, variance: Tensor, targets: Tensor
    ) -> LogDerivatives:
        """``log E p(c|f)`` of every trial and its derivatives in the mean."""
        ...


class TrialLikelihood(TiltedLikelihood, Protocol):
    r"""The likelihood of all trials, as inference needs it."""

    @property
    def is_log_concave(self) -> bool:
        """Whether ``log p(c|f)`` is concave for every trial."""
        ...

    @property
    def requires_grad(self) -> bool:
        """Whether it has parameters that are learned."""
        ...

    def log_prob(self, contrast: Tensor, targets: Tensor) -> Tensor:
        """``log p(c|f)`` of every trial."""
        ...

    def log_derivatives(self, contrast: Tensor, targets: Tensor) -> LogDerivatives:
        """``log p(c|f)`` of every trial and its derivatives in ``f``."""
        ...

    def probit_terms(self, targets: Tensor) -> ProbitTerms | None:
        """The answers in NumPy, if all have a probit link and fixed rates."""
        ...


@dataclass(frozen=True)
class Start:
    r"""The starting point of an approximation that is similar to a known one.

    Attributes:
        values: Numbers for each trial, ``batch_shape x n x k``; zeros for trials about
            which nothing is known.
        former: The approximation of some of the trials with the same prior, if it is
            useful.
        known: Which trials these are, ``n`` booleans.
    """

    values: Tensor
    former: GaussianApproximation | None = None
    known: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class GaussianApproximation(ABC):
    r"""A Gaussian approximation of the posterior of the contrasts.

    Attributes:
        prior_mean: ``m``, ``batch_shape x n``.
        prior_covariance: ``K``, ``batch_shape x n x n``.
        weights: ``a``, ``batch_shape x n``; the posterior mean at a point is
            ``m* + k*ᵀ a``.
        sqrt_information: ``W½``, the roots of the positive site precisions,
            ``batch_shape x n``; zero where a site precision is negative.
        cholesky: The factor of ``B = I + W½ K W½``, ``batch_shape x n x n``.
        inflation: ``R``, ``batch_shape x n x n``, if some site precisions are negative:
            ``P = W½ B⁻¹ W½ - Rᵀ R``. A trial whose site is negative makes the posterior
            wider, as a guess does that contradicts what was believed.
    """

    prior_mean: Tensor
    prior_covariance: Tensor
    weights: Tensor
    sqrt_information: Tensor
    cholesky: Tensor
    inflation: Tensor | None = None

    @property
    @abstractmethod
    def log_evidence(self) -> Tensor:
        r"""The approximate ``log p(c)``, ``batch_shape``."""

    @property
    @abstractmethod
    def start(self) -> Start:
        r"""Where to start the search for a similar approximation."""

    @abstractmethod
    def as_sites(self) -> Tensor:
        r"""The site parameters ``τ`` and ``ν``, ``batch_shape x n x 2``."""

    def whiten(self, cross_covariance: Tensor) -> Tensor:
        r"""``V = L⁻¹ W½ k*``; without inflation the explained covariance is ``VᵀV``.

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

    def explained_variance(self, cross_covariance: Tensor) -> Tensor:
        r"""The diagonal of ``k*ᵀ P k*``: how much the data reduce the variance.

        Args:
            cross_covariance: A ``batch_shape x n x q`` tensor ``k*``.

        Returns:
            A ``batch_shape x q`` tensor.
        """
        explained = self.whiten(cross_covariance).square().sum(dim=-2)
        if self.inflation is None:
            return explained
        return explained - (self.inflation @ cross_covariance).square().sum(dim=-2)

    def project(self, cross_covariance: Tensor) -> Tensor:
        r"""``P k*``, so that the posterior covariance with ``k`` is ``k** - kᵀ P k*``.

        Args:
            cross_covariance: A ``batch_shape x n x q`` tensor ``k*``.

        Returns:
            A ``batch_shape x n x q`` tensor.
        """
        root = self.sqrt_information.unsqueeze(-1)
        solution = torch.cholesky_solve(root * cross_covariance, self.cholesky)
        projected = root * solution
        if self.inflation is None:
            return projected
        return projected - self.inflation.mT @ (self.inflation @ cross_covariance)

    def projection(self) -> Tensor:
        r"""``P``, ``batch_shape x n x n``."""
        root = self.sqrt_information.unsqueeze(-1)
        scaling = torch.diag_embed(self.sqrt_information)
        P = root * torch.cholesky_solve(scaling, self.cholesky)
        return P if self.inflation is None else P - self.inflation.mT @ self.inflation

    def draw_weights(self, values: Tensor) -> Tensor:
        r"""Weights that turn draws from the prior into draws from the posterior.

        With ``f₀`` drawn from the prior with zero mean, and ``w`` these weights,
        ``m(·) + f₀(·) + k(·,X) w`` is drawn from the posterior: Matheron's rule, in a
        form that never divides by the information of a saturated trial,
        ``w = a - W½ B⁻¹ (W½ f₀(X) + ε)``.

        Args:
            values: ``f₀`` at the training contrasts, ``samples x batch_shape x n``.

        Returns:
            A ``samples x batch_shape x n`` tensor.
        """
        noise = torch.randn_like(values)
        root = self.sqrt_information
        solution = solve_columns(self.cholesky, root * values + noise)
        weights = self.weights - root * solution
        if self.inflation is None:
            return weights
        noise = torch.randn_like(values)
        return weights + torch.einsum("...ij,...i->...j", self.inflation, noise)


class Inference(ABC):
    r"""A way to approximate the posterior.

    A new one implements :meth:`approximate`.
    """

    @abstractmethod
    def approximate(
        self,
        likelihood: TrialLikelihood,
        prior_mean: Tensor,
        K: Tensor,
        targets: Tensor,
        start: Start | None = None,
    ) -> GaussianApproximation:
        r"""Approximate the posterior of the contrasts by a Gaussian.

        Args:
            likelihood: The likelihood of the trials.
            prior_mean: The prior mean ``m``, ``batch_shape x n``.
            K: The prior covariance, ``batch_shape x n x n``.
            targets: Labels, ``batch_shape x n``.
            start: The ``start`` of a similar approximation, if known.

        Returns:
            The approximation, differentiable in ``prior_mean`` and ``K``.
        """

    def evidence(
        self,
        likelihood: TrialLikelihood,
        prior_mean: Tensor,
        K: Tensor,
        targets: Tensor,
        start: Start | None = None,
    ) -> tuple[Tensor, Start]:
        r"""The approximate log evidence, and where to start the next time.

        Args:
            likelihood: The likelihood of the trials.
            prior_mean: The prior mean ``m``, ``batch_shape x n``.
            K: The prior covariance, ``batch_shape x n x n``.
            targets: Labels, ``batch_shape x n``.
            start: The ``start`` of a similar approximation, if known.

        Returns:
            ``log p(c)``, ``batch_shape``, and the ``start`` of this approximation.
        """
        found = self.approximate(likelihood, prior_mean, K, targets, start)
        return found.log_evidence, found.start

    def find_small(
        self, problem: SmallProblem, start: Array | None = None
    ) -> SmallPosterior | None:
        r"""The approximation of models of few trials, where NumPy is faster.

        Args:
            problem: The priors and the answers.
            start: The ``start`` of a similar search, ``b x n x k``.

        Returns:
            The result; None if :meth:`approximate` is needed instead.
        """
        return None

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({arguments})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *sorted(vars(self).items())))


def factorize(K: Tensor, sqrt_information: Tensor) -> Tensor:
    r"""The Cholesky factor of ``B = I + W½ K W½``.

    Args:
        K: The prior covariance, ``batch_shape x n x n``.
        sqrt_information: ``W½``, ``batch_shape x n``.

    Returns:
        A lower triangular ``batch_shape x n x n`` tensor.
    """
    B = _scaled(K, sqrt_information)
    if B.requires_grad:
        cholesky, info = torch.linalg.cholesky_ex(B)
    else:
        # In place: memory that is touched for the first time costs a third more.
        cholesky = B.mT  # symmetric, and in the order of LAPACK
        info = torch.empty(B.shape[:-2], dtype=torch.int32, device=B.device)
        torch.linalg.cholesky_ex(cholesky, out=(cholesky, info))
    # Only rounding of a huge K can make it fail.
    return psd_safe_cholesky(_scaled(K, sqrt_information)) if info.any() else cholesky


def _scaled(K: Tensor, root: Tensor) -> Tensor:
    """``B = I + W½ K W½``."""
    B = (root.unsqueeze(-2) * K).mul_(root.unsqueeze(-1))
    B.diagonal(dim1=-2, dim2=-1).add_(1.0)
    return B


def matvec(matrix: Tensor, vector: Tensor) -> Tensor:
    r"""The product of matrices and vectors.

    Args:
        matrix: A ``... x n x m`` tensor.
        vector: A ``... x m`` tensor.

    Returns:
        A ``... x n`` tensor.
    """
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def solve_columns(cholesky: Tensor, rhs: Tensor) -> Tensor:
    r"""Solve with one factor for many right-hand sides.

    Args:
        cholesky: A lower triangular ``batch_shape x n x n`` tensor.
        rhs: A ``samples x batch_shape x n`` tensor.

    Returns:
        A ``samples x batch_shape x n`` tensor.
    """
    num_batch = cholesky.ndim - 2
    samples = rhs.shape[: rhs.ndim - 1 - num_batch]
    columns = rhs.reshape(samples.numel(), *rhs.shape[len(samples) :]).movedim(0, -1)
    solution = torch.cholesky_solve(columns, cholesky).movedim(-1, 0)
    return solution.reshape(*samples, *solution.shape[1:])
