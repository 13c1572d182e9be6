r"""
Trials of one kind, with their outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from botorch_binary_context.likelihoods import OutcomeLikelihood
from botorch_binary_context.models.validation import check_trials


@dataclass(frozen=True, eq=False)
class Observations:
    r"""Trials that observe the same functional and are answered in the same way.

    Attributes:
        X: The trials: ``batch_shape x n x d`` for pass/fail outcomes,
            ``batch_shape x n x 2 x d`` for duels; ``n`` may be zero.
        Y: Their labels, ``batch_shape x n x 1``.
        likelihood: How they are answered.

    Example:
        >>> outcomes = Observations(X, Y, ProbitLikelihood(guess_rate=0.5))
        >>> duels = Observations(pairs, winners, PreferenceLikelihood())
    """

    X: Tensor
    Y: Tensor
    likelihood: OutcomeLikelihood

    def __post_init__(self) -> None:
        check_trials(self.X, self.Y, self.likelihood)
