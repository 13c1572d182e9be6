r"""Tests of the knowledge gradient of any goal by refitted posteriors."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from botorch_binary_context import (
    AtContext,
    ContextualBinaryKnowledgeGradient,
    Goal,
    RefittedKnowledgeGradient,
    SearchOptions,
    WorstContext,
    suggest,
)
from botorch_binary_context.acquisition import refitted_knowledge_gradient
from botorch_binary_context.goals.sampled import draw_joint_values
from botorch_binary_context.inference import Laplace
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.rules import frozen
from tests.goals.problems import (
    CONTEXTS,
    KINDS,
    SAMPLED,
    SPACE,
    SUCCESS,
    every_kind,
    is_for,
    make_model,
    single,
)
from tests.tensors import uniform

WORST = WorstContext(CONTEXTS)
every_sampled_goal = pytest.mark.parametrize("goal", [*SAMPLED, SUCCESS], ids=repr)


def candidates(model: LatentGP, number: int) -> Tensor:
    """Trials or duels, whose sides share the context."""
    X = uniform(number, model.functional.num_rows, 3, seed=9)
    X[..., 1] = X[..., :1, 1]
    return X


def best_mean(goal: Goal, model: LatentGP, points: Tensor) -> Tensor:
    """The largest average over draws of a goal at some parameters."""
    draws = draw_joint_values(model, goal.rows(SPACE, points), num_draws=32)
    return goal.combine(draws, model).mean(dim=0).max()


@every_sampled_goal
@every_kind
def test_gain_is_that_of_models_refitted_to_each_outcome(goal: Goal, kind: str) -> None:
    if not is_for(goal, kind):
        pytest.skip("no outcomes")
    model = make_model(kind).with_inference(Laplace()).eval()
    acqf = RefittedKnowledgeGradient(model, SPACE, goal, num_points=6)
    points = acqf.choose_points()
    for X in candidates(model, 2):
        trial = model.functional.trials(X)
        mean, variance = model.moments(X)
        passed = model.likelihood.expected_probability(mean, variance)
        gain = -best_mean(goal, model, points)
        for label, probability in ((1.0, passed), (0.0, 1 - passed)):
            Y = torch.full((1, 1), label, dtype=torch.double)
            told = model.condition_on_observations(trial, Y)
            gain = gain + probability.squeeze() * best_mean(goal, told, points)
        found = acqf(X)
        torch.testing.assert_close(found.squeeze(), gain, rtol=0, atol=1e-7)


@every_kind
def test_one_context_is_the_linear_goal(kind: str) -> None:
    """Among the same points the averages of draws are means, but for their error."""
    model = make_model(kind)
    sampled = RefittedKnowledgeGradient(model, SPACE, WorstContext([0.3]))
    linear = ContextualBinaryKnowledgeGradient(model, SPACE, goal=AtContext([0.3]))
    linear.points = linear.values_at(sampled.choose_points())
    linear.current_value = linear.points.mean().amax(dim=-1)
    X = candidates(model, 6)
    with torch.no_grad():
        torch.testing.assert_close(sampled(X), linear.screen(X), rtol=0, atol=0.02)


@pytest.mark.parametrize(("kind", "goal"), list(zip(KINDS, SAMPLED, strict=True)))
def test_gradient_of_each_goal_equals_finite_differences(kind: str, goal: Goal) -> None:
    model = make_model(kind)
    with frozen(model):
        acqf = RefittedKnowledgeGradient(model, SPACE, goal, num_points=6)
        X = candidates(acqf.model, 2).requires_grad_()
        assert gradcheck(acqf, (X,), rtol=1e-4, atol=1e-6)


@every_kind
def test_batch_equals_loop(kind: str) -> None:
    model = make_model(kind, (2,))
    acqf = RefittedKnowledgeGradient(model, SPACE, WORST, num_points=6)
    X = candidates(model, 4)
    with torch.no_grad():
        found = acqf(X.unsqueeze(1).expand(-1, 2, -1, -1))
        for i in range(2):
            alone = single(model, (i,)).asking(0)
            each = RefittedKnowledgeGradient(alone, SPACE, WORST, num_points=6)(X)
            torch.testing.assert_close(found[:, i], each, rtol=0, atol=1e-6)


def test_parts_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit in memory is computed a few candidates at a time."""
    model = make_model("outcomes")
    acqf = RefittedKnowledgeGradient(model, SPACE, WORST)
    X = candidates(model, 7)
    with torch.no_grad():
        whole = acqf(X)
        monkeypatch.setattr(refitted_knowledge_gradient, "MAX_ENTRIES", 20_000)
        torch.testing.assert_close(acqf(X), whole)


@pytest.mark.parametrize(("kind", "rule"), [("outcomes", "cbkg"), ("duels", "kg")])
def test_rules_find_the_maximum(kind: str, rule: str) -> None:
    model = make_model(kind)
    options = SearchOptions(num_restarts=3, raw_samples=64, max_evaluations=15)
    trial = suggest(model, SPACE, rule, options, seed=0, goal=WORST)
    acqf = RefittedKnowledgeGradient(model, SPACE, WORST)
    with torch.no_grad():
        best = acqf(candidates(model, 200)).max()
        assert acqf(model.functional.rows(trial)) > 0.97 * best
