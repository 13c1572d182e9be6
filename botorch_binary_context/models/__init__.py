r"""Models of pass/fail outcomes and of duels, and their marginal likelihood."""

from botorch_binary_context.models.binary_gp import BinaryLaplaceGP
from botorch_binary_context.models.coordinates import CombineParameters
from botorch_binary_context.models.mll import LaplaceMarginalLogLikelihood
from botorch_binary_context.models.preference_gp import PreferenceLaplaceGP
from botorch_binary_context.models.psychometric import psychometric_gp, should_learn

__all__ = [
    "BinaryLaplaceGP",
    "CombineParameters",
    "LaplaceMarginalLogLikelihood",
    "PreferenceLaplaceGP",
    "psychometric_gp",
    "should_learn",
]
