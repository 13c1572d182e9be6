r"""Inference: how the posterior of a model is approximated."""

from botorch_binary_context.inference.gaussian import GaussianApproximation, Inference
from botorch_binary_context.inference.laplace import Laplace, LaplaceApproximation

__all__ = ["GaussianApproximation", "Inference", "Laplace", "LaplaceApproximation"]
