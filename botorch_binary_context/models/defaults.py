r"""
Default kernels and means, with priors that a few trials cannot overrule.

:func:`psychometric_gp`, experiments and benchmarks build their models of these parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from botorch.exceptions import InputDataError
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import (
    AdditiveKernel,
    ConstantKernel,
    Kernel,
    MaternKernel,
    RBFKernel,
    ScaleKernel,
)
from gpytorch.priors import LogNormalPrior
from torch import Tensor

from botorch_binary_context.column_kernels import DriftKernel
from botorch_binary_context.kernels import (
    AdditiveContextKernel,
    MultiplicativeContextKernel,
)
from botorch_binary_context.means import LinearContextMean
from botorch_binary_context.peaks import (
    PeakKernel,
    PeakLaw,
    Peaks,
    ThresholdPeaks,
)


@dataclass(frozen=True)
class SlopePrior:
    r"""What is expected of slopes along contexts in [-1, 1].

    Attributes:
        median: The median of the slope of the mean.
        spread: The standard deviation of its logarithm.
        variance: The variance of the slope around the mean, ``θ`` of the kernel.
    """

    median: float
    spread: float
    variance: float


SLOPES = SlopePrior(median=6.0, spread=0.5, variance=4.0)
# For observers who may be much flatter. The study ``threshold-coverage`` tells how they
# were chosen.
WIDE_SLOPES = SlopePrior(median=3.0, spread=1.0, variance=1.0)

# Medians of priors and their standard deviations in the logarithm, for parameters in
# [0, 1] and contexts in [-1, 1].
LENGTHSCALE, LENGTHSCALE_SPREAD = 0.4, 0.4
OUTPUTSCALE, OUTPUTSCALE_SPREAD = 9.0, 0.7
SLOPE_VARIANCE = 4.0  # for slopes that vary with the parameters
OFFSET_VARIANCE = 25.0
DRIFT_VARIANCE = 4.0  # of the part of the offset that changes
# The shortest lengthscales, of a kernel alone and of a factor of a product.
SHORTEST, SHORTEST_OF_FACTOR = 0.02, 0.025
# If one peak is expected: how much it varies, how wide it is for two parameters, and
# the variance of what deviates from it; less deviates from a law that is known.
PEAK_HEIGHT, PEAK_WIDTH = 1.75, 0.2
PEAK_OUTPUTSCALE, LAW_OUTPUTSCALE = 2.0, 0.3
# How many peaks one parameter has, and how often that is doubled for more.
FEWEST_PEAKS, MOST_DOUBLINGS = 32, 3
# The same standard deviation if nothing is known about the columns.
GENERAL_LENGTHSCALE_SPREAD = 0.7
GENERAL_OUTPUTSCALE = 4.0
GENERAL_OFFSET_VARIANCE = 4.0
# The median for duels, since preferences change more slowly. It was chosen on public
# choice data and simulated raters; ``python -m benchmarks run answers`` uses others.
DUEL_LENGTHSCALE = 1.2


def default_covar_module(dim: int, batch_shape: torch.Size) -> ScaleKernel:
    r"""A squared exponential kernel with priors that ten trials cannot overrule.

    Outcomes of one bit say little about hyperparameters. So lengthscales, for inputs in
    the unit cube, grow with the square root of the dimension as in BoTorch's models,
    but are shorter and vary less: where nearly all tests fail, BoTorch's become so long
    that no peak is expected except in a corner. The output scale determines how certain
    outcomes become at the best and the worst points: latent standard deviations are one
    to four.

    Args:
        dim: The number of columns of a trial.
        batch_shape: The batch shape of the model.

    Returns:
        The kernel, with a set of hyperparameters for each element of the batch.
    """
    kernel = _smooth(RBFKernel, dim, GENERAL_LENGTHSCALE_SPREAD, batch_shape)
    return general_covar_module(kernel)


def general_covar_module(kernel: Kernel) -> ScaleKernel:
    r"""The kernel of a latent function about which nothing is known.

    Args:
        kernel: A kernel of unit variance.
    """
    return scale_covar_module(kernel, GENERAL_OUTPUTSCALE)


def duel_covar_module(dim: int, batch_shape: torch.Size) -> ScaleKernel:
    r""":func:`default_covar_module` that learns longer lengthscales from duels.

    On real choices and with simulated raters, a nearly linear value function predicts
    best after few answers; more answers can make lengthscales shorter. Only the prior
    differs: until they are learned, lengthscales are as in the default.

    Args:
        dim: The number of columns of a trial.
        batch_shape: The batch shape of the model.

    Returns:
        The kernel, with a set of hyperparameters for each element of the batch.
    """
    scaled = default_covar_module(dim, batch_shape)
    median = math.log(DUEL_LENGTHSCALE * math.sqrt(dim / 2))
    prior = LogNormalPrior(median, GENERAL_LENGTHSCALE_SPREAD)
    smooth = scaled.base_kernel
    _, get, put = smooth._priors["lengthscale_prior"]
    smooth.register_prior("lengthscale_prior", prior, get, put)
    return scaled


def widen(lengthscale: float, num_parameters: int) -> float:
    r"""Rescale a lengthscale from two parameters to any number.

    Distances grow with the square root of the dimension.

    Args:
        lengthscale: The lengthscale of two parameters.
        num_parameters: The number of parameters.
    """
    return lengthscale * math.sqrt(num_parameters / 2)


def _smooth(
    kernel_class: type[RBFKernel] | type[MaternKernel],
    dim: int,
    spread: float,
    batch_shape: torch.Size,
) -> Kernel:
    """A kernel of inputs in the unit cube, with a prior of its lengthscales."""
    lengthscale = widen(LENGTHSCALE, dim)
    kernel = kernel_class(
        ard_num_dims=dim,
        batch_shape=batch_shape,
        lengthscale_prior=LogNormalPrior(math.log(lengthscale), spread),
        lengthscale_constraint=GreaterThan(SHORTEST),
    )
    return kernel.initialize(lengthscale=lengthscale)


def scale_covar_module(kernel: Kernel, outputscale: float) -> ScaleKernel:
    r"""A kernel with an output scale and its prior.

    Args:
        kernel: The kernel to scale.
        outputscale: The median of the prior, which is also the initial scale.
    """
    prior = LogNormalPrior(math.log(outputscale), OUTPUTSCALE_SPREAD)
    scaled = ScaleKernel(
        kernel, batch_shape=kernel.batch_shape, outputscale_prior=prior
    )
    scaled.outputscale = outputscale
    return scaled


def binary_covar_module(dim: int, batch_shape: torch.Size) -> AdditiveKernel:
    r""":func:`default_covar_module` and an offset, since passes may be rare everywhere.

    Args:
        dim: The number of columns of a trial.
        batch_shape: The batch shape of the model.

    Returns:
        The kernel, with a set of hyperparameters for each element of the batch.
    """
    return add_offset(default_covar_module(dim, batch_shape))


def add_offset(kernel: Kernel) -> AdditiveKernel:
    r"""A kernel and an offset, since passes may be rare everywhere.

    Args:
        kernel: The kernel of a latent function about which nothing is known.
    """
    offset = offset_covar_module(GENERAL_OFFSET_VARIANCE, kernel.batch_shape)
    return AdditiveKernel(kernel, offset)


def draw_peaks(bounds: Tensor, transform: Callable[[Tensor], Tensor]) -> Peaks:
    r"""Functions with one peak each, at places that cover a box.

    Args:
        bounds: The ``2 x k`` box of the parameters.
        transform: Maps ``n x k`` parameters to the coordinates of the model.
    """
    width = PEAK_WIDTH * math.sqrt(bounds.shape[-1] / 2)
    return Peaks(_draw_centers(bounds, transform), PEAK_HEIGHT, width)


def draw_threshold_peaks(
    bounds: Tensor,
    transform: Callable[[Tensor], Tensor],
    law: PeakLaw,
    mean: LinearContextMean,
) -> ThresholdPeaks:
    r""":func:`draw_peaks` that move thresholds by known amounts.

    Args:
        bounds: The ``2 x k`` box of the parameters.
        transform: Maps ``n x k`` parameters to the coordinates of the model.
        law: How thresholds rise, in the coordinates of the model.
        mean: The mean with the slope along the context.
    """
    return ThresholdPeaks(_draw_centers(bounds, transform), mean, law)


def _draw_centers(bounds: Tensor, transform: Callable[[Tensor], Tensor]) -> Tensor:
    """Places that cover a box, in the coordinates of the model."""
    dim = bounds.shape[-1]
    number = FEWEST_PEAKS * 2 ** min(dim - 1, MOST_DOUBLINGS)
    return transform(draw_sobol_samples(bounds, n=number, q=1, seed=0).squeeze(-2))


def psychometric_covar_module(
    dim: int,
    context_dims: Sequence[int],
    batch_shape: torch.Size,
    peaks: Peaks | None = None,
) -> AdditiveContextKernel:
    r"""``θ s s' + k(x,x') + constant``, with priors for psychometric functions.

    For parameters in the unit cube and contexts in [-1, 1]. A Matérn kernel can follow
    a sharp peak that is flat far from it; a squared exponential would need a short
    lengthscale everywhere.

    Args:
        dim: The number of columns of a trial.
        context_dims: The columns that are context.
        batch_shape: The batch shape of the model.
        peaks: What is expected of the parameters, from which ``k`` deviates.

    Returns:
        The kernel, with a set of hyperparameters for each element of the batch.
    """
    num_parameters = dim - len(context_dims)
    rough = None
    if num_parameters > 0:
        rough = _smooth(MaternKernel, num_parameters, LENGTHSCALE_SPREAD, batch_shape)
    return additive_covar_module(rough, context_dims, batch_shape, peaks)


def additive_covar_module(
    parameters: Kernel | None,
    context_dims: Sequence[int],
    batch_shape: torch.Size,
    peaks: Peaks | None = None,
    slopes: SlopePrior = SLOPES,
) -> AdditiveContextKernel:
    r""":func:`psychometric_covar_module` with any kernel of the parameters.

    Args:
        parameters: A kernel of unit variance; None if there are no parameters.
        context_dims: The columns that are context.
        batch_shape: The batch shape of the model.
        peaks: What is expected of the parameters.
        slopes: What is expected of the slopes.
    """
    variance = _offset_variance(peaks, slopes)
    base: Kernel = offset_covar_module(variance, batch_shape)
    if parameters is not None:
        base = deviation_covar_module(parameters, peaks) + base
    kernel = AdditiveContextKernel(base, context_dims)
    kernel.context_variance = slopes.variance
    kernel.raw_context_variance.requires_grad_(False)
    return kernel


def _offset_variance(peaks: Peaks | None, slopes: SlopePrior) -> float:
    """It is smaller if something is known of the threshold of the best setting."""
    uncertainty = peaks.law.uncertainty if isinstance(peaks, ThresholdPeaks) else None
    if uncertainty is None:
        return OFFSET_VARIANCE
    return (slopes.median * uncertainty) ** 2


def allow_either_sign(kernel: AdditiveContextKernel) -> None:
    r"""Let the kernel alone allow for slopes along contexts of either sign.

    Args:
        kernel: A kernel of a function whose mean has no slope along some contexts.
    """
    kernel.context_variance = kernel.context_variance.detach() + SLOPES.median**2


def drifting_covar_module(
    kernel: Kernel, drift: float, batch_shape: torch.Size
) -> DriftKernel:
    r"""A kernel of a function whose offset drifts.

    Args:
        kernel: The kernel of the function at one time.
        drift: The number of trials over which the offset changes.
        batch_shape: The batch shape of the model.
    """
    offset = offset_covar_module(DRIFT_VARIANCE, batch_shape)
    return DriftKernel(kernel, offset, drift)


def slope_mean(
    context_dims: Sequence[int],
    harder: str | Sequence[str],
    batch_shape: torch.Size,
    slopes: SlopePrior = SLOPES,
) -> LinearContextMean:
    r"""The mean of a psychometric function along its contexts.

    Args:
        context_dims: The contexts that are known to make tests harder.
        harder: Which way they do, as in :class:`~.means.LinearContextMean`.
        batch_shape: The batch shape of the model.
        slopes: What is expected of the slopes.
    """
    prior = LogNormalPrior(math.log(slopes.median), slopes.spread)
    return LinearContextMean(context_dims, slopes.median, prior, harder, batch_shape)


def deviation_covar_module(kernel: Kernel, peaks: Peaks | None) -> Kernel:
    r"""The kernel of the unknown part of a function of the parameters.

    Args:
        kernel: A kernel of unit variance.
        peaks: What is expected: one peak somewhere; None if nothing is.

    Returns:
        The scaled kernel, and the covariance of the peak.
    """
    if peaks is None:
        return scale_covar_module(kernel, OUTPUTSCALE)
    follows_law = isinstance(peaks, ThresholdPeaks)
    outputscale = LAW_OUTPUTSCALE if follows_law else PEAK_OUTPUTSCALE
    return scale_covar_module(kernel, outputscale) + PeakKernel(peaks)


def varying_slope_covar_module(
    dim: int,
    context_dims: Sequence[int],
    batch_shape: torch.Size,
    peaks: Peaks | None = None,
) -> AdditiveKernel:
    r"""``s s' (θ + k₁(x,x')) + k₂(x,x') + constant``: parameters change the slope, too.

    For contexts in [-1, 1], the slope varies by about 2 around the slope of the prior
    mean; the rest is :func:`psychometric_covar_module`.

    Args:
        dim: The number of columns of a trial.
        context_dims: The columns that are context.
        batch_shape: The batch shape of the model.
        peaks: As in :func:`psychometric_covar_module`.

    Returns:
        The kernel, with a set of hyperparameters for each element of the batch.
    """
    num_parameters = dim - len(context_dims)
    if num_parameters == 0:
        raise InputDataError(
            "Expected ``slope`` to be 'constant' without parameters, which it could "
            "vary with, but got 'varies'."
        )
    rough = _smooth(MaternKernel, num_parameters, LENGTHSCALE_SPREAD, batch_shape)
    slope = scale_covar_module(rough, SLOPE_VARIANCE)
    constant_slope = psychometric_covar_module(dim, context_dims, batch_shape, peaks)
    varying = MultiplicativeContextKernel(slope, context_dims)
    return AdditiveKernel(constant_slope, varying)


def offset_covar_module(variance: float, batch_shape: torch.Size) -> ConstantKernel:
    r"""A constant added to the latent function, whose prior variance is not learned.

    Args:
        variance: The prior variance of the constant.
        batch_shape: The batch shape of the model.
    """
    offset = ConstantKernel(batch_shape=batch_shape)
    offset.constant = variance * torch.ones_like(offset.constant)
    return offset.requires_grad_(False)
