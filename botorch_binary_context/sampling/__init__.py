r"""Sample paths of the posterior, and the features they are made of."""

from botorch_binary_context.sampling.basis import Features
from botorch_binary_context.sampling.features import FeatureOptions, kernel_features
from botorch_binary_context.sampling.paths import (
    PosteriorSamplePaths,
    draw_exact_paths,
    draw_sample_paths,
    draw_weight_space_paths,
)

__all__ = [
    "FeatureOptions",
    "Features",
    "PosteriorSamplePaths",
    "draw_exact_paths",
    "draw_sample_paths",
    "draw_weight_space_paths",
    "kernel_features",
]
