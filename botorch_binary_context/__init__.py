r"""Bayesian optimisation from pass/fail outcomes and duels in chosen contexts."""

from botorch_binary_context import probability
from botorch_binary_context.acquisition import (
    BernoulliMutualInformation,
    BinaryUpperConfidenceBound,
    ContextualBinaryKnowledgeGradient,
    ContextualJointEntropySearch,
    LatentUpperConfidenceBound,
    MaximallyUncertainChallenge,
    OneShotContextualBinaryKnowledgeGradient,
    gen_one_shot_knowledge_gradient_initial_conditions,
)
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.experiment import Experiment
from botorch_binary_context.kernels import (
    AdditiveContextKernel,
    MultiplicativeContextKernel,
)
from botorch_binary_context.likelihoods import PreferenceLikelihood, ProbitLikelihood
from botorch_binary_context.means import LinearContextMean
from botorch_binary_context.models import (
    BinaryLaplaceGP,
    CombineParameters,
    LaplaceMarginalLogLikelihood,
    PreferenceLaplaceGP,
    psychometric_gp,
    should_learn,
)
from botorch_binary_context.optim import SearchOptions
from botorch_binary_context.posteriors import ClassProbability, LabelPosterior
from botorch_binary_context.rules import (
    BINARY_RULES,
    DUEL_RULES,
    recommend,
    suggest,
)
from botorch_binary_context.sampling import (
    draw_sample_paths,
    draw_weight_space_paths,
)

__all__ = [
    "AdditiveContextKernel",
    "BINARY_RULES",
    "BernoulliMutualInformation",
    "BinaryLaplaceGP",
    "BinaryUpperConfidenceBound",
    "ClassProbability",
    "CombineParameters",
    "ContextSpace",
    "ContextualBinaryKnowledgeGradient",
    "ContextualJointEntropySearch",
    "DUEL_RULES",
    "Experiment",
    "LabelPosterior",
    "LaplaceMarginalLogLikelihood",
    "LatentUpperConfidenceBound",
    "LinearContextMean",
    "MaximallyUncertainChallenge",
    "MultiplicativeContextKernel",
    "OneShotContextualBinaryKnowledgeGradient",
    "PreferenceLaplaceGP",
    "PreferenceLikelihood",
    "ProbitLikelihood",
    "SearchOptions",
    "draw_sample_paths",
    "draw_weight_space_paths",
    "gen_one_shot_knowledge_gradient_initial_conditions",
    "probability",
    "psychometric_gp",
    "recommend",
    "should_learn",
    "suggest",
]
