r"""
How rules of two stages choose the context, given the parameters: ``batch_shape x m``.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from botorch_binary_context.acquisition.analytic import BernoulliMutualInformation
from botorch_binary_context.acquisition.targeted import TargetedInformation
from botorch_binary_context.goals.sampled import latent_weights
from botorch_binary_context.numerics.optim import SearchOptions
from botorch_binary_context.rules.base import Selection

CONTEXT_SEARCH = SearchOptions(num_restarts=3, raw_samples=64)


def most_informative(selection: Selection, parameters: Tensor) -> Tensor:
    r"""The context whose outcome is most informative about ``f`` (ALD)."""
    if selection.space.num_contexts == 0:
        return at_random(selection, parameters)
    score = BernoulliMutualInformation(selection.model).evaluate
    return selection.maximize_context(score, parameters, _context_search(selection))


def _context_search(selection: Selection) -> SearchOptions:
    """Less effort, since a context has few variables."""
    options = selection.options
    return replace(
        CONTEXT_SEARCH,
        max_evaluations=min(options.max_evaluations, CONTEXT_SEARCH.max_evaluations),
        relative_gain=max(options.relative_gain, CONTEXT_SEARCH.relative_gain),
    )


def most_targeted(selection: Selection, parameters: Tensor) -> Tensor:
    r"""The context whose outcome is most informative about the goal.

    By default the goal is the value in the reference context. Goals that are not linear
    in the latent function, such as the worst case, enter through their covariance with
    it.
    """
    if selection.space.num_contexts == 0:
        return at_random(selection, parameters)
    goal = selection.target
    model = selection.model
    # A trial has ``q`` sides; of each the goal looks at ``K`` rows.
    rows = goal.rows(selection.space, parameters.movedim(-2, 0))  # q x b x K x d
    weights = latent_weights(goal, model, rows).movedim(0, -2)  # b x q x K
    sides = rows.new_tensor(model.functional.weights).unsqueeze(-1)
    target = rows.movedim(0, -3).flatten(-3, -2)
    weights = (sides * weights).flatten(-2)
    score = TargetedInformation(model, target, weights=weights).evaluate
    return selection.maximize_context(score, parameters, _context_search(selection))


def at_random(selection: Selection, parameters: Tensor) -> Tensor:
    r"""A context drawn uniformly, among the safe ones if trials have to be safe."""
    chosen = selection.draw(
        lambda s: selection.test(parameters, s), selection.space.context_bounds
    )
    return selection.space.contexts(chosen)[..., 0, :]


def at_reference(selection: Selection, parameters: Tensor) -> Tensor:
    r"""Always the reference context."""
    reference = selection.space.reference_context
    return reference.expand(*selection.answered_model.batch_shape, -1)
