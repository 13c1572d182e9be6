r"""
The prior of an experiment's performance: a kernel and a mean with their priors.
"""

from __future__ import annotations

from typing import Any

import torch
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel
from gpytorch.means import Mean, ZeroMean
from torch import Tensor
from torch.nn import ModuleDict

from botorch_binary_context.experiment.coordinates import predicting_coordinates
from botorch_binary_context.experiment.lens_blur import law_of_blur
from botorch_binary_context.experiment.settings import Settings
from botorch_binary_context.kernels import (
    AdditiveContextKernel,
    MultiplicativeContextKernel,
)
from botorch_binary_context.models.defaults import (
    LENGTHSCALE,
    SLOPES,
    WIDE_SLOPES,
    SlopePrior,
    add_offset,
    additive_covar_module,
    allow_either_sign,
    binary_covar_module,
    default_covar_module,
    draw_peaks,
    draw_threshold_peaks,
    drifting_covar_module,
    general_covar_module,
    psychometric_covar_module,
    slope_mean,
    widen,
)
from botorch_binary_context.models.pooled import pooled_covar_module
from botorch_binary_context.models.products import (
    context_covar_module,
    product_covar_module,
    separate_covar_module,
)
from botorch_binary_context.peaks import PeakMean, Peaks

SINGLE = torch.Size()


def make_prior(settings: Settings, batch_shape: torch.Size = SINGLE) -> ModuleDict:
    r"""The kernel and the mean of an experiment, at the medians of their priors.

    Args:
        settings: The settings of the experiment.
        batch_shape: The batch shape of the model.

    Returns:
        The modules "covariance" and "mean", in double precision.
    """
    mean: Mean = ZeroMean()
    if settings.kernel is None:
        kernel: Kernel = _without_contexts(settings, batch_shape)
    elif settings.kernel == "product":
        kernel = _product(settings, batch_shape)
    elif settings.kernel == "multiplicative":
        kernel = _multiplicative(settings, batch_shape)
    else:
        kernel, mean = _additive_and_mean(settings, batch_shape)
    if settings.drift is not None:
        kernel = drifting_covar_module(kernel, settings.drift, batch_shape)
    return ModuleDict({"covariance": kernel, "mean": mean}).to(dtype=torch.float64)


def _without_contexts(settings: Settings, batch_shape: torch.Size) -> Kernel:
    sees_offset = settings.feedback.functional.sees_offset
    columns = settings.encoder().columns
    if settings.priors == "separate":
        make = binary_covar_module if sees_offset else default_covar_module
        return make(columns.num_columns, batch_shape)
    lengthscale = widen(LENGTHSCALE, columns.num_parameters)
    smooth = pooled_covar_module(columns, RBFKernel, lengthscale, batch_shape)
    kernel = general_covar_module(smooth)
    return add_offset(kernel) if sees_offset else kernel


def _multiplicative(settings: Settings, batch_shape: torch.Size) -> Kernel:
    additive = _additive(settings, batch_shape, None)
    return MultiplicativeContextKernel(additive.base_kernel, additive.context_dims)


def _additive_and_mean(
    settings: Settings, batch_shape: torch.Size
) -> tuple[Kernel, Mean]:
    """The kernel, and the mean that knows what contexts do and where peaks may be."""
    mean = _context_mean(settings, batch_shape)
    peaks = _expected_peaks(settings, mean)
    kernel = _additive(settings, batch_shape, peaks)
    if any(context.harder is None for context in settings.space.contexts):
        allow_either_sign(kernel)
    if peaks is not None:
        mean = PeakMean(peaks, mean, _parameter_columns(settings))
    return kernel, mean


def _additive(
    settings: Settings, batch_shape: torch.Size, peaks: Peaks | None
) -> AdditiveContextKernel:
    """``θ s s' + k(x,x') + constant``; ``k`` deviates from the peaks, if there are."""
    columns = settings.encoder().columns
    contexts = range(len(settings.space.contexts))
    if settings.priors == "separate":
        dim = len(contexts) + columns.num_columns
        return psychometric_covar_module(dim, contexts, batch_shape)
    rough = None
    if columns.num_parameters:
        lengthscale = widen(LENGTHSCALE, columns.num_parameters)
        rough = pooled_covar_module(columns, MaternKernel, lengthscale, batch_shape)
    slopes = _expected_slopes(settings)
    return additive_covar_module(rough, contexts, batch_shape, peaks, slopes)


def _expected_slopes(settings: Settings) -> SlopePrior:
    return WIDE_SLOPES if settings.priors == "wide" else SLOPES


def _expected_peaks(settings: Settings, mean: Any) -> Peaks | None:
    """Where the one peak may be, if one is expected, in the model's coordinates."""
    if settings.priors not in ("peak", "blur"):
        return None
    space = settings.encoder().context_space
    coordinates = predicting_coordinates(settings)
    columns = _parameter_columns(settings)

    def transform(points: Tensor) -> Tensor:
        rows = space.at_reference(points)
        rows = rows if coordinates is None else coordinates(rows)
        return rows[..., columns.start : columns.stop]

    bounds = space.parameter_bounds
    if settings.priors == "peak":
        return draw_peaks(bounds, transform)
    return draw_threshold_peaks(bounds, transform, law_of_blur(settings), mean)


def _parameter_columns(settings: Settings) -> range:
    first = len(settings.space.contexts)
    return range(first, first + settings.encoder().columns.num_columns)


def _context_mean(settings: Settings, batch_shape: torch.Size) -> Mean:
    """The slopes of contexts that are known to make tests easier or harder."""
    contexts = settings.space.contexts
    known = [i for i, c in enumerate(contexts) if c.harder is not None]
    if not known:
        return ZeroMean()
    # The encoder turns contexts so that tests become easier as their columns rise.
    return slope_mean(known, "down", batch_shape, _expected_slopes(settings))


def _product(settings: Settings, batch_shape: torch.Size) -> Kernel:
    """What is best may change with the context."""
    columns = settings.encoder().columns
    num_contexts = len(settings.space.contexts)
    contexts = context_covar_module(range(num_contexts), batch_shape)
    if not columns.num_parameters:
        return product_covar_module(contexts)
    if settings.priors == "separate":
        separate = separate_covar_module(_parameter_columns(settings), batch_shape)
        return product_covar_module(contexts, separate)
    lengthscale = widen(LENGTHSCALE, max(columns.num_parameters, 2))
    behind = columns.shift(num_contexts)
    pooled = pooled_covar_module(behind, RBFKernel, lengthscale, batch_shape)
    return product_covar_module(contexts, pooled)
