r"""Acquisition functions for pass/fail outcomes and duels in a context."""

from botorch_binary_context.acquisition import input_constructors  # registers them
from botorch_binary_context.acquisition.analytic import (
    BernoulliMutualInformation,
    BinaryUpperConfidenceBound,
    LatentUpperConfidenceBound,
    MaximallyUncertainChallenge,
)
from botorch_binary_context.acquisition.best_option import ExpectedBestOption
from botorch_binary_context.acquisition.best_value import best_latent_value
from botorch_binary_context.acquisition.contests import (
    ContestKnowledgeGradient,
    ExpectedBestOfContest,
)
from botorch_binary_context.acquisition.entropy_search import (
    ContextualJointEntropySearch,
)
from botorch_binary_context.acquisition.fantasies import Accuracy
from botorch_binary_context.acquisition.goal_bounds import (
    GoalUpperConfidenceBound,
    LatentGoalUpperConfidenceBound,
)
from botorch_binary_context.acquisition.gradient_information import (
    GradientInformation,
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
from botorch_binary_context.acquisition.one_shot import (
    OneShotContextualBinaryKnowledgeGradient,
    gen_one_shot_knowledge_gradient_initial_conditions,
)
from botorch_binary_context.acquisition.refitted_knowledge_gradient import (
    RefittedKnowledgeGradient,
)
from botorch_binary_context.acquisition.sampled_knowledge_gradient import (
    SampledKnowledgeGradient,
)
from botorch_binary_context.acquisition.targeted import TargetedInformation

__all__ = [
    "Accuracy",
    "BernoulliMutualInformation",
    "BinaryUpperConfidenceBound",
    "ContestKnowledgeGradient",
    "ContextualBinaryKnowledgeGradient",
    "ContextualJointEntropySearch",
    "ExpectedAbsoluteVolumeChange",
    "ExpectedBestOfContest",
    "ExpectedBestOption",
    "GlobalMutualInformation",
    "GoalUpperConfidenceBound",
    "GradientInformation",
    "LatentGoalUpperConfidenceBound",
    "LatentUpperConfidenceBound",
    "MaximallyUncertainChallenge",
    "MomentMatchedKnowledgeGradient",
    "OneShotContextualBinaryKnowledgeGradient",
    "RefittedKnowledgeGradient",
    "SampledKnowledgeGradient",
    "Straddle",
    "TargetedInformation",
    "best_latent_value",
    "gen_one_shot_knowledge_gradient_initial_conditions",
    "input_constructors",
]
