r"""
Pending trials, which were asked but not answered yet.
"""

from __future__ import annotations

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.models.validation import check_inputs


def expect_outcomes(model: LatentGP, pending: Tensor) -> LatentGP:
    r"""The model as if pending trials had come out as expected.

    A trial counts as passed if the posterior mean of its latent contrast is positive,
    else as failed; with more than two outcomes, the most likely one is used. The next
    trials are then chosen for what the pending ones will not reveal.

    Args:
        model: The model of the answered trials.
        pending: The pending trials, in the layout of ``train_X``.

    Returns:
        The model of the answers and the expected outcomes.
    """
    check_pending(model, pending)
    if pending.shape[-model.functional.trial_dim - 1] == 0:
        return model
    with torch.no_grad():
        mean = model.functional(model.posterior_mean(model.functional.rows(pending)))
        if model.likelihood.num_outcomes == 2:
            expected = mean > 0
        else:
            expected = model.likelihood.probabilities(mean).argmax(dim=0)
    return model.condition_on_observations(pending, expected.to(mean).unsqueeze(-1))


def check_pending(model: LatentGP, pending: Tensor) -> None:
    r"""Raise an error unless trials have the same form as a model's.

    Args:
        model: The model.
        pending: ``batch_shape x n x d`` trials or ``batch_shape x n x 2 x d`` duels;
            batch shapes need only broadcast.
    """
    rows = model.functional.num_rows
    dim = model.original_datapoints.shape[-1]
    expected = [dim] if rows == 1 else [rows, dim]
    if (
        pending.ndim <= len(expected)
        or list(pending.shape[-len(expected) :]) != expected
    ):
        shape = " x ".join(map(str, expected))
        raise BotorchTensorDimensionError(
            f"Expected pending trials to be ``batch_shape x n x {shape}``, but got "
            f"shape {list(pending.shape)}."
        )
    check_inputs(pending, name="pending")
