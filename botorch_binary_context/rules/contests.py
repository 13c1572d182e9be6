r"""
Rules for contests, in which somebody names the best of several settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_binary_context.acquisition.base import match_space
from botorch_binary_context.acquisition.contests import (
    ContestKnowledgeGradient,
    ExpectedBestOfContest,
)
from botorch_binary_context.checks import check_kind, check_tensor, describe
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.feasibility import Feasibility
from botorch_binary_context.likelihoods.best_of import winner_probabilities
from botorch_binary_context.models.best_of_gp import contests
from botorch_binary_context.models.inference_mode import outside_inference_mode
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.batching import expand_batch
from botorch_binary_context.numerics.optim import SearchOptions, avoid, maximize
from botorch_binary_context.rules.suggestion import frozen, recommend

#: The rules by name: each makes the value function of contests from a model and a box.
CONTEST_RULES: Mapping[str, Callable[[LatentGP, ContextSpace], Any]] = {
    "qeubo": ExpectedBestOfContest,
    "mkg": ContestKnowledgeGradient,
}


def suggest_contest(
    model: LatentGP,
    space: ContextSpace,
    num_options: int = 3,
    context: Tensor | Sequence[float] | None = None,
    options: SearchOptions = SearchOptions(),  # noqa: B008
    seed: int = 0,
    rule: str = "qeubo",
    pending: Tensor | None = None,
    feasibility: Feasibility | None = None,
) -> Tensor:
    r"""The settings of the next contest.

    The first is the inferred best. The others are added one by one, each being the
    setting that raises the value of the contest most: with "qeubo" the expected value
    of the best of them in the reference context [Astudillo2023qeubo]_, with "mkg" the
    expected rise of the best posterior mean once the winner is known.

    Args:
        model: A model of contests, duels or other trials; one of contests if some are
            pending.
        space: The box of the trials.
        num_options: ``k``, the number of settings.
        context: The context in which they are compared, ``m`` numbers; by default the
            reference context.
        options: The effort of the searches.
        seed: The seed of the searches.
        rule: "qeubo" or "mkg".
        pending: Contests that were asked but not answered yet, ``batch_shape x n x k x
            d``. Their most probable winners are assumed.
        feasibility: If given, only settings that are feasible according to this model
            are suggested; if there are none, a ``NoTrialLeftError`` is raised.

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
    if rule not in CONTEST_RULES:
        raise UnsupportedError(
            f"Expected ``rule`` to be a rule for contests, one of "
            f"{', '.join(CONTEST_RULES)}, but got {rule!r}."
        )
    if feasibility is not None:
        check_kind("feasibility", feasibility, Feasibility)
    space = match_space(space, model.eval())
    with (
        manual_seed(seed),
        outside_inference_mode(model) as model,
        frozen(model),
        torch.no_grad(),
    ):
        if pending is not None:
            model = _await(model, pending)
        best = recommend(model, space, options, seed, feasibility=feasibility)
        shown = space.reference_context
        if context is not None:
            like = space.bounds
            shown = torch.as_tensor(context, dtype=like.dtype, device=like.device)
        chosen = _at(space, best.unsqueeze(-2), shown)
        value = CONTEST_RULES[rule](model, space)
        for _ in range(num_options - 1):
            more = _add(value, chosen, shown, options, seed, feasibility)
            chosen = torch.cat([chosen, more], dim=-2)
    return chosen.unsqueeze(-3)


def _at(space: ContextSpace, parameters: Tensor, context: Tensor) -> Tensor:
    """Rows of ``... x k`` parameters in a context."""
    return space.join(parameters, context.expand(*parameters.shape[:-1], -1))


def _await(model: LatentGP, pending: Tensor) -> LatentGP:
    """The model as if pending contests had their most probable winners."""
    check_tensor("pending", pending)
    for contest in pending.unbind(dim=-3):
        posterior = model.posterior(contest)
        covar: Tensor = posterior.distribution.covariance_matrix  # pyright: ignore
        p = winner_probabilities(posterior.mean.squeeze(-1), covar)
        winner = p.argmax(dim=-1)[..., None, None].to(contest)
        more = contests(contest.unsqueeze(-3), winner)
        model = model.condition_on_observations(more)
    return model


def _add(
    value: Any,
    chosen: Tensor,
    context: Tensor,
    options: SearchOptions,
    seed: int,
    feasibility: Feasibility | None,
) -> Tensor:
    """The row that raises the value of the contest most, ``batch_shape x 1 x d``."""
    space: ContextSpace = value.space

    def score(parameters: Tensor) -> Tensor:
        row = _at(space, parameters.unsqueeze(-2), context)
        row = expand_batch(row, value.model.batch_shape)
        known = chosen.expand(*row.shape[:-2], *chosen.shape[-2:])
        found = value(torch.cat([known, row], dim=-2))
        return found if feasibility is None else avoid(found, feasibility.slack(row))

    bounds = space.parameter_bounds
    best = maximize(score, bounds, value.model.batch_shape, options, seed=seed)[0]
    return _at(space, best.unsqueeze(-2), context)
