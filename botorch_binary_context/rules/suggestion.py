r"""
The next trials to run, and the parameters to recommend.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from botorch.exceptions import UnsupportedError
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_binary_context.acquisition.base import match_space
from botorch_binary_context.acquisition.posterior_mean import maximize_posterior_mean
from botorch_binary_context.checks import (
    check_count,
    check_kind,
    check_seed,
    check_tensor,
)
from botorch_binary_context.constraints import (
    TOLERANCE,
    Constraints,
    NoTrialLeftError,
    Safety,
)
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.feasibility import Feasibility
from botorch_binary_context.functionals import DIFFERENCE, VALUE
from botorch_binary_context.goals import AtContext, AtReference, Goal, ThresholdMap
from botorch_binary_context.goals.base import match_contexts, read_contexts
from botorch_binary_context.models.inference_mode import outside_inference_mode
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.models.mixed_gp import MixedGP
from botorch_binary_context.numerics.optim import SearchOptions, avoid, maximize
from botorch_binary_context.rules.base import Rule, Selection
from botorch_binary_context.rules.registry import check_rule
from botorch_binary_context.rules.table import BINARY_RULES, DUEL_RULES

# The table of rules for each functional that the trials of a model observe.
_RULES = {VALUE: BINARY_RULES, DIFFERENCE: DUEL_RULES}
# The maximum effort of a search while trials are pending.
PENDING_SEARCH = SearchOptions(
    3, raw_samples=256, max_evaluations=16, relative_gain=1e-4
)


def suggest(
    model: LatentGP,
    space: ContextSpace,
    rule: str | Rule = "ucb-ald",
    options: SearchOptions = SearchOptions(),  # noqa: B008
    seed: int | None = None,
    q: int = 1,
    pending: Tensor | None = None,
    goal: Goal | ThresholdMap | None = None,
    context: Tensor | Sequence[float] | float | None = None,
    constraints: Constraints | None = None,
    safe: Safety | None = None,
    feasibility: Feasibility | None = None,
) -> Tensor:
    r"""The next trials to run, for every element of the model's batch.

    The trials have the layout of ``train_X``, so ``model.condition_on_observations``
    takes them as they are. With ``q > 1``, trials are chosen one by one, each as if the
    pending trials and those chosen before it had come out as expected; ``bald`` instead
    takes all joint outcomes into account, and Thompson sampling draws a separate
    function for each.

    Args:
        model: A model of the trials so far, of pass/fail outcomes or of duels.
        space: The box of the trials.
        rule: A rule, or the name of one: of ``BINARY_RULES``, ``DUEL_RULES`` or an
            installed package.
        options: The effort of the searches.
        seed: The random seed; by default torch's generator is used.
        q: The number of trials.
        pending: Trials that were asked but not answered yet, in the layout of
            ``train_X``.
        goal: What the parameters should be good at; by default in the given context or,
            if none is given, in the reference context.
        context: The context of the trials, if it is given, so that only the parameters
            are chosen: one number for each context column, in the order of the columns,
            or ``batch_shape x m``.
        constraints: Linear constraints, fixed columns and discrete choices.
        safe: Suggest only trials that are safe in this sense. If there are none, a
            ``NoTrialLeftError`` is raised.
        feasibility: Suggest only trials that are feasible according to this model; the
            same error is raised if there are none.

    Returns:
        ``batch_shape x q x d`` trials or ``batch_shape x q x 2 x d`` duels, whose two
        sides share the context.

    Example:
        >>> trial = suggest(model, space, rule="ucb-ald")
        >>> model = model.condition_on_observations(trial, outcome)
        >>> duel = suggest(preferences, space, rule="muc-ald")  # 1 x 2 x d
        >>> preferences = preferences.condition_on_observations(duel, outcome)
        >>> four = suggest(model, space, "ts-ald", q=4, pending=trial)
        >>> robust = suggest(model, space, goal=WorstContext([0.2, 0.5, 0.8]))
        >>> today = suggest(model, space, context=[0.3])  # the context is given
    """
    _check_arguments(model, space, options, seed, goal)
    check_count("q", q)
    if pending is not None:
        check_tensor("pending", pending)
    if constraints is not None:
        _check_constraints(constraints, space)
    if safe is not None:
        check_kind("safe", safe, Safety)
    if feasibility is not None:
        check_kind("feasibility", feasibility, Feasibility)
    with outside_inference_mode(model) as model:
        model, choose = _find_rule(model, rule)
        space = match_space(space, model)
        given = None
        if context is not None:
            given = match_contexts(AtContext(context).context, space, "context")
        selection = Selection(
            model.eval(),
            space,
            options,
            goal,
            given,
            constraints=constraints,
            safe=safe,
            feasibility=feasibility,
        )
        with manual_seed(seed), frozen(model), torch.no_grad():
            if pending is not None:
                waiting = selection.await_trials(pending.to(space.bounds))
                selection = replace(waiting, options=shorten(options))
            return _choose_in_turn(choose, selection, q, options)


def _choose_in_turn(
    choose: Rule, selection: Selection, q: int, options: SearchOptions
) -> Tensor:
    """Choose trials in turn, as if the earlier ones had come out as expected."""
    chosen = [_choose_one(choose, selection)]
    later = shorten(options)
    for _ in range(q - 1):
        selection = replace(selection.await_trials(chosen[-1]), options=later)
        chosen.append(_choose_one(choose, selection))
    functional = selection.answered_model.functional
    return torch.cat(chosen, dim=-functional.trial_dim - 1)


def shorten(options: SearchOptions) -> SearchOptions:
    r"""The effort of searches while trials are pending.

    The objective is then approximate anyway, since it relies on expected outcomes, and
    a batch should cost no more than the same number of single trials.

    Args:
        options: The effort of a search.

    Returns:
        At most half of the effort, and fewer digits.
    """
    return replace(
        options,
        num_restarts=min(options.num_restarts, PENDING_SEARCH.num_restarts),
        raw_samples=min(options.raw_samples, PENDING_SEARCH.raw_samples),
        max_evaluations=min(options.max_evaluations, PENDING_SEARCH.max_evaluations),
        relative_gain=max(options.relative_gain, PENDING_SEARCH.relative_gain),
    )


def _choose_one(choose: Rule, selection: Selection) -> Tensor:
    """One trial, in the layout of ``train_X``."""
    rows = choose(selection)
    model = selection.answered_model
    expected = [*model.batch_shape, selection.trials.num_rows]
    if list(rows.shape) != [*expected, selection.space.dim]:
        raise UnsupportedError(
            "Expected ``rule`` to return the rows of a trial, a tensor of shape "
            f"{[*expected, selection.space.dim]}, but got {list(rows.shape)}."
        )
    return model.functional.trials(_keep_rules(selection, rows))


def _keep_rules(selection: Selection, rows: Tensor) -> Tensor:
    """The trial if it is allowed, else the safest one; constraints are always met."""
    if selection.constraints is not None:
        rows = _meet(selection.constraints, selection.space, rows)
    if not selection.is_restricted:
        return rows
    safest = selection.find_safest()
    if not bool((selection.slack(safest) >= 0).all()):
        wanted = {"safe": selection.safe, "feasibility": selection.feasibility}
        asked = {name: value for name, value in wanted.items() if value is not None}
        raise NoTrialLeftError(
            f"Expected ``{'`` and ``'.join(asked)}`` to leave trials, but no trial has "
            f"{' and '.join(map(str, asked.values()))}: the best is short of it by "
            f"{-float(selection.slack(safest).min()):.3g} of the latent function."
        )
    is_safe = (selection.slack(rows.unsqueeze(0))[0] >= 0)[..., None, None]
    return torch.where(is_safe, rows, safest)


def _check_constraints(constraints: Any, space: ContextSpace) -> None:
    check_kind("constraints", constraints, Constraints)
    constraints.check(space)


def _meet(constraints: Constraints, space: ContextSpace, rows: Tensor) -> Tensor:
    """Rows near the given ones that meet the constraints."""
    rows = constraints.apply(space, rows)
    if not bool((constraints.slack(rows) >= -TOLERANCE).all()):
        raise NoTrialLeftError(
            "Expected ``constraints`` to leave trials, but found none that meets "
            f"{constraints}."
        )
    return rows


def _find_rule(model: LatentGP, rule: str | Rule) -> tuple[LatentGP, Rule]:
    """The rule with a given name, and the model that asks its kind of trials."""
    if not isinstance(rule, str):
        check_rule(rule, "``rule``")
        return model, rule
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
    goal: Goal | None = None,
    constraints: Constraints | None = None,
    feasibility: Feasibility | None = None,
) -> Tensor:
    r"""The inferred best parameters, for every element of the model's batch.

    They maximize the posterior mean of the goal.

    Args:
        model: A model of the trials so far.
        space: The box of the trials.
        options: The effort of the search.
        seed: The seed of the search, which makes it repeatable.
        goal: What the parameters should be good at, by default in the reference
            context.
        constraints: Linear constraints, fixed columns and discrete choices.
        feasibility: Recommend only parameters that are feasible, in all contexts of the
            goal, according to this model.

    Returns:
        A ``batch_shape x (d - m)`` tensor of parameters.

    Example:
        >>> best = recommend(model, space)
        >>> robust = recommend(model, space, goal=WorstContext([0.2, 0.5, 0.8]))
    """
    _check_arguments(model, space, options, seed, goal)
    goal = AtReference() if goal is None else goal
    with outside_inference_mode(model) as model:
        space = match_space(space, model.eval())
        with frozen(model), torch.no_grad():
            if constraints is not None:
                _check_constraints(constraints, space)
                goal = constraints.restrict(goal, space)
            if feasibility is None:
                best, _ = maximize_posterior_mean(model, space, options, seed, goal)
            else:
                best = _best_feasible(model, space, options, seed, goal, feasibility)
            if constraints is None:
                return best
            rows = _meet(constraints, space, space.at_reference(best))
            return space.parameters(rows)


def _best_feasible(
    model: LatentGP,
    space: ContextSpace,
    options: SearchOptions,
    seed: int,
    goal: Goal,
    feasibility: Feasibility,
) -> Tensor:
    """The best parameters among those that are feasible."""

    def slack(x: Tensor) -> Tensor:
        return feasibility.slack_of_goal(goal, space, x)

    def score(x: Tensor) -> Tensor:
        return avoid(goal.mean(model, space, x), slack(x))

    bounds = space.parameter_bounds
    shape = model.batch_shape
    best = maximize(score, bounds, shape, options, seed=seed)[0]
    if not bool((slack(best.unsqueeze(0)) >= 0).all()):
        raise NoTrialLeftError(
            "Expected ``feasibility`` to allow some parameters, but none reach the "
            f"probability {feasibility.probability:g} with a confidence of "
            f"{feasibility.confidence:g}."
        )
    return best


def _check_arguments(
    model: Any, space: Any, options: Any, seed: Any, goal: Any
) -> None:
    """Check the kinds of arguments."""
    check_kind("model", model, LatentGP)
    check_kind("space", space, ContextSpace)
    check_kind("options", options, SearchOptions)
    if seed is not None:
        check_seed(seed)
    if goal is not None and not isinstance(goal, ThresholdMap):
        check_kind("goal", goal, Goal)


def recommend_for_contexts(
    model: LatentGP,
    space: ContextSpace,
    contexts: Tensor | Sequence[Sequence[float]] | Sequence[float],
    options: SearchOptions = SearchOptions(),  # noqa: B008
    seed: int = 0,
) -> Tensor:
    r"""The inferred best parameters for each of several contexts.

    Args:
        model: A model of the trials so far.
        space: The box of the trials.
        contexts: ``n x m`` contexts, or ``n`` numbers if there is one context column.
        options: The effort of the search.
        seed: The seed of the search, which makes it repeatable.

    Returns:
        An ``n x batch_shape x (d - m)`` tensor of parameters.

    Example:
        >>> settings = recommend_for_contexts(model, space, [0.2, 0.5, 0.8])
    """
    space = match_space(space, model.eval())
    rows = match_contexts(read_contexts(contexts), space, "contexts")
    rows = rows.reshape(len(rows), *[1] * len(model.batch_shape), -1)
    goal = AtContext(rows)
    shape = torch.Size([len(rows), *model.batch_shape])
    with outside_inference_mode(model) as model, frozen(model), torch.no_grad():
        return maximize(
            lambda x: goal.mean(model, space, x),
            space.parameter_bounds,
            shape,
            options,
            seed=seed,
        )[0]


@contextmanager
def frozen(model: torch.nn.Module) -> Iterator[None]:
    r"""Hold the hyperparameters constant, so that no gradients are computed for them.

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
