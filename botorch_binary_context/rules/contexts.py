r"""
How rules of two stages choose the context, given the parameters: ``batch_shape x m``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_binary_context.acquisition.analytic import BernoulliMutualInformation
from botorch_binary_context.acquisition.targeted import TargetedInformation
from botorch_binary_context.numerics.optim import SearchOptions
from botorch_binary_context.rules.base import Selection

# How much more information another context than the reference one has to promise.
MARGIN = 0.5
CONTEXT_SEARCH = SearchOptions(num_restarts=3, raw_samples=64)


def most_informative(selection: Selection, parameters: Tensor) -> Tensor:
    r"""The context in which the outcome tells most about the latent function (ALD)."""
    if selection.space.num_contexts == 0:
        return at_random(selection, parameters)
    score = BernoulliMutualInformation(selection.model).evaluate
    return selection.maximize_context(score, parameters, CONTEXT_SEARCH)


def most_targeted(selection: Selection, parameters: Tensor) -> Tensor:
    r"""The context whose outcome tells most about the reference context.

    The reference context itself tells about it whatever the model believes about
    contexts, so another one has to promise clearly more.
    """
    space = selection.space
    if space.num_contexts == 0:
        return at_random(selection, parameters)
    target = space.at_reference(parameters)
    score = TargetedInformation(selection.model, target).evaluate
    best = selection.maximize_context(score, parameters, CONTEXT_SEARCH)
    if selection.constraints is not None or selection.safe is not None:
        return best  # which the reference context need not satisfy
    elsewhere = score(space.join(parameters, best.unsqueeze(-2)))
    is_better = elsewhere > (1.0 + MARGIN) * score(target)
    reference = at_reference(selection, parameters)
    return torch.where(is_better.unsqueeze(-1), best, reference)


def at_random(selection: Selection, parameters: Tensor) -> Tensor:
    r"""A context drawn uniformly."""
    low, high = selection.space.context_bounds
    shape = (*selection.model.batch_shape, selection.space.num_contexts)
    return low + (high - low) * torch.rand(shape, dtype=low.dtype, device=low.device)


def at_reference(selection: Selection, parameters: Tensor) -> Tensor:
    r"""Always the reference context."""
    reference = selection.space.reference_context
    return reference.expand(*selection.model.batch_shape, -1)
