r"""
Generation strategies: quasi-random trials first, then a rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from ax.adapter.registry import Generators, MBM_X_trans, Mixed_transforms
from ax.adapter.transforms.base import Transform
from ax.adapter.transforms.choice_encode import OrderedChoiceToIntegerRange
from ax.adapter.transforms.derelativize import Derelativize
from ax.adapter.transforms.int_to_float import IntToFloat
from ax.adapter.transforms.log import Log
from ax.adapter.transforms.logit import Logit
from ax.adapter.transforms.one_hot import OneHot
from ax.adapter.transforms.remove_fixed import RemoveFixed
from ax.adapter.transforms.unit_x import UnitX
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generation_strategy.transition_criterion import MinTrials
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from botorch.acquisition.analytic import PosteriorMean
from botorch.exceptions import InputDataError
from botorch.models.transforms.outcome import Standardize

from botorch_binary_context.ax.acquisition import RuleAcquisition
from botorch_binary_context.ax.goals import store_goal
from botorch_binary_context.ax.models import (
    ModelOptions,
    PassProbabilityModel,
)
from botorch_binary_context.ax.trials import (
    FIRST_NODE,
    PREFERENCE,
    RULE_NODE,
    ContextTrials,
)
from botorch_binary_context.checks import check_count, is_direction
from botorch_binary_context.errors import quote
from botorch_binary_context.experiment import PassFail
from botorch_binary_context.experiment.settings_checks import INFERENCES, KERNELS
from botorch_binary_context.experiment.toml_tables import choose
from botorch_binary_context.goals import Goal, ThresholdMap
from botorch_binary_context.models import (
    ApproximateMarginalLogLikelihood,
    PreferenceGP,
)
from botorch_binary_context.numerics.optim import SearchOptions
from botorch_binary_context.rules import BINARY_RULES, DUEL_RULES


class _Defaults(NamedTuple):
    """What a surrogate assumes of contexts, if there are any, and of lengthscales."""

    kernel: str
    priors: str


#: The surrogates, and the kernel and the priors of each if there are contexts.
MODELS = {
    "psychometric": _Defaults("additive", "separate"),
    "binary": _Defaults("product", "pooled"),
    "preference": _Defaults("product", "pooled"),
}
_SOBOL_TRANSFORMS: list[type[Transform]] = [
    RemoveFixed,
    OrderedChoiceToIntegerRange,
    OneHot,
    IntToFloat,
    Log,
    Logit,
    UnitX,
]


def generation_strategy(
    rule: str = "ucb-ald",
    contexts: Mapping[str, float] | None = None,
    model: str | None = None,
    goal: Goal | ThresholdMap | None = None,
    kernel: str | None = None,
    guess_rate: float = 0.0,
    lapse_rate: float = 0.0,
    harder: str | Mapping[str, str] = "down",
    inference: str = "expectation propagation",
    initial_trials: int = 5,
    search: SearchOptions | None = None,
    seed: int = 0,
) -> GenerationStrategy:
    r"""A generation strategy that asks trials by a rule of the package.

    It is for experiments with one objective of a single bit: a metric that is 1 for a
    pass and 0 for a fail, or, for duels, Ax's metric ``pairwise_pref_query`` of batch
    trials of two arms (:func:`~botorch_binary_context.ax.duels.get_next_duels`).
    Experiments that the rules cannot handle are refused when the first trial is asked.

    Args:
        rule: The name of a rule of ``BINARY_RULES`` or ``DUEL_RULES``.
        contexts: The parameters that are contexts, each with the value at which the
            system should be good, in the units of the experiment.
        model: "psychometric" (``psychometric_gp``, the default for pass/fail outcomes
            in contexts), "binary" (``BinaryGP``) or "preference" (``PreferenceGP``, the
            default for a rule that is for duels only).
        goal: What the parameters should be good at, with contexts in the units of the
            experiment; by default at the reference contexts.
        kernel: What a context does: "additive" shifts the performance, "multiplicative"
            scales it, "product" may change it freely. By default "additive" for the
            psychometric model, "product" for the others.
        guess_rate: The rate of passes of a test that is too hard.
        lapse_rate: The rate of fails of a test that is too easy.
        harder: "up" if tests become harder as the contexts go up, "down" if they become
            harder as the contexts go down; or one of them for each context, by name.
        inference: "expectation propagation" or "laplace".
        initial_trials: The number of quasi-random trials before the rule takes over.
        search: The effort of the rule's searches.
        seed: The seed of all random choices.

    Returns:
        The strategy, for ``Client.set_generation_strategy`` or
        ``AxClient(generation_strategy=...)``.

    Example:
        >>> client.set_generation_strategy(
        ...     generation_strategy(rule="ucb-ald", contexts={"size": 0.5})
        ... )
    """
    contexts = dict(contexts or {})
    model = _choose_model(rule, model, bool(contexts))
    check_count("initial_trials", initial_trials)
    choose(INFERENCES, inference, "inference")
    PassFail(guess_rate, lapse_rate)  # which checks the rates
    options = ModelOptions(
        tuple(contexts),
        _choose_kernel(kernel, model, bool(contexts)),
        MODELS[model].priors,
        guess_rate,
        lapse_rate,
        _directions(harder, list(contexts)),
        inference,
    )
    duels = model == "preference"
    trials = {"contexts": contexts, "goal": store_goal(goal), "duels": duels}
    rule_kwargs = {
        "surrogate_spec": _make_surrogate(options, duels),
        **_acquisition_of(rule, seed, search),
        **_transform([*Mixed_transforms], trials),
        "fit_tracking_metrics": False,
    }
    first_kwargs = {"seed": seed, **_transform(_SOBOL_TRANSFORMS, trials)}
    return _two_nodes(rule, first_kwargs, rule_kwargs, _with_data(initial_trials))


def _choose_model(rule: str, model: str | None, has_contexts: bool) -> str:
    """The model, if the rule is for its kind of trials."""
    if model is None:
        only_duels = rule in DUEL_RULES and rule not in BINARY_RULES
        if only_duels:
            model = "preference"
        else:
            model = "psychometric" if has_contexts else "binary"
    if model not in MODELS:
        raise InputDataError(
            f"Expected ``model`` to be one of {', '.join(MODELS)}, but got {model!r}."
        )
    if model == "psychometric" and not has_contexts:
        raise InputDataError(
            "Expected ``contexts`` to name a context for the psychometric model, along "
            "which tests become easier or harder, but got none."
        )
    rules = DUEL_RULES if model == "preference" else BINARY_RULES
    if not isinstance(rule, str) or rule not in rules:
        raise InputDataError(
            f"Expected ``rule`` to be a name, which Ax can store, of {', '.join(rules)}"
            f" for the model {model!r}, but got {rule!r}."
        )
    return model


def _choose_kernel(kernel: str | None, model: str, has_contexts: bool) -> str | None:
    """What contexts do; None without contexts."""
    if kernel is not None:
        choose(dict.fromkeys(KERNELS), kernel, "kernel")
    return (kernel or MODELS[model].kernel) if has_contexts else None


def _directions(harder: str | Mapping[str, str], contexts: list[str]) -> list[str]:
    """Which way tests become harder, for each context."""
    if is_direction(harder):
        return [harder] * len(contexts)
    if isinstance(harder, Mapping) and set(harder) == set(contexts):
        ways = [harder[name] for name in contexts]
        if all(map(is_direction, ways)):
            return ways
    raise InputDataError(
        "Expected ``harder`` to be 'up' or 'down', or a dictionary with one of them "
        f"for each of the contexts {contexts}, but got {quote(harder)}."
    )


def _make_surrogate(options: ModelOptions, duels: bool) -> SurrogateSpec:
    """The surrogate of the objective."""
    config = model_config(options, duels)
    if duels:
        # Ax uses its own model for duels unless another one is named.
        return SurrogateSpec(
            model_configs=[config], metric_to_model_configs={PREFERENCE: [config]}
        )
    return SurrogateSpec(model_configs=[config])


def model_config(options: ModelOptions, duels: bool) -> ModelConfig:
    r"""What Ax needs to know to make a model.

    Args:
        options: The assumptions of the model.
        duels: Whether the trials are duels.
    """
    stored = asdict(options)
    return ModelConfig(
        botorch_model_class=PreferenceGP if duels else PassProbabilityModel,
        model_options={
            **stored,
            "contexts": list(options.contexts),
            "harder": list(options.harder),
        },
        mll_class=ApproximateMarginalLogLikelihood,
        input_transform_classes=None,
        name="duels" if duels else "pass/fail",
    )


def _acquisition_of(
    rule: str, seed: int, search: SearchOptions | None
) -> dict[str, Any]:
    """The arguments of a node whose trials a rule chooses."""
    options: dict[str, Any] = {"rule": rule, "seed": seed}
    if search is not None:
        options["search"] = asdict(search)
    return {
        "acquisition_class": RuleAcquisition,
        "acquisition_options": options,
        "botorch_acqf_class": PosteriorMean,  # Ax wants one; the rule needs none
    }


def _transform(
    transforms: list[type[Transform]], trials: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of a node that prepare trials in contexts."""
    return {
        "transforms": [*transforms, ContextTrials],
        "transform_configs": {"ContextTrials": trials},
    }


