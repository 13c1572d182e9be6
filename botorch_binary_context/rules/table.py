r"""
The tables of rules, which say how parameters and contexts are chosen.

A new rule is a new row, here with a function ``by_posterior_mean`` of your own:

    >>> BINARY_RULES["mean-ald"] = TwoStages(by_posterior_mean, most_informative)
    >>> suggest(model, space, rule="mean-ald")

A rule need not be in a table: ``suggest`` also takes the object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from botorch_binary_context.functionals import DIFFERENCE, VALUE
from botorch_binary_context.rules.base import Selection
from botorch_binary_context.rules.contexts import (
    at_random,
    at_reference,
    most_informative,
    most_targeted,
)
from botorch_binary_context.rules.joint import (
    by_global_information,
    by_gradient_information,
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


@dataclass(frozen=True)
class TwoStages:
    r"""A rule that chooses the parameters first and then the context.

    Attributes:
        parameters: How the parameters are chosen.
        context: How the context is chosen for these parameters, unless it is given.
    """

    parameters: Callable[[Selection], Tensor]
    context: Callable[[Selection, Tensor], Tensor]

    def __call__(self, selection: Selection) -> Tensor:
        r"""Choose a trial.

        Args:
            selection: The model, space, goal and restrictions.

        Returns:
            A ``batch_shape x num_rows x d`` tensor.
        """
        parameters = self.parameters(selection)
        context = selection.context
        if context is None:
            context = self.context(selection, parameters)
        return selection.space.join(parameters, context.unsqueeze(-2))

    def __repr__(self) -> str:
        stages = (self.parameters, self.context)
        names = [getattr(stage, "__name__", repr(stage)) for stage in stages]
        return f"{type(self).__name__}({', '.join(names)})"


#: Rules for pass/fail outcomes.
BINARY_RULES = RuleTable(
    VALUE,
    {
        "ucb-ald": TwoStages(by_ucb, most_informative),
        "ts-ald": TwoStages(by_thompson_sampling, most_informative),
        "ucb99-ald": TwoStages(by_bold_ucb, most_informative),
        "lucb-ald": TwoStages(by_latent_ucb, most_informative),
        "ucb-random": TwoStages(by_ucb, at_random),
        "ts-random": TwoStages(by_thompson_sampling, at_random),
        "ucb-fixed": TwoStages(by_ucb, at_reference),
        "ts-fixed": TwoStages(by_thompson_sampling, at_reference),
        "ucb-target": TwoStages(by_ucb, most_targeted),
        "ucb99-target": TwoStages(by_bold_ucb, most_targeted),
        "mkg": by_moment_matched_knowledge_gradient,
        "cbkg": by_knowledge_gradient,
        "cjes": by_joint_entropy_search,
        "gradient": by_gradient_information,
        "bald": by_mutual_information,
        "map-mi": by_global_information,
        "map-eavc": by_volume_change,
        "map-straddle": by_straddling,
        "random": uniformly,
    },
)

#: Rules for duels.
DUEL_RULES = RuleTable(
    DIFFERENCE,
    {
        "muc-ald": TwoStages(by_uncertain_challenge, most_informative),
        "kss-ald": TwoStages(by_self_sparring, most_informative),
        "muc-random": TwoStages(by_uncertain_challenge, at_random),
        "kss-random": TwoStages(by_self_sparring, at_random),
        "muc-fixed": TwoStages(by_uncertain_challenge, at_reference),
        "muc-target": TwoStages(by_uncertain_challenge, most_targeted),
        "eubo-ald": TwoStages(by_best_option, most_informative),
        "eubo-random": TwoStages(by_best_option, at_random),
        "hb-ald": TwoStages(by_hallucination, most_informative),
        "hb-random": TwoStages(by_hallucination, at_random),
        "mkg": by_moment_matched_knowledge_gradient,
        "kg": by_knowledge_gradient,
        "cjes": by_joint_entropy_search,
        "gradient": by_gradient_information,
        "bald": by_mutual_information,
        "random": uniformly,
    },
)
