r"""The model of answers that grows by one at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from botorch_binary_context.experiment import BestOf, Experiment, Settings
from botorch_binary_context.experiment.growing import (
    MAX_STEPS,
    GrowingModel,
    first_step,
)
from botorch_binary_context.experiment.state import State
from botorch_binary_context.experiment.surrogate import Surrogate
from tests.experiment.simulation import (
    CONTINUOUS,
    FIXED,
    MIXED,
    answer,
    duels,
    pass_fail,
    unmodeled,
)

SETTINGS = {
    "continuous": pass_fail(hyperparameters={**FIXED, "slope": 5.0}),
    "mixed": pass_fail(MIXED, hyperparameters={**FIXED, "slope": 5.0}),
    "laplace": pass_fail(
        hyperparameters={**FIXED, "slope": 5.0}, inference="laplace", kernel="additive"
    ),
    "duels": duels(hyperparameters={**FIXED, "context_lengthscale": 1.0}),
    "best of three": Settings(
        CONTINUOUS,
        BestOf(3),
        seed=0,
        hyperparameters={**FIXED, "context_lengthscale": 1.0},
    ),
}


@pytest.fixture(params=SETTINGS)
def settings(request: pytest.FixtureRequest) -> Settings:
    return SETTINGS[request.param]


def make_states(path: Path, settings: Settings, number: int) -> list[State]:
    """After each of some quasi-random trials, one of which showed something else."""
    quasi_random = replace(settings, initial_trials=number + 1)
    states = []
    with Experiment.create(path, quasi_random) as experiment:
        for i in range(number):
            trial = experiment.ask()
            shown = {"noise": 1.2} if i == 3 else None
            outcome = settings.feedback.outcomes[int(answer(trial))]
            experiment.tell(trial.id, outcome, shown=shown)
            states.append(experiment._read_state())
    return states


def posterior(model: Any, X: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        found = model.posterior(X)
        return torch.stack([found.mean, found.variance])


def test_the_way_does_not_matter(settings: Settings, tmp_path: Path) -> None:
    """Whatever a process has computed before, the numbers are the same."""
    states = make_states(tmp_path / "j", settings, MAX_STEPS + 4)
    surrogate = Surrogate(settings)
    X = surrogate.rows(states[-1].answered).flatten(0, -2)
    steady = GrowingModel(surrogate)
    for i, state in enumerate(states):
        # Supposing another outcome first changes nothing.
        number = state.answered[-1].id
        other = replace(state.answered[-1], status="pending", outcome=None)
        before = replace(state, told=state.told[:-1], pending=[other])
        outcome = 1 - (state.answered[-1].outcome or 0)
        steady.at(before.suppose(number, outcome), {}, None)
        grown = posterior(steady.at(state, {}, None), X)
        if i % 4 == 3:
            fresh = GrowingModel(surrogate).at(state, {}, None)
            assert torch.equal(grown, posterior(fresh, X))
            alone = surrogate.choosing_model(state.answered, {})
            torch.testing.assert_close(grown, posterior(alone, X), rtol=1e-3, atol=1e-4)


def test_model_of_other_answers_or_values_is_not_taken(tmp_path: Path) -> None:
    """A model of other answers, or with other hyperparameters, is not taken."""
    settings = pass_fail(initial_trials=20)
    states = make_states(tmp_path / "j", settings, 9)
    surrogate = Surrogate(settings)
    models = GrowingModel(surrogate)
    X = surrogate.rows(states[-1].answered)
    first = posterior(models.at(states[-1], {}, None), X)
    changed = list(states[-1].answered)
    changed[2] = replace(changed[2], outcome=1 - (changed[2].outcome or 0))
    corrected = replace(states[-1], told=changed)
    for state, learned in ((corrected, {}), (states[-1], {"lengthscale": 0.1})):
        found = posterior(models.at(state, learned, None), X)
        alone = posterior(surrogate.choosing_model(state.answered, learned), X)
        torch.testing.assert_close(found, alone, rtol=1e-3, atol=1e-4)
        assert not torch.allclose(found, first, rtol=1e-2)


def test_only_real_models_are_kept(tmp_path: Path) -> None:
    states = make_states(tmp_path / "j", unmodeled(), 6)
    models = GrowingModel(Surrogate(unmodeled()))
    for state in states:
        models.at(state, {}, None)
        assert len(models._kept) == 1


@pytest.mark.parametrize(
    ("num_answers", "due", "expected"),
    [(0, None, 0), (1, None, 1), (5, None, 1), (11, None, 11), (12, None, 11)]
    + [(20, 20, 20), (29, 20, 20), (30, 20, 30), (45, 20, 40)],
)
def test_first_step(num_answers: int, due: int | None, expected: int) -> None:
    assert first_step(num_answers, due) == expected
