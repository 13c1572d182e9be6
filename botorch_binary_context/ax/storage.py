r"""
What Ax must know to store and load strategies of the package.
"""

from __future__ import annotations

from ax.storage.botorch_modular_registry import (
    register_acquisition,
    register_mll,
    register_model,
)
from ax.storage.transform_registry import register_transform

from botorch_binary_context.ax.acquisition import RuleAcquisition
from botorch_binary_context.ax.models import PassProbabilityModel
from botorch_binary_context.ax.trials import ContextTrials
from botorch_binary_context.models import (
    ApproximateMarginalLogLikelihood,
    PreferenceGP,
)


def register_classes() -> None:
    r"""Register the classes that a stored strategy names."""
    register_acquisition(RuleAcquisition)
    register_model(PassProbabilityModel)
    register_model(PreferenceGP)
    register_mll(ApproximateMarginalLogLikelihood)
    register_transform(ContextTrials)
