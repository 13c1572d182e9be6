r"""
Input constructors of the acquisition functions, through which Ax makes them.

Importing the package registers them with BoTorch's ``acqf_input_constructor``.
"""

from __future__ import annotations

from typing import Any

from botorch.acquisition.input_constructors import acqf_input_constructor
from torch import Tensor

from botorch_binary_context.acquisition.analytic import (
    DEFAULT_BETA,
    BernoulliMutualInformation,
    BinaryUpperConfidenceBound,
    LatentUpperConfidenceBound,
    MaximallyUncertainChallenge,
)
from botorch_binary_context.acquisition.best_option import ExpectedBestOption
from botorch_binary_context.acquisition.entropy_search import (
    ContextualJointEntropySearch,
)
from botorch_binary_context.acquisition.goal_bounds import (
    GoalUpperConfidenceBound,
    LatentGoalUpperConfidenceBound,
)
from botorch_binary_context.acquisition.gradient_information import (
    STEP,
    GradientInformation,
)
from botorch_binary_context.acquisition.knowledge_gradient import (
    ContextualBinaryKnowledgeGradient,
)
from botorch_binary_context.acquisition.level_set import (
    NUM_POINTS,
    STRADDLE_WIDTH,
    ExpectedAbsoluteVolumeChange,
    GlobalMutualInformation,
    Straddle,
)
from botorch_binary_context.acquisition.moment_matched import (
    MomentMatchedKnowledgeGradient,
)
from botorch_binary_context.acquisition.one_shot import (
    OneShotContextualBinaryKnowledgeGradient,
)
from botorch_binary_context.acquisition.refitted_knowledge_gradient import (
    RefittedKnowledgeGradient,
)
from botorch_binary_context.acquisition.sampled_knowledge_gradient import (
    SampledKnowledgeGradient,
)
from botorch_binary_context.acquisition.targeted import TargetedInformation
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.goals import AtReference, Goal, LinearGoal
from botorch_binary_context.models.latent_gp import LatentGP


@acqf_input_constructor(BinaryUpperConfidenceBound, LatentUpperConfidenceBound)
def construct_inputs_ucb(
    model: LatentGP, beta: float = DEFAULT_BETA, X_pending: Tensor | None = None
) -> dict[str, Any]:
    r"""Arguments of the upper confidence bounds.

    Args:
        model: The model.
        beta: The weight of the standard deviation.
        X_pending: The rows of pending trials.

    Returns:
        A dict mapping the names of arguments to their values.
    """
    return {"model": model, "beta": beta, "X_pending": X_pending}


