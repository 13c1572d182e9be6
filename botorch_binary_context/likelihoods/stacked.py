r"""
The likelihood of trials of several kinds, which follow one another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_binary_context.likelihoods.base import LogDerivatives, OutcomeLikelihood
from botorch_binary_context.likelihoods.probit_terms import ProbitTerms


@dataclass(frozen=True)
class StackedLikelihood:
    r"""Trials of several kinds, each with its own likelihood.

    Attributes:
        parts: The likelihood of each kind and the number of its trials.
    """

    parts: Sequence[tuple[OutcomeLikelihood, int]]

    @property
    def is_log_concave(self) -> bool:
        """Whether ``log p(c|f)`` is concave for every trial."""
        return all(likelihood.is_log_concave for likelihood, _ in self.parts)

    @property
    def requires_grad(self) -> bool:
        """Whether a likelihood has parameters that are learned."""
        return any(likelihood.requires_grad for likelihood, _ in self.parts)

    def append(self, likelihood: OutcomeLikelihood, count: int) -> StackedLikelihood:
        r"""The same trials, followed by others.

        Args:
            likelihood: The likelihood of the others.
            count: Their number.

        Returns:
            The likelihood of all.
        """
        last, number = self.parts[-1]
        if last is likelihood:
            return StackedLikelihood([*self.parts[:-1], (last, number + count)])
        return StackedLikelihood([*self.parts, (likelihood, count)])

    def log_prob(self, contrast: Tensor, targets: Tensor) -> Tensor:
        r"""``log p(c|f)``.

        Args:
            contrast: A ``... x n`` tensor of contrasts.
            targets: A ``... x n`` tensor of labels.

        Returns:
            A ``... x n`` tensor.
        """
        if len(self.parts) == 1:
            return self.parts[0][0].log_prob(contrast, targets)
        sizes = [count for _, count in self.parts]
        blocks = zip(contrast.split(sizes, -1), targets.split(sizes, -1), strict=True)
        values = [
            likelihood.log_prob(*block)
            for (likelihood, _), block in zip(self.parts, blocks, strict=True)
        ]
        return torch.cat(values, dim=-1)

    def probit_terms(self, targets: Tensor) -> ProbitTerms | None:
        r"""The answers in NumPy, for searches over few trials.

        Args:
            targets: The labels of ``... x n`` trials, on the CPU.

        Returns:
            The answers; None if some have no probit link, or rates that are learned.
        """
        if len(self.parts) == 1:
            return self.parts[0][0].probit_terms(targets)
        sizes = [count for _, count in self.parts]
        found = [
            likelihood.probit_terms(part)
            for (likelihood, _), part in zip(
                self.parts, targets.split(sizes, dim=-1), strict=True
            )
        ]
        known = [terms for terms in found if terms is not None]
        return ProbitTerms.join(known) if len(known) == len(found) else None

    def log_derivatives(self, contrast: Tensor, targets: Tensor) -> LogDerivatives:
        r"""``log p(c|f)`` and its derivatives in ``f``.

        Args:
            contrast: A ``... x n`` tensor of contrasts.
            targets: A ``... x n`` tensor of labels.

        Returns:
            The value, the gradient and the curvatures.
        """
        return self._join(
            lambda likelihood: likelihood.log_derivatives, contrast, targets
        )

    def tilted_derivatives(
        self, mean: Tensor, variance: Tensor, targets: Tensor
    ) -> LogDerivatives:
        r"""``log E p(c|f)`` for Gaussian contrasts, and its derivatives in their mean.

        Args:
            mean: The mean of the contrasts, ``... x n``.
            variance: Their variance, ``... x n``.
            targets: Labels, ``... x n``.
        """
        return self._join(
            lambda likelihood: likelihood.tilted_derivatives, mean, variance, targets
        )

    def _join(
        self,
        method: Callable[[OutcomeLikelihood], Callable[..., LogDerivatives]],
        *arguments: Tensor,
    ) -> LogDerivatives:
        """Derivatives of all kinds, each by its own likelihood."""
        if len(self.parts) == 1:
            return method(self.parts[0][0])(*arguments)
        sizes = [count for _, count in self.parts]
        blocks = zip(*[a.split(sizes, dim=-1) for a in arguments], strict=True)
        parts = [
            method(likelihood)(*block)
            for (likelihood, _), block in zip(self.parts, blocks, strict=True)
        ]
        return LogDerivatives(
            torch.cat([part.gradient for part in parts], dim=-1),
            torch.cat([part.negative_hessian for part in parts], dim=-1),
            torch.cat([part.information for part in parts], dim=-1),
            lambda: torch.cat([part.value for part in parts], dim=-1),
        )
