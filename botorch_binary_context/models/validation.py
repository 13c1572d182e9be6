r"""
Checks of training data, with errors that name the argument and what it should be.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from botorch.exceptions import InputDataError
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.exceptions.warnings import InputDataWarning, _get_single_precision_warning
from torch import Tensor

from botorch_binary_context.checks import check_kind, check_precision
from botorch_binary_context.context import take_columns
from botorch_binary_context.likelihoods import OutcomeLikelihood

PACKAGE = __name__.split(".")[0]


def check_trials(
    train_X: Tensor, train_Y: Tensor, likelihood: OutcomeLikelihood
) -> None:
    r"""Check that inputs and labels describe the same trials and are valid.

    Args:
        train_X: ``batch_shape x n x d`` (pass/fail) or ``batch_shape x n x 2 x d``
            (duels).
        train_Y: ``batch_shape x n x 1``, labels.
        likelihood: How the trials are answered.
    """
    check_kind("train_X", train_X, Tensor)
    check_kind("train_Y", train_Y, Tensor)
    row_shape = train_X.shape[:-1]
    q = likelihood.functional.num_rows
    if q > 1:
        if train_X.ndim < 3 or train_X.shape[-2] != q:
            kind = "duels" if q == 2 else f"trials of {q} rows"
            raise BotorchTensorDimensionError(
                f"Expected ``train_X`` to hold {kind}, ``batch_shape x n x {q} x d``, "
                f"but got shape {list(train_X.shape)}."
            )
        row_shape = train_X.shape[:-2]
    if train_X.ndim < 2 or train_Y.shape != (*row_shape, 1):
        raise BotorchTensorDimensionError(
            "Expected ``train_Y`` to have one label for each trial of ``train_X``, "
            f"shape {[*row_shape, 1]}, but got {list(train_Y.shape)} for ``train_X`` "
            f"of shape {list(train_X.shape)}."
        )
    check_dtypes(train_X, train_Y)
    check_inputs(train_X)
    check_outcomes(train_Y, likelihood)


def check_batch_shape(kernel_shape: torch.Size, batch_shape: torch.Size) -> None:
    r"""Check that a kernel has one set of hyperparameters for each element, or for all.

    Args:
        kernel_shape: The batch shape of the kernel.
        batch_shape: The batch shape of the training data.
    """
    sizes = zip(reversed(kernel_shape), reversed(batch_shape), strict=False)
    fits = all(size in (1, other) for size, other in sizes)
    if len(kernel_shape) > len(batch_shape) or not fits:
        raise InputDataError(
            "Expected ``covar_module`` to have a batch shape broadcastable to that of "
            f"``train_X``, {list(batch_shape)}, but got {list(kernel_shape)}."
        )


def check_dtypes(train_X: Tensor, train_Y: Tensor) -> None:
    """Check that both share a floating point dtype; warn in single precision."""
    if train_X.dtype != train_Y.dtype or not train_X.is_floating_point():
        raise InputDataError(
            "Expected ``train_X`` and ``train_Y`` to share a floating point dtype, but "
            f"got {train_X.dtype} and {train_Y.dtype}."
        )
    check_precision("train_X", train_X)
    if train_X.dtype != torch.float64:
        warnings.warn(
            _get_single_precision_warning(str(train_X.dtype)),
            InputDataWarning,
            stacklevel=_calls_within_package(),
        )


def _calls_within_package() -> int:
    """The stack level of the caller outside the package, for warnings."""
    frame = sys._getframe(1)
    calls = 1
    while frame.f_back is not None and (
        frame.f_globals.get("__name__", "").startswith(PACKAGE)
        or "__dataclass" in frame.f_code.co_filename
        or frame.f_code.co_filename == "<string>"
    ):
        frame = frame.f_back
        calls = calls + 1
    return calls


def check_observations(observations: Sequence[Any]) -> None:
    r"""Check that trials of several kinds can make one model.

    Args:
        observations: The trials of each kind.
    """
    if not observations:
        raise InputDataError(
            "Expected ``observations`` to have trials of at least one kind, but got "
            "none."
        )
    first = observations[0]
    for other in observations[1:]:
        for name, ours, theirs in (
            ("number of columns", first.X.shape[-1], other.X.shape[-1]),
            ("batch shape", list(first.Y.shape[:-2]), list(other.Y.shape[:-2])),
            ("dtype", first.X.dtype, other.X.dtype),
            ("device", first.X.device, other.X.device),
        ):
            if ours != theirs:
                raise InputDataError(
                    f"Expected ``observations`` to share their {name}, but got {ours} "
                    f"and {theirs}."
                )


def check_new_trials(
    X: Tensor, Y: Tensor, trial_shape: torch.Size, likelihood: OutcomeLikelihood
) -> None:
    r"""Check trials that a model will be conditioned on.

    Args:
        X: ``batch_shape x n x d`` (pass/fail) or ``batch_shape x n x 2 x d`` (duels).
        Y: ``batch_shape x n x 1``; batch shapes need only broadcast.
        trial_shape: ``d`` or ``2 x d``.
        likelihood: How they are answered.
    """
    num_dims = len(trial_shape)
    if X.ndim <= num_dims or X.shape[-num_dims:] != trial_shape:
        shape = " x ".join(str(size) for size in trial_shape)
        raise BotorchTensorDimensionError(
            f"Expected ``X`` to be ``batch_shape x n x {shape}``, but got shape "
            f"{list(X.shape)}."
        )
    n = X.shape[-num_dims - 1]
    if Y.ndim < 2 or Y.shape[-2:] != (n, 1):
        raise BotorchTensorDimensionError(
            "Expected ``Y`` to have one label for each trial of ``X``, "
            f"``batch_shape x {n} x 1``, but got shape {list(Y.shape)}."
        )
    check_inputs(X, name="X")
    check_outcomes(Y, likelihood, name="Y")


def check_inputs(X: Tensor, name: str = "train_X") -> None:
    """Check that all inputs are finite."""
    wrong = ~X.isfinite()
    if bool(wrong.any()):
        index = wrong.nonzero()[0].tolist()
        raise InputDataError(
            f"Expected ``{name}`` to hold finite numbers, but got "
            f"{float(X[tuple(index)])} at index {index}."
        )


def check_outcomes(
    Y: Tensor, likelihood: OutcomeLikelihood, name: str = "train_Y"
) -> None:
    """Check that all labels are possible outcomes of a likelihood."""
    check_labels(Y, name, likelihood.num_outcomes)
    if likelihood.num_outcomes == 2 or not Y.numel():
        return
    with torch.no_grad():
        impossible = likelihood.probabilities(Y.new_zeros(1)).flatten(1).amax(1) == 0
    wrong = impossible[Y.long()]
    if bool(wrong.any()):
        index = wrong.nonzero()[0].tolist()
        raise InputDataError(
            f"Expected ``{name}`` to hold possible labels, but got "
            f"{float(Y[tuple(index)]):g} at index {index}, whose probability is zero."
        )


def check_targets(
    targets: Tensor, trials: Sequence[Tensor], kinds: Sequence[OutcomeLikelihood]
) -> None:
    r"""Check the labels of trials of several kinds.

    Args:
        targets: The labels of all of them, ``batch_shape x n``.
        trials: The trials of each kind.
        kinds: How each kind is answered.
    """
    parts: Sequence[Tensor] = [targets]
    if len(kinds) > 1:
        counts = [part.shape[targets.ndim - 1] for part in trials]
        if sum(counts) != targets.shape[-1]:
            raise InputDataError(
                f"Expected ``targets`` to have {sum(counts)} labels, but got "
                f"{targets.shape[-1]}."
            )
        parts = targets.split(counts, dim=-1)
    for part, likelihood in zip(parts, kinds, strict=True):
        check_outcomes(part, likelihood, name="targets")


def check_labels(Y: Tensor, name: str = "train_Y", num_outcomes: int = 2) -> None:
    """Check that all labels are whole numbers from 0 to ``num_outcomes - 1``."""
    label = Y.round()
    wrong = (label != Y) | (label < 0) | (label >= num_outcomes)
    if bool(wrong.any()):
        index = wrong.nonzero()[0].tolist()
        labels = "0 and 1" if num_outcomes == 2 else f"from 0 to {num_outcomes - 1}"
        raise InputDataError(
            f"Expected ``{name}`` to hold labels {labels}, but got "
            f"{float(Y[tuple(index)])} at index {index}."
        )


def check_duel_contexts(train_X: Tensor, context_dims: Sequence[int]) -> None:
    r"""Check that the two sides of every duel are shown in the same context.

    Args:
        train_X: ``batch_shape x n x 2 x d`` duels.
        context_dims: The context columns.
    """
    contexts = take_columns(train_X, context_dims)
    # Optimizers keep contexts equal only up to rounding.
    tolerance = torch.finfo(train_X.dtype).eps ** 0.5
    first, second = contexts.unbind(dim=-2)
    wrong = ~torch.isclose(first, second, rtol=tolerance, atol=tolerance)
    if bool(wrong.any()):
        index = wrong.nonzero()[0].tolist()[:-1]
        raise InputDataError(
            "Expected the two sides of a duel in ``train_X`` to share their context "
            f"columns {list(context_dims)}, but got {first[tuple(index)].tolist()} and "
            f"{second[tuple(index)].tolist()} in duel {index}."
        )


def check_alike(name: str, new: Tensor, old: Tensor) -> None:
    """Check that new data have the shape, dtype and device of the old."""
    for attribute in ("shape", "dtype", "device"):
        expected = getattr(old, attribute)
        found = getattr(new, attribute)
        if expected != found:
            raise InputDataError(
                f"Expected ``{name}`` to have {attribute} {expected}, but got {found}; "
                "pass ``strict=False`` to allow a change."
            )
