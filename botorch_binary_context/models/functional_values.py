r"""
The values of a functional of the latent function at many candidates.

A candidate has as many rows as the functional combines: one for the value of ``f``, two
for the difference of a duel. Everything is computed for the candidates directly, in the
folded layout of :mod:`botorch_binary_context.numerics.batching`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from botorch_binary_context.functionals import Functional
from botorch_binary_context.numerics.batching import expand_batch, fold, unfold
from botorch_binary_context.numerics.covariance import clamp_variance

if TYPE_CHECKING:
    from botorch_binary_context.models.latent_gp import LatentGP


@dataclass(frozen=True)
class FunctionalValues:
    r"""The values of a functional at ``T`` candidates, folded.

    Attributes:
        model: The model.
        functional: The functional.
        batch: The batch shape of the candidates, ``t x batch_shape``.
        rows: The transformed rows of the candidates, ``batch_shape x (T q) x d``.
    """

    model: LatentGP
    functional: Functional
    batch: torch.Size
    rows: Tensor

    @classmethod
    def of(cls, model: LatentGP, X: Tensor, functional: Functional) -> FunctionalValues:
        r"""The values at candidates.

        Args:
            model: The model.
            X: The rows of each candidate, ``t x batch_shape x q x d``.
            functional: The functional.
        """
        _check_candidates(functional, X)
        if model.training:
            model.eval()
        X = expand_batch(model.transform_inputs(X), model.batch_shape)
        _check_candidates(functional, X)  # again: a transform may add rows
        rows = fold(X, len(model.batch_shape))
        return cls(model, functional, X.shape[:-2], rows)

    @cached_property
    def cross(self) -> Tensor:
        """The prior covariance with the training contrasts, ``batch_shape x n x T``."""
        return self.functional(self.model.cross_covariance(self.rows))

    @cached_property
    def prior_mean(self) -> Tensor:
        """The prior mean, ``batch_shape x T``."""
        return self.functional(self.model.prior_mean(self.rows))

    @cached_property
    def prior_variance(self) -> Tensor:
        """The prior variance, ``batch_shape x T``."""
        return self.model.prior_variance(self.rows, self.functional)

    def mean(self) -> Tensor:
        r"""The posterior mean, ``batch_shape x T``."""
        weights = self.model.approximation.weights.unsqueeze(-2)
        return self.prior_mean + (weights @ self.cross).squeeze(-2)

    def moments(self) -> tuple[Tensor, Tensor]:
        r"""The posterior mean and variance, ``batch_shape x T``."""
        explained = self.model.approximation.explained_variance(self.cross)
        return self.mean(), clamp_variance(self.prior_variance - explained)

    def prior_covariance(self, other: FunctionalValues) -> Tensor:
        r"""The prior covariance of every candidate with every candidate of another set.

        Args:
            other: ``M`` values of the same model.

        Returns:
            A ``batch_shape x T x M`` tensor.
        """
        covar = self.model.prior_covariance(self.rows, other.rows)
        return other.functional(self.functional(covar, dim=-2))

    def paired_prior_covariance(self, other: FunctionalValues) -> Tensor:
        r"""The prior covariance of every candidate with its counterpart in another set.

        Args:
            other: ``T`` values of the same model.

        Returns:
            A ``batch_shape x T`` tensor.
        """
        first, second = (
            values.rows.unflatten(-2, (-1, values.functional.num_rows)).movedim(-3, 0)
            for values in (self, other)
        )  # T x batch_shape x q x d: kernels want their batch next to the matrix
        covar = self.model.prior_covariance(first, second)
        covar = other.functional(self.functional(covar, dim=-2))
        return covar[..., 0, 0].movedim(0, -1)

    def project(self) -> Tensor:
        r"""``P k``, ``batch_shape x n x T``: see :meth:`covariance`."""
        return self.model.approximation.project(self.cross)

    def covariance(self, other: FunctionalValues, projected: Tensor) -> Tensor:
        r"""The posterior covariance of every candidate with every candidate of another
        set.

        Args:
            other: ``M`` values of the same model.
            projected: ``other.project()``, which is computed once for many candidates.

        Returns:
            A ``batch_shape x T x M`` tensor.
        """
        return self.prior_covariance(other) - self.cross.mT @ projected

    def detach(self) -> FunctionalValues:
        """The same without a graph to the candidates."""
        return replace(self, rows=self.rows.detach())

    def evaluate(self, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        r"""A function of the posterior mean and variance of each candidate.

        Args:
            function: Maps two ``batch_shape x T`` tensors to another one.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        return self.unfold(function(*self.moments()))

    def unfold(self, values: Tensor) -> Tensor:
        r"""Values of the candidates, in the original shape.

        Args:
            values: A ``batch_shape x T`` tensor.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        num_batch = len(self.model.batch_shape)
        return unfold(values.unsqueeze(-1), self.batch, 1, num_batch)[..., 0, 0]


def compute_together(*parts: FunctionalValues) -> None:
    r"""Compute the covariances of several sets with the training data by one product.

    Args:
        parts: Values of the same model.
    """
    rows = torch.cat([part.rows for part in parts], dim=-2)
    sizes = [part.rows.shape[-2] for part in parts]
    cross = parts[0].model.cross_covariance(rows).split(sizes, dim=-1)
    for part, block in zip(parts, cross, strict=True):
        part.__dict__["cross"] = part.functional(block)  # where it would be cached


def compute_beside(candidates: FunctionalValues, other: FunctionalValues) -> Tensor:
    r"""Compute covariances with the training data and with other values by one product.

    Args:
        candidates: ``T`` values; their covariances with the training data are cached.
        other: ``M`` values of the same model.

    Returns:
        The prior covariance with the other values, ``batch_shape x T x M``.
    """
    model = candidates.model
    data = model.datapoints.expand(*other.rows.shape[:-2], -1, -1)
    rows = torch.cat([data, other.rows], dim=-2)
    covar = candidates.functional(model.prior_covariance(rows, candidates.rows))
    old, new = covar.split([data.shape[-2], other.rows.shape[-2]], dim=-2)
    candidates.__dict__["cross"] = model.trial_functional(old, dim=-2)
    return other.functional(new, dim=-2).mT


def _check_candidates(functional: Functional, X: Tensor) -> None:
    rows = functional.num_rows
    if X.shape[-2] != rows:
        known = {1: "one row", 2: "a duel, two rows"}
        kind = known.get(rows, f"{rows} rows")
        raise UnsupportedError(
            f"Expected candidates of ``X`` to be {kind}, but got {X.shape[-2]} rows."
        )
