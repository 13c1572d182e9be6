r"""Contests of several settings: against duels, grids and simulated contests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from botorch.acquisition import qSimpleRegret
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.exceptions.errors import BotorchTensorDimensionError
from scipy.stats import multivariate_normal

from botorch_binary_context import (
    BestOfGP,
    Observations,
    PreferenceGP,
    RatingLikelihood,
    draw_sample_paths,
    draw_weight_space_paths,
)
from botorch_binary_context.inference import ExpectationPropagation, Laplace
from botorch_binary_context.likelihoods.best_of import ContestLikelihood
from botorch_binary_context.models import contests
from tests.derivatives import finite_difference
from tests.small_models import simple_kernel
from tests.tensors import double, uniform

TEST = double([[0.4, 0.4], [0.8, 0.8]])
EXACT = ExpectationPropagation(1e-9)


def make_model(n: int = 4, k: int = 3, **kwargs: Any) -> BestOfGP:
    X = uniform(n, k, 2)
    Y = (k * uniform(n, 1, seed=1)).floor()
    kwargs.setdefault("covar_module", simple_kernel())
    return BestOfGP(X, Y, **kwargs)


def test_contests_of_two_are_duels():
    X = uniform(5, 2, 2)
    Y = double([[0.0], [1.0], [1.0], [0.0], [1.0]])
    ours = BestOfGP(X, Y, covar_module=simple_kernel(), inference=EXACT)
    duels = PreferenceGP(X, 1 - Y, covar_module=simple_kernel(), inference=EXACT)
    for name in ("mean", "variance"):
        torch.testing.assert_close(
            getattr(ours.posterior(TEST), name),
            getattr(duels.posterior(TEST), name),
            rtol=1e-6,
            atol=1e-7,
        )
    torch.testing.assert_close(
        ours.approximation.log_evidence, duels.approximation.log_evidence
    )
    found = ours.winner_probabilities(X[0])
    expected = duels.probability_posterior(X[0]).mean.squeeze()
    torch.testing.assert_close(found[0], expected, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(found.sum(), torch.ones_like(found[0]))


def test_posterior_of_one_contest_of_three_against_a_grid():
    X = uniform(1, 3, 2, seed=3)
    Y = double([[1.0]])
    model = BestOfGP(X, Y, covar_module=simple_kernel(), inference=EXACT)
    model.requires_grad_(False)
    rows = torch.cat([X[0], TEST])
    K = model.prior_covariance(rows, rows).numpy()
    # The winner's lead over both losers, and f at the test points.
    A = np.array([[-1.0, 1.0, 0.0], [0.0, 1.0, -1.0]])
    C, cross = A @ K[:3, :3] @ A.T, A @ K[:3, 3:]
    axes = [np.linspace(-7 * s, 7 * s, 141) for s in np.sqrt(C.diagonal())]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    # Both leads have a noise of variance 1, of which they share a half.
    wins = multivariate_normal(cov=[[1.0, 0.5], [0.5, 1.0]]).cdf(grid)  # pyright: ignore
    weights = multivariate_normal(cov=C).pdf(grid) * wins  # pyright: ignore
    volume = np.prod([axis[1] - axis[0] for axis in axes])
    evidence = np.log(weights.sum() * volume)
    weights /= weights.sum()
    means = grid @ np.linalg.solve(C, cross)
    mean = weights @ means
    left = K[3:, 3:] - cross.T @ np.linalg.solve(C, cross)
    sd = np.sqrt(weights @ (means - mean) ** 2 + left.diagonal())
    posterior = model.posterior(TEST)
    assert (np.abs(posterior.mean.squeeze(-1).numpy() - mean) / sd).max() < 0.02
    assert np.abs(posterior.variance.squeeze(-1).sqrt().numpy() / sd - 1).max() < 0.02
    assert abs(float(model.approximation.log_evidence) - evidence) < 0.01
    exact = model.exact_posterior(TEST, 4096)
    errors = exact.mean_error.squeeze(-1).numpy()
    assert (np.abs(exact.mean.squeeze(-1).numpy() - mean) < 4 * errors).all()


@pytest.mark.parametrize("k", [2, 3, 4])
def test_winner_probabilities_against_simulated_contests(k: int):
    model = make_model(k=k).requires_grad_(False)
    X = uniform(2, k, 2, seed=9)
    found = model.winner_probabilities(X)
    torch.testing.assert_close(found.sum(dim=-1), torch.ones_like(found[:, 0]))
    generator = np.random.default_rng(0)
    number = 40_000
    for i in range(2):
        posterior = model.posterior(X[i])
        covar: Any = posterior.distribution.covariance_matrix  # pyright: ignore
        mean = posterior.mean.squeeze(-1).numpy()
        noisy = covar.numpy() + 0.5 * np.eye(k)
        u = generator.multivariate_normal(mean, noisy, number)
        share = np.bincount(u.argmax(axis=-1), minlength=k) / number
        assert np.abs(found[i].numpy() - share).max() < 4 * 0.5 / number**0.5


@pytest.mark.parametrize("inference", [Laplace(), EXACT])
def test_gradients_of_the_evidence(inference: Any):
    model = make_model(inference=inference)
    parameters = [p for p in model.parameters() if p.requires_grad]

    def evidence(values: torch.Tensor) -> torch.Tensor:
        start = 0
        for parameter in parameters:
            end = start + parameter.numel()
            parameter.data = values[start:end].detach().view_as(parameter)
            start = end
        return model.log_posterior_of_hyperparameters()

    begin = torch.cat([p.detach().flatten() for p in parameters])
    expected = finite_difference(evidence, begin)
    found = torch.autograd.grad(evidence(begin), parameters)
    found = torch.cat([gradient.flatten() for gradient in found])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_more_contests_and_other_kinds():
    X = uniform(4, 3, 2)
    Y = double([[0.0], [2.0], [1.0], [2.0]])
    ratings = Observations(
        uniform(3, 2, seed=2), double([[3.0], [0.0], [1.0]]), RatingLikelihood(4)
    )
    kwargs: Any = {"covar_module": simple_kernel(), "others": [ratings]}
    whole = BestOfGP(X, Y, **kwargs)
    part = BestOfGP(X[:2], Y[:2], **kwargs)
    part.posterior(TEST)  # so that there is something to start from
    part = part.condition_on_contests(X[2:], Y[2:])
    torch.testing.assert_close(
        part.posterior(TEST).mean, whole.posterior(TEST).mean, rtol=1e-4, atol=1e-4
    )


def test_sample_paths_have_the_moments_of_the_posterior():
    model = make_model().requires_grad_(False)
    bounds = double([[0.0, 0.0], [1.0, 1.0]])
    draws = draw_sample_paths(model, 4000, bounds, seed=0)(TEST)
    posterior = model.posterior(TEST)
    error = (posterior.variance.squeeze(-1) / 4000).sqrt()
    gap = draws.mean(dim=0) - posterior.mean.squeeze(-1)
    assert bool((gap.abs() < 4.5 * error).all())
    ratio = draws.var(dim=0) / posterior.variance.squeeze(-1)
    assert bool(((ratio - 1).abs() < 0.12).all())
    with pytest.raises(UnsupportedError, match="to have no contests"):
        draw_weight_space_paths(model, 2, bounds)


def test_stock_acquisition_of_the_best_option():
    model = make_model().requires_grad_(False)
    value = qSimpleRegret(model)(uniform(2, 3, 2, seed=4))
    assert value.shape == (2,)
    assert model.num_options == 3


def test_refuses_wrong_numbers_of_options_and_winners():
    with pytest.raises(InputDataError, match="``num_options`` to be a whole number"):
        ContestLikelihood(1)
    with pytest.raises(BotorchTensorDimensionError, match="one winner for each"):
        contests(uniform(4, 3, 2), uniform(3, 1))
    with pytest.raises(InputDataError, match="labels from 0 to 2, but got 3.0"):
        contests(uniform(1, 3, 2), double([[3.0]]))
    with pytest.raises(InputDataError, match="contests of 3, but got 2 settings"):
        make_model().condition_on_contests(uniform(1, 2, 2), double([[0.0]]))
