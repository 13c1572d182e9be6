r"""
The search for the trial with the largest knowledge gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from botorch_binary_context.context import ContextSpace
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.optim import (
    SearchOptions,
    choose_best,
    find_starts,
    maximize_from,
)

# The number of further candidates that become starts.
NUM_CANDIDATES = 4


class NestedKnowledgeGradient(Protocol):
    r"""The interface of a knowledge gradient that the search needs."""

    model: LatentGP
    space: ContextSpace
    parameters_searched: Tensor

    def evaluate(self, X: Tensor) -> Tensor:
        """The value."""
        ...

    def screen(self, X: Tensor) -> Tensor:
        """A quick estimate of the value."""
        ...

    def inner_starts(self, X: Tensor) -> Tensor:
        """Roughly where the inner maxima are, ``t x batch_shape x K x (d - m)``."""
        ...

    def evaluate_joint(self, X: Tensor, inner_parameters: Tensor) -> Tensor:
        """The value with given inner points, as accurate as a search needs it."""
        ...


def maximize_knowledge_gradient(
    nested: NestedKnowledgeGradient,
    decode: Callable[[Tensor], Tensor],
    bounds: Tensor,
    options: SearchOptions = SearchOptions(),  # noqa: B008
    seed: int | None = None,
    candidates: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""The variables whose trial has the largest knowledge gradient.

    Starts are chosen by the nested form among the searched points; from there the trial
    and the inner maximizers, one for each outcome, climb together, as in the one-shot
    form.

    Args:
        nested: The knowledge gradient.
        decode: Maps ``r x batch_shape x k`` variables to trials.
        bounds: The ``2 x k`` bounds of the variables.
        options: The effort of the search.
        seed: The seed of the search.
        candidates: Further variables, ``r x batch_shape x k``, the best of which become
            starts, too.

    Returns:
        The variables, ``batch_shape x k``, and the knowledge gradient, ``batch_shape``.
    """
    k = bounds.shape[-1]
    batch_shape = nested.model.batch_shape
    starts = find_starts(
        lambda u: nested.screen(decode(u)), bounds, batch_shape, options, seed
    )
    if candidates is not None:
        with torch.no_grad():
            values = nested.screen(decode(candidates))
        best = choose_best(candidates, values, NUM_CANDIDATES)
        starts = torch.cat([starts, best])
    inner = nested.inner_starts(decode(starts))
    number = inner.shape[-2]
    variables, value = maximize_from(
        lambda u: nested.evaluate_joint(
            decode(u[..., :k]), u[..., k:].unflatten(-1, (number, -1))
        ),
        torch.cat([starts, inner.flatten(-2)], dim=-1),
        torch.cat([bounds] + [nested.space.parameter_bounds] * number, dim=-1),
        options,
    )
    return variables[..., :k], value
