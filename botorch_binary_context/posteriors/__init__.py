r"""Posteriors of labels and probabilities, and the true posterior by sampling."""

from botorch_binary_context.posteriors.draws import AveragedPosterior, ExactPosterior
from botorch_binary_context.posteriors.labels import ClassProbability, LabelPosterior

__all__ = [
    "AveragedPosterior",
    "ClassProbability",
    "ExactPosterior",
    "LabelPosterior",
]
