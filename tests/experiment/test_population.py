from __future__ import annotations

from pathlib import Path

import pytest
from botorch.exceptions import InputDataError

from botorch_binary_context import population_prior
from botorch_binary_context.experiment import Experiment, PassFail, Settings
from botorch_binary_context.experiment.surrogate import Surrogate
from tests.experiment.simulation import CONTINUOUS, answer, duels, pass_fail, unmodelled


def examined(path: Path, seed: int, n: int = 12) -> Experiment:
    """A subject who has answered some quasi-random trials."""
    experiment = Experiment.create(path, unmodelled(seed=seed))
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
    prior = population_prior(
        [surrogate.model(e._read_state().answered, {}, False) for e in earlier]
    )
    model = prior.apply(surrogate.model([], {}, False))
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
        Experiment.create(tmp_path / "1.journal", unmodelled()) as empty,
        pytest.raises(InputDataError, match="with answers .* but got none"),
    ):
        Experiment.create(tmp_path / "x.journal", pass_fail(), prior=[empty])
    assert not (tmp_path / "x.journal").exists()
