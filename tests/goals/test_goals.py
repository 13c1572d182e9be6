r"""Goals against brute force."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from gpytorch.kernels import RBFKernel, ScaleKernel
from torch import Tensor
from torch.autograd import gradcheck

from botorch_binary_context import (
    AtContext,
    AverageSuccess,
    BinaryGP,
    ContextAverage,
    ContextCVaR,
    ContextQuantile,
    ContextSpace,
    Goal,
    ProbitLikelihood,
    WorstContext,
    context_grid,
    draw_contexts,
    recommend,
)
from botorch_binary_context.goals import LinearGoal
from botorch_binary_context.rules import frozen
from tests.devices import RequireDevice
from tests.goals.problems import (
    CONTEXTS,
    GUESS,
    LAPSE,
    LINEAR,
    SAMPLED,
    SPACE,
    SUCCESS,
    by_hand,
    every_goal,
    every_kind,
    is_for,
    joint_draws,
    make_kernel,
    make_model,
    rows_by_hand,
    single,
)
from tests.tensors import double, uniform

X = uniform(4, 2, seed=5)


@every_kind
@every_goal
class TestMoments:
    def test_brute_force(self, goal: Goal, kind: str) -> None:
        """Linear goals and averages of success to sampling error, others nearly."""
        if not is_for(goal, kind):
            pytest.skip("no outcomes")
        model = make_model(kind)
        exact = isinstance(goal, LinearGoal | AverageSuccess)
        mean, variance = goal.moments(model, SPACE, X)
        for i, x in enumerate(X):
            draws = by_hand(goal, joint_draws(model, rows_by_hand(goal, x)))
            error = draws.std() * (0.012 if exact else 0.04)
            assert abs(mean[i] - draws.mean()) < error
            assert abs(variance[i] / draws.var() - 1) < (0.02 if exact else 0.12)
            assert torch.allclose(goal.mean(model, SPACE, x), mean[i], atol=1e-12)

    def test_gradient_equals_finite_differences(self, goal: Goal, kind: str) -> None:
        if not is_for(goal, kind):
            pytest.skip("no outcomes")
        model = make_model(kind)
        with frozen(model):
            moments = lambda x: goal.moments(model, SPACE, x)  # noqa: E731
            assert gradcheck(moments, (X[:2].clone().requires_grad_(),))
            mean = lambda x: goal.mean(model, SPACE, x)  # noqa: E731
            assert gradcheck(mean, (X[:2].clone().requires_grad_(),))

    def test_batch_equals_a_loop(self, goal: Goal, kind: str) -> None:
        if not is_for(goal, kind):
            pytest.skip("no outcomes")
        model = make_model(kind, (2, 3))
        parameters = uniform(4, 2, 3, 2, seed=2)
        mean, variance = goal.moments(model, SPACE, parameters)
        assert mean.shape == variance.shape == (4, 2, 3)
        incumbent = parameters[0]
        for index in ((0, 1), (1, 2)):
            alone = single(model, index)
            own = (slice(None), *index)
            found = goal.moments(alone, SPACE, parameters[own])
            torch.testing.assert_close(found[0], mean[own], rtol=1e-6, atol=1e-8)
            torch.testing.assert_close(found[1], variance[own], rtol=1e-6, atol=1e-8)
            torch.testing.assert_close(
                goal.challenge(alone, SPACE, parameters[own], incumbent[index]),
                goal.challenge(model, SPACE, parameters, incumbent)[own],
                rtol=1e-5,
                atol=1e-8,
            )

    def test_challenge_is_the_variance_of_the_chance_to_win(
        self, goal: Goal, kind: str
    ) -> None:
        """The variance of the chance to beat an incumbent."""
        if kind == "outcomes" or not is_for(goal, kind):
            pytest.skip("no duels, or no outcomes")
        model: Any = make_model(kind)
        model = model.asking(1) if kind == "mixed" else model
        found = goal.challenge(model, SPACE, X, X[1])
        for i, x in enumerate(X):
            rows = [rows_by_hand(goal, x), rows_by_hand(goal, X[1])]
            first, second = joint_draws(model, torch.cat(rows)).chunk(2, dim=-1)
            contrast = by_hand(goal, first) - by_hand(goal, second)
            if not isinstance(goal, AverageSuccess):
                contrast = torch.special.ndtr(contrast)
            error = abs(found[i] - contrast.var())
            if isinstance(goal, LinearGoal):
                assert error < 0.02 * contrast.var() + 1e-4
            else:  # few draws, and no variance can be larger than a quarter
                assert error < 0.03 * 0.25

    def test_makes_nothing_on_the_default_device(self, goal: Goal, kind: str) -> None:
        if not is_for(goal, kind):
            pytest.skip("no outcomes")
        model = make_model(kind)
        with RequireDevice():
            goal.moments(model, SPACE, X)


@pytest.mark.parametrize("kind", ["outcomes", "mixed"])
@every_goal
def test_success_probability(goal: Goal, kind: str) -> None:
    model = make_model(kind)
    mean, variance = goal.probability_moments(model, SPACE, X)
    for i, x in enumerate(X):
        draws = by_hand(goal, joint_draws(model, rows_by_hand(goal, x)))
        if not isinstance(goal, AverageSuccess):
            draws = GUESS + (1 - GUESS - LAPSE) * torch.special.ndtr(draws)
        assert abs(mean[i] - draws.mean()) < 0.04 * draws.std()
        assert abs(variance[i] / draws.var() - 1) < 0.12


def test_average_success_by_quadrature() -> None:
    """Two contexts: an integral over the plane."""
    model = make_model("outcomes")
    goal = AverageSuccess(CONTEXTS[:2], [0.4, 0.6])
    mean, variance = goal.moments(model, SPACE, X[:1])
    posterior = model.posterior(rows_by_hand(goal, X[0])[:2])
    covar: Tensor = posterior.distribution.covariance_matrix  # pyright: ignore
    ticks = torch.linspace(-8, 8, 801, dtype=torch.double)
    weights = torch.exp(-ticks.square() / 2)
    weights = weights / weights.sum()
    noise = torch.cartesian_prod(ticks, ticks)
    mass = torch.outer(weights, weights).flatten()
    f = posterior.mean.squeeze(-1) + noise @ torch.linalg.cholesky(covar).T
    p = GUESS + (1 - GUESS - LAPSE) * torch.special.ndtr(f)
    average = p @ double([0.4, 0.6])
    expected = mass @ average
    torch.testing.assert_close(mean[0], expected, rtol=0, atol=1e-10)
    squares = mass @ (average - expected).square()
    torch.testing.assert_close(variance[0], squares, rtol=0, atol=1e-10)


def test_average_success_with_learned_rates() -> None:
    likelihood = ProbitLikelihood(
        0.3, 0.02, learn_lapse_rate=True, batch_shape=torch.Size([2])
    )
    X_train = uniform(2, 6, 3)
    Y = torch.ones(2, 6, 1).double()
    model = BinaryGP(X_train, Y, likelihood, covar_module=make_kernel())
    mean, variance = SUCCESS.moments(model, SPACE, X.unsqueeze(1).expand(4, 2, 2))
    assert mean.shape == variance.shape == (4, 2)
    draws = SUCCESS.draw(model, SPACE, X.unsqueeze(1).expand(4, 2, 2))
    assert ((draws.mean(dim=0) - mean).abs() < 0.1 * variance.sqrt()).all()


class HandMade(torch.nn.Module):
    """A latent function with different optima in different contexts."""

    def forward(self, X: Tensor) -> Tensor:
        s, x = X[..., 0], X[..., 1]
        return (1 + s) * (-((x - 0.2 - 0.6 * s) ** 2) * 8 + 1.0)


def known_function() -> BinaryGP:
    """A model that knows its function without a trial."""
    kernel = ScaleKernel(RBFKernel()).double()
    kernel.outputscale = 1e-8
    mean: Any = HandMade()
    X = torch.zeros(0, 2).double()
    Y = torch.zeros(0, 1).double()
    return BinaryGP(X, Y, covar_module=kernel, mean_module=mean)


LINE = ContextSpace(double([[0.0, 0.0], [1.0, 1.0]]), [0], [1.0])
TWO = [0.0, 1.0]


@pytest.mark.parametrize(
    "goal",
    [
        AtContext([0.0]),
        AtContext([1.0]),
        ContextAverage(TWO),
        WorstContext(TWO),
        ContextCVaR(TWO, 0.75),
        ContextQuantile(TWO, 0.75),
        AverageSuccess(TWO),
    ],
    ids=repr,
)
def test_every_goal_finds_its_own_optimum(goal: Goal) -> None:
    model = known_function()
    best = recommend(model, LINE, goal=goal)
    x = torch.linspace(0, 1, 2001).double()
    low = 1 - 8 * (x - 0.2) ** 2
    high = 2 * (1 - 8 * (x - 0.8) ** 2)
    worse = torch.minimum(low, high)
    better = torch.maximum(low, high)
    truth = {
        "AtContext([0.0])": low,
        "AtContext([1.0])": high,
        "ContextAverage": (low + high) / 2,
        "WorstContext": worse,
        "ContextCVaR": (worse + better / 2) / 1.5,
        "ContextQuantile": worse / 4 + 3 * better / 4,
        "AverageSuccess": torch.special.ndtr(low) + torch.special.ndtr(high),
    }
    (values,) = (v for name, v in truth.items() if repr(goal).startswith(name))
    assert abs(float(best) - float(x[values.argmax()])) < 2e-3


def test_optima_differ() -> None:
    model = known_function()
    goals = [AtContext([0.0]), ContextAverage(TWO), WorstContext(TWO)]
    best = [float(recommend(model, LINE, goal=goal)) for goal in goals]
    assert min(abs(a - b) for a in best for b in best if a is not b) > 0.05


@every_goal
def test_recommendation_on_a_grid(goal: Goal) -> None:
    model = make_model("mixed", (2,))
    best = recommend(model, SPACE, goal=goal)
    ticks = torch.linspace(0, 1, 41).double()
    grid = torch.cartesian_prod(ticks, ticks).unsqueeze(1).expand(-1, 2, -1)
    with torch.no_grad():
        values = goal.mean(model, SPACE, grid).amax(dim=0)
        assert (goal.mean(model, SPACE, best) >= values - 1e-6).all()


class TestContexts:
    def test_context_of_each_element(self) -> None:
        model = make_model("outcomes", (2,))
        contexts = double([[0.2], [0.7]])
        mean = AtContext(contexts).mean(model, SPACE, X.unsqueeze(1))
        for i, s in enumerate((0.2, 0.7)):
            own = AtContext(s).mean(model, SPACE, X.unsqueeze(1))[:, i]
            torch.testing.assert_close(mean[:, i], own)

    def test_grid_covers_the_bounds_and_needs_a_point(self) -> None:
        space = ContextSpace(double([[0.0, 2.0, 0.0], [1.0, 4.0, 1.0]]), [0, 1], [0, 2])
        grid = context_grid(space, 3)
        assert grid.shape == (9, 2)
        assert grid[1].tolist() == [0.0, 3.0]
        assert context_grid(SPACE, 1).tolist() == [[0.5]]
        with pytest.raises(InputDataError, match="``num_points`` .* but got 0"):
            context_grid(SPACE, 0)

    def test_draws_come_from_the_distribution_and_repeat_themselves(self) -> None:
        uniform_contexts = torch.distributions.Uniform(0.2, 0.4)
        contexts = draw_contexts(uniform_contexts, 500, seed=1)
        assert contexts.shape == (500, 1)
        assert 0.2 <= contexts.min() < contexts.max() <= 0.4
        assert abs(contexts.mean() - 0.3) < 0.01
        assert torch.equal(contexts, draw_contexts(uniform_contexts, 500, seed=1))

    def test_weights_sum_to_one_and_are_equal_by_default(self) -> None:
        goal = ContextAverage(CONTEXTS, [5, 2, 3])
        assert goal.weights == (0.5, 0.2, 0.3)
        assert ContextAverage([0.1, 0.2]).weights == (0.5, 0.5)

    def test_refuses_wrong_weights_shares_contexts_and_models(self) -> None:
        with pytest.raises(InputDataError, match="``weights`` .* 3 contexts"):
            ContextAverage(CONTEXTS, [1, 2])
        with pytest.raises(InputDataError, match="``weights`` .* but got"):
            AverageSuccess(CONTEXTS, [1, 2, 0])
        with pytest.raises(InputDataError, match="``contexts`` to hold a row"):
            WorstContext([])
        with pytest.raises(InputDataError, match="``share`` .* but got 1.5"):
            ContextQuantile(CONTEXTS, 1.5)
        with pytest.raises(InputDataError, match="``share`` .* but got 0"):
            ContextCVaR(CONTEXTS, 0)
        with pytest.raises(InputDataError, match="``context`` to hold finite"):
            AtContext([float("nan")])
        model = make_model("outcomes")
        for goal in (WorstContext([0.1, 1.2]), AtContext([2.0])):
            with pytest.raises(InputDataError, match="within the bounds"):
                recommend(model, SPACE, goal=goal)
        with pytest.raises(InputDataError, match="one number for each of the 1"):
            recommend(model, SPACE, goal=AtContext([0.2, 0.3]))
        with pytest.raises(UnsupportedError, match="to have pass/fail outcomes"):
            recommend(make_model("duels"), SPACE, goal=SUCCESS)


def test_repr_of_each_goal_begins_with_its_class() -> None:
    names = {repr(goal).partition("(")[0] for goal in (*LINEAR, *SAMPLED, SUCCESS)}
    assert names == {
        "AtReference",
        "AtContext",
        "ContextAverage",
        "WorstContext",
        "ContextQuantile",
        "ContextCVaR",
        "AverageSuccess",
    }
