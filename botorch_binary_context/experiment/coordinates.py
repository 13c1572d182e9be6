r"""
The coordinates of the models of an experiment.
"""

from __future__ import annotations

from botorch.models.transforms.input import ChainedInputTransform, InputTransform
from torch import Tensor

from botorch_binary_context.experiment.settings import Settings
from botorch_binary_context.experiment.space import Snap
from botorch_binary_context.models.power_vectors import PowerVectors


def make_coordinates(
    settings: Settings, snap_contexts: bool, shown: Tensor | None = None
) -> InputTransform | None:
    r"""The input transform of models of an experiment.

    Args:
        settings: The settings of the experiment.
        snap_contexts: Whether the model knows only the levels of contexts, to choose
            one.
        shown: The rows of the trials that the model knows, ``n x d``.

    Returns:
        The transform to values that can be shown, if not all can, and then to power
        vectors of lenses or to combinations, if any; None if there is nothing to
        transform.
    """
    encoder = settings.encoder()
    steps: dict[str, InputTransform] = {}
    if not encoder.is_continuous:
        steps["snap"] = Snap(encoder, snap_contexts, shown)
    for column, lens in encoder.lens_columns():
        sphere, cylinder, _ = lens.parts
        steps[lens.name] = PowerVectors(column, sphere.bounds, cylinder.bounds)
    combine = settings.coordinates()
    if combine is not None:
        steps["combine"] = combine
    if len(steps) > 1:
        return ChainedInputTransform(**steps)
    return next(iter(steps.values()), None)
