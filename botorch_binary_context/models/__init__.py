r"""Models of pass/fail outcomes and of duels, and their marginal likelihood."""

from botorch_binary_context.models.binary_gp import BinaryLaplaceGP
from botorch_binary_context.models.mll import LaplaceMarginalLogLikelihood
from botorch_binary_context.models.preference_gp import PreferenceLaplaceGP

__all__ = ["BinaryLaplaceGP", "LaplaceMarginalLogLikelihood", "PreferenceLaplaceGP"]
