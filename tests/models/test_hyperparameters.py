from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from botorch.exceptions import UnsupportedError
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.priors import LogNormalPrior
from torch import Tensor

from botorch_binary_context import (
    ApproximateMarginalLogLikelihood,
    BinaryGP,
    PreferenceGP,
    ProbitLikelihood,
)
from botorch_binary_context.models.averaged_gp import AveragedGP
from botorch_binary_context.models.hyperparameters import (
    _choose,
    draw_hyperparameters,
    expand_model,
)
from botorch_binary_context.models.latent_gp import LatentGP

SPREAD = 0.6


def scaled_kernel(batch: tuple[int, ...] = ()) -> ScaleKernel:
    """A kernel of one column with a prior of each of its two hyperparameters."""
    shape = torch.Size(batch)
    kernel = ScaleKernel(
        RBFKernel(
            batch_shape=shape,
            lengthscale_prior=LogNormalPrior(math.log(0.4), SPREAD),
        ),
        batch_shape=shape,
        outputscale_prior=LogNormalPrior(math.log(4.0), SPREAD),
    )
    kernel.outputscale = 4.0
    kernel.base_kernel.initialize(lengthscale=0.4)
    return kernel.double()


def outcomes(
    n: int, seed: int = 0, batch: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(*batch, n, 1, dtype=torch.double, generator=generator)
    p = torch.special.ndtr(4 * torch.sin(6 * X))
    return X, (torch.rand(p.shape, generator=generator) < p).double()


def make_model(n: int = 25, seed: int = 0, batch: tuple[int, ...] = ()) -> BinaryGP:
    X, Y = outcomes(n, seed, batch)
    return BinaryGP(X, Y, covar_module=scaled_kernel(batch)).eval()


def coordinates(model: LatentGP) -> Tensor:
    """The logarithms of output scale and lengthscale, ``... x 2``."""
    kernel: Any = model.covar_module
    length = kernel.base_kernel.lengthscale[..., 0, 0]
    return torch.stack([kernel.outputscale, length], dim=-1).log().detach()


def moments_on_a_grid(model: BinaryGP) -> tuple[Tensor, Tensor]:
    """Of the posterior of the two logarithms, by the evidence of single models."""
    line = torch.linspace(-3, 3, 25, dtype=torch.double) * SPREAD
    grid = torch.cartesian_prod(line + math.log(4.0), line + math.log(0.4))
    X, Y = model.train_inputs[0], model.train_targets.unsqueeze(-1)
    kernel = scaled_kernel((len(grid),))
    kernel.outputscale = grid[:, 0].exp()
    kernel.base_kernel.lengthscale = grid[:, 1].exp().view(-1, 1, 1)
    many = BinaryGP(
        X.expand(len(grid), -1, -1), Y.expand(len(grid), -1, -1), covar_module=kernel
    )
    center = torch.tensor([math.log(4.0), math.log(0.4)], dtype=torch.double)
    prior = -((grid - center) / SPREAD).square().sum(dim=-1) / 2
    with torch.no_grad():
        weights = (many.eval().approximation.log_evidence + prior).softmax(dim=0)
    mean = (weights.unsqueeze(-1) * grid).sum(dim=0)
    square = (weights.unsqueeze(-1) * (grid - mean).square()).sum(dim=0)
    return mean, square.sqrt()


class TestDraws:
    @pytest.mark.parametrize("seed", [0, 1])
    def test_moments_are_those_of_a_grid(self, seed: int):
        model = make_model(seed=seed)
        mean, deviation = moments_on_a_grid(model)
        found = coordinates(draw_hyperparameters(model, 256))
        # Half of the importance samples' independent error: they are quasi-random.
        assert ((found.mean(dim=0) - mean).abs() < 0.1 * deviation).all()
        assert ((found.std(dim=0) / deviation - 1).abs() < 0.12).all()

    def test_start_does_not_matter(self):
        model = make_model()
        mean, deviation = moments_on_a_grid(model)
        model.covar_module.outputscale = 4.0 * math.exp(0.5)  # pyright: ignore
        found = coordinates(draw_hyperparameters(model, 256))
        assert ((found.mean(dim=0) - mean).abs() < 0.15 * deviation).all()

    def test_no_trials_give_the_prior(self):
        found = coordinates(draw_hyperparameters(make_model(0), 256))
        center = torch.tensor([math.log(4.0), math.log(0.4)], dtype=torch.double)
        assert ((found.mean(dim=0) - center).abs() < 0.1 * SPREAD).all()
        assert ((found.std(dim=0) / SPREAD - 1).abs() < 0.1).all()

    def test_batch_is_a_loop(self):
        batched = make_model(batch=(3,))
        found = coordinates(draw_hyperparameters(batched, 8))
        for i in range(3):
            X, Y = batched.train_inputs[0][i], batched.train_targets[i].unsqueeze(-1)
            single = BinaryGP(X, Y, covar_module=scaled_kernel())
            alone = coordinates(draw_hyperparameters(single, 8))
            torch.testing.assert_close(found[:, i], alone, atol=1e-4, rtol=0)

    def test_fixed_hyperparameters_stay(self):
        model = make_model()
        kernel: Any = model.covar_module
        kernel.base_kernel.raw_lengthscale.requires_grad_(False)
        found = coordinates(draw_hyperparameters(model, 16))
        assert (found[:, 1] == coordinates(model)[1]).all()
        assert found[:, 0].std() > 0.1
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        draws = draw_hyperparameters(model, 4)
        assert draws.batch_shape == torch.Size([4])

    def test_learned_rate(self):
        X, Y = outcomes(40)
        likelihood = ProbitLikelihood(0.2, 0.02, learn_lapse_rate=True)
        model = BinaryGP(X, Y, likelihood=likelihood, covar_module=scaled_kernel())
        draws = draw_hyperparameters(model, 64)
        rate = draws.likelihood.lapse_rate
        assert isinstance(rate, Tensor)
        assert rate.shape == (64, 1)
        rate = rate.detach()
        # The prior, Beta(1.5, 30), has a mean of 0.048 and a deviation of 0.037.
        assert 0.01 < float(rate.mean()) < 0.09
        assert 0.01 < float(rate.std()) < 0.05

    def test_same_seed_draws_the_same_and_another_does_not(self):
        model = make_model()
        first, again, other = (
            coordinates(draw_hyperparameters(model, 8, seed)) for seed in (0, 0, 1)
        )
        assert torch.equal(first, again)
        assert not torch.equal(first, other)

    def test_shared_hyperparameters_of_a_batch(self):
        X, Y = outcomes(5, batch=(2,))
        model = BinaryGP(X, Y, covar_module=scaled_kernel())
        with pytest.raises(UnsupportedError, match="each element of the batch, .2."):
            draw_hyperparameters(model)

    def test_refuses_draws_of_which_none_has_a_finite_evidence(self):
        weights = torch.tensor([[0.0, -torch.inf], [1.0, torch.nan]])
        with pytest.raises(UnsupportedError, match="finite evidence near the hyperp"):
            _choose(torch.zeros(2, 2, 1), weights)

    def test_the_model_is_left_as_it_was(self):
        model = make_model()
        before = {name: p.clone() for name, p in model.named_parameters()}
        draw_hyperparameters(model, 4)
        for name, parameter in model.named_parameters():
            assert torch.equal(parameter, before[name])
            assert parameter.requires_grad


class TestLogPosterior:
    def test_is_what_is_maximized_by_a_fit(self):
        model = make_model()
        value = model.log_posterior_of_hyperparameters()
        mll = ApproximateMarginalLogLikelihood(model.likelihood, model).train()
        X, Y = model.train_inputs, model.train_targets
        per_trial: Any = mll(model(*X), Y)
        torch.testing.assert_close(value, per_trial * Y.shape[-1])


class TestExpandModel:
    def test_same_posterior(self):
        model = make_model()
        X = torch.rand(3, 1, dtype=torch.double)
        posterior = model.posterior(X)
        many = expand_model(model, 4).posterior(X)
        torch.testing.assert_close(many.mean, posterior.mean.expand(4, 3, 1))
        torch.testing.assert_close(many.variance, posterior.variance.expand(4, 3, 1))


class TestAveragedGP:
    def test_is_the_mean_over_the_draws(self):
        model = make_model()
        averaged = AveragedGP(model, num_draws=8)
        X = torch.rand(5, 3, 1, dtype=torch.double)
        found = averaged.exact_posterior(X, 1024)
        parts = averaged.draws.exact_posterior(X.unsqueeze(-3), 128)
        mean = parts.mean.mean(dim=1)
        square = (parts.variance + parts.mean.square()).mean(dim=1)
        torch.testing.assert_close(found.mean, mean)
        torch.testing.assert_close(
            found.variance, square - mean.square(), rtol=0.01, atol=0
        )
        torch.testing.assert_close(found.probability, parts.probability.mean(dim=1))

    def test_quantiles_of_draws(self):
        posterior = AveragedGP(make_model(), 8).exact_posterior(
            torch.tensor([[0.1], [0.9]], dtype=torch.double), 2048
        )
        torch.manual_seed(0)
        draws = posterior.rsample(torch.Size([200000])).detach()
        tails = torch.tensor([0.05, 0.5, 0.95], dtype=torch.double)
        expected = torch.quantile(draws, tails, dim=0)
        deviation = posterior.variance.sqrt()
        found = posterior.quantile(tails)
        assert ((found - expected).abs() < 0.04 * deviation).all()
        found = posterior.probability_quantile(tails)
        expected = torch.quantile(torch.special.ndtr(draws), tails, dim=0)
        assert ((found - expected).abs() < 0.01).all()

    def test_quantiles_with_a_learned_rate(self):
        X, Y = outcomes(30)
        likelihood = ProbitLikelihood(0.2, 0.1, learn_lapse_rate=True)
        model = BinaryGP(X, Y, likelihood=likelihood, covar_module=scaled_kernel())
        averaged = AveragedGP(model, 8)
        easy = torch.tensor([[0.25]], dtype=torch.double)
        parts = averaged.draws.exact_posterior(easy.unsqueeze(-3), 5000)
        torch.manual_seed(0)
        latent = parts.rsample(torch.Size([20000])).squeeze(-1)  # draws x sets x 1
        success = averaged.draws.likelihood.probability(latent).flatten().detach()
        tails = torch.tensor([0.05, 0.5, 0.95], dtype=torch.double)
        found = averaged.exact_posterior(easy, 4096).probability_quantile(tails)
        expected = torch.quantile(success, tails)
        assert ((found.flatten().detach() - expected).abs() < 0.015).all()

    def test_wider_than_with_learned_hyperparameters(self):
        model = make_model(15)
        far = torch.tensor([[[3.0]]], dtype=torch.double)
        wide = AveragedGP(model).exact_posterior(far).variance
        assert wide > 1.05 * model.exact_posterior(far).variance

    def test_error_of_the_mean(self):
        model = make_model(15)
        X = torch.tensor([[0.5]], dtype=torch.double)
        means = [
            AveragedGP(model, 16, seed).exact_posterior(X, 512, seed)
            for seed in range(12)
        ]
        deviation = torch.stack([p.mean for p in means]).std()
        error = torch.stack([p.mean_error for p in means]).mean()
        # Quasi-random hyperparameters scatter less than the error that is stated.
        assert 0.2 * error < deviation < 1.5 * error

    def test_batch_of_duels(self):
        generator = torch.Generator().manual_seed(0)
        X = torch.rand(2, 9, 2, 1, dtype=torch.double, generator=generator)
        Y = (X[..., 0, :] > X[..., 1, :]).double()
        model = PreferenceGP(X, Y)
        posterior = AveragedGP(model, 4).exact_posterior(X[:, 0].unsqueeze(0), 64)
        assert posterior.mean.shape == (1, 2, 2, 1)
        assert posterior.probability.shape == (1, 2, 1, 1)
        tails = torch.tensor([0.1, 0.9], dtype=torch.double)
        low, high = posterior.probability_quantile(tails)
        assert (low < posterior.probability).all()
        assert (posterior.probability < high).all()
