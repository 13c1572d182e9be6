r"""Likelihoods: how a trial is answered, given what it observes."""

from botorch_binary_context.likelihoods.base import LogDerivatives, OutcomeLikelihood
from botorch_binary_context.likelihoods.probit import (
    PreferenceLikelihood,
    ProbitLikelihood,
)
from botorch_binary_context.likelihoods.stacked import StackedLikelihood

__all__ = [
    "LogDerivatives",
    "OutcomeLikelihood",
    "PreferenceLikelihood",
    "ProbitLikelihood",
    "StackedLikelihood",
]
