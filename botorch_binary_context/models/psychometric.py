r"""
The default model of psychometric functions: ``f(s,x) = a s + b(x)``.

With ``slope="varies"`` it is ``f(s,x) = a(x) s + b(x)``.

A test in the context ``s`` is passed with a probability that rises along a sigmoid in
``s`` (or falls, where larger is harder), and the parameters ``x`` shift that curve. The
priors are meant for experiments without earlier data; :func:`psychometric_gp` says what
they assume.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from botorch.exceptions import InputDataError
from botorch.exceptions.errors import BotorchTensorDimensionError
from gpytorch.means import Mean
from torch import Tensor

from botorch_binary_context.context import ContextSpace
from botorch_binary_context.errors import quote
from botorch_binary_context.inference import Inference
from botorch_binary_context.likelihoods import OutcomeLikelihood, ProbitLikelihood
from botorch_binary_context.means import LinearContextMean
from botorch_binary_context.models.binary_gp import BinaryGP
from botorch_binary_context.models.coordinates import (
    CombineParameters,
    center_contexts,
)
from botorch_binary_context.models.defaults import (
    draw_peaks,
    draw_threshold_peaks,
    psychometric_covar_module,
    slope_mean,
    varying_slope_covar_module,
)
from botorch_binary_context.peaks import PeakLaw, PeakMean, Peaks

_KERNELS = {
    "constant": psychometric_covar_module,
    "varies": varying_slope_covar_module,
}
#: What may be expected of the parameters' effect.
SHAPES = ("any", "peak")


def psychometric_gp(
    train_X: Tensor,
    train_Y: Tensor,
    space: ContextSpace,
    guess_rate: float = 0.0,
    lapse_rate: float = 0.0,
    harder: str | Sequence[str] = "down",
    combinations: Tensor | Sequence[Sequence[float]] | None = None,
    inference: Inference | None = None,
    slope: str = "constant",
    likelihood: OutcomeLikelihood | None = None,
    shape: str | PeakLaw = "any",
) -> BinaryGP:
    r"""A model of a psychometric function that the parameters shift.

    Its priors assume that the contexts go from tests that are too hard to tests that
    are too easy: from one end of the range to the other ``f`` rises by about 12, give
    or take a factor of 1.6. The parameters change ``f`` by about 3 around an unknown
    offset, and a peak may be as narrow as a third of the box. The slope, the scales and
    the lengthscales should be learned during the experiment (:func:`should_learn` is a
    schedule for that). Parameters that act together, as the sphere and cylinder of a
    lens do, can be replaced by ``combinations`` that do not
    (:data:`~botorch_binary_context.problems.refraction.POWER_VECTOR` for a lens).

    Args:
        train_X: The trials, ``batch_shape x n x d``; ``n`` may be zero.
        train_Y: Their outcomes, ``batch_shape x n x 1``: 1 for a pass, 0 for a fail.
        space: The box of the trials.
        guess_rate: The probability of passing a test that is too hard: ``1/k`` for a
            choice among ``k`` alternatives.
        lapse_rate: The probability of failing a test that is too easy.
        harder: "up" if tests become harder as the context goes up, "down" if they
            become harder as it goes down; with several contexts, one of them for all,
            or a sequence with one for each, in the order of ``space.context_dims``.
        combinations: A ``(d - m) x (d - m)`` matrix. Each row is a combination of the
            parameters, in a common unit, with its own lengthscale; by default these are
            the parameters, in units of their ranges.
        inference: How the posterior is approximated, by default by expectation
            propagation.
        slope: "constant", or "varies" if the parameters change the slope along the
            context as well as the offset: by about 2 around 6, for contexts in [-1, 1].
            :func:`~botorch_binary_context.draw_psychometric_functions` gives slopes
            and thresholds.
        likelihood: Another likelihood, such as a ``RatingLikelihood``, instead of
            pass/fail outcomes with the two rates.
        shape: "any", or "peak" if there is one best setting and performance falls on
            all sides of it, as with a lens: far fewer trials find it. Or the law by
            which the threshold rises around the best setting, in the units of the
            context and of the ``combinations``, such as
            :data:`~botorch_binary_context.BLUR`.

    Returns:
        The model, with a set of hyperparameters for each element of the batch.

    Example:
        >>> model = psychometric_gp(train_X, train_Y, space, guess_rate=1 / 26)
        >>> fit_gpytorch_mll(ApproximateMarginalLogLikelihood(model.likelihood, model))
    """
    _check_space(space, train_X)
    _check_choice("slope", slope, _KERNELS)
    _check_shape(shape, space, combinations)
    batch_shape = train_X.shape[:-2]
    context_dims = space.context_dims
    context_mean = slope_mean(context_dims, harder, batch_shape)
    mean: Mean = context_mean
    coordinates = (
        center_contexts(space)
        if combinations is None
        else CombineParameters(space, combinations)
    )
    peaks = None
    if shape != "any" and space.parameter_dims:
        peaks = _expect_peaks(shape, space, coordinates, context_mean)
        mean = PeakMean(peaks, mean, space.parameter_dims)
    kernel = _KERNELS[slope](space.dim, context_dims, batch_shape, peaks)
    if likelihood is None:
        likelihood = ProbitLikelihood(guess_rate, lapse_rate)
    return BinaryGP(
        train_X,
        train_Y,
        likelihood=likelihood,
        covar_module=kernel.to(train_X),
        mean_module=mean.to(train_X),
        input_transform=coordinates,
        inference=inference,
    )


def _expect_peaks(
    shape: str | PeakLaw,
    space: ContextSpace,
    coordinates: Any,
    mean: LinearContextMean,
) -> Peaks:
    """Where the one peak may be, in the coordinates of the model."""

    def transform(points: Tensor) -> Tensor:
        return space.parameters(coordinates(space.at_reference(points)))

    bounds = space.parameter_bounds
    if not isinstance(shape, PeakLaw):
        return draw_peaks(bounds, transform)
    smallest, largest = space.context_bounds.squeeze(-1).tolist()
    law = shape.rescale(
        context_unit=(largest - smallest) / 2,
        parameter_unit=float(coordinates.unit),
        origin=(smallest + largest) / 2,
    )
    return draw_threshold_peaks(bounds, transform, law, mean)


def _check_shape(
    shape: str | PeakLaw, space: ContextSpace, combinations: object
) -> None:
    if not isinstance(shape, PeakLaw):
        _check_choice("shape", shape, SHAPES)
    elif space.num_contexts != 1:
        raise InputDataError(
            "Expected ``space`` to have one context, whose threshold the law of "
            f"``shape`` is about, but it has {space.num_contexts}."
        )
    elif combinations is None and space.parameter_dims:
        raise InputDataError(
            "Expected ``combinations`` of the parameters, in whose unit the law of "
            "``shape`` measures distances, but got None."
        )


def _check_choice(name: str, value: str, known: Iterable[str]) -> None:
    if value not in known:
        raise InputDataError(
            f"Expected ``{name}`` to be one of {', '.join(known)}, but got "
            f"{quote(value)}."
        )


def _check_space(space: ContextSpace, train_X: Tensor) -> None:
    if space.num_contexts == 0:
        raise InputDataError(
            "Expected ``space`` to have a context, along which tests become easier or "
            "harder, but it has none."
        )
    if train_X.shape[-1] != space.dim:
        raise BotorchTensorDimensionError(
            f"Expected ``train_X`` to have the {space.dim} columns of ``space``, but "
            f"got shape {list(train_X.shape)}."
        )
