from __future__ import annotations

import pytest
import torch
from botorch.exceptions import InputDataError

from botorch_binary_context import (
    BinaryGP,
    BinaryLaplaceGP,
    Feasibility,
    NoTrialLeftError,
    Safety,
    feasibility_gp,
    recommend,
    suggest,
)
from tests.rules.problems import QUICK, SPACE, context_model, every_rule
from tests.small_models import ModelClass
from tests.tensors import double, uniform


def feasible_below(limit: float) -> Feasibility:
    """Parameters above a limit could not be tested."""
    X = uniform(60, 2, seed=3)
    return Feasibility(feasibility_gp(X, (X[:, 1:] < limit).double(), SPACE))


@every_rule
def test_every_rule_keeps_to_it(model_class: ModelClass, rule: str) -> None:
    model = context_model(model_class)
    feasibility = feasible_below(0.6)
    trial = suggest(model, SPACE, rule, QUICK, seed=0, feasibility=feasibility)
    for row in trial.reshape(-1, 2):
        probability = feasibility.model.probability_posterior(row.unsqueeze(0))
        latent = feasibility.model.posterior(row.unsqueeze(0)).mean
        assert latent >= -1e-9  # the median of the probability is at least 1/2
        assert probability.mean >= 0.5 - 1e-6


def test_model_expects_most_trials_to_be_feasible() -> None:
    empty = uniform(0, 2)
    model = feasibility_gp(empty, empty[:, :1], SPACE).eval()
    p = model.probability_posterior(uniform(4, 2)).mean
    torch.testing.assert_close(p, torch.full_like(p, 0.95), atol=1e-3, rtol=0)
    assert (Feasibility(model).slack(uniform(4, 2).unsqueeze(-2)) > 0).all()


def test_both_sides_of_a_duel_have_to_be() -> None:
    feasibility = feasible_below(0.6)
    good = double([0.5, 0.2])
    bad = double([0.5, 0.95])
    rows = torch.stack([torch.stack(pair) for pair in ((good, good), (good, bad))])
    with torch.no_grad():
        first, second = feasibility.slack(rows).tolist()
        single = feasibility.slack(rows[1].unsqueeze(-2))
    assert first > 0
    assert second == float(single.min()) < 0


def test_recommends_what_is_feasible() -> None:
    """Higher is better, but only half of the box can be tested."""
    X = uniform(80, 2)
    Y = (X[:, 1:] > 0.4).double()
    model = BinaryGP(X, Y)
    free = recommend(model, SPACE)
    feasibility = feasible_below(0.6)
    best = recommend(model, SPACE, feasibility=feasibility)
    assert float(free) > 0.65
    assert 0.45 < float(best) < 0.65
    rows = SPACE.at_reference(best).unsqueeze(0)
    assert feasibility.slack(rows) >= 0


def test_confidence_makes_it_stricter() -> None:
    model = feasible_below(0.6).model
    X = uniform(20, 1, 2, seed=5)
    loose = Feasibility(model)
    strict = Feasibility(model, 0.9, 0.95)
    assert (strict.slack(X) < loose.slack(X)).all()


def test_nothing_left_and_mistakes() -> None:
    model = context_model(BinaryLaplaceGP)
    never = feasible_below(-1.0)
    never = Feasibility(never.model, probability=0.9, confidence=0.99)
    with pytest.raises(NoTrialLeftError, match="``feasibility`` to leave trials"):
        suggest(model, SPACE, "bald", QUICK, feasibility=never)
    with pytest.raises(NoTrialLeftError, match="none reach the probability 0.9 with"):
        recommend(model, SPACE, feasibility=never)
    with pytest.raises(InputDataError, match="``probability`` .* but got 2.0"):
        Feasibility(never.model, probability=2.0)
    with pytest.raises(InputDataError, match="``feasibility`` to be"):
        suggest(model, SPACE, feasibility=Safety(0.5))  # pyright: ignore
