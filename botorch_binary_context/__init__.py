r"""Bayesian optimisation from pass/fail outcomes and duels in a context that you choose."""

from botorch_binary_context import probability
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.kernels import (
    AdditiveContextKernel,
    MultiplicativeContextKernel,
)
from botorch_binary_context.likelihoods import PreferenceLikelihood, ProbitLikelihood
from botorch_binary_context.models import (
    BinaryLaplaceGP,
    LaplaceMarginalLogLikelihood,
    PreferenceLaplaceGP,
)
from botorch_binary_context.posteriors import ClassProbability, LabelPosterior

__all__ = [
    "AdditiveContextKernel",
    "BinaryLaplaceGP",
    "ClassProbability",
    "ContextSpace",
    "LabelPosterior",
    "LaplaceMarginalLogLikelihood",
    "MultiplicativeContextKernel",
    "PreferenceLaplaceGP",
    "PreferenceLikelihood",
    "ProbitLikelihood",
    "probability",
]
