r"""Tests of running an experiment: ask, tell, withdraw, recommend, resume."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context import BINARY_RULES
from botorch_binary_context.experiment import (
    Categorical,
    Context,
    Experiment,
    Integer,
    NamedSpace,
    PassFail,
    Real,
    Settings,
    Trial,
    surrogate,
)
from tests.experiment.simulation import (
    CONTINUOUS,
    FIXED,
    MIXED,
    answer,
    duels,
    pass_fail,
    run,
    unmodeled,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def shown(trials: list[Trial]) -> list[Any]:
    return [(trial.id, trial.values, trial.chosen_by) for trial in trials]


def check_values(trial: Trial, space: NamedSpace) -> None:
    """All names, values of the right kind within their bounds."""
    assert list(trial.context) == [c.name for c in space.contexts]
    for side in trial.sides:
        assert list(side) == [p.name for p in space.parameters]
        for parameter in space.parts:
            parameter.encode(side[parameter.name])
    for context in space.contexts:
        value = trial.context[context.name]
        assert context.levels is None or value in context.levels
        context.encode(value, centered=True)


class TestAsk:
    @pytest.mark.parametrize(
        "settings",
        [
            pass_fail(initial_trials=3),
            pass_fail(MIXED, initial_trials=3),
            pass_fail(MIXED, kernel="product", rule="ts-ald", initial_trials=3),
            pass_fail(kernel="multiplicative", rule="cjes", initial_trials=3),
            Settings(NamedSpace(MIXED.parameters), seed=0, initial_trials=3),
            duels(initial_trials=3),
            duels(MIXED, rule="kss-ald", initial_trials=3),
            duels(NamedSpace(MIXED.parameters), initial_trials=3),
        ],
    )
    def test_every_kind(self, path: Path, settings: Settings) -> None:
        trials = run(path, settings, 5)
        assert [t.id for t in trials] == list(range(1, 6))
        expected = ["quasi-random"] * 3 + [str(settings.rule)] * 2
        assert [t.chosen_by for t in trials] == expected
        for trial in trials:
            assert len(trial.sides) == settings.feedback.functional.num_rows
            check_values(trial, settings.space)
            assert trial.outcome == int(answer(trial))

    def test_quasi_random_until_there_are_enough_answers(self, path: Path) -> None:
        """Questions alone are not enough."""
        settings = pass_fail(initial_trials=3, hyperparameters=FIXED)
        with Experiment.create(path, settings) as experiment:
            asked = [experiment.ask() for _ in range(6)]
            assert {t.chosen_by for t in asked} == {"quasi-random"}
            for trial in asked[:3]:
                experiment.tell(trial.id, answer(trial))
            assert experiment.ask().chosen_by == "ucb99-ald"

    def test_quasi_random_trials_fill_the_box(self, path: Path) -> None:
        """Every eighth of each axis has two of sixteen trials."""
        with Experiment.create(path, unmodeled()) as experiment:
            trials = [experiment.ask() for _ in range(16)]
        units = [
            (
                math.log10(float(t.parameters["gain"])) / 2 + 0.5,
                float(t.parameters["shift"]) / 2 + 0.5,
                float(t.context["noise"]) / 4,
            )
            for t in trials
        ]
        for column in zip(*units, strict=True):
            cells = [min(int(8 * u), 7) for u in column]
            assert sorted(cells) == sorted([*range(8)] * 2)

    @pytest.mark.parametrize("make", [pass_fail, duels])
    def test_pending_trials_are_not_asked_again(self, path: Path, make: Any) -> None:
        settings = make(MIXED, initial_trials=4, hyperparameters=FIXED)
        with Experiment.create(path, settings) as experiment:
            for _ in range(4):
                trial = experiment.ask()
                experiment.tell(trial.id, answer(trial))
            asked = [experiment.ask() for _ in range(4)]
        assert len({str(trial.values) for trial in asked}) == 4

    def test_one_thread_meanwhile(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen, before = [], torch.get_num_threads()
        rows = surrogate.Surrogate.rows
        monkeypatch.setattr(
            surrogate.Surrogate,
            "rows",
            lambda *given: seen.append(torch.get_num_threads()) or rows(*given),
        )
        settings = pass_fail(initial_trials=1, hyperparameters=FIXED)
        torch.set_num_threads(2)
        try:
            with Experiment.create(path, settings) as experiment:
                experiment.tell(experiment.ask().id, True)
                experiment.ask()
            assert torch.get_num_threads() == 2
        finally:
            torch.set_num_threads(before)
        assert set(seen) == {1}

    def test_no_way_out_of_a_corner(self, path: Path) -> None:
        """A rule that repeats itself is helped by a quasi-random trial."""
        context = Context("noise", 2.0, low=0.0, high=4.0, harder="up")
        settings = Settings(
            NamedSpace([Real("gain", 0.0, 1.0)], [context]),
            rule="ucb-fixed",
            seed=0,
            initial_trials=0,
            hyperparameters={"lengthscale": 30.0, "outputscale": 1.0},
        )
        with Experiment.create(path, settings) as experiment:
            for _ in range(4):
                trial = experiment.ask()
                experiment.tell(trial.id, float(trial.parameters["gain"]) > 0.5)
            asked = [experiment.ask() for _ in range(4)]
        assert len({str(trial.values) for trial in asked}) == 4
        assert {t.chosen_by for t in asked} == {"ucb-fixed", "quasi-random"}

    def test_withdrawn_trials_are_forgotten(self, path: Path) -> None:
        """But their questions are not asked again by chance."""
        with Experiment.create(path, unmodeled()) as experiment:
            first = experiment.ask()
            experiment.withdraw(first.id)
            second = experiment.ask()
        assert second.id == 2
        assert second.values != first.values


class TestSmallSpaces:
    """Few trials can be shown, and none is pending twice."""

    SPACE = NamedSpace(
        [Integer("taps", 1, 2), Categorical("window", ["hann", "box"])],
        # The first level is so near to the second one that no sequence finds it.
        [Context("noise", 5.0, levels=[0.0, 1e-12, 10.0], harder="up")],
    )

    @pytest.mark.parametrize(
        ("make", "count"), [(pass_fail, 2 * 2 * 3), (duels, 4 * 4 * 3)]
    )
    def test_every_trial_once(self, path: Path, make: Any, count: int) -> None:
        with Experiment.create(path, make(self.SPACE, initial_trials=99)) as experiment:
            asked = [experiment.ask() for _ in range(count)]
            assert len({str(trial.values) for trial in asked}) == count
            message = f"each of the {count} trials that can be shown has been asked"
            with pytest.raises(UnsupportedError, match=message):
                experiment.ask()
            experiment.tell(asked[4].id, 1)
            assert experiment.ask().values == asked[4].values  # it may be asked again

    def test_by_the_rule(self, path: Path) -> None:
        fixed = {**FIXED, "slope": 5.0}
        settings = pass_fail(
            self.SPACE, rule="random", initial_trials=1, hyperparameters=fixed
        )
        with Experiment.create(path, settings) as experiment:
            experiment.tell(experiment.ask().id, 1)
            asked = [experiment.ask() for _ in range(12)]
            assert len({str(trial.values) for trial in asked}) == 12
            with pytest.raises(UnsupportedError, match="each of the 12 trials"):
                experiment.ask()


class TestTell:
    @pytest.fixture
    def experiment(self, path: Path) -> Any:
        with Experiment.create(path, unmodeled()) as experiment:
            experiment.ask()
            experiment.ask()
            yield experiment

    def test_on_disk_when_it_returns(self, experiment: Experiment, path: Path) -> None:
        """Another process would see it at once."""
        with Experiment.open(path) as other:
            experiment.tell(2, "pass")
            assert [t.status for t in other.trials] == ["pending", "answered"]
            assert other.trials[1].outcome == 1
            other.tell(1, False)
        assert [t.outcome for t in experiment.trials] == [0, 1]

    def test_each_trial_is_told_only_once(self, experiment: Experiment) -> None:
        trial_id: Any = np.int64(1)
        experiment.tell(trial_id, True)
        with pytest.raises(InputDataError, match="but got 1, which was answered at"):
            experiment.tell(1, True)
        experiment.withdraw(2)
        with pytest.raises(InputDataError, match="but got 2, which was withdrawn at"):
            experiment.tell(2, True)
        assert [t.outcome for t in experiment.trials] == [1, None]

    @pytest.mark.parametrize("trial_id", ["1", 1.0, None, True, (1,)])
    def test_wrong_id(self, experiment: Experiment, trial_id: Any) -> None:
        message = "``trial_id`` to be a whole number, but got"
        with pytest.raises(InputDataError, match=message):
            experiment.tell(trial_id, True)
        with pytest.raises(InputDataError, match=message):
            experiment.withdraw(trial_id)

    def test_wrong_outcome(self, experiment: Experiment) -> None:
        with pytest.raises(InputDataError, match="``outcome`` to be 'pass' or 1"):
            experiment.tell(1, "perhaps")
        assert experiment.trials[0].status == "pending"


class TestCreate:
    def test_settings_are_the_same_when_opened_again(self, path: Path) -> None:
        settings = pass_fail(MIXED, seed=5, hyperparameters=FIXED)
        Experiment.create(path, settings).close()
        with Experiment.open(path) as experiment:
            assert experiment.settings == settings

    def test_a_rule_that_is_not_there(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A journal made with a rule of the user's own, opened without it."""
        monkeypatch.setitem(BINARY_RULES, "mine", BINARY_RULES["random"])
        run(path, pass_fail(rule="mine", initial_trials=1), 3)
        monkeypatch.delitem(BINARY_RULES, "mine")
        with pytest.raises(UnsupportedError, match="``rule`` .* but got 'mine'"):
            Experiment.open(path)

    def test_mistakes_leave_no_file(self, path: Path) -> None:
        settings = pass_fail(hyperparameters={"lengthscale": [1.0, 2.0, 3.0]})
        with pytest.raises(InputDataError, match="``hyperparameters``"):
            Experiment.create(path, settings)
        assert not path.exists()


