r"""Rules with other goals, and with contexts that are given."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from gpytorch.kernels import RBFKernel
from torch import Tensor

from botorch_binary_context import (
    AtContext,
    AtReference,
    AverageSuccess,
    BernoulliMutualInformation,
    BinaryLaplaceGP,
    ContextAverage,
    ContextCVaR,
    ContextQuantile,
    ContextSpace,
    Goal,
    GoalUpperConfidenceBound,
    MomentMatchedKnowledgeGradient,
    PreferenceLaplaceGP,
    SampledKnowledgeGradient,
    WorstContext,
    recommend,
    suggest,
)
from botorch_binary_context.goals.sampled import draw_joint_values, expected_slopes
from tests.goals.problems import SPACE as WIDE
from tests.goals.problems import make_model
from tests.rules.problems import QUICK, SPACE, context_model, every_rule, sides_of
from tests.small_models import ModelClass
from tests.tensors import double

GOALS: list[Goal] = [
    AtContext([0.4]),
    ContextAverage([0.2, 0.9]),
    WorstContext([0.2, 0.9]),
]
every_goal = pytest.mark.parametrize("goal", GOALS, ids=repr)


@every_rule
class TestEveryRule:
    @every_goal
    def test_every_goal_works_or_is_refused_by_maps(
        self, model_class: ModelClass, rule: str, goal: Goal
    ) -> None:
        model = context_model(model_class, batch_shape=(2,))
        if rule.startswith("map"):
            with pytest.raises(UnsupportedError, match="to be a ``ThresholdMap``"):
                suggest(model, SPACE, rule, QUICK, seed=0, goal=goal)
            return
        trial = suggest(model, SPACE, rule, QUICK, seed=0, goal=goal)
        assert trial.shape == (2, 1, *sides_of(model_class), 2)
        assert ((trial >= 0) & (trial <= 1)).all()

    def test_reference_is_the_default(self, model_class: ModelClass, rule: str) -> None:
        if rule.startswith("map"):
            pytest.skip("has no optimum")
        model = context_model(model_class)
        trial = suggest(model, SPACE, rule, QUICK, seed=0, goal=AtReference())
        assert torch.equal(trial, suggest(model, SPACE, rule, QUICK, seed=0))

    def test_given_context(self, model_class: ModelClass, rule: str) -> None:
        model = context_model(model_class, batch_shape=(2,))
        trial = suggest(model, SPACE, rule, QUICK, seed=0, context=0.3)
        assert trial.shape == (2, 1, *sides_of(model_class), 2)
        assert torch.equal(trial[..., 0], torch.full_like(trial[..., 0], 0.3))

    def test_context_of_each_element(self, model_class: ModelClass, rule: str) -> None:
        model = context_model(model_class, batch_shape=(2,))
        context = double([[0.2], [0.7]])
        trial = suggest(model, SPACE, rule, QUICK, seed=0, context=context)
        rows = trial.reshape(2, -1, 2)[..., 0]
        assert torch.equal(rows, context.expand_as(rows))


class TestNonlinearGoals:
    """Beside the worst context, which every rule is tried with above."""

    GOALS: tuple[Goal, ...] = (
        AverageSuccess([0.2, 0.9]),
        ContextQuantile([0.2, 0.5, 0.9], share=0.3),
        ContextCVaR([0.2, 0.5, 0.9], share=0.5),
    )

    @pytest.mark.parametrize(
        "rule", ["ucb-ald", "lucb-ald", "ts-ald", "mkg", "cbkg", "cjes", "ucb-target"]
    )
    def test_outcomes_get_a_trial_from_every_rule(self, rule: str) -> None:
        model = context_model(BinaryLaplaceGP)
        for goal in self.GOALS:
            trial = suggest(model, SPACE, rule, QUICK, seed=0, goal=goal)
            assert trial.shape == (1, 2)

    @pytest.mark.parametrize(
        "rule", ["muc-ald", "kss-ald", "eubo-ald", "hb-ald", "mkg", "kg", "cjes"]
    )
    def test_mixed_models_get_a_duel_from_every_rule(self, rule: str) -> None:
        model = make_model("mixed").asking(1)  # pyright: ignore
        for goal in self.GOALS:
            trial = suggest(model, WIDE, rule, QUICK, seed=0, goal=goal)
            assert trial.shape == (1, 2, 3)


def grid(*sides: Tensor) -> Tensor:
    return torch.cartesian_prod(*sides).reshape(-1, len(sides))


TICKS = torch.linspace(0, 1, 41, dtype=torch.double)


class TestMaxima:
    @every_goal
    def test_no_point_of_a_grid_is_better_than_the_ucb_trial(self, goal: Goal) -> None:
        model = context_model(BinaryLaplaceGP)
        trial = suggest(model, SPACE, "ucb-ald", seed=0, goal=goal)
        acqf = GoalUpperConfidenceBound(model, SPACE, goal)
        with torch.no_grad():
            best = acqf.bound_at(TICKS.unsqueeze(-1)).max()
            assert acqf(trial) >= best - 1e-7
            information = BernoulliMutualInformation(model)
            others = torch.stack([TICKS, trial[0, 1].expand(41)], -1).unsqueeze(-2)
            assert information(trial) >= information(others).max() - 1e-7

    @every_goal
    @pytest.mark.parametrize("kind", ["outcomes", "duels"])
    def test_knowledge_gradient(self, goal: Goal, kind: str) -> None:
        model = make_model(kind)
        trial = suggest(model, WIDE, "mkg", seed=0, goal=goal)
        make: Any = MomentMatchedKnowledgeGradient
        if isinstance(goal, WorstContext):
            make = SampledKnowledgeGradient
        acqf = make(model, WIDE, goal=goal)
        sides = model.functional.num_rows
        generator = torch.Generator().manual_seed(0)
        others = torch.rand(500, sides, 3, generator=generator, dtype=torch.double)
        others[..., 1] = others[..., :1, 1]
        with torch.no_grad():
            best = acqf(others).max()
            assert acqf(model.functional.rows(trial)) > 0.97 * best

    def test_challenger_meets_the_best_by_the_goal(self) -> None:
        """The incumbent is the best by the goal."""
        model = context_model(PreferenceLaplaceGP)
        for goal in GOALS:
            duel = suggest(model, SPACE, "muc-ald", seed=0, goal=goal)
            best = recommend(model, SPACE, goal=goal)
            torch.testing.assert_close(duel[0, 1, 1:], best, rtol=0, atol=1e-5)
            with torch.no_grad():
                grid = goal.challenge(model, SPACE, TICKS.unsqueeze(-1), best)
                chosen = goal.challenge(model, SPACE, duel[:, 0, 1:], best)
            assert chosen >= grid.max() - 1e-6

    def test_given_context(self) -> None:
        """The parameters are those of the largest bound in that context."""
        model = context_model(BinaryLaplaceGP)
        trial = suggest(model, SPACE, "ucb-ald", seed=0, context=0.3)
        acqf = GoalUpperConfidenceBound(model, SPACE, AtContext(0.3))
        with torch.no_grad():
            assert acqf(trial) >= acqf.bound_at(TICKS.unsqueeze(-1)).max() - 1e-7
        trial = suggest(model, SPACE, "bald", seed=0, context=0.3)
        information = BernoulliMutualInformation(model)
        others = torch.stack([torch.full_like(TICKS, 0.3), TICKS], -1).unsqueeze(-2)
        with torch.no_grad():
            assert information(trial) >= information(others).max() - 1e-7


def test_refuses_wrong_contexts_and_numbers_of_trials() -> None:
    model = context_model(BinaryLaplaceGP)
    with pytest.raises(InputDataError, match="``context`` to lie within the bounds"):
        suggest(model, SPACE, context=1.5)
    with pytest.raises(InputDataError, match="``context`` to have one number for each"):
        suggest(model, SPACE, context=[0.1, 0.2])
    with pytest.raises(
        InputDataError, match="``q`` to be a whole number from 1 .* but got 0"
    ):
        suggest(model, SPACE, q=0)
    plain = ContextSpace(SPACE.bounds)
    with pytest.raises(InputDataError, match="each of the 0 context columns"):
        suggest(model, plain, context=0.5)


def test_targeted_contexts_follow_the_goal() -> None:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(12, 2, 2, dtype=torch.double, generator=generator)
    X[:, 1, 0] = X[:, 0, 0]
    near = RBFKernel(active_dims=(0,))
    far = RBFKernel(active_dims=(1,))
    near.lengthscale = far.lengthscale = 0.3  # pyright: ignore
    Y = (X[:, :1, 1] > X[:, 1:, 1]).double()
    model = PreferenceLaplaceGP(X, Y, covar_module=near * far)
    chosen = [
        suggest(model, SPACE, "muc-target", seed=0, goal=goal)[0, 0, 0]
        for goal in (AtContext([0.1]), AtReference(), None)
    ]
    assert chosen[0] < 0.4
    assert chosen[1] > 0.6
    assert chosen[2] == chosen[1]


@pytest.mark.parametrize("goal", [ContextAverage([0.2, 0.9]), WorstContext([0.2, 0.9])])
def test_expected_slopes(goal: Goal) -> None:
    """By Stein's lemma they give the covariance with the goal: against draws."""
    model = make_model("outcomes")
    x = double([[0.3, 0.6]])
    other = double([[0.5, 0.5, 0.2]])
    rows = goal.rows(WIDE, x)  # 1 x 2 x 3
    both = torch.cat([rows[0], other])
    with torch.no_grad():
        draws = draw_joint_values(model, both[None], num_draws=2**15).squeeze(1)
        value = goal.combine(draws[:, :2], model)
        expected = torch.stack([value, draws[:, 2]]).cov()[0, 1]
        covar = draws.T.cov()[2, :2]
        slopes = expected_slopes(goal, model, rows)
        assert slopes.shape == (1, 2)
        torch.testing.assert_close(slopes[0] @ covar, expected, rtol=0.02, atol=1e-4)
