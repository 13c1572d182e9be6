r"""Acquisition functions of goals against brute force."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor
from torch.autograd import gradcheck

from botorch_binary_context import (
    AtContext,
    AtReference,
    BinaryUpperConfidenceBound,
    ContextAverage,
    ContextSpace,
    ContextualBinaryKnowledgeGradient,
    ContextualJointEntropySearch,
    Goal,
    GoalUpperConfidenceBound,
    LatentGoalUpperConfidenceBound,
    MomentMatchedKnowledgeGradient,
    SampledKnowledgeGradient,
    WorstContext,
    draw_sample_paths,
)
from botorch_binary_context.acquisition.entropy_search import (
    KnownOptima,
    maximize_paths,
)
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.rules import frozen
from tests.goals.problems import (
    CONTEXTS,
    KINDS,
    SAMPLED,
    SPACE,
    every_goal,
    every_kind,
    is_for,
    joint_draws,
    make_model,
    rows_by_hand,
)
from tests.tensors import double, uniform

AVERAGE = ContextAverage(CONTEXTS, [5, 2, 3])
WORST = WorstContext(CONTEXTS)
AT = AtContext([0.3])


def candidates(model: LatentGP, number: int) -> Tensor:
    """Trials or duels, whose sides share the context."""
    X = uniform(number, model.functional.num_rows, 3, seed=9)
    X[..., 1] = X[..., :1, 1]
    return X


class TestBounds:
    def test_one_context_is_the_binary_bound(self) -> None:
        model = make_model("outcomes")
        X = uniform(5, 1, 3)
        acqf = GoalUpperConfidenceBound(model, SPACE, AT, beta=0.7)
        at = SPACE.join(SPACE.parameters(X), double([0.3]))
        expected = BinaryUpperConfidenceBound(model, beta=0.7)(at)
        torch.testing.assert_close(acqf(X), expected)

    @every_goal
    def test_are_the_mean_and_deviations_of_the_goal(self, goal: Goal) -> None:
        model = make_model("outcomes")
        X = uniform(5, 1, 3)
        x = SPACE.parameters(X.squeeze(-2))
        mean, variance = goal.moments(model, SPACE, x)
        acqf = LatentGoalUpperConfidenceBound(model, SPACE, goal, beta=0.7)
        torch.testing.assert_close(acqf(X), mean + 0.7 * variance.sqrt())
        mean, variance = goal.probability_moments(model, SPACE, x)
        acqf = GoalUpperConfidenceBound(model, SPACE, goal, beta=0.7)
        torch.testing.assert_close(acqf(X), mean + 0.7 * variance.sqrt())

    def test_several_rows_are_refused(self) -> None:
        acqf = GoalUpperConfidenceBound(make_model("outcomes"), SPACE)
        with pytest.raises(UnsupportedError, match="one row, but got 2 rows"):
            acqf(uniform(5, 2, 3))


class TestClosedForms:
    """Knowledge gradients of a linear goal: of the reference of another space."""

    @every_kind
    def test_at_another_context(self, kind: str) -> None:
        model = make_model(kind)
        moved = ContextSpace(SPACE.bounds, [1], [0.3])
        X = candidates(model, 4)
        for make in (MomentMatchedKnowledgeGradient, ContextualBinaryKnowledgeGradient):
            found = make(model, SPACE, goal=AT)(X)
            torch.testing.assert_close(found, make(model, moved)(X))
        kwargs: dict[str, Any] = {"seed": 0}
        found = ContextualJointEntropySearch(model, SPACE, goal=AT, **kwargs)(X)
        expected = ContextualJointEntropySearch(model, moved, **kwargs)(X)
        torch.testing.assert_close(found, expected)

    @every_kind
    def test_average_by_simulation(self, kind: str) -> None:
        """The best posterior mean after each outcome, from weighted joint draws."""
        model = make_model(kind, n=3)
        acqf = MomentMatchedKnowledgeGradient(model, SPACE, num_points=4, goal=AVERAGE)
        points = acqf.parameters_searched
        X = candidates(model, 2)
        with torch.no_grad():
            found = acqf.screen(X)
        rows = AVERAGE.rows(SPACE, points).flatten(0, 1)
        for i, trial in enumerate(X):
            draws = joint_draws(model, torch.cat([rows, trial]), 200_000)
            contrast = model.functional(draws[:, len(rows) :])
            p = model.likelihood.probability(contrast)
            goal = draws[:, : len(rows)].unflatten(-1, (-1, 3)) @ double(
                [0.5, 0.2, 0.3]
            )
            passed = (goal * p).mean(0).max()
            failed = (goal * (1 - p)).mean(0).max()
            gain = passed + failed - goal.mean(0).max()
            assert abs(found[i] - gain) < 8e-3

    def test_nonlinear_goals_are_refused(self) -> None:
        model = make_model("outcomes")
        for make in (MomentMatchedKnowledgeGradient, ContextualBinaryKnowledgeGradient):
            with pytest.raises(UnsupportedError, match="``goal`` to be linear"):
                make(model, SPACE, goal=WORST)  # pyright: ignore


class TestSampledKnowledgeGradient:
    @every_kind
    def test_one_context_is_the_closed_form(self, kind: str) -> None:
        """A worst case over one context, with the same inner points."""
        model = make_model(kind)
        sampled = SampledKnowledgeGradient(model, SPACE, WorstContext([0.3]))
        closed = MomentMatchedKnowledgeGradient(model, SPACE, goal=AT)
        closed.parameters_searched = sampled.choose_points()
        closed.points = closed.values_at(closed.parameters_searched)
        closed.mean = closed.points.mean()
        closed.current_value = closed.mean.amax(dim=-1)
        X = candidates(model, 6)
        with torch.no_grad():
            found = sampled(X)
            ahead_values = closed.screen(X)
        # The closed form may also look at what the candidate shows.
        assert (found <= ahead_values + 0.02).all()
        assert (found - ahead_values).abs().median() < 0.02

    @pytest.mark.parametrize(("kind", "goal"), list(zip(KINDS, SAMPLED, strict=True)))
    def test_value_equals_that_of_simulated_answers(
        self, kind: str, goal: Goal
    ) -> None:
        model = make_model(kind, n=4)
        acqf = SampledKnowledgeGradient(model, SPACE, goal, num_points=4)
        points = acqf.choose_points()
        X = candidates(model, 2)
        rows = goal.rows(SPACE, points).flatten(0, 1)
        for trial in X:
            draws = joint_draws(model, torch.cat([rows, trial]), 200_000)
            contrast = model.functional(draws[:, len(rows) :])
            p = model.likelihood.probability(contrast)
            latent = draws[:, : len(rows)].unflatten(-1, (-1, 3))
            values = goal.combine(latent, model)
            passed = (values * p.expand_as(values)).mean(0).max()
            failed = (values * (1 - p).expand_as(values)).mean(0).max()
            gain = passed + failed - values.mean(0).max()
            assert abs(acqf(trial) - gain) < 0.02

    def test_never_negative(self) -> None:
        model = make_model("mixed", (2,))
        acqf = SampledKnowledgeGradient(model, SPACE, WORST)
        X = candidates(model, 50).unsqueeze(1).expand(-1, 2, -1, -1)
        assert (acqf(X) > -1e-12).all()

    def test_gradient_equals_finite_differences(self) -> None:
        model = make_model("duels")
        with frozen(model):
            acqf = SampledKnowledgeGradient(model, SPACE, WORST)
            assert gradcheck(acqf, (candidates(model, 3).requires_grad_(),))


class TestKnownOptima:
    """What a candidate would be if the values of an optimum were known."""

    @every_kind
    def test_all_contexts_known(self, kind: str) -> None:
        model = make_model(kind)
        X = candidates(model, 5)
        optima = uniform(4, 2, seed=3)  # of M = 4 functions
        rows = WORST.rows(SPACE, optima)  # M x K x d
        values = uniform(4, 3, seed=4)
        known = KnownOptima.of(model, rows, values)
        trials = model.values_of(X)
        found = known.expected_probabilities(trials, *trials.moments())[-1]
        for i, trial in enumerate(X):
            for j in range(4):
                joint = model.posterior(torch.cat([rows[j], trial]))
                mean = joint.mean.squeeze(-1)
                covar: Any = joint.distribution.covariance_matrix  # pyright: ignore
                gain = covar[3:, :3] @ torch.linalg.inv(covar[:3, :3])
                mean = mean[3:] + gain @ (values[j] - mean[:3])
                covar = covar[3:, 3:] - gain @ covar[:3, 3:]
                contrast = model.functional(mean)
                contrast_variance = model.functional.of_covariance(covar).flatten()
                expected = model.likelihood.expected_probability(
                    contrast, contrast_variance
                )
                torch.testing.assert_close(
                    found[i, j], expected.squeeze(), rtol=0, atol=1e-6
                )

    @every_goal
    def test_entropy_search_of_batches(self, goal: Goal) -> None:
        model = make_model("mixed", (2,))
        acqf = ContextualJointEntropySearch(model, SPACE, goal=goal, seed=0)
        X = candidates(model, 6).unsqueeze(1).expand(-1, 2, -1, -1)
        values = acqf(X)
        assert values.shape == (6, 2)
        assert values.isfinite().all()


@every_goal
@every_kind
def test_maxima_of_paths(goal: Goal, kind: str) -> None:
    if not is_for(goal, kind):
        pytest.skip("no outcomes")
    model = make_model(kind)
    paths = draw_sample_paths(model, 2, SPACE.bounds, seed=0)
    best, values = maximize_paths(paths, SPACE, goal=goal)
    ticks = torch.linspace(0, 1, 21, dtype=torch.double)
    grid = torch.cartesian_prod(ticks, ticks)
    with torch.no_grad():
        rows = goal.rows(SPACE, grid).flatten(0, 1)
        found = goal.combine(paths(rows).unflatten(-1, (len(grid), -1)), model)
        at = torch.cat([rows_by_hand(goal, x) for x in best])
        own = goal.combine(paths(at).unflatten(-1, (2, -1)), model).diagonal()
    torch.testing.assert_close(own, values)
    assert (values >= found.amax(dim=-1) - 1e-6).all()


def test_default_goal() -> None:
    model = make_model("outcomes")
    X = candidates(model, 3)
    for make in (MomentMatchedKnowledgeGradient, GoalUpperConfidenceBound):
        given = make(model, SPACE, goal=AtReference())(X)
        assert torch.equal(make(model, SPACE)(X), given)
