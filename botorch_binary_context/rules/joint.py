r"""
How rules choose a whole trial at once: ``batch_shape x num_rows x d``.
"""

from __future__ import annotations

from dataclasses import replace

from botorch.exceptions import UnsupportedError
from torch import Tensor

from botorch_binary_context.acquisition.analytic import BernoulliMutualInformation
from botorch_binary_context.acquisition.base import check_linear
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
from botorch_binary_context.acquisition.level_set import (
    ExpectedAbsoluteVolumeChange,
    GlobalMutualInformation,
)
from botorch_binary_context.acquisition.moment_matched import (
    MomentMatchedKnowledgeGradient,
)
from botorch_binary_context.acquisition.sampled_knowledge_gradient import (
    SampledKnowledgeGradient,
)
from botorch_binary_context.goals import LinearGoal, ThresholdMap
from botorch_binary_context.numerics.optim import SearchOptions
from botorch_binary_context.rules.base import Selection, draw_point_set

# The current best only needs to be good enough to compare others with.
ROUGH_SEARCH = SearchOptions(num_restarts=4, raw_samples=256, max_evaluations=30)
ROUGH_GAIN = 1e-4


def by_knowledge_gradient(selection: Selection) -> Tensor:
    r"""The trial of the largest knowledge gradient, by refitted posteriors."""
    goal = check_linear(
        selection.target, "the knowledge gradient by refitted posteriors"
    )
    nested = ContextualBinaryKnowledgeGradient(
        selection.model, selection.space, goal=goal
    )
    return _by_joint_search(selection, nested, selection.coarse_options)


def by_moment_matched_knowledge_gradient(selection: Selection) -> Tensor:
    r"""The trial of the largest knowledge gradient of a Gaussian posterior."""
    model, space, goal = selection.model, selection.space, selection.target
    options = replace(selection.coarse_options, relative_gain=ROUGH_GAIN)
    if not isinstance(goal, LinearGoal):
        acqf = SampledKnowledgeGradient(model, space, goal, options=ROUGH_SEARCH)
        return selection.maximize_trial(acqf.evaluate, options)
    nested = MomentMatchedKnowledgeGradient(
        model, space, options=ROUGH_SEARCH, goal=goal
    )
    return _by_joint_search(selection, nested, options)


def _by_joint_search(
    selection: Selection, nested: NestedKnowledgeGradient, options: SearchOptions
) -> Tensor:
    if selection.safe is not None:
        return selection.maximize_trial(nested.evaluate, options)
    trials = selection.trials
    variables, _ = maximize_knowledge_gradient(
        nested, trials.decode, trials.bounds, options, draw_point_set()
    )
    return trials.decode(variables)


def by_mutual_information(selection: Selection) -> Tensor:
    r"""The trial whose outcome tells most about the latent function (BALD)."""
    pending = selection.pending
    if pending is not None:
        pending = selection.model.functional.rows(pending)
    acqf = BernoulliMutualInformation(selection.answered_model, X_pending=pending)
    return selection.maximize_trial(acqf.evaluate)


def by_joint_entropy_search(selection: Selection) -> Tensor:
    r"""The trial whose outcome tells most about the optimum."""
    acqf = ContextualJointEntropySearch(
        selection.model, selection.space, goal=selection.target
    )
    return selection.maximize_trial(acqf.evaluate, selection.coarse_options)


def by_global_information(selection: Selection) -> Tensor:
    r"""The trial that tells most about where the level is crossed (GlobalMI)."""
    acqf = GlobalMutualInformation(selection.model, selection.space, _level(selection))
    return selection.maximize_trial(acqf.evaluate, selection.coarse_options)


def by_volume_change(selection: Selection) -> Tensor:
    r"""The trial that changes the volume below the level most (EAVC)."""
    acqf = ExpectedAbsoluteVolumeChange(
        selection.model, selection.space, _level(selection)
    )
    return selection.maximize_trial(acqf.evaluate, selection.coarse_options)


def _level(selection: Selection) -> float | None:
    goal = selection.goal
    if goal is None:
        return None
    if isinstance(goal, ThresholdMap):
        return goal.level
    raise UnsupportedError(
        f"Expected ``goal`` to be a ``ThresholdMap`` for this rule, but got {goal!r}."
    )


def uniformly(selection: Selection) -> Tensor:
    r"""A trial drawn uniformly."""
    return selection.trials.draw(selection.model.batch_shape)
