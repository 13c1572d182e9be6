r"""Likelihoods: how a trial is answered, given what it observes."""

from botorch_binary_context.likelihoods.answers import (
    ConfidenceLikelihood,
    RatingLikelihood,
    TiesLikelihood,
)
from botorch_binary_context.likelihoods.base import LogDerivatives, OutcomeLikelihood
from botorch_binary_context.likelihoods.ordinal import OrdinalLikelihood
from botorch_binary_context.likelihoods.probit import (
    PreferenceLikelihood,
    ProbitLikelihood,
)
from botorch_binary_context.likelihoods.probit_terms import ProbitTerms
from botorch_binary_context.likelihoods.stacked import StackedLikelihood

__all__ = [
    "ConfidenceLikelihood",
    "LogDerivatives",
    "OrdinalLikelihood",
    "OutcomeLikelihood",
    "PreferenceLikelihood",
    "ProbitLikelihood",
    "ProbitTerms",
    "RatingLikelihood",
    "StackedLikelihood",
    "TiesLikelihood",
]
