r"""Inference: how the posterior of a model is approximated."""

from botorch_binary_context.inference.exact import Basis, ContrastSamples
from botorch_binary_context.inference.expectation_propagation import (
    ExpectationPropagation,
    SiteApproximation,
)
from botorch_binary_context.inference.gaussian import (
    GaussianApproximation,
    Inference,
    Start,
    TrialLikelihood,
)
from botorch_binary_context.inference.given import (
    GivenApproximation,
    GivenContrasts,
)
from botorch_binary_context.inference.laplace import Laplace, LaplaceApproximation

__all__ = [
    "Basis",
    "ContrastSamples",
    "ExpectationPropagation",
    "GaussianApproximation",
    "GivenApproximation",
    "GivenContrasts",
    "Inference",
    "Laplace",
    "LaplaceApproximation",
    "SiteApproximation",
    "Start",
    "TrialLikelihood",
]
