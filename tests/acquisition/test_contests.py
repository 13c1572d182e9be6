r"""The values of contests, against simulated contests and against those of duels."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_binary_context import (
    BestOfGP,
    ContestKnowledgeGradient,
    ContextSpace,
    ExpectedBestOfContest,
    ExpectedBestOption,
)
from botorch_binary_context.acquisition.moment_matched import LookAhead
from botorch_binary_context.functionals import VALUE as _VALUE
from tests.small_models import simple_kernel
from tests.tensors import double, uniform

SPACE = ContextSpace(double([[0.0, 0.0], [1.0, 1.0]]), [0], [0.5])
NUM_DRAWS = 400_000


def make_model() -> BestOfGP:
    X = uniform(6, 3, 2)
    Y = double([[0.0], [1.0], [2.0], [1.0], [0.0], [2.0]])
    X[..., 0] = X[:, :1, 0]
    model = BestOfGP(X, Y, covar_module=simple_kernel())
    return model.requires_grad_(False).eval()


def simulate(model: BestOfGP, contest: Tensor, points: Tensor) -> float:
    """The knowledge gradient by drawing functions, noise and winners."""
    rows = torch.cat([contest, points])
    posterior = model.posterior(rows)
    generator = torch.Generator().manual_seed(0)
    covar: Tensor = posterior.distribution.covariance_matrix  # pyright: ignore
    root = torch.linalg.cholesky(covar + 1e-9 * torch.eye(len(rows)).to(covar))
    k = len(contest)
    shape = NUM_DRAWS // 2, len(rows) + k
    half = torch.randn(shape, generator=generator, dtype=torch.double)
    z = torch.cat([half, -half])  # so that means are exact
    f = posterior.mean.squeeze(-1) + z[:, k:] @ root.mT
    winner = (f[:, :k] + 0.5**0.5 * z[:, :k]).argmax(dim=-1)
    after = 0.0
    for w in range(k):
        won = f[winner == w]
        after += len(won) / NUM_DRAWS * float(won[:, k:].mean(dim=0).max())
    return after - float(f[:, k:].mean(dim=0).max())


def test_knowledge_gradient_is_that_of_simulated_contests():
    model = make_model()
    value = ContestKnowledgeGradient(model, SPACE, num_points=12)
    values = double([[0.05], [0.95], [0.5], [0.3]])
    for k in (2, 3, 4):
        contest = torch.cat([torch.full((k, 1), 0.3).double(), values[:k]], dim=-1)
        shown = SPACE.at_reference(SPACE.parameters(contest))
        points = torch.cat([value.points.rows, shown])
        expected = simulate(model, contest, points)
        assert expected > 0.04
        assert abs(float(value(contest.unsqueeze(0))) - expected) < 4e-3, k


def test_two_settings_are_a_duel():
    model = make_model()
    value = ContestKnowledgeGradient(model, SPACE, num_points=12)
    duels = uniform(5, 2, 2, seed=4)
    ahead = LookAhead.of(model.values_of(duels), value.projection)
    at_points = ahead.at_shared(value.points, value.mean).amax(dim=-1)
    shown = SPACE.at_reference(SPACE.parameters(duels))
    at_shown = torch.stack(
        [
            ahead.at_own(model.values_of(torch.cat([shown[:, i : i + 1]] * 2), _VALUE))
            for i in range(2)
        ]
    ).amax(dim=0)
    best = torch.maximum(at_points, at_shown).view(2, -1).sum(dim=0)
    torch.testing.assert_close(value(duels), best - value.current_value)
    sampled = ExpectedBestOfContest(model, SPACE)(duels)
    closed = ExpectedBestOption(model, SPACE).evaluate(duels)
    torch.testing.assert_close(sampled, closed, atol=5e-3, rtol=0)


def test_gradient_of_a_contest_equals_finite_differences():
    model = make_model()
    value = ContestKnowledgeGradient(model, SPACE, num_points=12)
    for k in (2, 3, 4):
        contest = uniform(1, k, 2, seed=5).requires_grad_()
        (gradient,) = torch.autograd.grad(value(contest).sum(), contest)
        step = torch.zeros_like(contest)
        step[0, 1, 1] = 1e-5
        with torch.no_grad():
            change = (value(contest + step) - value(contest - step)) / 2e-5
        assert abs(float(gradient[0, 1, 1]) - float(change)) < 1e-5, k
