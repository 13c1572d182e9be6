r"""Maps of thresholds, and experiments that are about a threshold alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from scipy.stats import norm
from torch import Tensor
from torch.autograd import gradcheck

from botorch_binary_context import (
    BINARY_RULES,
    AtReference,
    BinaryGP,
    ContextSpace,
    ExpectedAbsoluteVolumeChange,
    GlobalMutualInformation,
    Goal,
    Straddle,
    ThresholdMap,
    WorstContext,
    psychometric_gp,
    recommend,
    suggest,
    threshold_map,
)
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.probability import bernoulli_entropy
from botorch_binary_context.rules import frozen
from tests.goals.problems import (
    GUESS,
    LAPSE,
    SPACE,
    every_kind,
    joint_draws,
    make_model,
    single,
)
from tests.rules.problems import QUICK
from tests.tensors import double, uniform

PROBABILITY = 0.6
LATENT = float(norm.ppf((PROBABILITY - GUESS) / (1 - GUESS - LAPSE)))
LOOK_AHEAD = (GlobalMutualInformation, ExpectedAbsoluteVolumeChange)


def candidates(model: LatentGP, number: int) -> Tensor:
    X = uniform(number, model.functional.num_rows, 3, seed=9)
    X[..., 1] = X[..., :1, 1]
    return X


class TestLookAhead:
    @pytest.mark.parametrize("kind", ["outcomes", "mixed"])
    @pytest.mark.parametrize("asked", [0, 1])
    def test_brute_force(self, kind: str, asked: int) -> None:
        """The outcome of a trial, and the reference points, from joint draws."""
        if asked == 1 and kind == "outcomes":
            pytest.skip("no duels")
        model: Any = make_model(kind)
        model = model.asking(asked) if kind == "mixed" else model
        acqfs = [make(model, SPACE, PROBABILITY, num_points=8) for make in LOOK_AHEAD]
        points = acqfs[0].points
        for trial in candidates(model, 3):
            draws = joint_draws(model, torch.cat([points, trial]), 200_000)
            below = (draws[:, :8] < LATENT).double()
            p = model.likelihood.probability(model.functional(draws[:, 8:]))
            now = below.mean(0)
            success = p.mean()
            passed = (below * p).mean(0) / success
            failed = (below * (1 - p)).mean(0) / (1 - success)
            information = bernoulli_entropy(now) - success * bernoulli_entropy(passed)
            information = information - (1 - success) * bernoulli_entropy(failed)
            change = success * (now - passed).sum().abs()
            change = change + (1 - success) * (now - failed).sum().abs()
            assert abs(acqfs[0](trial) - information.mean()) < 5e-4
            assert abs(acqfs[1](trial) - change / 8) < 1.5e-3

    @pytest.mark.parametrize("make", LOOK_AHEAD)
    def test_gradient_equals_finite_differences(self, make: Any) -> None:
        model = make_model("outcomes")
        with frozen(model):
            acqf = make(model, SPACE, PROBABILITY, num_points=16)
            assert gradcheck(acqf, (candidates(model, 3).requires_grad_(),))

    @pytest.mark.parametrize("make", LOOK_AHEAD)
    def test_batch_equals_a_loop(self, make: Any) -> None:
        model = make_model("outcomes", (2, 2))
        X = uniform(4, 2, 2, 1, 3, seed=2)
        values = make(model, SPACE, PROBABILITY)(X)
        assert values.shape == (4, 2, 2)
        for index in ((0, 1), (1, 0)):
            alone = make(single(model, index), SPACE, PROBABILITY)(
                X[(slice(None), *index)]
            )
            torch.testing.assert_close(
                values[(slice(None), *index)], alone, rtol=1e-6, atol=1e-9
            )

    def test_information_is_never_negative(self) -> None:
        model = make_model("outcomes")
        acqf = GlobalMutualInformation(model, SPACE, PROBABILITY)
        assert (acqf(uniform(200, 1, 3)) > -1e-12).all()

    def test_refuses_duels_and_probabilities_out_of_reach(self) -> None:
        with pytest.raises(UnsupportedError, match="to have pass/fail outcomes"):
            GlobalMutualInformation(make_model("duels"), SPACE, PROBABILITY)
        with pytest.raises(InputDataError, match="between 0.25 and 0.95"):
            GlobalMutualInformation(make_model("outcomes"), SPACE, 0.2)


def test_straddle_is_the_deviation_less_the_distance_to_the_threshold() -> None:
    model = make_model("outcomes")
    X = uniform(5, 1, 3)
    mean, variance = model.moments(X)
    expected = 1.5 * variance.sqrt() - (mean - LATENT).abs()
    torch.testing.assert_close(Straddle(model, PROBABILITY, width=1.5)(X), expected)


def test_half_way_is_the_default() -> None:
    """Between guesses and lapses the latent function is zero."""
    model = make_model("outcomes")
    X = uniform(4, 1, 3)
    middle = (GUESS + 1 - LAPSE) / 2
    for make in LOOK_AHEAD:
        found = make(model, SPACE)(X)
        given = make(model, SPACE, middle)(X)
        torch.testing.assert_close(found, given)
    torch.testing.assert_close(Straddle(model)(X), Straddle(model, middle)(X))
    trial = suggest(model, SPACE, "map-mi", QUICK, seed=0)
    goal = ThresholdMap(middle)
    given = suggest(model, SPACE, "map-mi", QUICK, seed=0, goal=goal)
    torch.testing.assert_close(trial, given, rtol=0, atol=1e-6)


class TestRules:
    @pytest.mark.parametrize("rule", ["map-mi", "map-eavc", "map-straddle"])
    def test_suggested_trial_beats_two_thousand_others(self, rule: str) -> None:
        model = make_model("outcomes")
        trial = suggest(model, SPACE, rule, seed=0, goal=ThresholdMap(PROBABILITY))
        if rule == "map-straddle":
            acqf = Straddle(model, PROBABILITY)
        else:
            acqf = LOOK_AHEAD[rule == "map-eavc"](model, SPACE, PROBABILITY)
        with torch.no_grad():
            assert acqf(trial) > 0.995 * acqf(uniform(2000, 1, 3)).max()

    def test_batches_have_their_shape_and_the_given_context(self) -> None:
        model = make_model("outcomes", (2,))
        goal = ThresholdMap(PROBABILITY)
        trials = suggest(model, SPACE, "map-mi", QUICK, seed=0, q=2, goal=goal)
        assert trials.shape == (2, 2, 3)
        given = suggest(model, SPACE, "map-mi", QUICK, goal=goal, context=0.4)
        assert torch.equal(given[..., 1], torch.full((2, 1), 0.4, dtype=torch.double))

    def test_goals_and_rules_that_do_not_fit(self) -> None:
        model = make_model("outcomes")
        with pytest.raises(UnsupportedError, match="have an optimum .* ThresholdMap"):
            suggest(model, SPACE, "ucb-ald", goal=ThresholdMap())
        with pytest.raises(UnsupportedError, match="a ``ThresholdMap`` for this rule"):
            suggest(model, SPACE, "map-mi", goal=WorstContext([0.1, 0.2]))
        with pytest.raises(InputDataError, match="``probability`` .* but got 1.5"):
            ThresholdMap(1.5)


class TestThresholdMap:
    """A known psychometric function, whose threshold moves with the parameter."""

    space = ContextSpace(double([[-2.0, 0.0], [2.0, 1.0]]), [0], [0.0])

    def model(self, sign: float = 1.0) -> BinaryGP:
        torch.manual_seed(0)
        X = self.space.bounds[0] + 4.0 * uniform(200, 2)
        X[:, 1] = uniform(200, 1, seed=1).squeeze()
        p = torch.special.ndtr(sign * 6 * (X[:, 0] - self.threshold(X[:, 1])))
        Y = torch.bernoulli(p).unsqueeze(-1)
        return psychometric_gp(X, Y, self.space, harder="up" if sign < 0 else "down")

    def threshold(self, x: Tensor) -> Tensor:
        return 1.5 * (x - 0.5)

    @pytest.mark.parametrize(
        ("sign", "num_samples"), [(1.0, None), (-1.0, None), (-1.0, 256)]
    )
    def test_known_thresholds(self, sign: float, num_samples: int | None) -> None:
        model = self.model(sign)
        x = double([[0.1], [0.5], [0.9]])
        band = threshold_map(
            model, self.space, 0.5, x, credible=0.95, num_samples=num_samples
        )
        truth = self.threshold(x.squeeze(-1))
        assert (band.center - truth).abs().max() < 0.25
        assert ((band.low < truth) & (truth < band.high)).all()
        assert ((band.low < band.center) & (band.center < band.high)).all()

    def test_quantiles_are_those_of_thresholds_of_draws(self) -> None:
        """Of thresholds of draws from the posterior, along the line."""
        model = self.model()
        x = double([[0.5]])
        band = threshold_map(model, self.space, 0.5, x, 0.8, num_samples=None)
        contexts = torch.linspace(-2, 2, 401, dtype=torch.double)
        line = torch.stack([contexts, torch.full_like(contexts, 0.5)], dim=-1)
        draws = joint_draws(model, line, 4000)
        above = (draws > 0.0).double().argmax(dim=-1)
        quantiles = contexts[above].quantile(double([0.5, 0.1, 0.9]))
        for found, expected in zip(band, quantiles, strict=True):
            assert abs(found - expected) < 0.03

    def test_beyond_the_box(self) -> None:
        X = double([[-2.0, 0.5], [2.0, 0.5]]).repeat(20, 1)
        space = self.space
        model = psychometric_gp(X, torch.ones(40, 1).double(), space)
        band = threshold_map(model, space, 0.75, double([[0.5]]), num_samples=None)
        assert band.center == -torch.inf
        model = psychometric_gp(X, torch.zeros(40, 1).double(), space)
        band = threshold_map(model, space, 0.75, double([[0.5]]), num_samples=None)
        assert band.center == torch.inf

    def test_refuses_two_contexts_missing_parameters_and_duels(self) -> None:
        model = make_model("outcomes")
        two = ContextSpace(SPACE.bounds, [0, 1], [0.5, 0.5])
        with pytest.raises(InputDataError, match="one context, .* but got 2"):
            threshold_map(model, two, PROBABILITY)
        with pytest.raises(InputDataError, match="``parameters`` to have 2 columns"):
            threshold_map(model, SPACE, PROBABILITY)
        with pytest.raises(UnsupportedError, match="pass/fail outcomes"):
            threshold_map(make_model("duels"), SPACE, PROBABILITY, uniform(1, 2))


@every_kind
def test_map_of_any_kind(kind: str) -> None:
    if kind == "duels":
        pytest.skip("no thresholds")
    band = threshold_map(
        make_model(kind), SPACE, PROBABILITY, uniform(4, 5, 2), num_samples=64
    )
    assert band.center.shape == band.low.shape == (4, 5)


class TestThresholdAlone:
    """No parameters: the context at which a test is just passed."""

    space = ContextSpace(double([[-2.0], [3.0]]), [0], [0.0])

    def model(self, *batch_shape: int) -> BinaryGP:
        X = -2 + 5 * uniform(*batch_shape, 6, 1)
        Y = (X > 0.4).double()
        return psychometric_gp(X, Y, self.space, guess_rate=0.5)

    @pytest.mark.parametrize("rule", BINARY_RULES)
    def test_every_rule_suggests_trials_in_the_box(self, rule: str) -> None:
        for batch_shape in ((), (2,)):
            model = self.model(*batch_shape)
            trial = suggest(model, self.space, rule, QUICK, seed=0, q=2)
            assert trial.shape == (*batch_shape, 2, 1)
            assert ((trial >= -2) & (trial <= 3)).all()

    @pytest.mark.parametrize("goal", [AtReference(), WorstContext([0.0, 1.0])])
    def test_recommendation_is_empty(self, goal: Goal) -> None:
        assert recommend(self.model(), self.space, goal=goal).shape == (0,)
        assert recommend(self.model(3), self.space, goal=goal).shape == (3, 0)

    def test_finds_the_threshold(self) -> None:
        """As QUEST does, with two alternatives."""
        truth, errors = 0.7, []
        generator = torch.Generator().manual_seed(1)
        for _ in range(2):
            model = self.model()
            for i in range(30):
                goal = ThresholdMap(0.75)
                trial = suggest(model, self.space, "map-mi", QUICK, seed=i, goal=goal)
                p = 0.5 + 0.5 * torch.special.ndtr(3 * (trial - truth))
                u = torch.rand(1, 1, generator=generator, dtype=torch.double)
                model = model.condition_on_observations(trial, (u < p).double())
            band = threshold_map(model, self.space, 0.75, num_samples=None)
            errors.append(abs(float(band.center) - truth))
            assert band.low < band.center < band.high
        assert sum(errors) / 2 < 0.3
