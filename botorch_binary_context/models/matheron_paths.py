r"""
Support for BoTorch's ``draw_matheron_paths`` and ``PathwiseThompsonSampling``.

It is registered here, not with the sample paths, so that it works wherever a model can
be made.
"""

from __future__ import annotations

from typing import Any

import torch
from botorch.sampling.pathwise.paths import SamplePath
from botorch.sampling.pathwise.posterior_samplers import DrawMatheronPaths

from botorch_binary_context.models.latent_gp import LatentGP


@DrawMatheronPaths.register(LatentGP)
def draw_matheron_paths(
    model: LatentGP, *, sample_shape: torch.Size, **kwargs: Any
) -> SamplePath:
    r"""Sample paths by decoupled bases.

    Args:
        model: The model.
        sample_shape: The shape of the paths.
        kwargs: Further arguments of stock samplers; not used.
    """
    # Sample paths are made from models, which must be complete first.
    from botorch_binary_context.sampling.paths import draw_sample_paths

    return draw_sample_paths(model, sample_shape)