def _with_data(number: int) -> MinTrials:
    """The end of the first node: so many trials have data."""
    return MinTrials(
        threshold=number,
        transition_to=RULE_NODE,
        use_all_trials_in_exp=True,
        count_only_trials_with_data=True,
    )


def _two_nodes(
    name: str,
    first_kwargs: dict[str, Any],
    rule_kwargs: dict[str, Any],
    enough: MinTrials,
) -> GenerationStrategy:
    """A strategy of quasi-random trials, and then others."""
    first = GenerationNode(
        FIRST_NODE,
        [GeneratorSpec(Generators.SOBOL, generator_kwargs=first_kwargs)],
        transition_criteria=[enough],
    )
    second = GenerationNode(
        RULE_NODE,
        [GeneratorSpec(Generators.BOTORCH_MODULAR, generator_kwargs=rule_kwargs)],
    )
    return GenerationStrategy(name=f"Sobol+{name}", nodes=[first, second])


def feasibility_strategy(
    metrics: Sequence[str],
    initial_trials: int = 5,
    guess_rate: float = 0.0,
    lapse_rate: float = 0.0,
    seed: int = 0,
) -> GenerationStrategy:
    r"""Ax's own optimization of measured objectives, with constraints of a single bit.

    The metrics that are named are 1 where a trial was feasible and 0 where it was not.
    Their model is a ``BinaryGP``, which predicts the probability of being feasible, so
    an outcome constraint limits a probability: ``"ready >= 0.8"``. All other metrics
    are modeled by Ax's default, and Ax chooses the acquisition function. Where a trial
    is not feasible, other metrics may be missing.

    Args:
        metrics: The names of the metrics that are 0 or 1.
        initial_trials: The number of quasi-random trials.
        guess_rate: The rate of ones where a trial is not feasible at all.
        lapse_rate: The rate of zeros where it is.
        seed: The seed of the quasi-random trials.

    Example:
        >>> client.configure_optimization("-cost", outcome_constraints=["ready >= 0.8"])
        >>> client.set_generation_strategy(feasibility_strategy(["ready"]))
    """
    if isinstance(metrics, str) or not metrics:
        raise InputDataError(
            "Expected ``metrics`` to be a list of the names of metrics that are 0 or "
            f"1, but got {metrics!r}."
        )
    check_count("initial_trials", initial_trials)
    options = ModelOptions(guess_rate=guess_rate, lapse_rate=lapse_rate)
    measured = ModelConfig(outcome_transform_classes=[Standardize], name="measured")
    surrogate = SurrogateSpec(
        model_configs=[measured],
        metric_to_model_configs={
            name: [model_config(options, duels=False)] for name in metrics
        },
    )
    # No transform of outcomes: passes and fails must stay 1 and 0.
    rule_kwargs = {
        "surrogate_spec": surrogate,
        "transforms": [*MBM_X_trans, Derelativize],
    }
    # Ax does not count infeasible trials without an objective.
    enough = MinTrials(
        threshold=initial_trials,
        transition_to=RULE_NODE,
        only_in_statuses=[TrialStatus.COMPLETED],
        use_all_trials_in_exp=True,
    )
    return _two_nodes("feasibility", {"seed": seed}, rule_kwargs, enough)
