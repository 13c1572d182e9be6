from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context import population_prior
from botorch_binary_context.experiment import Experiment, PassFail, Settings
from botorch_binary_context.experiment.surrogate import Surrogate
from tests.experiment.simulation import CONTINUOUS, answer, duels, pass_fail, unmodeled


def examined(path: Path, seed: int, n: int = 12) -> Experiment:
    """A subject who has answered some quasi-random trials."""
    experiment = Experiment.create(path, unmodeled(seed=seed))
    for _ in range(n):
        trial = experiment.ask()
        experiment.tell(trial.id, answer(trial))
    return experiment


def test_new_experiments_take_what_was_learned(tmp_path: Path) -> None:
    earlier = [examined(tmp_path / f"{i}.journal", i, 10 + i % 2) for i in range(3)]
    settings = pass_fail(hyperparameters={"outputscale": 4.0})
    new = Experiment.create(tmp_path / "new.journal", settings, prior=earlier)
    found = new.settings.hyperparameters
    surrogate = Surrogate(settings)
    answered = [e._read_state().answered for e in earlier]
    prior = population_prior([surrogate.predicting_model(t, {}) for t in answered])
    model = prior.apply(surrogate.predicting_model([], {}))
    assert found["outputscale"] == 4.0
    slope = model.mean_module.slope.item()  # pyright: ignore
    assert found["slope"] == pytest.approx([slope])
    assert len(found["lengthscale"]) == 2  # pyright: ignore
    new.close()
    with Experiment.open(tmp_path / "new.journal") as again:
        assert again.settings.hyperparameters == found
        for _ in range(8):
            trial = again.ask()
            again.tell(trial.id, answer(trial))
        kept = again.model().mean_module.slope.item()  # pyright: ignore
        assert kept == pytest.approx(slope)
    for experiment in earlier:
        experiment.close()


def test_mean_function(tmp_path: Path) -> None:
    """What earlier subjects did is expected of the next one, before any answer."""
    earlier = [examined(tmp_path / f"{i}.journal", i, 20) for i in range(3)]
    path = tmp_path / "new.journal"
    with Experiment.create(path, pass_fail(), prior=earlier, mean_function=True) as new:
        settings = new.settings
    trials = [e._read_state().answered for e in earlier]
    plain = Surrogate(pass_fail())
    models = [plain.predicting_model(some, {}) for some in trials]
    prior = population_prior(models, mean_function=True)
    expected = prior.apply(plain.predicting_model([], {}))
    X = plain.rows(trials[0])
    with torch.no_grad():
        found = Surrogate(settings).predicting_model([], {}).posterior(X)
        torch.testing.assert_close(
            found.mean, expected.posterior(X).mean, atol=1e-3, rtol=1e-3
        )
        torch.testing.assert_close(found.variance, expected.posterior(X).variance)
        without = replace(settings, mean_function=None)
        usual = Surrogate(without).predicting_model([], {}).posterior(X).mean
    assert float((found.mean - usual).abs().max()) > 0.1
    with Experiment.open(path) as again:
        assert again.settings == settings
        for _ in range(8):
            trial = again.ask()
            again.tell(trial.id, answer(trial))
        assert trial.chosen_by == settings.rule
        assert again.recommend().expected_loss().mean >= 0.0
    for experiment in earlier:
        experiment.close()


def test_mean_function_needs_subjects_that_do_not_drift(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="``prior`` to hold experiments with"):
        Experiment.create(tmp_path / "x.journal", pass_fail(), mean_function=True)
    settings = pass_fail(drift=20)
    path = tmp_path / "x.journal"
    with Experiment.create(tmp_path / "0.journal", settings) as earlier:
        trial = earlier.ask()
        earlier.tell(trial.id, 1)
        with pytest.raises(UnsupportedError, match="``mean_function`` to be False"):
            Experiment.create(path, settings, prior=[earlier], mean_function=True)
    assert not path.exists()


def test_other_experiments_are_refused(tmp_path: Path) -> None:
    with examined(tmp_path / "0.journal", 0, 3) as earlier:
        others: list[Settings] = [
            duels(),
            Settings(CONTINUOUS, PassFail(guess_rate=0.5), seed=0),
        ]
        for settings in others:
            with pytest.raises(InputDataError, match="variables, .* but got 1 others"):
                Experiment.create(tmp_path / "x.journal", settings, prior=[earlier])
    with (
        Experiment.create(tmp_path / "1.journal", unmodeled()) as empty,
        pytest.raises(InputDataError, match="with answers .* but got none"),
    ):
        Experiment.create(tmp_path / "x.journal", pass_fail(), prior=[empty])
    assert not (tmp_path / "x.journal").exists()
