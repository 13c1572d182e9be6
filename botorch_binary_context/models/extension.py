r"""
The prior of a model's trials, from the known prior of most of them.

A model that is conditioned on a few more trials already has the covariance of all
others, so only the rows of the new ones are computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from botorch_binary_context.functionals import StackedFunctional
from botorch_binary_context.inference import Start
from botorch_binary_context.numerics.covariance import covariance

if TYPE_CHECKING:
    from botorch_binary_context.models.latent_gp import LatentGP


def hyperparameters_of(model: LatentGP) -> list[Tensor]:
    r"""A copy of everything that the prior of a model depends on.

    Args:
        model: The model.

    Returns:
        The values of the parameters of its kernel and mean.
    """
    modules = (model.covar_module, model.mean_module)
    return [p.detach().clone() for module in modules for p in module.parameters()]


def valid_start(model: LatentGP) -> Start | None:
    r"""The start of a model's approximation, without outdated parts.

    Args:
        model: The model.

    Returns:
        Its start, without the former approximation if the hyperparameters have changed.
    """
    start = model._start
    if start is None or start.former is None:
        return start
    kept = zip(model._kept, hyperparameters_of(model), strict=True)
    if all(torch.equal(old, new) for old, new in kept):
        return start
    return Start(start.values)


def prior_and_start(model: LatentGP) -> tuple[Tensor, Tensor, Start | None]:
    r"""The prior of a model, and where its approximation starts.

    Args:
        model: The model, in ``eval`` mode.

    Returns:
        The prior mean and covariance of the training contrasts, with a graph if
        gradients are enabled, and where the approximation begins.
    """
    start = valid_start(model)
    prior = None if torch.is_grad_enabled() else extend_prior(model, start)
    mean, K = prior or model._prior_moments(model.train_inputs)
    model._kept = hyperparameters_of(model)
    if start is not None:  # frees the former approximation
        model._start = Start(start.values)
    return mean, K, start


def extend_prior(model: LatentGP, start: Start | None) -> tuple[Tensor, Tensor] | None:
    r"""The prior mean and covariance of the training contrasts, from the known part.

    Args:
        model: The model, in ``eval`` mode.
        start: Where its approximation begins: the result of :func:`valid_start`.

    Returns:
        ``batch_shape x n`` and ``batch_shape x n x n``, without a graph; None if too
        little is known.
    """
    if start is None or start.former is None or start.known is None:
        return None
    old = start.known.nonzero().squeeze(-1)
    new = (~start.known).nonzero().squeeze(-1)
    fresh, functional = _select(model, ~start.known)
    rows = model._rows(model.train_inputs)
    cross = covariance(model.covar_module, fresh, rows)
    cross = functional(model.trial_functional(cross), dim=-2)  # batch_shape x n' x n
    noise = model.shared_noise_covariance(cross)
    if noise is not None:
        cross = cross + noise[new]
    K = cross.new_empty(*cross.shape[:-2], cross.shape[-1], cross.shape[-1])
    if len(new) and int(new[0]) == len(old):  # the new trials are the last
        K[..., : len(old), : len(old)] = start.former.prior_covariance
    else:
        K[..., old.unsqueeze(-1), old] = start.former.prior_covariance
    K[..., new, :] = cross
    K[..., :, new] = cross.mT
    mean = cross.new_empty(cross.shape[:-2] + cross.shape[-1:])
    mean[..., old] = start.former.prior_mean
    mean[..., new] = functional(model.prior_mean(fresh))
    return mean, K


def _select(model: LatentGP, chosen: Tensor) -> tuple[Tensor, StackedFunctional]:
    """The rows of some trials, and what the trials observe of these rows."""
    num_batch = len(model.batch_shape)
    parts, sizes = [], []
    for trials, marks in zip(
        model.train_inputs, chosen.split(model._counts), strict=True
    ):
        index = marks.nonzero().squeeze(-1)
        parts.append(trials.index_select(num_batch, index))
        sizes.append(len(index))
    functionals = [likelihood.functional for likelihood in model.kinds]
    functional = StackedFunctional(list(zip(functionals, sizes, strict=True)))
    return model._rows(parts), functional
