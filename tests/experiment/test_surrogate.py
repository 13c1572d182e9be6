r"""Tests of the models of answers and their hyperparameters."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError
from botorch.exceptions.errors import ModelFittingError
from scipy import stats
from torch import Tensor

from botorch_binary_context import DIFFERENCE, VALUE
from botorch_binary_context.experiment import (
    Context,
    NamedSpace,
    PassFail,
    Real,
    Settings,
    Trial,
    surrogate,
)
from botorch_binary_context.experiment.chooser import Chooser
from botorch_binary_context.experiment.conditions import Conditions
from botorch_binary_context.experiment.space import Encoder
from botorch_binary_context.experiment.surrogate import Surrogate
from botorch_binary_context.likelihoods.rates import RATE_PRIOR
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.models.mll import ApproximateMarginalLogLikelihood
from botorch_binary_context.pending import expect_outcomes
from tests.experiment.simulation import (
    CONTINUOUS,
    FIXED,
    MIXED,
    answer,
    duels,
    pass_fail,
)
from tests.tensors import uniform

EVERY_KIND = [
    pass_fail(),
    pass_fail(MIXED),
    pass_fail(kernel="multiplicative"),
    pass_fail(kernel="product"),
    Settings(NamedSpace(CONTINUOUS.parameters)),
    Settings(CONTINUOUS, PassFail(0.1, "learned")),
    duels(),
    duels(MIXED, kernel="multiplicative"),
    duels(NamedSpace(MIXED.parameters)),
]
every_kind = pytest.mark.parametrize("settings", EVERY_KIND)


def make_trials(settings: Settings, n: int, seed: int = 0) -> list[Trial]:
    """Answered trials at random."""
    encoder, sides = settings.encoder(), settings.feedback.functional.num_rows
    low, high = encoder.context_space.bounds
    trials = []
    for i, u in enumerate(uniform(n, sides, len(low), seed=seed), start=1):
        context, shown = encoder.decode(low + (high - low) * u)
        trial = Trial(i, context, shown, "", "")
        outcome = int(answer(trial))
        trials.append(Trial(i, context, shown, "", "", "answered", outcome))
    return trials


def evidence(maker: Surrogate, trials: list[Trial], values: Any) -> float:
    """The log evidence and log prior of hyperparameters, per trial."""
    model = maker.predicting_model(trials, values).train()
    mll: Any = ApproximateMarginalLogLikelihood(model.likelihood, model)
    return mll(model(*model.train_inputs), model.train_targets).item()


class TestModel:
    @every_kind
    def test_data_are_the_encoded_trials_and_their_outcomes(
        self, settings: Settings
    ) -> None:
        maker = Surrogate(settings)
        trials = make_trials(settings, 6)
        model = maker.choosing_model(trials, {})
        two = settings.feedback.functional.num_rows == 2
        assert model.functional == (DIFFERENCE if two else VALUE)
        expected = [maker.encoder.encode(t.context, t.sides) for t in trials]
        X = torch.stack(expected) if two else torch.cat(expected)
        torch.testing.assert_close(model.train_inputs[0], X)
        assert model.train_targets.tolist() == [t.outcome for t in trials]
        assert model.train_targets.dtype == torch.double

    @every_kind
    def test_no_data(self, settings: Settings) -> None:
        model = Surrogate(settings).choosing_model([], {})
        assert model.train_targets.shape == (0,)

    def test_guess_rate_is_that_of_the_feedback(self) -> None:
        settings = Settings.from_dict(
            {**pass_fail().to_dict(), "feedback": {"guess_rate": 0.25}}
        )
        model = Surrogate(settings).choosing_model([], {})
        assert model.likelihood.guess_rate == 0.25

    def test_learned_lapse_rate(self) -> None:
        """It begins at the median of its prior, and what was learned replaces it."""
        maker = Surrogate(Settings(CONTINUOUS, PassFail(0.1, "learned")))
        prior: Any = maker.choosing_model([], {}).likelihood
        assert prior.lapse_rate.item() == pytest.approx(
            stats.beta(*RATE_PRIOR).median(), abs=0.002
        )
        known = {"lapse_rate": [0.07]}
        learned: Any = maker.choosing_model([], known).likelihood
        assert learned.lapse_rate.item() == pytest.approx(0.07)
        assert learned.guess_rate == 0.1

    def test_model_that_chooses_knows_only_levels(self) -> None:
        """The model that chooses knows only levels, the one that predicts all."""
        settings = pass_fail(MIXED)
        maker = Surrogate(settings)
        trials = make_trials(settings, 12)
        row = maker.encoder.encode({"noise": 1.9}, [trials[0].parameters])
        nearest = maker.encoder.encode({"noise": 2.0}, [trials[0].parameters])

        chooses = maker.choosing_model(trials, {}).posterior_mean
        torch.testing.assert_close(chooses(row), chooses(nearest))
        predicts = maker.predicting_model(trials, {}).posterior_mean
        assert predicts(row) > predicts(nearest) + 1e-3  # less noise is easier

    @pytest.mark.parametrize("harder", ["up", "down", None])
    def test_harder_contexts_have_lower_means_before_any_answer(
        self, harder: str | None
    ) -> None:
        """What is known of the context is so before any answer."""
        context = Context("noise", 2.0, low=0.0, high=4.0, harder=harder)
        settings = pass_fail(NamedSpace(CONTINUOUS.parameters, [context]))
        maker = Surrogate(settings)
        model = maker.choosing_model([], {})
        sides = [{"gain": 1.0, "shift": 0.0}]
        rows = [maker.encoder.encode({"noise": s}, sides) for s in (0.5, 3.5)]
        posterior: Any = model.posterior(torch.cat(rows))
        low, high = posterior.mean.flatten().tolist()
        assert {"up": low > high, "down": low < high, None: low == high}[harder]
        # Either way a slope of about six from -1 to 1 is to be expected.
        contrast = posterior.variance[0].item()
        if harder is None:
            assert contrast > (6.0 * 0.75) ** 2


class TestHyperparameters:
    @every_kind
    def test_fixed_values_overrule_learned_ones(self, settings: Settings) -> None:
        """Learned ones give way to those that the user has fixed."""
        fixed = Settings.from_dict(
            {**settings.to_dict(), "hyperparameters": {"outputscale": 3.0}}
        )
        columns = settings.encoder().columns.numbers
        lengthscale = [0.2 + 0.1 * i for i in range(len(columns))]
        model = Surrogate(fixed).choosing_model(
            [], {"outputscale": [5.0], "lengthscale": lengthscale}
        )
        values = dict(model.covar_module.named_parameters())
        found = {
            name.rpartition(".")[2]: getattr(
                model.covar_module.get_submodule(name.rpartition(".")[0]),
                name.rpartition(".")[2].removeprefix("raw_"),
            )
            for name in values
        }
        assert found["raw_outputscale"].item() == pytest.approx(3.0)
        assert found["raw_lengthscale"].flatten().tolist() == pytest.approx(lengthscale)

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"length": 1.0}, "names .*lengthscale.*, but got 'length'"),
            (
                {"lengthscale": [1.0, 2.0, 3.0]},
                "'lengthscale' one or 2 positive number",
            ),
            ({"lengthscale": -1.0}, "positive numbers, but got -1.0"),
            ({"outputscale": "a"}, "positive numbers, but got 'a'"),
            ({"outputscale": float("nan")}, "positive numbers, but got nan"),
            ({"correlation": 1.5}, "'correlation' .* but got 1.5; .* below 1"),
        ],
    )
    def test_refuses_unknown_names_and_wrong_values(
        self, values: Any, message: str
    ) -> None:
        space = MIXED if "correlation" in values else CONTINUOUS
        with pytest.raises(InputDataError, match=message):
            Surrogate(pass_fail(space, hyperparameters=values))


class TestFit:
    @every_kind
    def test_better_than_the_prior(self, settings: Settings) -> None:
        """And no small change is better."""
        maker = Surrogate(settings)
        trials = make_trials(settings, 25)
        learned = maker.fit(trials)
        assert learned is not None
        best = evidence(maker, trials, learned)
        assert best > evidence(maker, trials, {}) + 1e-4
        for name, value in learned.items():
            for factor in (0.8, 1.25):
                assert isinstance(value, list)
                most = 0.999 if name == "correlation" else float("inf")
                moved = [min(factor * v, most) for v in value]
                changed = {**learned, name: moved}
                assert evidence(maker, trials, changed) < best + 1e-6

    def test_a_function_of_the_answers(self) -> None:
        settings = pass_fail()
        trials = make_trials(settings, 12)
        learned = Surrogate(settings).fit(trials)
        torch.manual_seed(3)
        assert Surrogate(settings).fit(trials) == learned

    def test_few_answers_do_not_overrule_the_priors(self) -> None:
        """Ten passes: the best explanation without priors is infinite."""
        settings = pass_fail()
        trials = [
            Trial(t.id, t.context, t.sides, "", "", "answered", 1)
            for t in make_trials(settings, 10)
        ]
        learned: Any = Surrogate(settings).fit(trials)
        assert 2.0 < learned["outputscale"][0] < 40.0
        assert all(0.1 < v < 0.6 for v in learned["lengthscale"])
        assert 2.0 < learned["slope"][0] < 20.0

    def test_fixed_ones_are_not_learned(self) -> None:
        settings = pass_fail(hyperparameters={"lengthscale": 0.3})
        maker = Surrogate(settings)
        trials = make_trials(settings, 15)
        learned = maker.fit(trials)
        assert learned is not None
        assert set(learned) == {"outputscale", "slope"}
        everything = pass_fail(hyperparameters={**FIXED, "slope": 5.0})
        assert Surrogate(everything).fit(trials) == {}

    @pytest.mark.parametrize(
        "error", [ModelFittingError("all attempts failed"), RuntimeError("singular")]
    )
    def test_failure_warns_and_nothing_is_learned(
        self, monkeypatch: pytest.MonkeyPatch, error: Exception
    ) -> None:
        def fail(mll: Any) -> None:
            raise error

        monkeypatch.setattr(surrogate, "fit_gpytorch_mll", fail)
        settings = pass_fail()
        trials = make_trials(settings, 8)
        message = f"could not be learned from 8 answers and stay as they were: {error}"
        with pytest.warns(RuntimeWarning, match=message):
            assert Surrogate(settings).fit(trials) is None


class TestBetweenLevels:
    """What was shown by mistake is not taken for what should have been shown."""

    SPACE = NamedSpace(
        [Real("gain", 0.0, 1.0, step=0.25), Real("shift", 0.0, 1.0)],
        [Context("noise", 2.0, levels=[0.0, 1.0, 4.0], harder="up")],
    )

    @pytest.mark.parametrize(
        ("make", "snap"),
        [
            (Surrogate.choosing_model, Encoder.snap),
            (Surrogate.predicting_model, Encoder.snap_parameters),
        ],
        ids=["chooses", "predicts"],
    )
    def test_trials_stay(
        self,
        make: Callable[..., LatentGP],
        snap: Callable[[Encoder, Tensor], Tensor],
    ) -> None:
        fixed = {**FIXED, "slope": 5.0}
        maker = Surrogate(pass_fail(self.SPACE, hyperparameters=fixed))
        shown = [(1.0, 0.5), (0.7, 0.5), (4.0, 0.3), (0.0, 1.0)]
        trials = [
            Trial(i, {"noise": s}, ({"gain": x, "shift": 0.4},), "", "", "answered", 1)
            for i, (s, x) in enumerate(shown)
        ]
        rows = maker.rows(trials)
        model = make(maker, trials, {})
        torch.testing.assert_close(model.train_inputs[0], rows)
        near = rows + 1e-6  # anything else is what would be shown there
        posterior: Any = model.posterior(near)
        snapped: Any = model.posterior(snap(maker.encoder, near))
        torch.testing.assert_close(posterior.mean, snapped.mean)


class TestPending:
    @every_kind
    def test_expected_outcomes(self, settings: Settings) -> None:
        maker = Surrogate(settings)
        trials = make_trials(settings, 14)
        answered, pending = trials[:10], trials[10:]
        model = maker.choosing_model(answered, {})
        assert expect_outcomes(model, maker.rows([])) is model
        more = expect_outcomes(model, maker.rows(pending))
        assert more.train_targets[:10].tolist() == model.train_targets.tolist()
        for trial, label in zip(pending, more.train_targets[10:], strict=True):
            posterior: Any = model.posterior(
                maker.encoder.encode(trial.context, trial.sides)
            )
            contrast = model.likelihood.functional(posterior.mean.flatten())
            assert label == (contrast > 0)

    @every_kind
    def test_less_is_left_to_learn(self, settings: Settings) -> None:
        maker = Surrogate(settings)
        trials = make_trials(settings, 12)
        model = maker.choosing_model(trials[:10], {})
        more = expect_outcomes(model, maker.rows(trials[10:]))
        rows = maker.encoder.encode(trials[10].context, trials[10].sides)

        def spread(model: Any) -> Tensor:
            distribution = model.posterior(rows).distribution
            return model.likelihood.functional.of_distribution(distribution).variance

        assert (spread(more) < spread(model)).all()


def test_models_are_freed_at_once() -> None:
    """Also after a question, with pending trials: their matrices are large."""
    settings = pass_fail(hyperparameters=FIXED)
    maker = Surrogate(settings)
    trials = make_trials(settings, 12)
    gc.disable()
    try:
        model = maker.choosing_model(trials[:10], {})
        rows = maker.rows(trials[10:])
        Chooser(settings, maker.encoder).by_rule(model, 13, rows, Conditions())
        alive = weakref.ref(model)
        del model
        assert alive() is None
    finally:
        gc.enable()
