r"""
How rules choose a whole trial at once: ``batch_shape x num_rows x d``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from botorch_binary_context.acquisition.analytic import BernoulliMutualInformation
from botorch_binary_context.acquisition.entropy_search import (
    ContextualJointEntropySearch,
)
from botorch_binary_context.acquisition.gradient_information import (
    GradientInformation,
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
    Straddle,
)
from botorch_binary_context.acquisition.moment_matched import (
    MomentMatchedKnowledgeGradient,
)
from botorch_binary_context.acquisition.refitted_knowledge_gradient import (
    RefittedKnowledgeGradient,
)
from botorch_binary_context.acquisition.sampled_knowledge_gradient import (
    SampledKnowledgeGradient,
)
from botorch_binary_context.goals import LinearGoal, ThresholdMap
from botorch_binary_context.numerics.optim import (
    SearchOptions,
    choose_best,
    draw_corners,
    draw_points,
)
from botorch_binary_context.rules.base import Selection, draw_point_set, widen

# The current best need not be exact to compare others with it.
ROUGH_SEARCH = SearchOptions(num_restarts=4, raw_samples=256, max_evaluations=30)
ROUGH_GAIN = 1e-4
# Even less where it is only a start of inner maxima, which climb on with the trial.
START_SEARCH = replace(ROUGH_SEARCH, max_evaluations=6, relative_gain=ROUGH_GAIN)
# The number of contexts in which the optima of drawn functions are used as starts.
NUM_START_CONTEXTS = 4
NUM_STARTS = 6
# The number of trials near the incumbent, or of its opponents, to choose starts from.
NUM_NEAR = 16
NUM_OPPONENTS = 48
# The maximum number of evaluations of a search by joint outcomes, and the number of
# corners it starts from.
JOINT_EVALUATIONS = 12
NUM_CORNERS = 128
NUM_CORNER_STARTS = 2
# The initial distance of an optimum's opponent from it, as a fraction of the box.
NEAR = 0.05


def by_knowledge_gradient(selection: Selection) -> Tensor:
    r"""The trial with the largest knowledge gradient, by refitted posteriors."""
    model = selection.model
    space = selection.space
    goal = selection.target
    options = selection.coarse_options
    if not isinstance(goal, LinearGoal):
        acqf = RefittedKnowledgeGradient(model, space, goal, options=ROUGH_SEARCH)
        options = replace(options, relative_gain=ROUGH_GAIN)
        return selection.maximize_trial(acqf.evaluate, options)
    nested = ContextualBinaryKnowledgeGradient(model, space, goal=goal)
    return search_knowledge_gradient(selection, nested, options)


def by_moment_matched_knowledge_gradient(selection: Selection) -> Tensor:
    r"""The trial with the largest knowledge gradient of a Gaussian posterior."""
    model = selection.model
    space = selection.space
    goal = selection.target
    options = replace(widen(selection.coarse_options), relative_gain=ROUGH_GAIN)
    if not isinstance(goal, LinearGoal):
        acqf = SampledKnowledgeGradient(model, space, goal, options=ROUGH_SEARCH)
        return selection.maximize_trial(acqf.evaluate, options)
    nested = MomentMatchedKnowledgeGradient(
        model, space, options=START_SEARCH, goal=goal
    )
    return search_knowledge_gradient(selection, nested, options)


def search_knowledge_gradient(
    selection: Selection, nested: NestedKnowledgeGradient, options: SearchOptions
) -> Tensor:
    r"""The trial with the largest knowledge gradient.

    Args:
        selection: The model, space, goal and restrictions.
        nested: The knowledge gradient.
        options: The effort of the search.

    Returns:
        A ``batch_shape x num_rows x d`` tensor.
    """
    if selection.is_restricted:
        return selection.maximize_trial(nested.evaluate, options)
    trials = selection.trials
    variables, _ = maximize_knowledge_gradient(
        nested,
        trials.decode,
        trials.bounds,
        options,
        draw_point_set(),
        _meet_incumbent(selection, nested),
    )
    return trials.decode(variables)


def _meet_incumbent(selection: Selection, nested: NestedKnowledgeGradient) -> Tensor:
    """Trials near the incumbent, or duels with it, as candidates for starts."""
    searched = nested.parameters_searched.movedim(-2, 0)  # the incumbent is the last
    incumbent = searched[-1:].expand(NUM_NEAR, *searched.shape[1:])
    near = _move(incumbent, selection.space.parameter_bounds)
    if selection.trials.num_rows == 1:
        return _in_contexts(selection, near)
    others = torch.cat([near, searched[:NUM_OPPONENTS]])
    duels = torch.stack(torch.broadcast_tensors(searched[-1:], others), dim=-2)
    return _in_contexts(selection, duels.flatten(-2))


def by_mutual_information(selection: Selection) -> Tensor:
    r"""The trial whose outcome is most informative about the latent function (BALD)."""
    model = selection.answered_model
    pending = selection.pending
    if pending is not None:
        pending = model.functional.rows(pending)
    acqf = BernoulliMutualInformation(model, X_pending=pending)
    if pending is None:
        return selection.maximize_trial(acqf.evaluate)
    # Joint outcomes cost more than single ones: a shorter search, from better starts.
    most = min(selection.options.max_evaluations, JOINT_EVALUATIONS)
    options = replace(selection.options, max_evaluations=most)
    starts = _best_corners(selection, acqf.evaluate)
    return selection.maximize_trial(acqf.evaluate, options, starts)


def _best_corners(selection: Selection, score: Callable[[Tensor], Tensor]) -> Tensor:
    """Corners of the box of trials, where least is known, as starts."""
    trials = selection.trials
    shape = selection.answered_model.batch_shape
    corners = draw_corners(trials.bounds, NUM_CORNERS, seed=0)
    corners = corners.reshape(len(corners), *[1] * len(shape), corners.shape[-1])
    corners = corners.expand(-1, *shape, -1)
    return choose_best(corners, score(trials.decode(corners)), NUM_CORNER_STARTS)


def by_gradient_information(selection: Selection) -> Tensor:
    r"""The trial whose outcome is most informative about the way to better settings.

    Without parameters, it is the one that is most informative about the threshold.
    """
    if not selection.space.parameter_dims:
        return by_mutual_information(selection)
    acqf = GradientInformation(
        selection.model, selection.space, options=ROUGH_SEARCH, goal=selection.target
    )
    return selection.maximize_trial(acqf.evaluate)


def by_joint_entropy_search(selection: Selection) -> Tensor:
    r"""The trial whose outcome is most informative about the optimum."""
    acqf = ContextualJointEntropySearch(
        selection.model, selection.space, goal=selection.target
    )
    return search_entropy(selection, acqf)


def search_entropy(selection: Selection, acqf: ContextualJointEntropySearch) -> Tensor:
    r"""The trial that is most informative about the optima of the drawn functions.

    Args:
        selection: The model, space, goal and restrictions.
        acqf: The acquisition function.

    Returns:
        A ``batch_shape x num_rows x d`` tensor.
    """
    starts = _meet_optima(selection, acqf)
    options = widen(selection.coarse_options)
    return selection.maximize_trial(acqf.evaluate, options, starts)


def _meet_optima(selection: Selection, acqf: ContextualJointEntropySearch) -> Tensor:
    """Trials of optima of drawn functions, or duels of two of them, as starts."""
    space = selection.space
    trials = selection.trials
    optima = acqf.optima
    sides = optima.unsqueeze(-2)  # M x batch_shape x 1 x (d - m)
    if trials.num_rows == 2:
        number = len(optima)
        first, second = torch.triu_indices(number, number, 1, device=optima.device)
        near = _move(optima, space.parameter_bounds)
        sides = torch.cat(
            [
                torch.stack([optima[first], optima[second]], dim=-2),
                torch.stack([optima, near], dim=-2),
            ]
        )
    candidates = _in_contexts(selection, sides.flatten(-2))
    values = acqf.evaluate(trials.decode(candidates))
    return choose_best(candidates, values, NUM_STARTS)


def _in_contexts(selection: Selection, sides: Tensor) -> Tensor:
    """Variables of trials: the sides, ``n x batch_shape x k``, in a few contexts."""
    space = selection.space
    if selection.context is not None or space.num_contexts == 0:
        return sides
    others = draw_points(space.context_bounds, NUM_START_CONTEXTS - 1, 0)
    contexts = torch.cat([space.reference_context.unsqueeze(0), others])
    shape = sides.shape[:-1]
    return torch.cat(
        [torch.cat([s.expand(*shape, -1), sides], dim=-1) for s in contexts]
    )


def _move(points: Tensor, bounds: Tensor) -> Tensor:
    """Points slightly away from ``n x batch_shape x k`` given ones, within a box."""
    shift = bounds.new_tensor([[-NEAR], [NEAR]]) * (bounds[1] - bounds[0])
    steps = draw_points(shift, len(points), 0)
    steps = steps.reshape(len(points), *[1] * (points.ndim - 2), points.shape[-1])
    return (points + steps).clamp(*bounds)


def by_global_information(selection: Selection) -> Tensor:
    r"""The trial that best shows where the threshold is crossed (GlobalMI)."""
    acqf = GlobalMutualInformation(
        selection.model, selection.space, _probability(selection)
    )
    return selection.maximize_trial(acqf.evaluate, selection.coarse_options)


def by_volume_change(selection: Selection) -> Tensor:
    r"""The trial that changes the volume below the threshold most (EAVC)."""
    acqf = ExpectedAbsoluteVolumeChange(
        selection.model, selection.space, _probability(selection)
    )
    return selection.maximize_trial(acqf.evaluate, selection.coarse_options)


def by_straddling(selection: Selection) -> Tensor:
    r"""The trial that is most uncertain near the threshold (straddle)."""
    acqf = Straddle(selection.model, _probability(selection))
    # Its maximum is on a kink, which takes many evaluations.
    return selection.maximize_trial(acqf.evaluate, selection.options)


def _probability(selection: Selection) -> float | None:
    goal = selection.goal
    if goal is None:
        return None
    if isinstance(goal, ThresholdMap):
        return goal.probability
    raise UnsupportedError(
        f"Expected ``goal`` to be a ``ThresholdMap`` for this rule, but got {goal!r}."
    )


def uniformly(selection: Selection) -> Tensor:
    r"""A trial drawn uniformly, among the safe ones if trials have to be safe."""
    trials = selection.trials
    starts = selection.safe_starts() if selection.is_restricted else None
    return selection.draw(trials.decode, trials.bounds, starts)
