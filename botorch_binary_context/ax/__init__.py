r"""
The package's models, contexts and rules in Ax experiments.

Importing this module registers what Ax needs to store and load them. It needs the extra
``ax``: ``pip install "botorch-binary-context[ax]"``.
"""

from botorch_binary_context.ax.acquisition import RuleAcquisition
from botorch_binary_context.ax.duels import attach_duel, complete_duel, get_next_duels
from botorch_binary_context.ax.models import ModelOptions, PassProbabilityModel
from botorch_binary_context.ax.recommendation import recommend
from botorch_binary_context.ax.storage import register_classes
from botorch_binary_context.ax.strategy import (
    feasibility_strategy,
    generation_strategy,
)
from botorch_binary_context.ax.trials import ContextTrials

__all__ = [
    "ContextTrials",
    "ModelOptions",
    "PassProbabilityModel",
    "RuleAcquisition",
    "attach_duel",
    "complete_duel",
    "feasibility_strategy",
    "generation_strategy",
    "get_next_duels",
    "recommend",
]

register_classes()
