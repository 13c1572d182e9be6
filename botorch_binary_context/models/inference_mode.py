r"""
Computing with gradients within ``torch.inference_mode()``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

import torch

from botorch_binary_context.models.latent_gp import LatentGP


@contextmanager
def outside_inference_mode(model: LatentGP) -> Iterator[LatentGP]:
    r"""Leave inference mode, with a model that supports gradients.

    Args:
        model: A model, which may have been made within inference mode.

    Yields:
        The model, or a copy of it if gradients could not be computed with it.
    """
    with torch.inference_mode(False):
        tensors = [*model.parameters(), *model.buffers(), model.datapoints]
        if any(tensor.is_inference() for tensor in tensors):
            model = deepcopy(model)
        yield model
