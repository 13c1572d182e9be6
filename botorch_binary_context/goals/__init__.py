r"""
Goals: what the parameters should be good at.

A goal rates parameters by the values of the latent function in some contexts. Linear
goals are weighted sums of these values and have closed forms throughout; the moments of
others are computed from joint draws.
"""

from botorch_binary_context.goals.base import Goal
from botorch_binary_context.goals.contexts import context_grid, draw_contexts
from botorch_binary_context.goals.linear import (
    AtContext,
    AtReference,
    ContextAverage,
    LinearGoal,
)
from botorch_binary_context.goals.maps import ThresholdMap, threshold_map
from botorch_binary_context.goals.sampled import (
    ContextCVaR,
    ContextQuantile,
    SampledGoal,
    WorstContext,
)
from botorch_binary_context.goals.success import AverageSuccess

__all__ = [
    "AtContext",
    "AtReference",
    "AverageSuccess",
    "ContextAverage",
    "ContextCVaR",
    "ContextQuantile",
    "Goal",
    "LinearGoal",
    "SampledGoal",
    "ThresholdMap",
    "WorstContext",
    "context_grid",
    "draw_contexts",
    "threshold_map",
]
