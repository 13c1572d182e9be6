r"""
The coordinates of the models of an experiment.

A model that chooses a trial knows only the levels of contexts; a model that predicts
knows all contexts between them, too.
"""

from __future__ import annotations

from botorch.models.transforms.input import ChainedInputTransform, InputTransform
from torch import Tensor

from botorch_binary_context.experiment.settings import Settings
from botorch_binary_context.experiment.space import Snap, SnapParameters
from botorch_binary_context.models.power_vectors import PowerVectors


def choosing_coordinates(
    settings: Settings, shown: Tensor | None = None
) -> InputTransform | None:
    r"""The input transform of models that choose trials.

    Args:
        settings: The settings of the experiment.
        shown: The rows of the trials that the model knows, ``n x d``.

    Returns:
        The transform to trials that can be shown, if not all can, and then to power
        vectors of lenses or to combinations, if any; None if there is nothing to
        transform.
    """
    return _chain(Snap, settings, shown)


def predicting_coordinates(
    settings: Settings, shown: Tensor | None = None
) -> InputTransform | None:
    r"""The input transform of models that predict answers, in any context.

    Args:
        settings: The settings of the experiment.
        shown: The rows of the trials that the model knows, ``n x d``.

    Returns:
        As :func:`choosing_coordinates`, with contexts as they are.
    """
    return _chain(SnapParameters, settings, shown)


def _chain(
    snap: type[Snap], settings: Settings, shown: Tensor | None
) -> InputTransform | None:
    """The transform to what can be shown, and then to lenses and combinations."""
    encoder = settings.encoder()
    steps: dict[str, InputTransform] = {}
    if not encoder.is_continuous:
        steps["snap"] = snap(encoder, shown)
    for column, lens in encoder.lens_columns():
        sphere, cylinder, _ = lens.parts
        steps[lens.name] = PowerVectors(column, sphere.bounds, cylinder.bounds)
    combine = settings.coordinates()
    if combine is not None:
        steps["combine"] = combine
    if len(steps) > 1:
        return ChainedInputTransform(**steps)
    return next(iter(steps.values()), None)
