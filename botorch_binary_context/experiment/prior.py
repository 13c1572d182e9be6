r"""
The prior of an experiment's performance: a kernel and a mean with their priors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import (
    Kernel,
    MaternKernel,
    RBFKernel,
    ScaleKernel,
)
from gpytorch.means import Mean, ZeroMean
from gpytorch.priors import LogNormalPrior
from torch import Tensor
from torch.nn import ModuleDict

from botorch_binary_context.column_kernels import DriftKernel
from botorch_binary_context.experiment.coordinates import predicting_coordinates
from botorch_binary_context.experiment.settings import Settings
from botorch_binary_context.kernels import (
    AdditiveContextKernel,
    MultiplicativeContextKernel,
)
from botorch_binary_context.models.defaults import (
    LENGTHSCALE,
    OUTPUTSCALE,
    SLOPES,
    WIDE_SLOPES,
    SlopePrior,
    add_offset,
    additive_covar_module,
    binary_covar_module,
    default_covar_module,
    draw_peaks,
    general_covar_module,
    offset_covar_module,
    psychometric_covar_module,
    scale_covar_module,
    slope_mean,
    widen,
)
from botorch_binary_context.models.pooled import pooled_covar_module
from botorch_binary_context.peaks import PeakMean, Peaks

SINGLE = torch.Size()
DRIFT_VARIANCE = 4.0  # of the part of the offset that changes
# Lengthscales of a product kernel: of contexts in [-1, 1], and of two parameters if
# they are separate.
CONTEXT_LENGTHSCALE = 1.0
PRODUCT_LENGTHSCALE = 0.25


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
    else:
        peaks = _expected_peaks(settings)
        additive = _additive(settings, batch_shape, peaks)
        kernel = additive
        if settings.kernel == "multiplicative":
            contexts = additive.context_dims
            kernel = MultiplicativeContextKernel(additive.base_kernel, contexts)
        else:
            mean = _context_mean(settings, additive, batch_shape)
            if peaks is not None:
                mean = PeakMean(peaks, mean, _parameter_columns(settings))
    if settings.drift is not None:
        offset = offset_covar_module(DRIFT_VARIANCE, batch_shape)
        kernel = DriftKernel(kernel, offset, settings.drift)
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


def _expected_peaks(settings: Settings) -> Peaks | None:
    """Where the one peak may be, if one is expected, in the model's coordinates."""
    if settings.priors != "peak":
        return None
    space = settings.encoder().context_space
    coordinates = predicting_coordinates(settings)
    columns = _parameter_columns(settings)

    def transform(points: Tensor) -> Tensor:
        rows = space.at_reference(points)
        rows = rows if coordinates is None else coordinates(rows)
        return rows[..., columns.start : columns.stop]

    return draw_peaks(space.parameter_bounds, transform)


def _parameter_columns(settings: Settings) -> range:
    first = len(settings.space.contexts)
    return range(first, first + settings.encoder().columns.num_columns)


def _context_mean(
    settings: Settings, kernel: AdditiveContextKernel, batch_shape: torch.Size
) -> Mean:
    """The slopes of contexts that are known to make tests easier or harder."""
    contexts = settings.space.contexts
    known = [i for i, c in enumerate(contexts) if c.harder is not None]
    if len(known) < len(contexts):
        # For the other contexts, the kernel alone has to allow for slopes of either
        # sign.
        kernel.context_variance = kernel.context_variance.detach() + SLOPES.median**2
    if not known:
        return ZeroMean()
    # The encoder turns contexts so that tests become easier as their columns rise.
    return slope_mean(known, "down", batch_shape, _expected_slopes(settings))


def _product(settings: Settings, batch_shape: torch.Size) -> ScaleKernel:
    """``k₁(s,s') k₂(x,x')``: what is best may change with the context, but slowly."""
    columns = settings.encoder().columns
    m = len(settings.space.contexts)
    contexts = _smooth(range(m), CONTEXT_LENGTHSCALE, batch_shape)
    if not columns.num_parameters:
        return scale_covar_module(contexts, OUTPUTSCALE)
    if settings.priors == "separate":
        dim = columns.num_columns
        width = widen(PRODUCT_LENGTHSCALE, max(dim, 2))
        parameters: Kernel = _smooth(range(m, m + dim), width, batch_shape)
    else:
        width = widen(LENGTHSCALE, max(columns.num_parameters, 2))
        parameters = pooled_covar_module(
            columns.shift(m), RBFKernel, width, batch_shape
        )
    return scale_covar_module(contexts * parameters, OUTPUTSCALE)


def _smooth(columns: Sequence[int], width: float, batch_shape: torch.Size) -> RBFKernel:
    """A squared exponential kernel of some columns, about as wide as given."""
    kernel = RBFKernel(
        active_dims=tuple(columns),
        ard_num_dims=len(columns),
        batch_shape=batch_shape,
        lengthscale_prior=LogNormalPrior(math.log(width), 0.5),
        lengthscale_constraint=GreaterThan(0.025),
    )
    kernel.lengthscale = torch.full_like(kernel.lengthscale, width)
    return kernel
