r"""
How rules of two stages choose the context, given the parameters: ``batch_shape x m``.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from botorch_binary_context.acquisition.analytic import BernoulliMutualInformation
from botorch_binary_context.acquisition.targeted import TargetedInformation
from botorch_binary_context.goals import AtContext, AtReference
from botorch_binary_context.numerics.optim import SearchOptions
from botorch_binary_context.rules.base import Selection

CONTEXT_SEARCH = SearchOptions(num_restarts=3, raw_samples=64)


def most_informative(selection: Selection, parameters: Tensor) -> Tensor:
    r"""The context in which the outcome tells most about the latent function (ALD)."""
    if selection.space.num_contexts == 0:
        return at_random(selection, parameters)
    score = BernoulliMutualInformation(selection.model).evaluate
    return selection.maximize_context(score, parameters, _context_search(selection))


def _context_search(selection: Selection) -> SearchOptions:
    """A context has few variables: fewer starts, no more effort than for the rest."""
    options = selection.options
    return replace(
        CONTEXT_SEARCH,
        max_evaluations=min(options.max_evaluations, CONTEXT_SEARCH.max_evaluations),
        relative_gain=max(options.relative_gain, CONTEXT_SEARCH.relative_gain),
    )


def most_targeted(selection: Selection, parameters: Tensor) -> Tensor:
    r"""The context whose outcome tells most about the one that counts.

    That of the goal, by default the reference context. With a goal of several contexts
    it is :func:`most_informative`.
    """
    if selection.space.num_contexts == 0:
        return at_random(selection, parameters)
    if not isinstance(selection.target, AtReference | AtContext):
        return most_informative(selection, parameters)
    target = selection.target.rows(selection.space, parameters).squeeze(-2)
    score = TargetedInformation(selection.model, target).evaluate
    return selection.maximize_context(score, parameters, _context_search(selection))


def at_random(selection: Selection, parameters: Tensor) -> Tensor:
    r"""A context drawn uniformly."""
    low, high = selection.space.context_bounds
    shape = (*selection.model.batch_shape, selection.space.num_contexts)
    return low + (high - low) * torch.rand(shape, dtype=low.dtype, device=low.device)


def at_reference(selection: Selection, parameters: Tensor) -> Tensor:
    r"""Always the reference context."""
    reference = selection.space.reference_context
    return reference.expand(*selection.model.batch_shape, -1)
