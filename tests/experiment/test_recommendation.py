r"""Tests of recommendations and their uncertainty."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.utils.sampling import manual_seed
from scipy.stats import norm

from botorch_binary_context.experiment import (
    Context,
    NamedSpace,
    PassFail,
    Periodic,
    Recommendation,
    Settings,
    Trial,
)
from botorch_binary_context.experiment.estimates import num_sets
from botorch_binary_context.experiment.recommendation import (
    make_recommendation,
)
from botorch_binary_context.experiment.stopping import Stop, measure_progress
from botorch_binary_context.experiment.surrogate import Surrogate
from tests.experiment.simulation import CONTINUOUS, MIXED, duels, pass_fail
from tests.experiment.test_surrogate import make_trials


def recommendation(settings: Settings, n: int = 40) -> Recommendation:
    return recommend_from(settings, make_trials(settings, n))


def recommend_from(settings: Settings, trials: list[Trial]) -> Recommendation:
    maker = Surrogate(settings)
    learned = maker.fit(trials) or {}
    model = maker.predicting_model(trials, learned)
    asking = maker.choosing_model(trials, learned)
    return make_recommendation(
        model, asking, settings, seed=0, num_answers=len(model.train_targets)
    )


class TestParameters:
    @pytest.mark.parametrize("make", [pass_fail, duels])
    def test_best_of_all_that_can_be_shown(self, make: Any) -> None:
        best = recommendation(make(MIXED))
        encoder, model = best._encoder, best._model
        grid = [
            encoder.encode_parameters({"gain": 10 ** (g / 25), "taps": n, "window": w})
            for g in range(-25, 26)
            for n in range(1, 10)
            for w in ("hann", "box", "flat")
        ]
        mean = model.posterior_mean(
            encoder.context_space.at_reference(torch.stack(grid)).unsqueeze(-2)
        )
        reached = model.posterior_mean(
            encoder.context_space.at_reference(
                encoder.encode_parameters(best.parameters)
            ).unsqueeze(0)
        )
        assert reached >= mean.max() - 1e-4
        assert isinstance(best.parameters["taps"], int)
        assert best.num_answers == 40

    def test_repeats_itself(self) -> None:
        first = recommendation(pass_fail())
        again = recommendation(pass_fail())
        assert first.parameters == again.parameters
        assert first.uncertainty == again.uncertainty


class TestUncertainty:
    def test_numbers_have_intervals_and_categories_have_shares(self) -> None:
        uncertainty: Any = recommendation(pass_fail(MIXED)).uncertainty
        low, high = uncertainty["gain"]
        assert 0.1 <= low <= high <= 10.0
        low, high = uncertainty["taps"]
        assert 1 <= low <= high <= 9
        assert set(uncertainty["window"]) == {"hann", "box", "flat"}
        assert sum(uncertainty["window"].values()) == pytest.approx(1.0)

    def test_shrinks_around_the_best(self) -> None:
        """Of the gain, which matters, and whose best value is 2."""

        def interval(n: int) -> Any:
            return recommendation(pass_fail(), n).uncertainty["gain"]

        (few_low, few_high), (low, high) = interval(5), interval(250)
        assert few_low < low < 2.0 < high < few_high
        assert math.log(high / low) < 0.2 * math.log(few_high / few_low)

    def test_against_exact_draws(self) -> None:
        """Maximizers of the joint posterior on a grid."""
        best: Any = recommendation(pass_fail(NamedSpace(CONTINUOUS.parameters[:1])), 30)
        grid = torch.linspace(0, 1, 201).double().unsqueeze(-1)
        posterior = best._model.posterior(grid)
        values, vectors = torch.linalg.eigh(posterior.distribution.covariance_matrix)
        root = (vectors * values.clamp_min(0).sqrt()).detach()
        noise = torch.randn(201, 4000, generator=torch.Generator().manual_seed(0))
        draws = posterior.mean.detach() + root @ noise.double()
        gain = 0.1 * 100 ** grid[draws.argmax(dim=0)].flatten()
        for end, share in zip(best.uncertainty["gain"], (0.05, 0.95), strict=True):
            below = (gain < end).double().mean()
            not_above = (gain <= end).double().mean()
            assert below - 0.1 < share < not_above + 0.1  # of 64 draws


class TestProbability:
    def test_success_equals_that_of_many_other_draws(self) -> None:
        """Against many other draws from the posterior."""
        settings = Settings.from_dict(
            {
                **pass_fail().to_dict(),
                "feedback": {"guess_rate": 0.1, "lapse_rate": 0.05},
            }
        )
        best = recommendation(settings)
        encoder = best._encoder
        for context in (None, {"noise": 0.5}, {"noise": 3.9}):
            estimate = best.success_probability(context, credible=0.8)
            X = encoder.encode(context or {"noise": 2.0}, [best.parameters])
            with manual_seed(0), torch.no_grad():
                posterior = best._averaged.exact_posterior(X, 16384, seed=7)
                latent = posterior.rsample(torch.Size([100_000])).flatten().numpy()
            success = 0.1 + 0.85 * norm.cdf(latent)
            assert estimate.mean == pytest.approx(success.mean(), abs=0.01)
            for end, share in ((estimate.low, 0.1), (estimate.high, 0.9)):
                assert end == pytest.approx(np.quantile(success, share), abs=0.04)

    def test_any_context(self) -> None:
        """Between two levels the prediction is between theirs."""
        best = recommendation(pass_fail(MIXED))
        values = [best.success_probability({"noise": s}).mean for s in (2.5, 2.7, 4.0)]
        assert values[0] > values[1] > values[2]

    def test_best_is_preferred_to_others_and_even_with_itself(self) -> None:
        best = recommendation(duels())
        other = {"gain": 9.0, "shift": 0.5}
        estimate = best.preference_probability(other)
        assert estimate.low < estimate.mean < estimate.high
        assert estimate.mean > 0.5
        same = best.preference_probability(best.parameters, {"noise": 1.0})
        assert same.mean == pytest.approx(0.5)

    def test_refuses_wrong_probabilities_contexts_and_kinds_of_answers(self) -> None:
        best = recommendation(pass_fail(), 5)
        for credible in (0.0, 1.0, float("nan")):
            with pytest.raises(
                InputDataError, match="``credible`` to be between 0 and 1"
            ):
                best.success_probability(credible=credible)
        with pytest.raises(InputDataError, match="to be from 0.0 to 4.0, but got 5"):
            best.success_probability({"noise": 5.0})
        with pytest.raises(UnsupportedError, match="use ``success_probability``"):
            best.preference_probability({"gain": 1.0, "shift": 0.0})
        with pytest.raises(UnsupportedError, match="use ``preference_probability``"):
            recommendation(duels(), 5).success_probability()


def graded(
    harder: str, scale: str = "linear", n: int = 40, **hyperparameters: float
) -> Recommendation:
    """After tests that became harder as the noise went up, or down."""
    context = Context("noise", 2.0, low=1.0, high=4.0, scale=scale, harder=harder)
    space = NamedSpace(CONTINUOUS.parameters, [context])
    feedback = PassFail(guess_rate=0.1, lapse_rate=0.05)
    settings = Settings(space, feedback, seed=0, hyperparameters=hyperparameters)
    trials = make_trials(settings, n)
    if harder == "down":
        mirrored = [{"noise": 5.0 - float(trial.context["noise"])} for trial in trials]
        trials = [
            replace(trial, context=context)
            for trial, context in zip(trials, mirrored, strict=True)
        ]
    return recommend_from(settings, trials)


class TestThreshold:
    @pytest.mark.parametrize("scale", ["linear", "log"])
    @pytest.mark.parametrize("harder", ["up", "down"])
    def test_success_there(self, scale: str, harder: str) -> None:
        """There, the quantiles of the success probability are the probability."""
        best = graded(harder, scale)
        # Where tests are neither hopeless nor trivial.
        for noise in (2.0, 2.5) if harder == "up" else (2.5, 2.75):
            expected = best.success_probability({"noise": noise}, credible=1e-9).low
            found = best.threshold("noise", expected, credible=0.3)
            assert 1.0 < found.low < found.median < found.high < 4.0
            # Where draws with other slopes cross, their median has kinks.
            assert found.median == pytest.approx(noise, abs=2e-3)
            hard, easy = sorted(found[1:], reverse=harder == "up")
            at_easy = best.success_probability({"noise": easy}, credible=0.3)
            at_hard = best.success_probability({"noise": hard}, credible=0.3)
            at_median = best.success_probability({"noise": found.median}, credible=1e-9)
            assert at_easy.low == pytest.approx(expected, abs=1e-3)
            assert at_hard.high == pytest.approx(expected, abs=1e-3)
            assert at_median.low == pytest.approx(expected, abs=1e-3)

    def test_between_levels(self) -> None:
        """Not only what can be shown can be a threshold."""
        space = NamedSpace(
            CONTINUOUS.parameters,
            [Context("noise", reference=0.0, levels=[0.0, 4.0], harder="up")],
        )
        found = recommendation(pass_fail(space)).threshold()
        assert 0.0 < found.median < 4.0

    @pytest.mark.parametrize("harder", ["up", "down"])
    def test_out_of_range(self, harder: str) -> None:
        best = graded(harder, n=5, slope=1.0)
        # Nobody passes so surely, or fails so surely, within the range.
        surely = best.threshold(probability=0.95 - 1e-12)
        hardly = best.threshold("noise", 0.1 + 1e-12)
        easiest = -math.inf if harder == "up" else math.inf
        assert surely.median == easiest
        assert hardly.median == -easiest
        assert surely.low <= surely.median <= surely.high

    def test_other_contexts(self) -> None:
        contexts = [
            Context("noise", reference=2.0, low=0.0, high=4.0, harder="up"),
            Context("echo", reference=0.1, low=0.0, high=1.0),
        ]
        best = recommendation(pass_fail(NamedSpace(CONTINUOUS.parameters, contexts)))
        other = {"noise": 2.0, "echo": 0.9}
        found = best.threshold("noise", context=other, credible=0.5)
        there = {**other, "noise": found.median}
        at_median = best.success_probability(there, credible=1e-9)
        assert at_median.low == pytest.approx(0.5, abs=1e-3)
        assert found != best.threshold("noise", credible=0.5)
        with pytest.raises(InputDataError, match="``name`` to be .* but got None"):
            best.threshold()
        with pytest.raises(InputDataError, match="``name`` to be .* but got 'loud'"):
            best.threshold("loud")
        with pytest.raises(UnsupportedError, match="``harder`` of 'echo'"):
            best.threshold("echo")

    def test_refuses_wrong_probabilities_duels_and_no_context(self) -> None:
        best = graded("up", n=5)
        for probability in (0.0, 0.1, 0.95, 1.0, float("nan")):
            with pytest.raises(InputDataError, match="0.1 and 0.95, the success rates"):
                best.threshold(probability=probability)
        with pytest.raises(InputDataError, match="``credible`` to be between 0 and 1"):
            best.threshold(credible=1.0)
        with pytest.raises(UnsupportedError, match="but got duels"):
            recommendation(duels(), 5).threshold()
        with pytest.raises(InputDataError, match=r"contexts \[\], but got None"):
            recommendation(pass_fail(NamedSpace(CONTINUOUS.parameters)), 5).threshold()


class TestLoss:
    @pytest.mark.parametrize("harder", ["up", "down"])
    def test_loss_is_in_units_of_the_context(self, harder: str) -> None:
        """With a known slope, units of the context are those of the latent function."""
        best = graded(harder, n=30, slope=6.0, context_variance=1e-5)
        latent = best._optima.losses.mean()
        # A slope of 6 for contexts in [-1, 1], which are 3 wide in the user's units.
        loss = best.expected_loss()
        assert loss.unit == "noise"
        assert loss.mean == pytest.approx(float(latent) * 3 / 12, rel=0.01)
        assert loss == best.expected_loss("noise")
        assert loss.mean < loss.high

    def test_latent_units(self) -> None:
        for settings in (duels(), pass_fail(NamedSpace(CONTINUOUS.parameters))):
            best = recommendation(settings, 20)
            assert best.expected_loss().unit is None
            assert best.expected_loss().mean == float(best._optima.losses.mean())

    def test_tests_that_do_not_become_harder(self) -> None:
        """Then there is no unit of difficulty to tell the loss in."""
        best = graded("up", n=20)
        draws = best._optima
        best.__dict__["_optima"] = replace(draws, slopes=-draws.slopes)
        assert not best.is_graded
        with pytest.raises(UnsupportedError, match="harder along 'noise'"):
            best.expected_loss()
        assert measure_progress(Stop(loss=1e9), 20, best)[0].now == math.inf

    def test_loss_falls_with_more_answers(self) -> None:
        few, many = (recommendation(pass_fail(), n).expected_loss() for n in (8, 120))
        assert many.mean < few.mean
        assert many.high < few.high

    def test_refuses_units_of_a_log_scale_and_wrong_probabilities(self) -> None:
        best = graded("up", "log", n=5)
        assert best.expected_loss().unit is None
        with pytest.raises(UnsupportedError, match="linear scale, but got 'noise'"):
            best.expected_loss("noise")
        with pytest.raises(InputDataError, match="``credible`` to be between"):
            best.expected_loss(credible=0.0)


class TestRegion:
    def test_grows_around_the_recommended(self) -> None:
        best = graded("up", n=60)
        least = best.expected_loss().mean
        region: Any = best.region(least + 0.2)
        wide: Any = best.region(least + 1.0)
        for name, (low, high) in region.items():
            assert low <= float(best.parameters[name]) <= high
            assert wide[name][0] <= low
            assert high <= wide[name][1]

    def test_drop_of_the_mean_at_the_edge(self) -> None:
        space = NamedSpace(CONTINUOUS.parameters)
        best: Any = recommendation(pass_fail(space), 60)
        region = best.region(best.expected_loss().mean + 0.5)
        edge = {**best.parameters, "gain": region["gain"][1]}
        rows = [best._encoder.encode_parameters(p) for p in (best.parameters, edge)]
        X = best._encoder.context_space.at_reference(torch.stack(rows))[:, None, None]
        with torch.no_grad():
            mean = best._averaged.draws.posterior_mean(X).mean(dim=1).flatten()
        drop = float(mean[0] - mean[1])
        # Just below what is allowed, unless the edge is that of the box.
        assert drop <= 0.5
        assert edge["gain"] == 10.0 or drop > 0.3

    def test_large_tolerance_holds_every_category(self) -> None:
        best = recommendation(pass_fail(MIXED), 60)
        everything = best.region(100.0)
        assert everything is not None
        assert everything["window"] == ["hann", "box", "flat"]
        assert everything["taps"] == (1.0, 9.0)

    def test_region_of_an_angle_wraps_around(self) -> None:
        """An angle of 2 degrees is between 170 and 10."""
        settings = Settings(NamedSpace([Periodic("axis", 0, 180)]), seed=0)
        angles = [float(3 * i) for i in range(60)]
        trials = [
            Trial(i + 1, {}, ({"axis": a},), "x", "now", "answered", a < 12 or a > 172)
            for i, a in enumerate(angles)
        ]
        best: Any = recommend_from(settings, trials)
        low, high = best.region(best.expected_loss().mean + 1.0)["axis"]
        assert low > 160
        assert high < 20
        whole = best.region(1e3)["axis"]
        assert (whole[0] - whole[1]) % 180 < 5
        low, high = best.local_uncertainty["axis"]
        assert low > 150
        assert high < 30

    def test_tiny_tolerance_gives_none_and_a_negative_one_is_refused(self) -> None:
        best = recommendation(pass_fail(), 10)
        assert best.region(1e-9) is None
        with pytest.raises(InputDataError, match="``tolerance`` not to be negative"):
            best.region(-1.0)


@pytest.mark.parametrize(
    ("num_answers", "expected"), [(0, 64), (12, 64), (64, 64), (128, 32), (1000, 16)]
)
def test_num_sets(num_answers: int, expected: int) -> None:
    assert num_sets(num_answers) == expected
