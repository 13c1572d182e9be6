r"""
The next trial to run, and the parameters to recommend.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from botorch.exceptions import UnsupportedError
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_binary_context.acquisition.base import match_space
from botorch_binary_context.acquisition.posterior_mean import maximize_posterior_mean
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.functionals import DIFFERENCE, VALUE
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.models.mixed_gp import MixedGP
from botorch_binary_context.numerics.optim import SearchOptions
from botorch_binary_context.rules.base import Rule, Selection
from botorch_binary_context.rules.table import BINARY_RULES, DUEL_RULES

# By what the trials of a model observe.
_RULES = {VALUE: BINARY_RULES, DIFFERENCE: DUEL_RULES}


def suggest(
    model: LatentGP,
    space: ContextSpace,
    rule: str = "ucb-ald",
    options: SearchOptions = SearchOptions(),  # noqa: B008
    seed: int | None = None,
) -> Tensor:
    r"""The next trial to run, for every element of the model's batch.

    Args:
        model: A model of the trials so far, of pass/fail outcomes or of duels.
        space: The box of the trials.
        rule: The name of a rule of ``BINARY_RULES`` or ``DUEL_RULES``.
        options: The effort of the searches.
        seed: The seed of what is random; by default torch's generator.

    Returns:
        A ``batch_shape x 1 x d`` trial or ``batch_shape x 2 x d`` duel, whose two sides
        share the context.

    Example:
        >>> trial = suggest(model, space, rule="ucb-ald")
        >>> model = model.condition_on_observations(trial, outcome)
        >>> duel = suggest(preferences, space, rule="muc-ald")  # 2 x d
        >>> preferences = preferences.condition_on_observations(
        ...     duel.unsqueeze(-3), outcome  # one duel of n' x 2 x d
        ... )
    """
    model, choose = _find_rule(model, rule)
    selection = _begin(model, space, options)
    with manual_seed(seed), frozen(model), torch.no_grad():
        return choose(selection)


def _find_rule(model: LatentGP, rule: str) -> tuple[LatentGP, Rule]:
    """The rule of a name, and the model that asks the kind of trials it is for."""
    rules = _RULES.get(model.functional, {})
    if rule in rules:
        return model, rules[rule]
    if isinstance(model, MixedGP):
        for kind, likelihood in enumerate(model.kinds):
            others = _RULES.get(likelihood.functional, {})
            if rule in others:
                return model.asking(kind), others[rule]
    names = {VALUE: "pass/fail outcomes", DIFFERENCE: "duels"}
    kind = names.get(model.functional, str(model.functional))
    raise UnsupportedError(
        f"Expected ``rule`` to be a rule for {kind}, one of {', '.join(rules)}, "
        f"but got {rule!r}."
    )


def recommend(
    model: LatentGP,
    space: ContextSpace,
    options: SearchOptions = SearchOptions(),  # noqa: B008
    seed: int = 0,
) -> Tensor:
    r"""The inferred best parameters, for every element of the model's batch.

    They maximize the posterior mean of the latent function in the reference context.

    Args:
        model: A model of the trials so far.
        space: The box of the trials.
        options: The effort of the search.
        seed: The seed of the search, which always repeats itself.

    Returns:
        A ``batch_shape x (d - m)`` tensor of parameters.

    Example:
        >>> best = recommend(model, space)
    """
    selection = _begin(model, space, options)
    with frozen(model), torch.no_grad():
        return maximize_posterior_mean(model, selection.space, options, seed)[0]


def _begin(model: LatentGP, space: ContextSpace, options: SearchOptions) -> Selection:
    return Selection(model.eval(), match_space(space, model), options)


@contextmanager
def frozen(model: torch.nn.Module) -> Iterator[None]:
    r"""Hold the hyperparameters constant: no graph is built to them.

    Args:
        model: The model.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)
