r"""
Settings for a contest: of which the best is to be chosen.

.. [Astudillo2023qeubo]
    R. Astudillo, Z. J. Lin, E. Bakshy, P. I. Frazier. qEUBO: a decision-theoretic
    acquisition function for preferential Bayesian optimization. AISTATS 2023.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_binary_context.acquisition.base import match_space
from botorch_binary_context.checks import describe
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.goals.sampled import draw_joint_values
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.optim import SearchOptions, maximize
from botorch_binary_context.rules.suggestion import frozen, recommend


def suggest_contest(
    model: LatentGP,
    space: ContextSpace,
    num_options: int = 3,
    context: Tensor | Sequence[float] | None = None,
    options: SearchOptions = SearchOptions(),  # noqa: B008
    seed: int = 0,
) -> Tensor:
    r"""The settings of the next contest.

    One after the other they raise the expected value of the best of them in the
    reference context, ``E max f(s₀, x_i)`` (qEUBO of [Astudillo2023qeubo]_, greedily),
    beginning with the inferred best.

    Args:
        model: A model of contests, duels or other trials.
        space: The box of the trials.
        num_options: ``k``, how many settings there are.
        context: The ``m`` values of the context that they are compared in, by default
            the reference context.
        options: The effort of the searches.
        seed: The seed of the searches.

    Returns:
        A ``batch_shape x 1 x k x d`` tensor, one contest.

    Example:
        >>> trial = suggest_contest(model, space, 3)  # 1 x 3 x d
        >>> model = model.condition_on_contests(trial, winner)
    """
    if not (isinstance(num_options, int) and num_options >= 2):
        raise InputDataError(
            "Expected ``num_options`` to be a whole number of at least 2, but got "
            f"{describe(num_options)}."
        )
    space = match_space(space, model.eval())
    chosen = recommend(model, space, options, seed).unsqueeze(-2)
    with frozen(model), torch.no_grad():
        for _ in range(num_options - 1):
            more = _raise_the_best(model, space, chosen, options, seed)
            chosen = torch.cat([chosen, more.unsqueeze(-2)], dim=-2)
    if context is None:
        return space.at_reference(chosen).unsqueeze(-3)
    shown = torch.as_tensor(context, dtype=chosen.dtype, device=chosen.device)
    return space.join(chosen, shown.expand(*chosen.shape[:-1], -1)).unsqueeze(-3)


def _raise_the_best(
    model: LatentGP,
    space: ContextSpace,
    chosen: Tensor,
    options: SearchOptions,
    seed: int,
) -> Tensor:
    """The parameters that raise the expected best of those chosen so far most."""

    def expected_best(parameters: Tensor) -> Tensor:
        known = chosen.expand(*parameters.shape[:-1], *chosen.shape[-2:])
        together = torch.cat([known, parameters.unsqueeze(-2)], dim=-2)
        draws = draw_joint_values(model, space.at_reference(together))
        return draws.amax(dim=-1).mean(dim=0)

    bounds = space.parameter_bounds
    return maximize(expected_best, bounds, model.batch_shape, options, seed=seed)[0]
