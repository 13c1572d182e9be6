r"""
The knowledge gradient with the inner maximizers among the variables.
"""

from __future__ import annotations

from typing import Any

import torch
from botorch.acquisition import OneShotAcquisitionFunction
from botorch.exceptions import UnsupportedError
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from botorch_binary_context.acquisition.knowledge_gradient import (
    ContextualBinaryKnowledgeGradient,
    KnowledgeGradientBase,
)


class OneShotContextualBinaryKnowledgeGradient(
    KnowledgeGradientBase, OneShotAcquisitionFunction
):
    r"""The knowledge gradient with the inner maximizers among the variables.

    A candidate carries two further rows, the points ``x'`` for a pass and for a fail,
    or one for each outcome from the highest label down (their context columns are
    ignored). If all rows are optimized jointly, the maximum is the same as for
    :class:`ContextualBinaryKnowledgeGradient`, without an inner search.

    Example:
        >>> acqf = OneShotContextualBinaryKnowledgeGradient(model, space)
        >>> generator = gen_one_shot_knowledge_gradient_initial_conditions
        >>> optimize_acqf(acqf, space.bounds, q=1, num_restarts=10, raw_samples=256,
        ...               ic_generator=generator)
    """

    def get_augmented_q_batch_size(self, q: int) -> int:
        r"""The number of rows of a candidate together with the inner maximizers.

        Args:
            q: The number of rows of a trial.

        Returns:
            ``q + 2`` with two outcomes.
        """
        return q + self.model.likelihood.num_outcomes

    def extract_candidates(self, X_full: Tensor) -> Tensor:
        r"""The trials without the inner maximizers.

        Args:
            X_full: A ``batch_shape x (q + K) x d`` tensor, with ``K`` outcomes.

        Returns:
            A ``batch_shape x q x d`` tensor.
        """
        return X_full[..., : -self.model.likelihood.num_outcomes, :]

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The one-shot knowledge gradient.

        Args:
            X: A ``t x batch_shape x (q + K) x d`` tensor, with ``K`` outcomes.

        Returns:
            A ``t x batch_shape`` tensor.
        """
        number = self.model.likelihood.num_outcomes
        expected = self.model.functional.num_rows + number
        if X.shape[-2] != expected:
            more = {2: "two"}.get(number, str(number))
            raise UnsupportedError(
                f"Expected ``X`` to have the rows of a trial and {more} more, "
                f"{expected}, but got {X.shape[-2]}."
            )
        trials, inner = X[..., :-number, :], X[..., -number:, :]
        return self.evaluate_at(trials, self.space.parameters(inner))


def gen_one_shot_knowledge_gradient_initial_conditions(
    acq_function: OneShotContextualBinaryKnowledgeGradient,
    bounds: Tensor,
    q: int,
    num_restarts: int,
    raw_samples: int,
    fixed_features: dict[int, float] | None = None,
    options: dict[str, Any] | None = None,
    **kwargs: Any,
) -> Tensor:
    r"""Initial conditions for ``optimize_acqf`` on the one-shot knowledge gradient.

    These are the best of quasi-random candidates under the nested form, each with the
    maximizers of its fantasy posteriors.

    Args:
        acq_function: The acquisition function.
        bounds: The ``2 x d`` bounds of the trials.
        q: The number of rows of a trial.
        num_restarts: The number of initial conditions.
        raw_samples: The number of quasi-random candidates.
        fixed_features: Context columns to hold at a value.
        options: May hold a ``seed``.
        kwargs: Further arguments of ``optimize_acqf``; not used.

    Returns:
        A ``num_restarts x (q + K) x d`` tensor, with ``K`` outcomes.
    """
    model = acq_function.model
    space = acq_function.space
    parameters = [i for i in fixed_features or {} if i not in space.context_dims]
    if parameters:
        raise UnsupportedError(
            "Expected ``fixed_features`` to be context columns, since others would be "
            f"fixed in the inner maximizers, too, but got {parameters}: use "
            "``ContextualBinaryKnowledgeGradient``."
        )
    nested = ContextualBinaryKnowledgeGradient(model, space)
    seed = (options or {}).get("seed")
    X = draw_sobol_samples(bounds, n=raw_samples, q=q, seed=seed).to(bounds)
    columns = list(space.context_dims)
    X[..., columns] = X[:, :1, columns]  # the rows of a trial share their context
    for column, value in (fixed_features or {}).items():
        X[..., column] = value
    with torch.no_grad():
        best = nested.screen(X).topk(min(num_restarts, raw_samples)).indices
        X = X[best]
        inner = space.at_reference(nested.inner_starts(X))
    return torch.cat([X, inner], dim=-2)
