r"""
Selection rules: which trial to run next.

Most rules choose in two stages, as section 3.3 of [Fauvel2022contextual]_ does: first
the parameters ``x`` (or the two sides of a duel), then the context ``s`` given these.
Others choose the whole trial at once.
"""

from botorch_binary_context.rules.base import Rule, Selection
from botorch_binary_context.rules.contests import CONTEST_RULES, suggest_contest
from botorch_binary_context.rules.contexts import (
    at_random,
    at_reference,
    most_informative,
)
from botorch_binary_context.rules.joint import (
    by_global_information,
    by_joint_entropy_search,
    by_knowledge_gradient,
    by_moment_matched_knowledge_gradient,
    by_mutual_information,
    by_straddling,
    by_volume_change,
    uniformly,
)
from botorch_binary_context.rules.parameters import (
    by_best_option,
    by_bold_ucb,
    by_hallucination,
    by_latent_ucb,
    by_self_sparring,
    by_thompson_sampling,
    by_ucb,
    by_uncertain_challenge,
)
from botorch_binary_context.rules.registry import RuleTable
from botorch_binary_context.rules.stopping import (
    StoppingRule,
    uncertainty_of_answer,
    value_of_next_trial,
)
from botorch_binary_context.rules.suggestion import (
    frozen,
    recommend,
    recommend_for_contexts,
    suggest,
)
from botorch_binary_context.rules.table import BINARY_RULES, DUEL_RULES, TwoStages

__all__ = [
    "BINARY_RULES",
    "CONTEST_RULES",
    "DUEL_RULES",
    "Rule",
    "RuleTable",
    "Selection",
    "StoppingRule",
    "TwoStages",
    "at_random",
    "at_reference",
    "by_best_option",
    "by_bold_ucb",
    "by_global_information",
    "by_hallucination",
    "by_joint_entropy_search",
    "by_knowledge_gradient",
    "by_latent_ucb",
    "by_moment_matched_knowledge_gradient",
    "by_mutual_information",
    "by_self_sparring",
    "by_straddling",
    "by_thompson_sampling",
    "by_ucb",
    "by_uncertain_challenge",
    "by_volume_change",
    "frozen",
    "most_informative",
    "recommend",
    "recommend_for_contexts",
    "suggest",
    "suggest_contest",
    "uncertainty_of_answer",
    "uniformly",
    "value_of_next_trial",
]