class TestRecommend:
    def test_finds_the_best(self, path: Path) -> None:
        """The gain of two, in 25 trials."""
        with Experiment.create(path, pass_fail()) as experiment:
            with pytest.raises(UnsupportedError, match="at least one answer"):
                experiment.recommend()
            for _ in range(25):
                trial = experiment.ask()
                experiment.tell(trial.id, answer(trial))
            best = experiment.recommend()
        assert 1.4 < float(best.parameters["gain"]) < 2.8
        easy, hard = (best.success_probability({"noise": s}) for s in (0.5, 3.9))
        assert easy.mean > 0.9 > 0.5 > hard.mean

    def test_from_the_first_answer(self, path: Path) -> None:
        with Experiment.create(path, pass_fail()) as experiment:
            experiment.tell(experiment.ask().id, True)
            assert experiment.recommend().num_answers == 1

    def test_fixed_hyperparameters(self, path: Path) -> None:
        values = {**FIXED, "slope": 5.0}
        run(path, pass_fail(hyperparameters=values), 12)
        with Experiment.open(path) as experiment:
            model: Any = experiment.model()
            assert model.mean_module.slope.item() == pytest.approx(5.0)
            assert experiment._journal.last_fit() == {}


class TestSchedule:
    def test_fits_are_rare_and_kept(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sizes = []
        fit = surrogate.Surrogate.fit

        def count(self: Any, trials: Any) -> Any:
            sizes.append(len(trials))
            return fit(self, trials)

        monkeypatch.setattr(surrogate.Surrogate, "fit", count)
        run(path, pass_fail(rule="random", initial_trials=9), 16)
        assert sizes == [9, 10, 11, 13, 15]
        with Experiment.open(path) as experiment:
            experiment.recommend()  # 16 answers: that of 15 will do
            experiment.ask()
        assert sizes[-1] == 15

    def test_failures_are_not_kept(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The former hyperparameters serve, and one process tries only once."""
        settings = pass_fail(rule="random", initial_trials=5)
        run(path, settings, 6)

        def fail(mll: Any) -> None:
            raise RuntimeError("singular")

        with Experiment.open(path) as experiment:
            former = experiment._journal.fit(5)
            assert former
            with monkeypatch.context() as patch:
                patch.setattr(surrogate, "fit_gpytorch_mll", fail)
                with pytest.warns(RuntimeWarning, match="could not be learned from 6"):
                    experiment.ask()
                experiment.ask()
            assert experiment._journal.fit(6) is None
            assert experiment._journal.last_fit() == former
        with Experiment.open(path) as experiment:
            experiment.ask()
            assert experiment._journal.fit(6)


Step = Callable[[Experiment], Any]


def script(num_trials: int) -> list[Step]:
    """Asks, tells in another order and withdrawals."""

    def settle(experiment: Experiment) -> None:
        pending = [t for t in experiment.trials if t.status == "pending"]
        trial = pending[-1] if len(pending) > 2 else pending[0]
        if trial.id % 5 == 4:
            experiment.withdraw(trial.id)
        else:
            experiment.tell(trial.id, answer(trial))

    steps: list[Step] = [lambda e: e.ask(), lambda e: e.ask()]
    for _ in range(num_trials - 2):
        steps += [settle, lambda e: e.ask()]
    return steps


@pytest.mark.parametrize(
    "settings",
    [
        pass_fail(MIXED, initial_trials=4),
        pass_fail(CONTINUOUS, rule="ts-ald", initial_trials=4),
        Settings(CONTINUOUS, PassFail(0.1, "learned"), seed=0, initial_trials=4),
        duels(initial_trials=4, rule="kss-random"),
    ],
)
def test_reproducible_across_resumes(tmp_path: Path, settings: Settings) -> None:
    """Never closed, or closed after every step, with a look at the model, too."""
    steps = script(9)
    with Experiment.create(tmp_path / "open", settings) as experiment:
        for step in steps:
            step(experiment)
        expected = shown(experiment.trials)
    Experiment.create(tmp_path / "closed", settings).close()
    for i, step in enumerate(steps):
        with Experiment.open(tmp_path / "closed") as experiment:
            step(experiment)
            if i % 7 == 6:
                experiment.recommend()
    with Experiment.open(tmp_path / "closed") as experiment:
        assert shown(experiment.trials) == expected


def test_learned_lapse_rate_is_kept(tmp_path: Path) -> None:
    feedback = PassFail(0.1, "learned")
    settings = Settings(CONTINUOUS, feedback, seed=0, initial_trials=8)
    run(tmp_path / "journal", settings, 8)
    with Experiment.open(tmp_path / "journal") as experiment:
        likelihood: Any = experiment.model().likelihood
        learned = experiment._journal.fit(8)
        assert learned is not None
    with Experiment.open(tmp_path / "journal") as experiment:
        again: Any = experiment.model().likelihood
        assert experiment.settings == settings
    assert [again.lapse_rate.item()] == pytest.approx(learned["lapse_rate"])
    assert again.lapse_rate.item() == likelihood.lapse_rate.item()
    assert again.lapse_rate.item() != pytest.approx(feedback.first_lapse_rate)


def test_independent_of_the_program(tmp_path: Path) -> None:
    """Whatever the default dtype and the gradient mode are."""
    settings = pass_fail(CONTINUOUS, rule="ts-ald", initial_trials=5)

    def ask() -> list[Any]:
        path = tmp_path / str(len(list(tmp_path.iterdir())))
        trials = shown(run(path, settings, 6))
        with Experiment.open(path) as experiment:
            assert experiment._journal.fit(5)  # no fit has failed
        return trials

    expected = ask()
    with torch.no_grad():
        assert ask() == expected
    with torch.inference_mode():
        assert ask() == expected
    before = torch.get_default_dtype()
    for dtype in (torch.float16, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            assert ask() == expected
            assert torch.get_default_dtype() == dtype
        finally:
            torch.set_default_dtype(before)


def test_same_seed_asks_the_same_and_another_does_not(tmp_path: Path) -> None:
    runs = [
        run(tmp_path / str(i), pass_fail(rule="random", seed=seed, initial_trials=3), 6)
        for i, seed in enumerate((10**30, 10**30, 2))
    ]
    values = [[trial.values for trial in trials] for trials in runs]
    assert values[0] == values[1]
    assert all(a != b for a, b in zip(values[0], values[2], strict=True))


def test_fresh_seeds(tmp_path: Path) -> None:
    """By default every experiment has a seed of its own, which its journal keeps."""
    seeds = []
    for name in ("a", "b"):
        settings = pass_fail(rule="random", seed=None, initial_trials=3)
        with Experiment.create(tmp_path / name, settings) as experiment:
            seeds.append(experiment.settings.seed)
        with Experiment.open(tmp_path / name) as experiment:
            assert experiment.settings.seed == seeds[-1]
    assert None not in seeds
    assert seeds[0] != seeds[1]
