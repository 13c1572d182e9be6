r"""Duels through Ax: batch trials of two arms that share their context."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.service.ax_client import AxClient
from ax.service.utils.instantiation import ObjectiveProperties
from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context import ContextSpace, PreferenceGP, WorstContext, suggest
from botorch_binary_context.ax import (
    attach_duel,
    complete_duel,
    generation_strategy,
    get_next_duels,
    recommend,
)
from botorch_binary_context.ax.models import latent_model
from botorch_binary_context.ax.recommendation import fit_adapter
from botorch_binary_context.rules import DUEL_RULES
from tests.ax.clients import QUICK, make_client

UNIT = [
    RangeParameterConfig(name=name, parameter_type="float", bounds=(0.0, 1.0))
    for name in ("s", "x")
]
SPACE = ContextSpace(
    torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double), [0], [1.0]
)


def prefer(sides: Any) -> int:
    """Whoever is asked likes 0.3 best."""
    first, second = (abs(side["x"] - 0.3) for side in sides)
    return int(second < first)


def run_duels(client: Any, number: int) -> None:
    for _ in range(number):
        for index, sides in get_next_duels(client).items():
            complete_duel(client, index, prefer(sides))


def duel_client(**options: Any) -> Client:
    options = {"rule": "eubo-ald", "contexts": {"s": 1.0}, **options}
    return make_client(UNIT, "pairwise_pref_query", **options)


@pytest.fixture(scope="module")
def answered() -> Client:
    client = duel_client()
    run_duels(client, 12)
    return client


def latent(client: Client) -> PreferenceGP:
    surrogate = fit_adapter(client).generator.surrogate  # pyright: ignore
    model = latent_model(surrogate.model)
    assert isinstance(model, PreferenceGP)
    return model.requires_grad_(False)


def test_the_sides_share_their_context(answered: Client) -> None:
    trials = answered._experiment.trials.values()
    contexts = [[arm.parameters["s"] for arm in t.arms] for t in trials]
    assert all(first == second for first, second in contexts)
    assert len({first for first, _ in contexts}) > 5
    nodes = [t.generator_runs[0]._generation_node_name for t in trials]
    assert nodes == ["Sobol"] * 3 + ["Rule"] * 9


def test_what_is_preferred_is_recommended(answered: Client) -> None:
    parameters, prediction = recommend(answered)
    assert parameters["s"] == 1.0
    assert parameters["x"] == pytest.approx(0.3, abs=0.1)
    expected = latent(answered).posterior(
        torch.tensor([[1.0, parameters["x"]]]).double()
    )
    mean, error = prediction["pairwise_pref_query"]
    assert mean == pytest.approx(float(expected.mean), abs=1e-5)
    assert error == pytest.approx(float(expected.variance) ** 0.5, abs=1e-5)


def test_duels_in_parallel_are_those_of_suggest(answered: Client) -> None:
    model, pending = latent(answered), None
    duels = get_next_duels(answered, 2)
    for i, sides in enumerate(duels.values()):
        expected = suggest(
            model, SPACE, "eubo-ald", QUICK, seed=12 + i, pending=pending
        )
        found = torch.tensor([[side["s"], side["x"]] for side in sides]).double()
        torch.testing.assert_close(found, expected[0], atol=1e-5, rtol=0)
        pending = expected
    for index in duels:
        answered._experiment.trials[index].mark_failed()


@pytest.mark.parametrize("rule", DUEL_RULES)
def test_every_rule(answered: Client, rule: str) -> None:
    strategy = generation_strategy(rule, {"s": 1.0}, model="preference", search=QUICK)
    experiment = answered._experiment
    arms = strategy.gen_single_trial(experiment, n=2).arms
    assert {arm.parameters["s"] for arm in arms} == {arms[0].parameters["s"]}


def test_a_given_context_and_a_goal() -> None:
    client = duel_client(goal=WorstContext([0.2, 0.8]))
    for _ in range(5):
        for index, sides in get_next_duels(client, fixed_parameters={"s": 0.5}).items():
            assert [side["s"] for side in sides] == [0.5, 0.5]
            complete_duel(client, index, prefer(sides))
    assert 0 <= recommend(client)[0]["x"] <= 1


@pytest.mark.filterwarnings("ignore:The `AxClient` class is deprecated")
def test_the_service_api() -> None:
    strategy = generation_strategy(
        "muc-target", {"s": 1.0}, search=QUICK, initial_trials=2
    )
    client = AxClient(generation_strategy=strategy, verbose_logging=False)
    client.create_experiment(
        name="duels",
        parameters=[
            {"name": name, "type": "range", "bounds": [0.0, 1.0], "value_type": "float"}
            for name in ("s", "x")
        ],
        objectives={"pairwise_pref_query": ObjectiveProperties(minimize=False)},
    )
    run_duels(client, 4)
    attached = attach_duel(client, {"s": 0.5, "x": 0.3}, {"s": 0.5, "x": 0.9})
    complete_duel(client, attached, 0)
    assert recommend(client)[0]["s"] == 1.0


def test_refused_answers(answered: Client) -> None:
    with pytest.raises(InputDataError, match="preferred.. to be 0 .* got 2"):
        complete_duel(answered, 0, 2)
    with pytest.raises(InputDataError, match="trial_index.. to be one of .* got 999"):
        complete_duel(answered, 999, 0)
    with pytest.raises(UnsupportedError, match="n.. to be 2"):
        answered.get_next_trials(1)
    with pytest.raises(InputDataError, match="the same context 's'"):
        attach_duel(answered, {"s": 0.5, "x": 0.3}, {"s": 0.6, "x": 0.9})
