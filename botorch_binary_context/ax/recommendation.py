r"""
The inferred best parameters of an Ax experiment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ax.adapter.base import Adapter
from ax.api.client import Client
from ax.core.observation import ObservationFeatures
from ax.service.ax_client import AxClient
from ax.utils.common.constants import Keys
from botorch.exceptions import UnsupportedError

from botorch_binary_context.ax.duels import experiment_of, strategy_of
from botorch_binary_context.ax.trials import RULE_NODE


def recommend(
    client: Client | AxClient, fixed_parameters: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, tuple[float, float]]]:
    r"""The inferred best parameters, and the model's prediction for them.

    They maximize the posterior mean of the strategy's goal over the whole search space;
    Ax's own ``get_best_parameterization`` looks at the outcomes of single trials, which
    say little if they are 0 or 1.

    Args:
        client: The client, whose strategy is one of
            :func:`~botorch_binary_context.ax.strategy.generation_strategy`.
        fixed_parameters: Parameters that are given. A given context replaces the
            reference.

    Returns:
        The parameters, with the contexts at their references, and the mean and standard
        error of each metric there: of the probability of passing or, for duels, of the
        value function.

    Example:
        >>> parameters, prediction = recommend(client)
    """
    adapter = fit_adapter(client)
    fixed = None
    if fixed_parameters is not None:
        fixed = ObservationFeatures(parameters=dict(fixed_parameters))
    run = adapter.gen(
        n=1,
        fixed_features=fixed,
        model_gen_options={Keys.AX_ACQUISITION_KWARGS: {"recommends": True}},
    )
    parameters = dict(run.arms[0].parameters)
    means, covariances = adapter.predict([ObservationFeatures(parameters=parameters)])
    prediction = {
        name: (float(means[name][0]), float(covariances[name][name][0]) ** 0.5)
        for name in means
    }
    return parameters, prediction


def fit_adapter(client: Client | AxClient) -> Adapter:
    r"""The adapter of the rule, fitted to the answers so far.

    Args:
        client: The client.
    """
    experiment = experiment_of(client)
    strategy = strategy_of(client)
    if RULE_NODE not in strategy.nodes_by_name:
        raise UnsupportedError(
            "Expected the generation strategy to be one of this package, but got "
            f"{strategy.name!r}."
        )
    if len(experiment.lookup_data().df) == 0:
        raise UnsupportedError(
            "Expected at least one answered trial, but got none: there is nothing to "
            "go by."
        )
    node = strategy.nodes_by_name[RULE_NODE]
    node._fit(experiment=experiment)
    return node.generator_spec.fitted_adapter