@acqf_input_constructor(GoalUpperConfidenceBound, LatentGoalUpperConfidenceBound)
def construct_inputs_goal_ucb(
    model: LatentGP,
    space: ContextSpace,
    goal: Goal = AtReference(),  # noqa: B008
    beta: float = DEFAULT_BETA,
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of the upper confidence bounds of goals.

    Args:
        model: The model.
        space: The box of the trials.
        goal: What the parameters should be good at.
        beta: The weight of the standard deviation.
        X_pending: The rows of pending trials.

    Returns:
        A dict mapping the names of arguments to their values.
    """
    return {
        "model": model,
        "space": space,
        "goal": goal,
        "beta": beta,
        "X_pending": X_pending,
    }


@acqf_input_constructor(ExpectedBestOption)
def construct_inputs_best_option(
    model: LatentGP,
    space: ContextSpace,
    goal: Goal = AtReference(),  # noqa: B008
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of the expected utility of the best option.

    Args:
        model: The model.
        space: The box of the trials.
        goal: What the parameters should be good at.
        X_pending: The rows of pending duels.

    Returns:
        A dict mapping the names of arguments to their values.
    """
    return {"model": model, "space": space, "goal": goal, "X_pending": X_pending}


@acqf_input_constructor(BernoulliMutualInformation)
def construct_inputs_mutual_information(
    model: LatentGP, X_pending: Tensor | None = None
) -> dict[str, Any]:
    r"""Arguments of the mutual information.

    Args:
        model: The model.
        X_pending: The rows of pending trials.

    Returns:
        A dict mapping the names of arguments to their values.
    """
    return {"model": model, "X_pending": X_pending}


@acqf_input_constructor(GlobalMutualInformation, ExpectedAbsoluteVolumeChange)
def construct_inputs_level_set(
    model: LatentGP,
    space: ContextSpace,
    probability: float | None = None,
    num_points: int = NUM_POINTS,
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of the acquisition functions that look ahead at a level set.

    Args:
        model: The model.
        space: The box of the trials.
        probability: The success probability whose level set is sought.
        num_points: The number of reference points.
        X_pending: The rows of pending trials.

    Returns:
        A dict mapping the names of arguments to their values.
    """
    return {
        "model": model,
        "space": space,
        "probability": probability,
        "num_points": num_points,
        "X_pending": X_pending,
    }


@acqf_input_constructor(Straddle)
def construct_inputs_straddle(
    model: LatentGP,
    probability: float | None = None,
    width: float = STRADDLE_WIDTH,
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of the straddle.

    Args:
        model: The model.
        probability: The success probability whose level set is sought.
        width: The weight of the standard deviation.
        X_pending: Pending trials.

    Returns:
        A dict mapping the names of arguments to their values.
    """
    return {
        "model": model,
        "probability": probability,
        "width": width,
        "X_pending": X_pending,
    }


@acqf_input_constructor(MaximallyUncertainChallenge)
def construct_inputs_challenge(
    model: LatentGP, incumbent: Tensor, X_pending: Tensor | None = None
) -> dict[str, Any]:
    r"""Arguments of the maximally uncertain challenge.

    Args:
        model: The model.
        incumbent: The current best trial.
        X_pending: The rows of pending duels.

    Returns:
        A dict mapping the names of arguments to their values.
    """
    return {"model": model, "incumbent": incumbent, "X_pending": X_pending}


@acqf_input_constructor(TargetedInformation)
def construct_inputs_targeted_information(
    model: LatentGP, target: Tensor, X_pending: Tensor | None = None
) -> dict[str, Any]:
    r"""Arguments of the targeted information.

    Args:
        model: The model.
        target: The trial to learn about.
        X_pending: The rows of pending trials.

    Returns:
        A dict mapping the names of arguments to their values.
    """
    return {"model": model, "target": target, "X_pending": X_pending}


@acqf_input_constructor(GradientInformation)
def construct_inputs_gradient_information(
    model: LatentGP,
    space: ContextSpace,
    step: float = STEP,
    goal: Goal = AtReference(),  # noqa: B008
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of the information about the gradient.

    Args:
        model: The model.
        space: The box of the trials.
        step: The length of the steps, as a fraction of the box.
        goal: What the parameters should be good at.
        X_pending: The rows of pending trials.

    Returns:
        A dict mapping the names of arguments to their values.
    """
    return {
        "model": model,
        "space": space,
        "step": step,
        "goal": goal,
        "X_pending": X_pending,
    }


@acqf_input_constructor(ContextualBinaryKnowledgeGradient)
def construct_inputs_knowledge_gradient(
    model: LatentGP,
    space: ContextSpace,
    num_points: int = 128,
    current_value: Tensor | None = None,
    goal: LinearGoal = AtReference(),  # noqa: B008
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of the knowledge gradient.

    Args:
        model: The model.
        space: The box of the trials.
        num_points: The number of points among which the inner maximum is first sought.
        current_value: The maximum of the posterior mean.
        goal: What the parameters should be good at.
        X_pending: The rows of pending trials.

    Returns:
        A dict mapping the names of arguments to their values.
    """
    return {
        "model": model,
        "space": space,
        "num_points": num_points,
        "current_value": current_value,
        "goal": goal,
        "X_pending": X_pending,
    }


@acqf_input_constructor(MomentMatchedKnowledgeGradient)
def construct_inputs_moment_matched_knowledge_gradient(
    model: LatentGP,
    space: ContextSpace,
    num_points: int = 128,
    goal: LinearGoal = AtReference(),  # noqa: B008
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of the knowledge gradient in closed form.

    Args:
        model: The model.
        space: The box of the trials.
        num_points: The number of points among which the inner maximum is first sought.
        goal: What the parameters should be good at.
        X_pending: The rows of pending trials.

    Returns:
        A dict mapping the names of arguments to their values.
    """
    return {
        "model": model,
        "space": space,
        "num_points": num_points,
        "goal": goal,
        "X_pending": X_pending,
    }


@acqf_input_constructor(SampledKnowledgeGradient, RefittedKnowledgeGradient)
def construct_inputs_sampled_knowledge_gradient(
    model: LatentGP,
    space: ContextSpace,
    goal: Goal,
    num_points: int = 32,
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of the knowledge gradients by joint draws.

    Args:
        model: The model.
        space: The box of the trials.
        goal: What the parameters should be good at.
        num_points: The number of points among which the inner maximum is sought.
        X_pending: The rows of pending trials.

    Returns:
        A dict mapping the names of arguments to their values.
    """
    return {
        "model": model,
        "space": space,
        "goal": goal,
        "num_points": num_points,
        "X_pending": X_pending,
    }


@acqf_input_constructor(OneShotContextualBinaryKnowledgeGradient)
def construct_inputs_one_shot_knowledge_gradient(
    model: LatentGP,
    space: ContextSpace,
    current_value: Tensor | None = None,
    goal: LinearGoal = AtReference(),  # noqa: B008
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of the one-shot knowledge gradient.

    Args:
        model: The model.
        space: The box of the trials.
        current_value: The maximum of the posterior mean.
        goal: What the parameters should be good at.
        X_pending: The rows of pending trials.

    Returns:
        A dict mapping the names of arguments to their values.
    """
    return {
        "model": model,
        "space": space,
        "current_value": current_value,
        "goal": goal,
        "X_pending": X_pending,
    }


@acqf_input_constructor(ContextualJointEntropySearch)
def construct_inputs_joint_entropy_search(
    model: LatentGP,
    space: ContextSpace,
    num_paths: int = 16,
    mixture: bool = False,
    seed: int | None = None,
    goal: Goal = AtReference(),  # noqa: B008
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of contextual joint entropy search.

    Args:
        model: The model.
        space: The box of the trials.
        num_paths: The number of functions drawn from the posterior.
        mixture: Whether the first entropy is that of the mixture.
        seed: The seed of the draw.
        goal: What the parameters should be good at.
        X_pending: The rows of pending trials.

    Returns:
        A dict mapping the names of arguments to their values.
    """
    return {
        "model": model,
        "space": space,
        "num_paths": num_paths,
        "mixture": mixture,
        "seed": seed,
        "goal": goal,
        "X_pending": X_pending,
    }
