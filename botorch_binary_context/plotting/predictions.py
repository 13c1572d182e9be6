r"""
The trials that a plot evaluates, from the arguments of the user.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from botorch.exceptions import InputDataError, UnsupportedError
from torch import Tensor

from botorch_binary_context.acquisition.base import match_space
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.functionals import DIFFERENCE
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.rules import recommend

Values = Tensor | Sequence[float] | float


@contextmanager
def evaluating(model: LatentGP, space: ContextSpace) -> Iterator[ContextSpace]:
    r"""Evaluate a model without gradients, and leave it in the mode it was in.

    Args:
        model: The model, without batch dimensions.
        space: The box of the trials.

    Yields:
        The space, with the dtype and the device of the model.
    """
    if model.batch_shape:
        raise UnsupportedError(
            "Expected ``model`` to be one model, but got a batch of models of shape "
            f"{list(model.batch_shape)}."
        )
    was_training = model.training
    try:
        with torch.no_grad():
            yield match_space(space, model)
    finally:
        if was_training:
            model.train()


def as_row(values: Values, bounds: Tensor, name: str) -> Tensor:
    r"""One number for each column of a box.

    Args:
        values: The numbers.
        bounds: The ``2 x k`` bounds of the box.
        name: The name of the argument, for the message.

    Returns:
        A tensor of ``k`` numbers like ``bounds``.
    """
    row = torch.as_tensor(values, dtype=bounds.dtype, device=bounds.device)
    if row.numel() != bounds.shape[-1] or row.ndim > 1:
        raise InputDataError(
            f"Expected ``{name}`` to have one number for each of {bounds.shape[-1]} "
            f"columns, but got {row.tolist()}."
        )
    return row.reshape(-1)


def make_trial(
    space: ContextSpace, at: Values | None, context: Values | None
) -> Tensor:
    r"""A trial with given parameters and a given context.

    Args:
        space: The box of the trials.
        at: The parameters, by default those in the middle of the box.
        context: The context, by default the reference context.

    Returns:
        A tensor of ``d`` numbers.
    """
    parameters = space.parameter_bounds.mean(dim=0)
    if at is not None:
        parameters = as_row(at, space.parameter_bounds, "at")
    if context is None:
        return space.at_reference(parameters)
    return space.join(parameters, as_row(context, space.context_bounds, "context"))


def find_opponent(
    model: LatentGP, space: ContextSpace, opponent: Values | None
) -> Tensor | None:
    r"""The parameters that others are compared with.

    Args:
        model: The model.
        space: The box of the trials.
        opponent: The parameters that were asked for, or None.

    Returns:
        None for pass/fail outcomes; for duels the parameters, by default the
        recommended ones.
    """
    compares = model.functional == DIFFERENCE
    if opponent is not None and not compares:
        raise UnsupportedError(
            "Expected ``opponent`` to be None for a model of pass/fail outcomes, but "
            f"got {opponent}."
        )
    if opponent is not None:
        return as_row(opponent, space.parameter_bounds, "opponent")
    return recommend(model, space) if compares else None


def as_candidates(
    space: ContextSpace, trials: Tensor, opponent: Tensor | None
) -> Tensor:
    r"""Candidates as acquisition functions take them.

    Args:
        space: The box of the trials.
        trials: A ``... x d`` tensor.
        opponent: None, or the parameters that each trial is compared with, in its own
            context.

    Returns:
        ``... x 1 x d`` trials or ``... x 2 x d`` duels.
    """
    if opponent is None:
        return trials.unsqueeze(-2)
    return torch.stack([trials, space.join(opponent, space.contexts(trials))], dim=-2)
