r"""Suggestions of contests, against all contests of a grid."""

from __future__ import annotations

import itertools

import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context import (
    CONTEST_RULES,
    BestOfGP,
    ContestKnowledgeGradient,
    ContextSpace,
    Feasibility,
    feasibility_gp,
    suggest_contest,
)
from botorch_binary_context.goals.sampled import draw_joint_values
from tests.small_models import simple_kernel
from tests.tensors import double, uniform

SPACE = ContextSpace(double([[0.0, 0.0], [1.0, 1.0]]), [0], [0.5])


def make_model() -> BestOfGP:
    X = uniform(6, 3, 2)
    Y = double([[0.0], [1.0], [2.0], [1.0], [0.0], [2.0]])
    X[..., 0] = X[:, :1, 0]
    model = BestOfGP(X, Y, covar_module=simple_kernel())
    return model.requires_grad_(False)


def expected_best(model: BestOfGP, parameters: torch.Tensor) -> torch.Tensor:
    rows = SPACE.at_reference(parameters.unsqueeze(-1))
    return draw_joint_values(model, rows, 4096).amax(dim=-1).mean(dim=0)


def test_contests_are_nearly_as_good_as_the_best_of_a_grid():
    model = make_model()
    contest = suggest_contest(model, SPACE, 3)
    assert contest.shape == (1, 3, 2)
    assert bool((contest[..., 0] == 0.5).all())
    found = float(expected_best(model, contest[0, :, 1].unsqueeze(0)))
    side = torch.linspace(0, 1, 15, dtype=torch.double).tolist()
    every = double(list(itertools.combinations(side, 3)))
    values = expected_best(model, every)
    # Greedy choices have at least 1 - 1/e of what is to be gained; here far more.
    floor = float(expected_best(model, contest[0, :1, 1].unsqueeze(0)))
    assert found - floor > 0.9 * (float(values.max()) - floor)
    after = model.condition_on_contests(contest, double([[1.0]]))
    assert after.train_targets.shape[-1] == model.train_targets.shape[-1] + 2


def test_knowledge_gradient_beats_contests_of_a_grid():
    model = make_model()
    value = ContestKnowledgeGradient(model, SPACE)
    contest = suggest_contest(model, SPACE, 3, rule="mkg")
    side = torch.linspace(0, 1, 9, dtype=torch.double).tolist()
    every = double(list(itertools.combinations(side, 3))).unsqueeze(-1)
    values = value(SPACE.at_reference(every))
    assert float(value(contest)) > 0.8 * float(values.max())


@pytest.mark.parametrize("rule", ["qeubo", "mkg"])
def test_batches_of_experiments(rule: str):
    X = uniform(2, 6, 3, 2)
    X[..., 0] = X[..., :1, 0]
    Y = torch.randint(3, (2, 6, 1), generator=torch.Generator().manual_seed(0)).to(X)
    both = BestOfGP(X, Y, covar_module=simple_kernel()).requires_grad_(False)
    found = suggest_contest(both, SPACE, 3, rule=rule)
    assert found.shape == (2, 1, 3, 2)
    for i in range(2):
        one = BestOfGP(X[i], Y[i], covar_module=simple_kernel()).requires_grad_(False)
        value = CONTEST_RULES[rule](one, SPACE)
        alone = suggest_contest(one, SPACE, 3, rule=rule)
        gap = float(value(alone)) - float(value(found[i]))
        assert abs(gap) < 0.01


@pytest.mark.parametrize("rule", ["qeubo", "mkg"])
def test_pending_contests_and_feasible_settings(rule: str):
    model = make_model()
    first = suggest_contest(model, SPACE, 3, rule=rule)
    second = suggest_contest(model, SPACE, 3, rule=rule, pending=first)
    assert not torch.allclose(first, second, atol=1e-3)
    # Whatever is shown first beside the best could not be tested.
    rows = first[0, 1:].repeat(4, 1)
    bad = feasibility_gp(rows, torch.zeros(len(rows), 1).to(rows), SPACE)
    feasible = Feasibility(bad.eval(), probability=0.5)
    assert bool((feasible.slack(first) < 0).any())
    other = suggest_contest(model, SPACE, 3, rule=rule, feasibility=feasible)
    assert bool((feasible.slack(other) >= 0).all())


def test_given_contexts_and_errors():
    model = make_model()
    contest = suggest_contest(model, SPACE, 2, context=[0.2])
    assert contest.shape == (1, 2, 2)
    assert bool((contest[..., 0] == 0.2).all())
    with pytest.raises(UnsupportedError, match="one of qeubo, mkg, but got 'bald'"):
        suggest_contest(model, SPACE, 2, rule="bald")
    with pytest.raises(InputDataError, match="``num_options`` to be a whole number"):
        suggest_contest(model, SPACE, 1)
