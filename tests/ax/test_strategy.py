r"""Trials through Ax are those that the package alone would ask."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from botorch.fit import fit_gpytorch_mll

from botorch_binary_context import (
    ApproximateMarginalLogLikelihood,
    AverageSuccess,
    ContextSpace,
    WorstContext,
    psychometric_gp,
)
from botorch_binary_context import recommend as recommend_directly
from botorch_binary_context import suggest as suggest_directly
from botorch_binary_context.ax import generation_strategy, recommend
from botorch_binary_context.rules import BINARY_RULES
from tests.ax.clients import (
    OPPOSITE,
    QUICK,
    answer,
    make_client,
    opposite_client,
    run_readme,
    table,
)

SPACE = ContextSpace(
    torch.tensor([[-2.0, 0.0], [2.0, 1.0]], dtype=torch.double), [0], [0.5]
)


def row_of(trials: dict[int, Any]) -> torch.Tensor:
    rows = [[t["s"], t["x"]] for t in trials.values()]
    return torch.tensor(rows, dtype=torch.double)


def readme_client(**options: Any) -> Client:
    return make_client(contexts={"s": 0.5}, harder="up", **options)


@pytest.fixture(scope="module")
def answered() -> Client:
    """Twelve answers: enough to learn hyperparameters from."""
    client = readme_client()
    run_readme(client, 12)
    return client


@pytest.fixture(scope="module")
def model(answered: Client) -> Any:
    """What the package alone makes of the answers."""
    model = psychometric_gp(*table(answered), SPACE, harder="up")
    fit_gpytorch_mll(ApproximateMarginalLogLikelihood(model.likelihood, model))
    return model.requires_grad_(False)


def test_predictions_are_success_probabilities(answered: Client, model: Any) -> None:
    answered.get_next_trials(1)  # fits
    last = max(answered._experiment.trials)
    answered.mark_trial_failed(last)
    points = [{"s": 0.5, "x": 0.7}, {"s": -1.0, "x": 0.2}]
    predicted = answered.predict(points)
    X = torch.tensor([[p["s"], p["x"]] for p in points], dtype=torch.double)
    posterior = model.probability_posterior(X)
    for i, prediction in enumerate(predicted):
        mean, error = prediction["passed"]
        assert mean == pytest.approx(float(posterior.mean[i]), abs=1e-6)
        assert error == pytest.approx(float(posterior.variance[i]) ** 0.5, abs=1e-6)


def test_each_context_has_its_direction() -> None:
    client = opposite_client()
    client.get_next_trials(1)  # fits
    points = [
        {"noise": noise, "size": size, "x": 0.3}
        for noise, size in ((-1.0, 0.0), (1.0, 0.0), (0.0, -0.5), (0.0, 0.5))
    ]
    found = [prediction["passed"][0] for prediction in client.predict(points)]
    assert found[0] > found[1] + 0.2
    assert found[2] < found[3] - 0.2
    bounds = torch.tensor([*OPPOSITE.values()], dtype=torch.double).T
    space = ContextSpace(bounds, [0, 1], [0.0, 0.5])
    X, Y = table(client, list(OPPOSITE))
    model = psychometric_gp(X, Y, space, harder=["up", "down"])
    test_X = torch.tensor([[*point.values()] for point in points], dtype=torch.double)
    expected = model.probability_posterior(test_X).mean.flatten().tolist()
    assert found == pytest.approx(expected, abs=1e-6)


def test_trials_in_parallel_are_those_of_suggest(answered: Client, model: Any) -> None:
    trials = answered.get_next_trials(3)
    expected, pending = [], None
    for i in range(3):
        trial = suggest_directly(
            model, SPACE, "ucb-ald", QUICK, seed=12 + i, pending=pending
        )
        pending = trial if pending is None else torch.cat([pending, trial])
        expected.append(trial)
    torch.testing.assert_close(row_of(trials), torch.cat(expected), atol=1e-5, rtol=0)
    for index in trials:
        answered.mark_trial_failed(index)


def test_recommendation_is_that_of_the_package(answered: Client, model: Any) -> None:
    parameters, prediction = recommend(answered)
    assert parameters["s"] == 0.5
    best = float(recommend_directly(model, SPACE))
    assert parameters["x"] == pytest.approx(best, abs=1e-4)
    assert prediction["passed"] == pytest.approx(
        answered.predict([parameters])[0]["passed"]
    )


def test_recommendation_in_a_given_context(answered: Client) -> None:
    parameters, _ = recommend(answered, fixed_parameters={"s": -1.0})
    assert parameters["s"] == -1.0


def test_a_given_context_is_kept(answered: Client) -> None:
    for index, trial in answered.get_next_trials(2, {"s": 0.25}).items():
        assert trial["s"] == 0.25
        assert 0 <= float(trial["x"]) <= 1
        answered.mark_trial_failed(index)


@pytest.mark.parametrize("rule", BINARY_RULES)
def test_every_rule(answered: Client, rule: str) -> None:
    strategy = generation_strategy(rule, {"s": 0.5}, harder="up", search=QUICK)
    strategy._experiment = answered._experiment
    (arm,) = strategy.gen_single_trial(answered._experiment).arms
    assert -2 <= arm.parameters["s"] <= 2  # pyright: ignore
    assert 0 <= arm.parameters["x"] <= 1  # pyright: ignore
    assert strategy.current_node_name == "Rule"


def test_a_pending_trial_changes_the_next_one_and_an_abandoned_one_too() -> None:
    trials = []
    for ends in ("", "failed", "abandoned", "running"):
        client = readme_client()
        run_readme(client, 4)
        if ends:
            ((index, first),) = client.get_next_trials(1).items()
            if ends != "running":
                getattr(client, f"mark_trial_{ends}")(index)
        trials.append(row_of(client.get_next_trials(1)))
    never, failed, abandoned, running = trials
    # A failed trial may be asked again, as if it had never been.
    torch.testing.assert_close(failed, never)
    torch.testing.assert_close(abandoned, running)
    assert not torch.allclose(running, never)


def test_a_batch_trial_has_several_arms(answered: Client) -> None:
    strategy, experiment = answered._generation_strategy, answered._experiment
    run = strategy.gen_single_trial(experiment, n=3)
    assert len({arm.signature for arm in run.arms}) == 3


def test_a_logarithmic_context_is_a_linear_one_of_its_logarithm() -> None:
    options = {"rule": "ucb-ald", "goal": None}
    logarithmic = make_client(
        [
            RangeParameterConfig(
                name="s", parameter_type="float", bounds=(0.01, 100.0), scaling="log"
            ),
            RangeParameterConfig(name="x", parameter_type="float", bounds=(0.0, 1.0)),
        ],
        contexts={"s": 10**0.5},
        **options,
    )
    linear = make_client(contexts={"s": 0.5}, **options)
    noise = torch.rand(20, generator=torch.Generator().manual_seed(1))
    for i in range(6):
        ((index, there),) = logarithmic.get_next_trials(1).items()
        ((_, here),) = linear.get_next_trials(1).items()
        assert math.log10(there["s"]) == pytest.approx(here["s"], abs=1e-6)  # pyright: ignore
        assert there["x"] == pytest.approx(here["x"], abs=1e-6)  # pyright: ignore
        passed = {"passed": float(noise[i] < 0.5)}
        logarithmic.complete_trial(index, passed)
        linear.complete_trial(index, passed)
    best, _ = recommend(logarithmic)
    assert best["s"] == pytest.approx(10**0.5)
    assert best["x"] == pytest.approx(recommend(linear)[0]["x"], abs=1e-5)


MIXED = [
    RangeParameterConfig(name="count", parameter_type="int", bounds=(1, 6)),
    ChoiceParameterConfig(
        name="color",
        parameter_type="str",
        values=["red", "green", "blue"],
        is_ordered=False,
    ),
    RangeParameterConfig(
        name="gain", parameter_type="float", bounds=(0.1, 10.0), scaling="log"
    ),
    RangeParameterConfig(name="level", parameter_type="float", bounds=(0.0, 2.0)),
    ChoiceParameterConfig(
        name="steps", parameter_type="int", values=[1, 2, 8], is_ordered=True
    ),
]


@pytest.mark.parametrize("rule", ["ucb-ald", "ts-ald", "mkg"])
def test_integers_choices_logarithms_and_constraints(rule: str) -> None:
    client = make_client(
        MIXED, constraints=["level + 0.25 * count <= 2"], contexts={"level": 1.0},
        rule=rule,
    )  # fmt: skip
    for i in range(6):
        ((index, t),) = client.get_next_trials(1).items()
        good = t["color"] == "green" and t["level"] > 0.5  # pyright: ignore
        assert t["count"] in range(1, 7)
        assert t["color"] in ("red", "green", "blue")
        assert t["steps"] in (1, 2, 8)
        assert 0.1 <= t["gain"] <= 10  # pyright: ignore
        assert t["level"] + 0.25 * t["count"] <= 2 + 1e-6  # pyright: ignore
        client.complete_trial(index, {"passed": float(good or i == 0)})
    best, _ = recommend(client)
    assert best["level"] == 1.0
    assert best["level"] + 0.25 * best["count"] <= 2 + 1e-6


def test_a_category_that_always_passes_is_recommended() -> None:
    client = make_client(MIXED, contexts={"level": 1.0}, initial_trials=20)
    for index, t in client.get_next_trials(20).items():
        client.complete_trial(index, {"passed": float(t["color"] == "green")})
    assert recommend(client)[0]["color"] == "green"


@pytest.mark.parametrize("goal", [WorstContext([-0.5, 0.5]), AverageSuccess([0.0])])
def test_goals_over_contexts(answered: Client, model: Any, goal: Any) -> None:
    strategy = generation_strategy(
        "ucb-ald", {"s": 0.5}, goal=goal, harder="up", search=QUICK
    )
    (arm,) = strategy.gen_single_trial(answered._experiment).arms
    trial = suggest_directly(model, SPACE, "ucb-ald", QUICK, seed=12, goal=goal)
    found = [arm.parameters["s"], arm.parameters["x"]]
    assert found == pytest.approx(trial[0].tolist(), abs=1e-5)


def test_no_contexts() -> None:
    client = make_client(rule="ts-fixed")
    noise = torch.linspace(0, 1, 50, dtype=torch.double)
    for _ in range(5):
        answer(client, client.get_next_trials(1), noise)
    parameters, _ = recommend(client)
    assert set(parameters) == {"s", "x"}
