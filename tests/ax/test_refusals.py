r"""What Ax cannot express is refused, when the first trial is asked at the latest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig
from botorch.exceptions import InputDataError, UnsupportedError

import botorch_binary_context
from botorch_binary_context import AtReference, ContextAverage
from botorch_binary_context.ax import (
    ModelOptions,
    feasibility_strategy,
    generation_strategy,
    recommend,
)
from tests.ax.clients import README, make_client


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "nonsense"}, "rule.. to be a name, which Ax can store"),
        ({"rule": len}, "rule.. to be a name, which Ax can store"),
        ({"rule": "muc-ald", "model": "binary"}, "for the model 'binary'"),
        ({"rule": "ucb-ald", "model": "preference"}, "for the model 'preference'"),
        ({"model": "forest"}, "model.. to be one of psychometric"),
        ({"model": "psychometric"}, "contexts.. to name a context"),
        ({"initial_trials": 0}, "initial_trials"),
        ({"kernel": "cubic", "contexts": {"s": 0.5}}, "kernel"),
        ({"guess_rate": 0.7, "lapse_rate": 0.5}, "guess_rate.. and ..lapse_rate"),
        ({"inference": "magic"}, "inference"),
        ({"harder": True}, "harder.. to be 'up' or 'down', or a dict.* but got True"),
        ({"contexts": {"s": 0.5}, "harder": "more"}, "harder.. to be .* got 'more'"),
        ({"contexts": {"s": 0.5}, "harder": ["up"]}, "harder.. to be .* got .'up'"),
        ({"contexts": {"s": 0.5}, "harder": {"s": False}}, "harder.. to be .* False"),
        (
            {"contexts": {"s": 0.5, "t": 0.5}, "harder": {"s": "up"}},
            r"harder.. to be .* each of the contexts \['s', 't'\], but got {'s': 'up'}",
        ),
        ({"contexts": {"s": 0.5}, "harder": {"s": "up", "x": "up"}}, "harder.. to be"),
        ({"goal": AtReference()}, "goal.. to be one that Ax can store"),
    ],
)
def test_refuses_wrong_options_of_a_strategy(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises((InputDataError, UnsupportedError), match=message):
        generation_strategy(**options)


def test_refuses_wrong_directions_in_the_options_of_a_model() -> None:
    with pytest.raises(InputDataError, match="harder.. to be .* 2 contexts, but got"):
        ModelOptions(("s", "t"), harder=["up"])
    wrong: Any = False
    with pytest.raises(InputDataError, match="harder.. to be .* but got False"):
        ModelOptions(harder=wrong)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"contexts": {"size": 0.5}}, r"contexts.. to name parameters of \['s', 'x'\]"),
        ({"contexts": {"s": 5.0}}, "context 's' to be from -2.0 to 2.0, but got 5.0"),
        ({"contexts": {"s": 0.5, "x": 0.5}}, "parameters beside the contexts"),
        (
            {"contexts": {"s": 0.5}, "goal": ContextAverage([0.0, 9.0])},
            "context 's' to be from -2.0 to 2.0, but got 9.0",
        ),
        (
            {"contexts": {"s": 0.5}, "goal": ContextAverage([[0.0, 1.0]])},
            "goal.. to give 1 numbers",
        ),
        ({"metric": "-passed"}, "to be maximized"),
        ({"metric": "passed, liked"}, "one objective"),
        ({"rule": "muc-ald"}, "metric 'pairwise_pref_query' for a model of duels"),
        ({"metric": "pairwise_pref_query"}, "no metric 'pairwise_pref_query'"),
    ],
)
def test_refuses_what_does_not_fit_the_experiment_when_asked(
    options: dict[str, Any], message: str
) -> None:
    client = make_client(**options)
    with pytest.raises((InputDataError, UnsupportedError), match=message):
        client.get_next_trials(1)


def test_a_context_must_be_a_range() -> None:
    choice = ChoiceParameterConfig(
        name="room", parameter_type="str", values=["dark", "bright"], is_ordered=True
    )
    client = make_client([*README, choice], contexts={"room": 0.0})
    with pytest.raises(UnsupportedError, match="'room' to be a range of numbers"):
        client.get_next_trials(1)


def test_outcome_constraints() -> None:
    client = Client()
    client.configure_experiment(README)
    client.configure_optimization("passed", outcome_constraints=["cost <= 3"])
    client.set_generation_strategy(generation_strategy(contexts={"s": 0.5}))
    with pytest.raises(UnsupportedError, match="no outcome constraints"):
        client.get_next_trials(1)


def test_outcomes_must_be_single_bits() -> None:
    client = make_client(contexts={"s": 0.5})
    ((index, _),) = client.get_next_trials(1).items()
    client.complete_trial(index, {"passed": 0.4})
    with pytest.raises(InputDataError, match="outcome of 'passed' to be 0 or 1.* 0.4"):
        client.get_next_trials(1)


def test_recommendations_need_answers_and_a_strategy_of_the_package() -> None:
    client = make_client(contexts={"s": 0.5})
    with pytest.raises(UnsupportedError, match="at least one answered trial"):
        recommend(client)
    client.configure_generation_strategy(method="random_search")
    with pytest.raises(UnsupportedError, match="one of this package"):
        recommend(client)


@pytest.mark.parametrize("metrics", ["ready", []])
def test_feasibility_needs_metrics(metrics: Any) -> None:
    with pytest.raises(InputDataError, match="metrics.. to be a list of the names"):
        feasibility_strategy(metrics)


def test_parameters_of_fidelity() -> None:
    from ax.core.parameter import ParameterType, RangeParameter
    from ax.core.search_space import SearchSpace

    from botorch_binary_context.ax.trials import check_contexts

    resolution = RangeParameter(
        "r", ParameterType.FLOAT, 0.0, 1.0, is_fidelity=True, target_value=1.0
    )
    with pytest.raises(UnsupportedError, match="no fidelities and tasks"):
        check_contexts(SearchSpace([resolution]), {}, None)


def test_nothing_else_of_the_package_imports_ax() -> None:
    package = Path(botorch_binary_context.__file__).parent
    pattern = re.compile(r"^\s*(from|import) (ax|botorch_binary_context[.]ax)\b", re.M)
    importing = [
        path
        for path in package.rglob("*.py")
        if path.parent.name != "ax" and pattern.search(path.read_text(encoding="utf-8"))
    ]
    assert importing == []
