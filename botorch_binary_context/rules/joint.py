r"""
How rules choose a whole trial at once: ``batch_shape x num_rows x d``.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from botorch_binary_context.acquisition.analytic import BernoulliMutualInformation
from botorch_binary_context.acquisition.entropy_search import (
    ContextualJointEntropySearch,
)
from botorch_binary_context.acquisition.joint_search import (
    NestedKnowledgeGradient,
    maximize_knowledge_gradient,
)
from botorch_binary_context.acquisition.knowledge_gradient import (
    ContextualBinaryKnowledgeGradient,
)
from botorch_binary_context.acquisition.moment_matched import (
    MomentMatchedKnowledgeGradient,
)
from botorch_binary_context.numerics.optim import SearchOptions
from botorch_binary_context.rules.base import Selection, draw_point_set

# The current best only needs to be good enough to compare others with.
ROUGH_SEARCH = SearchOptions(num_restarts=4, raw_samples=256, max_evaluations=30)
ROUGH_GAIN = 1e-4


def by_knowledge_gradient(selection: Selection) -> Tensor:
    r"""The trial of the largest knowledge gradient, by refitted posteriors."""
    nested = ContextualBinaryKnowledgeGradient(selection.model, selection.space)
    return _by_joint_search(selection, nested, selection.coarse_options)


def by_moment_matched_knowledge_gradient(selection: Selection) -> Tensor:
    r"""The trial of the largest knowledge gradient, in closed form."""
    nested = MomentMatchedKnowledgeGradient(
        selection.model, selection.space, options=ROUGH_SEARCH
    )
    options = replace(selection.coarse_options, relative_gain=ROUGH_GAIN)
    return _by_joint_search(selection, nested, options)


def _by_joint_search(
    selection: Selection, nested: NestedKnowledgeGradient, options: SearchOptions
) -> Tensor:
    trials = selection.trials
    variables, _ = maximize_knowledge_gradient(
        nested, trials.decode, trials.bounds, options, draw_point_set()
    )
    return trials.decode(variables)


def by_mutual_information(selection: Selection) -> Tensor:
    r"""The trial whose outcome tells most about the latent function (BALD)."""
    acqf = BernoulliMutualInformation(selection.model)
    return selection.maximize_trial(acqf.evaluate)


def by_joint_entropy_search(selection: Selection) -> Tensor:
    r"""The trial whose outcome tells most about the optimum."""
    acqf = ContextualJointEntropySearch(selection.model, selection.space)
    return selection.maximize_trial(acqf.evaluate, selection.coarse_options)


def uniformly(selection: Selection) -> Tensor:
    r"""A trial drawn uniformly."""
    return selection.trials.draw(selection.model.batch_shape)
