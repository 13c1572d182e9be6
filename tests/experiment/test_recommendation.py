r"""Tests of recommendations and their uncertainty."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from scipy.stats import norm

from botorch_binary_context.experiment import NamedSpace, Recommendation, Settings
from botorch_binary_context.experiment.recommendation import make_recommendation
from botorch_binary_context.experiment.surrogate import Surrogate
from tests.experiment.simulation import CONTINUOUS, MIXED, duels, pass_fail
from tests.experiment.test_surrogate import make_trials
from tests.helpers import normal_expectation


def recommendation(settings: Settings, n: int = 40) -> Recommendation:
    maker, trials = Surrogate(settings), make_trials(settings, n)
    model = maker.model(trials, maker.fit(trials, {}), levels=False)
    return make_recommendation(model, maker.encoder, seed=0)


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
        first, again = recommendation(pass_fail()), recommendation(pass_fail())
        assert first.parameters == again.parameters
        assert first.uncertainty == again.uncertainty


class TestUncertainty:
    def test_forms(self) -> None:
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
        """Maximisers of the joint posterior on a grid."""
        best: Any = recommendation(pass_fail(NamedSpace(CONTINUOUS.parameters[:1])), 30)
        grid = torch.linspace(0, 1, 201).double().unsqueeze(-1)
        posterior = best._model.posterior(grid)
        values, vectors = torch.linalg.eigh(posterior.distribution.covariance_matrix)
        root = (vectors * values.clamp_min(0).sqrt()).detach()
        noise = torch.randn(201, 4000, generator=torch.Generator().manual_seed(0))
        draws = posterior.mean.detach() + root @ noise.double()
        gain = 0.1 * 100 ** grid[draws.argmax(dim=0)].flatten()
        for end, level in zip(best.uncertainty["gain"], (0.05, 0.95), strict=True):
            below, not_above = (
                (gain < end).double().mean(),
                (gain <= end).double().mean(),
            )
            assert below - 0.1 < level < not_above + 0.1  # of 64 draws


class TestProbability:
    def test_success(self) -> None:
        """Against quadrature and quantiles of the latent posterior."""
        settings = Settings.from_dict(
            {
                **pass_fail().to_dict(),
                "feedback": {"guess_rate": 0.1, "lapse_rate": 0.05},
            }
        )
        best = recommendation(settings)
        encoder = best._encoder
        for context in (None, {"noise": 0.5}, {"noise": 3.9}):
            estimate = best.success_probability(context, level=0.8)
            X = encoder.encode(context or {"noise": 2.0}, [best.parameters])
            posterior: Any = best._model.posterior(X)
            mean, variance = posterior.mean.item(), posterior.variance.item()
            expected = normal_expectation(
                lambda f: 0.1 + 0.85 * norm.cdf(float(f)), mean, variance
            )
            assert estimate.mean == pytest.approx(float(expected), abs=1e-8)
            for end, level in ((estimate.low, 0.1), (estimate.high, 0.9)):
                quantile = norm.ppf(level, mean, variance**0.5)
                assert end == pytest.approx(0.1 + 0.85 * norm.cdf(quantile))

    def test_any_context(self) -> None:
        """Between two levels the prediction is between theirs."""
        best = recommendation(pass_fail(MIXED))
        values = [best.success_probability({"noise": s}).mean for s in (2.5, 2.7, 4.0)]
        assert values[0] > values[1] > values[2]

    def test_preference(self) -> None:
        best = recommendation(duels())
        other = {"gain": 9.0, "shift": 0.5}
        estimate = best.preference_probability(other)
        assert estimate.low < estimate.mean < estimate.high
        assert estimate.mean > 0.5
        same = best.preference_probability(best.parameters, {"noise": 1.0})
        assert same.mean == pytest.approx(0.5)

    def test_errors(self) -> None:
        best = recommendation(pass_fail(), 5)
        for level in (0.0, 1.0, float("nan")):
            with pytest.raises(InputDataError, match="``level`` to be between 0 and 1"):
                best.success_probability(level=level)
        with pytest.raises(InputDataError, match="to be from 0.0 to 4.0, but got 5"):
            best.success_probability({"noise": 5.0})
        with pytest.raises(UnsupportedError, match="use ``success_probability``"):
            best.preference_probability({"gain": 1.0, "shift": 0.0})
        with pytest.raises(UnsupportedError, match="use ``preference_probability``"):
            recommendation(duels(), 5).success_probability()
