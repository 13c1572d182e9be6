r"""
Duels in Ax: batch trials of two arms, of which one is preferred.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from ax.api.client import Client
from ax.core.arm import Arm
from ax.core.batch_trial import BatchTrial
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.observation import ObservationFeatures
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.service.ax_client import AxClient
from botorch.exceptions import InputDataError

from botorch_binary_context.ax.trials import PREFERENCE, RULE_NODE
from botorch_binary_context.checks import check_count

#: The parameters of the two sides of a duel.
Sides = tuple[dict[str, Any], dict[str, Any]]


def experiment_of(client: Client | AxClient) -> Experiment:
    r"""The experiment of a client.

    Args:
        client: The client.
    """
    return client.experiment if isinstance(client, AxClient) else client._experiment


def strategy_of(client: Client | AxClient) -> GenerationStrategy:
    r"""The generation strategy of a client.

    Args:
        client: The client.
    """
    if isinstance(client, AxClient):
        return client.generation_strategy
    return client._generation_strategy


def get_next_duels(
    client: Client | AxClient,
    max_trials: int = 1,
    fixed_parameters: Mapping[str, Any] | None = None,
) -> dict[int, Sides]:
    r"""The next duels, as batch trials that are running.

    Args:
        client: The client of an experiment whose objective is ``pairwise_pref_query``.
        max_trials: The number of duels.
        fixed_parameters: Parameters, or contexts, that are given.

    Returns:
        The parameters of the two sides of each duel, by the index of the trial.

    Example:
        >>> for index, (first, second) in get_next_duels(client).items():
        ...     complete_duel(client, index, preferred=0)  # the first
    """
    check_count("max_trials", max_trials)
    experiment = experiment_of(client)
    strategy = strategy_of(client)
    fixed = None
    if fixed_parameters is not None:
        fixed = ObservationFeatures(parameters=dict(fixed_parameters))
    duels = {}
    for _ in range(max_trials):
        run = strategy.gen_single_trial(experiment, n=2, fixed_features=fixed)
        trial = experiment.new_batch_trial(generator_run=run)
        trial.mark_running(no_runner_required=True)
        duels[trial.index] = _sides(trial)
        _save(client, trial, strategy)
    return duels


def attach_duel(
    client: Client | AxClient, first: Mapping[str, Any], second: Mapping[str, Any]
) -> int:
    r"""Add a duel that Ax did not ask for.

    Args:
        client: The client.
        first: The parameters of the first side.
        second: The parameters of the second side.

    Returns:
        The index of the trial, which is running.

    Example:
        >>> soft, loud = {"noise": 0.5, "gain": 0.2}, {"noise": 0.5, "gain": 0.8}
        >>> index = attach_duel(client, soft, loud)
        >>> complete_duel(client, index, preferred=1)  # the loud one
    """
    _check_contexts(client, first, second)
    experiment = experiment_of(client)
    trial = experiment.new_batch_trial()
    trial.add_arms_and_weights([Arm(dict(first)), Arm(dict(second))])
    trial.mark_running(no_runner_required=True)
    _save(client, trial)
    return trial.index


def _check_contexts(
    client: Client | AxClient, first: Mapping[str, Any], second: Mapping[str, Any]
) -> None:
    """Raise an error unless both sides have the same context."""
    node = strategy_of(client).nodes_by_name.get(RULE_NODE)
    kwargs = {} if node is None else node.generator_spec.generator_kwargs
    config = kwargs.get("transform_configs", {}).get("ContextTrials", {})
    for name in config.get("contexts", ()):
        if first.get(name) != second.get(name):
            raise InputDataError(
                f"Expected both sides of a duel to have the same context {name!r}, but "
                f"got {first.get(name)!r} and {second.get(name)!r}."
            )


def complete_duel(client: Client | AxClient, trial_index: int, preferred: int) -> None:
    r"""Say which side of a duel was preferred.

    Args:
        client: The client.
        trial_index: The index of the trial.
        preferred: 0 for the first side, 1 for the second.
    """
    if preferred not in (0, 1):
        raise InputDataError(
            "Expected ``preferred`` to be 0 for the first side or 1 for the second, "
            f"but got {preferred!r}."
        )
    experiment = experiment_of(client)
    if trial_index not in experiment.trials:
        raise InputDataError(
            f"Expected ``trial_index`` to be one of {list(experiment.trials)}, but got "
            f"{trial_index!r}."
        )
    trial = experiment.trials[trial_index]
    _sides(trial)
    rows = [
        {
            "trial_index": trial_index,
            "arm_name": arm.name,
            "metric_name": PREFERENCE,
            "metric_signature": PREFERENCE,
            "mean": float(side == preferred),
            "sem": 0.0,
        }
        for side, arm in enumerate(trial.arms)
    ]
    experiment.attach_data(Data(df=pd.DataFrame(rows)))
    trial.mark_completed()
    _save(client, trial)


def _sides(trial: Any) -> Sides:
    """The parameters of the two arms."""
    arms = trial.arms
    if not isinstance(trial, BatchTrial) or len(arms) != 2:
        raise InputDataError(
            f"Expected trial {trial.index} to be a duel of two different arms, but got "
            f"{len(arms)}."
        )
    return dict(arms[0].parameters), dict(arms[1].parameters)


def _save(
    client: Client | AxClient,
    trial: Any,
    strategy: GenerationStrategy | None = None,
) -> None:
    """Save a trial to the database, if the client has one."""
    if strategy is not None:
        client._save_generation_strategy_to_db_if_possible(generation_strategy=strategy)
    client._save_or_update_trial_in_db_if_possible(
        experiment=experiment_of(client), trial=trial
    )
