r"""
A prior that expects one peak somewhere.

Parameters that can be too small and too large have one best setting, and performance
falls on all sides of it. A stationary kernel does not know that: it expects as many
peaks as its lengthscale allows. The functions

    ``g_c(x) = -h log(1 + |x - c|² / w²)``

have one peak each, at ``c``, and fall slowly far from it. With ``c`` uniform in the box
their mean and covariance define a Gaussian process that expects one peak at an unknown
place. A stationary kernel added to it allows for other functions.

Where it is known by how much a peak moves thresholds, as for the blur of lenses, a
:class:`PeakLaw` says so, and the functions are steeper for steeper observers.

.. [Elliott1995visual]
    D. B. Elliott, K. C. H. Yang, D. Whitaker. Visual acuity changes throughout
    adulthood in normal, healthy eyes: seeing beyond 6/6. Optometry and Vision Science
    72, 1995.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor
from torch.nn import Module

from botorch_binary_context.context import take_columns
from botorch_binary_context.means import LinearContextMean
from botorch_binary_context.numerics.covariance import register_evaluation
from botorch_binary_context.numerics.distances import squared_distance


def _check_positive(name: str, value: float) -> None:
    if not 0.0 < value < math.inf:
        raise InputDataError(
            f"Expected ``{name}`` to be positive and finite, but got {value}."
        )


@dataclass(frozen=True)
class PeakLaw:
    r"""How a threshold rises with the distance ``d`` from the best setting.

    By ``rise log10(1 + d² / width²)``, in units of the context.

    Example:
        >>> PeakLaw(rise=6.0, width=0.5)  # thresholds in dB, a notch in octaves
        >>> PeakLaw(6.0, 0.5, lowest=20.0, uncertainty=5.0)  # about 20 dB at the notch

    Attributes:
        rise: By how much in all, whenever ``1 + d² / width²`` grows tenfold.
        width: The distance at which it is ``0.3 rise``, in units of the parameters.
        lowest: The expected threshold of the best setting, in units of the context;
            None if nothing is known of it.
        uncertainty: The standard deviation of that threshold around what is expected.
    """

    rise: float
    width: float
    lowest: float | None = None
    uncertainty: float | None = None

    def __post_init__(self) -> None:
        _check_positive("rise", self.rise)
        _check_positive("width", self.width)
        if (self.lowest is None) != (self.uncertainty is None):
            raise InputDataError(
                "Expected ``lowest`` and ``uncertainty`` to be given together, but got "
                f"{self.lowest} and {self.uncertainty}."
            )
        if self.lowest is not None and not math.isfinite(self.lowest):
            raise InputDataError(
                f"Expected ``lowest`` to be finite, but got {self.lowest}."
            )
        if self.uncertainty is not None:
            _check_positive("uncertainty", self.uncertainty)

    def rescale(
        self, context_unit: float, parameter_unit: float, origin: float = 0.0
    ) -> PeakLaw:
        r"""The same law in other coordinates.

        Args:
            context_unit: The new unit of the context.
            parameter_unit: The new unit of the parameters.
            origin: The value of the context at zero.
        """
        lowest, uncertainty = self.lowest, self.uncertainty
        if lowest is not None and uncertainty is not None:
            lowest = (lowest - origin) / context_unit
            uncertainty = uncertainty / context_unit
        rise = self.rise / context_unit
        return PeakLaw(rise, self.width / parameter_unit, lowest, uncertainty)


#: Of lenses in diopters and letters in logMAR: decimal acuity falls as
#: ``1 / (1 + blur²)`` [Blendowske2015]_. Healthy eyes of all ages have mean acuities of
#: -0.13 to -0.02 logMAR with the best lens [Elliott1995visual]_; the uncertainty is
#: larger than theirs.
BLUR = PeakLaw(rise=1.0, width=1.0, lowest=-0.05, uncertainty=0.2)


class Peaks(Module):
    r"""Functions with one peak each, ``g_c(x) = -h log(1 + |x - c|² / w²)``.

    Example:
        >>> peaks = Peaks(torch.rand(64, 2))
        >>> peaks(X)  # ... x q x 64
    """

    centers: Tensor

    def __init__(self, centers: Tensor, height: float = 1.0, width: float = 0.2):
        r"""
        Args:
            centers: Where the peaks are, ``J x k``.
            height: ``h``, how much the functions vary.
            width: ``w``, how wide the peaks are.
        """
        super().__init__()
        if centers.ndim != 2 or 0 in centers.shape:
            raise InputDataError(
                "Expected ``centers`` to have shape ``J x k``, at least one of one "
                f"column, but got {list(centers.shape)}."
            )
        _check_positive("height", height)
        _check_positive("width", width)
        self.height = float(height)
        self.width = float(width)
        self.register_buffer("centers", centers)

    def forward(self, X: Tensor) -> Tensor:
        r"""The values of all functions.

        Args:
            X: A ``... x q x k`` tensor.

        Returns:
            A ``... x q x J`` tensor.
        """
        centers = self.centers.to(X) / self.width
        squared = squared_distance(X / self.width, centers)
        return -self.height * torch.log1p(squared)


class ThresholdPeaks(Peaks):
    r"""Peaks that move thresholds by known amounts: ``a`` times as high.

    The slope ``a`` along the context is that of a mean, so it is learned only once.

    Example:
        >>> mean = LinearContextMean([0], slope=6.0)
        >>> peaks = ThresholdPeaks(torch.rand(64, 2), mean, PeakLaw(0.7, 0.2))
    """

    def __init__(self, centers: Tensor, mean: LinearContextMean, law: PeakLaw) -> None:
        r"""
        Args:
            centers: Where the peaks are, ``J x k``.
            mean: The mean with the slope along one context.
            law: How thresholds rise around a peak, in the model's coordinates.
        """
        super().__init__(centers, law.rise / math.log(10), law.width)
        self.context_mean = mean
        self.law = law

    def forward(self, X: Tensor) -> Tensor:
        r"""The values of all functions.

        Args:
            X: A ``... x batch_shape x q x k`` tensor.

        Returns:
            A ``... x batch_shape x q x J`` tensor.
        """
        mean = self.context_mean
        values = super().forward(X) - mean.signs.to(X) * (self.law.lowest or 0.0)
        return mean.slope.unsqueeze(-2) * values


class PeakKernel(Kernel):
    r"""``Cov(g_c(x), g_c(x'))``: the covariance of a peak at an unknown place.

    Example:
        >>> peaks = Peaks(torch.rand(64, 2))
        >>> kernel = ScaleKernel(MaternKernel()) + PeakKernel(peaks)
        >>> mean = PeakMean(peaks)
    """

    has_lengthscale = False

    def __init__(self, peaks: Peaks, **kwargs: Any) -> None:
        r"""
        Args:
            peaks: The functions.
            kwargs: The arguments of all kernels, such as ``active_dims``.
        """
        super().__init__(**kwargs)
        self.peaks = peaks

    @property
    def num_features(self) -> int:
        """The number of functions."""
        return len(self.peaks.centers)

    def features(self, X: Tensor) -> Tensor:
        r"""The deviations ``φ(x)`` of all functions from their mean, with
        ``φ(x)ᵀφ(x') = k(x,x')``.

        Args:
            X: A ``... x q x k`` tensor.

        Returns:
            A ``... x q x J`` tensor.
        """
        values = self.peaks(X)
        values = values - values.mean(dim=-1, keepdim=True)
        return values / math.sqrt(self.num_features)

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any
    ) -> Tensor:
        r"""The covariance.

        Args:
            x1: A ``... x n x k`` tensor.
            x2: A ``... x m x k`` tensor.
            diag: Whether to return only the covariance of each row with its
                counterpart.
            params: Not used.

        Returns:
            A ``... x n x m`` tensor, or ``... x n``.
        """
        first = self.features(x1)
        second = self.features(x2)
        return (first * second).sum(dim=-1) if diag else first @ second.mT


class PeakMean(Mean):
    r"""``E g_c(x)``, higher in the middle, and another mean.

    Example:
        >>> mean = PeakMean(peaks, LinearContextMean([0]), columns=[1, 2])
    """

    def __init__(
        self,
        peaks: Peaks,
        base_mean: Mean | None = None,
        columns: Sequence[int] | None = None,
    ) -> None:
        r"""
        Args:
            peaks: The functions.
            base_mean: A mean of all columns, which is added.
            columns: The columns that the functions depend on, by default all.
        """
        super().__init__()
        self.peaks = peaks
        self.base_mean = base_mean
        self.columns = None if columns is None else list(columns)

    def forward(self, x: Tensor) -> Tensor:
        r"""The prior mean.

        Args:
            x: A ``... x q x d`` tensor.

        Returns:
            A ``... x q`` tensor.
        """
        chosen = x if self.columns is None else take_columns(x, self.columns)
        mean = self.peaks(chosen).mean(dim=-1)
        return mean if self.base_mean is None else mean + self.base_mean(x)


def _covariance(kernel: PeakKernel, X1: Tensor, X2: Tensor) -> Tensor:
    return kernel.forward(X1, X2)


def _variance(kernel: PeakKernel, X: Tensor) -> Tensor:
    return kernel.features(X).square().sum(dim=-1)


register_evaluation(PeakKernel, _covariance, _variance)
