r"""Constraints, safety, and when to stop."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from gpytorch.kernels import RBFKernel, ScaleKernel
from torch.autograd import gradcheck

from botorch_binary_context import (
    AtReference,
    BernoulliMutualInformation,
    BinaryGP,
    BinaryLaplaceGP,
    Constraints,
    ContextAverage,
    ContextSpace,
    ExpectedBestOption,
    Goal,
    GoalUpperConfidenceBound,
    MomentMatchedKnowledgeGradient,
    NoTrialLeftError,
    PreferenceLaplaceGP,
    Safety,
    StoppingRule,
    WorstContext,
    psychometric_gp,
    recommend,
    suggest,
    uncertainty_of_answer,
    value_of_next_trial,
)
from botorch_binary_context.models.latent_gp import LatentGP
from tests.goals.problems import SPACE as WIDE
from tests.goals.problems import joint_draws, make_model
from tests.rules.problems import QUICK, SPACE, context_model, every_rule
from tests.small_models import ModelClass
from tests.tensors import double, uniform

# The two parameters and the context of ``WIDE``: x_0 + x_2 at most 0.6.
TOTAL = (torch.tensor([0, 2]), double([-1.0, -1.0]), -0.6)
ALL = Constraints([TOTAL], {1: 0.25}, {2: [0.0, 0.1, 0.5]})


@every_rule
def test_every_rule_keeps_constraints(model_class: ModelClass, rule: str) -> None:
    kind = "outcomes" if model_class is BinaryLaplaceGP else "duels"
    model = make_model(kind, (2,))
    trial = suggest(model, WIDE, rule, QUICK, seed=0, q=2, constraints=ALL)
    assert (trial[..., 1] == 0.25).all()
    assert torch.isin(trial[..., 2], double([0.0, 0.1, 0.5])).all()
    assert (trial[..., 0] + trial[..., 2] <= 0.6 + 1e-6).all()
    assert ((trial >= 0) & (trial <= 1)).all()


class TestMaxima:
    """No point of a grid that meets the constraints is better."""

    ticks = torch.linspace(0, 1, 41, dtype=torch.double)

    def test_upper_confidence_bound_is_the_largest(self) -> None:
        model = make_model("outcomes")
        constraints = Constraints([TOTAL])
        trial = suggest(model, WIDE, "ucb-ald", seed=0, constraints=constraints)
        acqf = GoalUpperConfidenceBound(model, WIDE, AtReference())
        grid = torch.cartesian_prod(self.ticks, self.ticks)
        grid = grid[grid.sum(dim=-1) <= 0.6]
        with torch.no_grad():
            assert acqf(trial) >= acqf.bound_at(grid).max() - 1e-6

    def test_information_is_the_largest(self) -> None:
        model = make_model("outcomes")
        trial = suggest(model, WIDE, "bald", seed=0, constraints=ALL)
        acqf = BernoulliMutualInformation(model)
        x = torch.cartesian_prod(self.ticks, double([0.0, 0.1, 0.5]))
        x = x[x.sum(dim=-1) <= 0.6]
        grid = WIDE.join(x, double([0.25])).unsqueeze(-2)
        with torch.no_grad():
            assert acqf(trial) >= acqf(grid).max() - 1e-6

    def test_thompson_sampling(self) -> None:
        """The optimum of a path among what is allowed, not the nearest to the best."""
        model = make_model("outcomes")
        held = Constraints(discrete_choices={0: [0.0, 1.0]})
        trial = suggest(model, WIDE, "ts-fixed", seed=0, constraints=held)
        assert trial[0, 0] in (0.0, 1.0)


class TestProjection:
    def test_gradient_equals_finite_differences(self) -> None:
        space = ContextSpace(double([[0.0] * 3, [1.0] * 3]))
        held = Constraints([TOTAL], {1: 0.5})
        X = double([[0.1, 0.3, 0.2], [0.9, 0.2, 0.7], [0.5, 0.1, 0.9]])
        assert gradcheck(lambda X: held.apply(space, X), (X.requires_grad_(),))

    def test_rows_that_meet_them_stay(self) -> None:
        X = double([[0.1, 0.25, 0.1]])
        assert torch.equal(ALL.apply(WIDE, X), X)

    def test_several_inequalities(self) -> None:
        parts = [TOTAL, ([0, 2], [1.0, -1.0], 0.2), (torch.tensor([2]), [1.0], 0.15)]
        held = Constraints(parts)  # pyright: ignore[reportArgumentType]
        X = held.apply(WIDE, uniform(200, 3))
        assert (held.slack(X) >= -1e-6).all()
        assert ((X >= 0) & (X <= 1)).all()


class TestMistakes:
    def test_refuses_unknown_columns_and_values_out_of_bounds(self) -> None:
        model = make_model("outcomes")
        with pytest.raises(InputDataError, match="columns from 0 to 2, but got 3"):
            suggest(model, WIDE, constraints=Constraints(fixed_features={3: 0.1}))
        with pytest.raises(InputDataError, match="column 0 values from 0 to 1, .*2.0"):
            suggest(model, WIDE, constraints=Constraints(fixed_features={0: 2.0}))
        with pytest.raises(InputDataError, match=r"column 0 values .* but got \[\]"):
            suggest(model, WIDE, constraints=Constraints(discrete_choices={0: []}))

    def test_nothing_left(self) -> None:
        model = make_model("outcomes")
        impossible = Constraints([(torch.tensor([0, 2]), double([1.0, 1.0]), 2.5)])
        with pytest.raises(NoTrialLeftError, match="``constraints`` to leave trials"):
            suggest(model, WIDE, constraints=impossible)

    def test_refuses_wrong_probabilities_and_safety_of_duels(self) -> None:
        with pytest.raises(InputDataError, match="``probability`` .* but got 1.0"):
            Safety(1.0)
        with pytest.raises(InputDataError, match="``confidence`` .* but got 0.0"):
            Safety(0.5, 0.0)
        with pytest.raises(UnsupportedError, match="``safe`` to be None for duels"):
            suggest(make_model("duels"), WIDE, "bald", safe=Safety(0.5))


class TestSafety:
    """Tests become harder along the context; the easy ones have been passed."""

    space = ContextSpace(double([[0.0, 0.0], [1.0, 1.0]]), [0], [0.5])

    def model(self) -> LatentGP:
        s = torch.linspace(0.0, 1.0, 30, dtype=torch.double)
        X = torch.stack([s, uniform(30, 1, seed=1).squeeze()], dim=-1)
        Y = (s < 0.6).double().unsqueeze(-1)
        return psychometric_gp(X, Y, self.space, harder="up")

    @pytest.mark.parametrize(
        "rule",
        ["ucb-ald", "ts-ald", "ts-random", "cbkg", "cjes", "bald", "map-mi", "random"],
    )
    def test_trials_of_every_rule_are_safe_by_draws(self, rule: str) -> None:
        """The chance that the success probability is high enough, by draws."""
        model = self.model()
        safe = Safety(0.7, 0.9)
        trials = suggest(model, self.space, rule, QUICK, seed=0, safe=safe)
        for trial in trials:
            p = torch.special.ndtr(joint_draws(model, trial.unsqueeze(0)))
            assert (p >= 0.7).double().mean() > 0.89

    def test_makes_a_difference(self) -> None:
        model = self.model()
        free = suggest(model, self.space, "bald", seed=0)
        safe = suggest(model, self.space, "bald", seed=0, safe=Safety(0.7))
        acqf = BernoulliMutualInformation(model)
        with torch.no_grad():
            assert Safety(0.7).slack(model, free) < 0
            assert 0 < acqf(safe) < acqf(free)

    @pytest.mark.parametrize("rule", ["random", "ucb-random", "ts-random"])
    def test_random_trials_stay_random(self, rule: str) -> None:
        """Uniform among the safe ones, not always the safest."""
        model = self.model()
        safe = Safety(0.7)
        trials = [
            suggest(model, self.space, rule, QUICK, seed=i, safe=safe) for i in range(8)
        ]
        contexts = torch.cat(trials)[:, 0]
        assert len(contexts.unique()) == 8
        assert contexts.std() > 0.08

    def test_few_safe_trials(self) -> None:
        """One in ten thousand trials is safe; random ones are still not the safest."""
        box = double([[-50.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
        corner = ContextSpace(box, [0], [0.5])
        X = uniform(40, 3, seed=1)
        Y = (X.sum(dim=-1, keepdim=True) > 2.0).double()
        kernel = ScaleKernel(RBFKernel(ard_num_dims=3)).double()
        model = BinaryGP(X, Y, covar_module=kernel)
        safe = Safety(0.6, 0.6)
        everywhere = box[0] + (box[1] - box[0]) * uniform(20_000, 1, 3, seed=2)
        with torch.no_grad():
            assert (safe.slack(model, everywhere) >= 0).double().mean() < 1e-3
        trials = torch.cat(
            [suggest(model, corner, "random", QUICK, i, safe=safe) for i in range(6)]
        )
        assert (safe.slack(model, trials.unsqueeze(1)) >= 0).all()
        assert trials.std(dim=0).min() > 0.02

    def test_none_left(self) -> None:
        model = psychometric_gp(
            uniform(20, 2), torch.zeros(20, 1).double(), self.space, harder="up"
        )
        with pytest.raises(NoTrialLeftError, match="no trial has Safety"):
            suggest(model, self.space, safe=Safety(0.9, 0.99))


class TestStopping:
    @pytest.mark.parametrize("kind", ["outcomes", "duels", "mixed"])
    def test_value_is_the_largest_gradient(self, kind: str) -> None:
        model = make_model(kind)
        value = value_of_next_trial(model, WIDE)
        acqf = MomentMatchedKnowledgeGradient(model, WIDE)
        X = uniform(300, model.functional.num_rows, 3)
        X[..., 1] = X[..., :1, 1]
        with torch.no_grad():
            assert value >= 0.99 * acqf(X).max()
            trial = suggest(model, WIDE, "mkg", seed=0)
            assert value >= 0.98 * acqf(model.functional.rows(trial))

    @pytest.mark.parametrize("goal", [ContextAverage([0.1, 0.9]), WorstContext([0.1])])
    def test_value_of_each_model_of_a_batch_is_positive(self, goal: Goal) -> None:
        model = make_model("outcomes", (2,))
        value = value_of_next_trial(model, WIDE, goal, QUICK)
        assert value.shape == (2,)
        assert (value > 0).all()

    def test_width_is_that_of_the_interval_at_the_best(self) -> None:
        model = make_model("outcomes")
        width = uncertainty_of_answer(model, WIDE, credible=0.95)
        best = WIDE.at_reference(recommend(model, WIDE))
        deviation = model.posterior(best.unsqueeze(0)).variance.sqrt()
        torch.testing.assert_close(
            width, 2 * 1.959964 * deviation.squeeze(), rtol=1e-5, atol=0
        )

    def test_rule_is_met_once_value_or_width_is_small(self) -> None:
        model = make_model("outcomes")
        value = float(value_of_next_trial(model, WIDE))
        width = float(uncertainty_of_answer(model, WIDE))
        for rule, expected in (
            (StoppingRule(value=1.01 * value), True),
            (StoppingRule(value=0.99 * value), False),
            (StoppingRule(width=1.01 * width), True),
            (StoppingRule(width=0.99 * width), False),
            (StoppingRule(0.99 * value, 1.01 * width), True),
        ):
            assert bool(rule.is_met(model, WIDE)) is expected
        with pytest.raises(InputDataError, match="``value`` or ``width``"):
            StoppingRule()


class TestBestOption:
    @pytest.mark.parametrize(
        "goal", [AtReference(), ContextAverage([0.1, 0.7]), WorstContext([0.1, 0.7])]
    )
    def test_brute_force(self, goal: Goal) -> None:
        model = make_model("duels")
        acqf = ExpectedBestOption(model, WIDE, goal)
        for X in uniform(3, 2, 3):
            rows = goal.rows(WIDE, WIDE.parameters(X)).flatten(0, 1)
            draws = joint_draws(model, rows).unflatten(-1, (2, -1))
            values = goal.combine(draws, model)
            expected = values.amax(dim=-1)
            assert abs(acqf(X) - expected.mean()) < 0.03 * expected.std()

    def test_gradient_and_symmetry(self) -> None:
        model = context_model(PreferenceLaplaceGP)
        acqf: Any = ExpectedBestOption(model, SPACE)
        X = uniform(4, 2, 2)
        torch.testing.assert_close(acqf(X), acqf(X.flip(-2)))
        assert gradcheck(acqf, (X.requires_grad_(),))

    def test_no_duel_of_a_grid_is_better_than_that_of_the_rule(self) -> None:
        model = context_model(PreferenceLaplaceGP)
        duel = suggest(model, SPACE, "eubo-ald", seed=0)
        acqf = ExpectedBestOption(model, SPACE)
        ticks = torch.linspace(0, 1, 41, dtype=torch.double)
        grid = torch.cartesian_prod(ticks, ticks).unsqueeze(-1)
        with torch.no_grad():
            assert acqf(duel) >= acqf.value_at(grid).max() - 1e-6

    def test_one_row_is_refused(self) -> None:
        acqf = ExpectedBestOption(context_model(PreferenceLaplaceGP), SPACE)
        with pytest.raises(UnsupportedError, match="two rows, but got 1 rows"):
            acqf(uniform(3, 1, 2))


def test_recommend_keeps_constraints() -> None:
    """The best on a grid of what is allowed."""
    model = make_model("outcomes")
    # x_1 + x_2 at most 0.8, and x_2 one of three.
    columns = list(WIDE.parameter_dims)
    limit = (torch.tensor(columns), torch.tensor([-1.0, -1.0]), -0.8)
    choices = {columns[1]: [0.0, 0.3, 0.9]}
    constraints = Constraints([limit], discrete_choices=choices)
    best = recommend(model, WIDE, constraints=constraints)
    assert float(best[1]) in choices[columns[1]]
    assert float(best.sum()) <= 0.8 + 1e-6
    ticks = torch.linspace(0, 1, 201, dtype=torch.double)
    grid = torch.cartesian_prod(ticks, double(choices[columns[1]]))
    grid = grid[grid.sum(dim=-1) <= 0.8]
    with torch.no_grad():
        values = model.posterior_mean(WIDE.at_reference(grid).unsqueeze(-2))
        found = model.posterior_mean(WIDE.at_reference(best)[None, None])
    assert float(found) >= float(values.max()) - 1e-6
    none = Constraints([(torch.tensor(columns), torch.tensor([1.0, 1.0]), 3.0)])
    with pytest.raises(NoTrialLeftError, match="``constraints`` to leave trials"):
        recommend(model, WIDE, constraints=none)
