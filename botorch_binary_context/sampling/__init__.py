r"""Sample paths of the posterior, and the features they are made of."""

from botorch_binary_context.sampling.paths import (
    PosteriorSamplePaths,
    draw_sample_paths,
    draw_weight_space_paths,
)

__all__ = ["PosteriorSamplePaths", "draw_sample_paths", "draw_weight_space_paths"]
