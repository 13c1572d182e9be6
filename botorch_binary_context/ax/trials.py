r"""
Checks of Ax experiments, and the conversion of their trials.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from ax.adapter.base import Adapter
from ax.adapter.data_utils import ExperimentData
from ax.adapter.transforms.base import Transform
from ax.core.experiment import Experiment
from ax.core.observation import ObservationFeatures
from ax.core.optimization_config import OptimizationConfig
from ax.core.parameter import RangeParameter
from ax.core.search_space import SearchSpace
from ax.generators.torch.botorch_modular.generator import BoTorchGenerator
from ax.utils.common.constants import Keys
from botorch.exceptions import InputDataError, UnsupportedError

PREFERENCE = Keys.PAIRWISE_PREFERENCE_QUERY.value
#: The names of the nodes of strategies.
FIRST_NODE, RULE_NODE = "Sobol", "Rule"


class ContextTrials(Transform):
    r"""The last of the transforms: trials in a context, alone or as duels.

    It refuses experiments that the package's rules cannot handle before the first trial
    is asked, gives the two sides of quasi-random duels the same context, and passes the
    reference contexts and the goal to the rule, in the units of the model. Its
    configuration has ``contexts`` (reference values by name), ``goal`` (stored) and
    ``duels``.
    """

    no_op_for_experiment_data = True

    def __init__(
        self,
        search_space: SearchSpace | None = None,
        experiment_data: ExperimentData | None = None,
        adapter: Adapter | None = None,
        config: Any = None,
    ) -> None:
        r"""
        Args:
            search_space: The search space after the other transforms.
            experiment_data: The data so far.
            adapter: The adapter.
            config: The configuration.
        """
        super().__init__(search_space, experiment_data, adapter, config)
        if adapter is None:
            return
        contexts: Any = self.config.get("contexts", {})
        goal: Any = self.config.get("goal")
        duels = bool(self.config.get("duels", False))
        check_experiment(adapter._experiment, contexts, goal, duels)
        generator = getattr(adapter, "generator", None)
        if isinstance(generator, BoTorchGenerator):
            names = sorted(contexts, key=list(adapter._search_space.parameters).index)
            generator.acquisition_options = {
                **generator.acquisition_options,
                "contexts": translate(adapter, contexts),
                "goal": _translate_goal(adapter, names, goal),
            }

    def untransform_observation_features(
        self, observation_features: list[ObservationFeatures]
    ) -> list[ObservationFeatures]:
        r"""Give the second side of every duel the context of the first.

        Args:
            observation_features: Arms, in the units of the model.
        """
        if self.config.get("duels", False):
            contexts: Any = self.config.get("contexts", {})
            pairs = zip(
                observation_features[::2], observation_features[1::2], strict=False
            )
            for first, second in pairs:
                for name in set(contexts) & set(first.parameters):
                    second.parameters[name] = first.parameters[name]
        return observation_features


def translate(adapter: Adapter, contexts: Mapping[str, Any]) -> dict[str, float]:
    r"""Values of contexts in the units of the model.

    Args:
        adapter: The adapter, with the transforms before this one.
        contexts: The values in the user's units.
    """
    features = [ObservationFeatures(parameters=dict(contexts))]
    for transform in adapter.transforms.values():
        if type(transform).__name__ not in ("FillMissingParameters", "ContextTrials"):
            features = transform.transform_observation_features(deepcopy(features))
    return {name: float(features[0].parameters[name]) for name in contexts}  # pyright: ignore


def _translate_goal(
    adapter: Adapter, names: list[str], goal: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """A stored goal in the units of the model; contexts in the order of the columns."""
    if goal is None or "contexts" not in goal:
        return None if goal is None else dict(goal)
    rows = [
        translate(adapter, dict(zip(names, row, strict=True)))
        for row in goal["contexts"]
    ]
    return {**goal, "contexts": [[row[name] for name in names] for row in rows]}


def check_experiment(
    experiment: Experiment,
    contexts: Mapping[str, Any],
    goal: Mapping[str, Any] | None,
    duels: bool,
) -> None:
    r"""Raise an error unless rules can choose the trials of an experiment.

    Args:
        experiment: The experiment.
        contexts: The reference value of each context.
        goal: The stored goal.
        duels: Whether the trials are duels.
    """
    check_contexts(experiment.search_space, contexts, goal)
    check_objective(experiment.optimization_config, duels)
    check_outcomes(experiment)


def check_contexts(
    search_space: SearchSpace,
    contexts: Mapping[str, Any],
    goal: Mapping[str, Any] | None,
) -> None:
    r"""Raise an error unless contexts are numbers of a search space.

    Args:
        search_space: The search space.
        contexts: The reference value of each context.
        goal: The stored goal.
    """
    parameters = search_space.parameters
    if search_space.is_hierarchical:
        raise UnsupportedError(
            "Expected the search space to be flat, but got one with dependent "
            "parameters."
        )
    special = [
        p.name
        for p in parameters.values()
        if p.is_fidelity or getattr(p, "is_task", False)
    ]
    if special:
        raise UnsupportedError(
            f"Expected the search space to have no fidelities and tasks, but got "
            f"{special}."
        )
    missing = [name for name in contexts if name not in parameters]
    if missing:
        raise InputDataError(
            f"Expected ``contexts`` to name parameters of {list(parameters)}, but got "
            f"{missing}."
        )
    if len(contexts) == len([p for p in parameters.values() if not _is_fixed(p)]):
        raise InputDataError(
            "Expected the search space to have parameters beside the contexts, but got "
            f"{list(parameters)}."
        )
    for name in contexts:
        values = [contexts[name]]
        if not isinstance(parameters[name], RangeParameter):
            raise UnsupportedError(
                f"Expected the context {name!r} to be a range of numbers, but got "
                f"{parameters[name]}."
            )
        if goal is not None:
            names = [n for n in parameters if n in contexts]
            values += [row[names.index(name)] for row in _rows(goal, len(names))]
        _check_within(name, parameters[name], values)


def _is_fixed(parameter: Any) -> bool:
    return hasattr(parameter, "value")


def _rows(goal: Mapping[str, Any], number: int) -> list[list[float]]:
    """The contexts of a goal."""
    rows = goal.get("contexts", [])
    if any(len(row) != number for row in rows):
        raise InputDataError(
            f"Expected ``goal`` to give {number} numbers for each context, but got "
            f"{rows}."
        )
    return rows


def _check_within(name: str, parameter: Any, values: list[Any]) -> None:
    for value in values:
        if not parameter.lower <= value <= parameter.upper:
            raise InputDataError(
                f"Expected the context {name!r} to be from {parameter.lower} to "
                f"{parameter.upper}, but got {value}."
            )


def check_objective(config: OptimizationConfig | None, duels: bool) -> None:
    r"""Raise an error unless the objective is one metric of a single bit.

    Args:
        config: The optimization config, if there is one.
        duels: Whether the trials are duels.
    """
    if config is None:
        return
    objective = config.objective
    if config.is_moo_problem or len(objective.metric_names) != 1:
        raise UnsupportedError(
            "Expected one objective, which is passed or failed, but got "
            f"{objective.metric_names}."
        )
    (name,) = objective.metric_names
    if objective.minimize:
        raise UnsupportedError(
            f"Expected the objective {name!r} to be maximized, as passes are, but got "
            "one to minimize."
        )
    if duels != (name == PREFERENCE):
        kind = "duels" if duels else "passes and fails"
        raise UnsupportedError(
            f"Expected the objective to be {'' if duels else 'no '}metric "
            f"{PREFERENCE!r} for a model of {kind}, but got {name!r}."
        )
    if config.all_constraints:
        raise UnsupportedError(
            "Expected no outcome constraints, which the package's rules do not know, "
            f"but got {config.all_constraints}; ``feasibility_strategy`` takes them."
        )


def check_outcomes(experiment: Experiment) -> None:
    r"""Raise an error unless all outcomes of the objective are 0 or 1.

    Args:
        experiment: The experiment.
    """
    config = experiment.optimization_config
    if config is None:
        return
    df: Any = experiment.lookup_data().df
    if len(df) == 0:
        return
    outcomes = df[df["metric_name"].isin(config.objective.metric_names)]
    wrong = outcomes[~outcomes["mean"].isin([0.0, 1.0])]
    if len(wrong) > 0:
        row = wrong.iloc[0]
        raise InputDataError(
            f"Expected every outcome of {row['metric_name']!r} to be 0 or 1, but got "
            f"{row['mean']} for trial {row['trial_index']}."
        )
