r"""
What the package exports.

The package itself loads this module when one of these names is first asked for, and
not before: the parts of the command line that compute nothing start without torch.
"""

from botorch_binary_context import inference, probability
from botorch_binary_context.acquisition import (
    BernoulliMutualInformation,
    BinaryUpperConfidenceBound,
    ContextualBinaryKnowledgeGradient,
    ContextualJointEntropySearch,
    ExpectedAbsoluteVolumeChange,
    ExpectedBestOption,
    GlobalMutualInformation,
    GoalUpperConfidenceBound,
    LatentGoalUpperConfidenceBound,
    LatentUpperConfidenceBound,
    MaximallyUncertainChallenge,
    MomentMatchedKnowledgeGradient,
    OneShotContextualBinaryKnowledgeGradient,
    SampledKnowledgeGradient,
    Straddle,
    TargetedInformation,
    gen_one_shot_knowledge_gradient_initial_conditions,
)
from botorch_binary_context.category_kernel import CategoryKernel
from botorch_binary_context.constraints import Constraints, NoTrialLeftError, Safety
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.diagnostics import ApproximationCheck, check_approximation
from botorch_binary_context.experiment import Experiment
from botorch_binary_context.functionals import DIFFERENCE, VALUE, Functional
from botorch_binary_context.goals import (
    AtContext,
    AtReference,
    AverageSuccess,
    ContextAverage,
    ContextCVaR,
    ContextQuantile,
    Goal,
    ThresholdMap,
    WorstContext,
    context_grid,
    draw_contexts,
    threshold_map,
)
from botorch_binary_context.kernels import (
    AdditiveContextKernel,
    MultiplicativeContextKernel,
)
from botorch_binary_context.likelihoods import PreferenceLikelihood, ProbitLikelihood
from botorch_binary_context.means import LinearContextMean
from botorch_binary_context.models import (
    ApproximateMarginalLogLikelihood,
    AveragedGP,
    BinaryGP,
    BinaryLaplaceGP,
    CombineParameters,
    LaplaceMarginalLogLikelihood,
    MixedGP,
    Observations,
    PreferenceGP,
    PreferenceLaplaceGP,
    draw_hyperparameters,
    psychometric_gp,
    should_learn,
)
from botorch_binary_context.numerics.optim import SearchOptions
from botorch_binary_context.optima import OptimumDraws, draw_optima
from botorch_binary_context.posteriors import (
    AveragedPosterior,
    ClassProbability,
    ExactPosterior,
    LabelPosterior,
)
from botorch_binary_context.rules import (
    BINARY_RULES,
    DUEL_RULES,
    Rule,
    Selection,
    StoppingRule,
    recommend,
    recommend_for_contexts,
    suggest,
    uncertainty_of_answer,
    value_of_next_trial,
)
from botorch_binary_context.sampling import (
    draw_exact_paths,
    draw_sample_paths,
    draw_weight_space_paths,
)

__all__ = [
    "AdditiveContextKernel",
    "ApproximateMarginalLogLikelihood",
    "ApproximationCheck",
    "AtContext",
    "AtReference",
    "AverageSuccess",
    "AveragedGP",
    "AveragedPosterior",
    "BINARY_RULES",
    "BernoulliMutualInformation",
    "BinaryGP",
    "BinaryLaplaceGP",
    "BinaryUpperConfidenceBound",
    "CategoryKernel",
    "ClassProbability",
    "CombineParameters",
    "Constraints",
    "ContextAverage",
    "ContextCVaR",
    "ContextQuantile",
    "ContextSpace",
    "ContextualBinaryKnowledgeGradient",
    "ContextualJointEntropySearch",
    "DIFFERENCE",
    "DUEL_RULES",
    "ExactPosterior",
    "ExpectedAbsoluteVolumeChange",
    "ExpectedBestOption",
    "Experiment",
    "Functional",
    "GlobalMutualInformation",
    "Goal",
    "GoalUpperConfidenceBound",
    "LabelPosterior",
    "LaplaceMarginalLogLikelihood",
    "LatentGoalUpperConfidenceBound",
    "LatentUpperConfidenceBound",
    "LinearContextMean",
    "MaximallyUncertainChallenge",
    "MixedGP",
    "MomentMatchedKnowledgeGradient",
    "MultiplicativeContextKernel",
    "NoTrialLeftError",
    "Observations",
    "OneShotContextualBinaryKnowledgeGradient",
    "OptimumDraws",
    "PreferenceGP",
    "PreferenceLaplaceGP",
    "PreferenceLikelihood",
    "ProbitLikelihood",
    "Rule",
    "Safety",
    "SampledKnowledgeGradient",
    "SearchOptions",
    "Selection",
    "StoppingRule",
    "Straddle",
    "TargetedInformation",
    "ThresholdMap",
    "VALUE",
    "WorstContext",
    "check_approximation",
    "context_grid",
    "draw_contexts",
    "draw_exact_paths",
    "draw_hyperparameters",
    "draw_optima",
    "draw_sample_paths",
    "draw_weight_space_paths",
    "gen_one_shot_knowledge_gradient_initial_conditions",
    "inference",
    "probability",
    "psychometric_gp",
    "recommend",
    "recommend_for_contexts",
    "should_learn",
    "suggest",
    "threshold_map",
    "uncertainty_of_answer",
    "value_of_next_trial",
]
