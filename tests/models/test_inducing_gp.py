from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.exceptions.warnings import InputDataWarning, NumericsWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import Normalize
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from gpytorch.mlls import VariationalELBO
from gpytorch.models import ApproximateGP
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy
from torch import Tensor

from botorch_binary_context import (
    ApproximateMarginalLogLikelihood,
    BinaryGP,
    ContextSpace,
    InducingGP,
    MultiplicativeContextKernel,
    PreferenceGP,
    ProbitLikelihood,
    draw_sample_paths,
    recommend,
    suggest,
)
from botorch_binary_context.inference import inducing
from tests.closeness import assert_all_close
from tests.tensors import uniform


def kernel(outputscale: float = 1.0) -> ScaleKernel:
    base: Any = RBFKernel()
    base.lengthscale = 0.4
    covar_module = ScaleKernel(base)
    covar_module.outputscale = outputscale
    return covar_module.double().requires_grad_(False)


def outcomes(n: int) -> tuple[Tensor, Tensor]:
    X = uniform(n, 2)
    passes = X.sum(dim=-1, keepdim=True) + 0.5 * uniform(n, 1, seed=1) > 1.25
    return X, passes.double()


def duels(n: int) -> tuple[Tensor, Tensor]:
    X = uniform(n, 2, 2)
    value = -(X - 0.6).square().sum(dim=-1) + 0.2 * uniform(n, 2, seed=1)
    return X, (value[:, :1] > value[:, 1:]).double()


class StockGP(ApproximateGP):
    """GPyTorch's own model with the same inducing points and the same ``q``."""

    def __init__(self, model: InducingGP) -> None:
        found: Any = model.approximation
        Z = model.datapoints
        strategy = VariationalStrategy(
            self,
            Z,
            CholeskyVariationalDistribution(len(Z)),
            learn_inducing_locations=False,
        )
        super().__init__(strategy)
        self.covar_module: Kernel = model.covar_module
        self.double()
        center = torch.linalg.solve(found.unwhiten, found.weights)
        inverse = torch.cholesky_inverse(found.cholesky)
        distribution: Any = strategy._variational_distribution
        distribution.variational_mean.data.copy_(center)
        distribution.chol_variational_covar.data.copy_(torch.linalg.cholesky(inverse))
        initialized: Any = strategy.variational_params_initialized
        initialized.fill_(1)

    def forward(self, x: Tensor) -> MultivariateNormal:
        return MultivariateNormal(x.new_zeros(x.shape[:-1]), self.covar_module(x))


@pytest.mark.parametrize("data", [outcomes, duels])
def test_is_the_optimum_of_the_stock_bound(data: Any) -> None:
    X, Y = data(40)
    model = InducingGP(X, Y, inducing_points=9, covar_module=kernel()).eval()
    stock = StockGP(model)
    stock.eval()  # in ``train`` mode it leaves out covariances of the sides of a duel
    rows = X if X.ndim == 2 else X.flatten(0, 1)
    mll = VariationalELBO(model.likelihood, stock, num_data=len(rows))
    value: Any = mll(stock(rows), Y.squeeze(-1))
    bound = model.approximation.log_evidence
    assert torch.allclose(len(rows) * value, bound, rtol=0, atol=1e-3)
    (len(rows) * value).backward()
    for parameter in stock.variational_parameters():
        assert parameter.grad is not None
        slope = parameter.grad if parameter.ndim == 1 else parameter.grad.tril()
        assert slope.abs().max() < 2e-3


class TestInducingGP:
    def test_all_rows_as_inducing_points(self) -> None:
        test_X = uniform(20, 2, seed=2)
        for data, model_class in ((outcomes, BinaryGP), (duels, PreferenceGP)):
            X, Y = data(30)
            model = InducingGP(X, Y, covar_module=kernel(4.0)).eval()
            full = model_class(X, Y, covar_module=kernel(4.0)).eval()
            found = model.posterior(test_X)
            expected = full.posterior(test_X)
            scale = expected.variance.sqrt()
            error = (found.mean - expected.mean).abs() / scale
            assert error.max().item() < 0.08
            ratio = found.variance.sqrt() / scale
            assert bool(((ratio > 0.93) & (ratio < 1.01)).all())
            # A lower bound of the evidence, and a close one.
            gap = full.approximation.log_evidence - model.approximation.log_evidence
            assert 0.0 < gap.item() < 0.5

    def test_few_points_do_for_a_smooth_function(self) -> None:
        X, Y = outcomes(200)
        test_X = uniform(20, 2, seed=2)
        few = InducingGP(X, Y, inducing_points=25, covar_module=kernel()).eval()
        many = InducingGP(X, Y, inducing_points=100, covar_module=kernel()).eval()
        assert few.datapoints.shape == torch.Size([25, 2])
        found = few.posterior(test_X)
        expected = many.posterior(test_X)
        error = (found.mean - expected.mean).abs() / expected.variance.sqrt()
        assert error.max().item() < 0.05

    def test_joint_moments_and_draws_agree(self) -> None:
        X, Y = duels(60)
        model = InducingGP(X, Y, inducing_points=20, covar_module=kernel()).eval()
        test_X = uniform(3, 2, seed=2)
        posterior: Any = model.posterior(test_X)
        paths = draw_sample_paths(
            model,
            20_000,
            bounds=model.datapoints.new_tensor([[0.0, 0.0], [1.0, 1.0]]),
            seed=0,
        )
        draws = paths(test_X)
        draws = draws.reshape(-1, 3)
        covariance = posterior.distribution.covariance_matrix
        assert_all_close(draws.mean(dim=0), posterior.mean.squeeze(-1), atol=0.03)
        assert_all_close(draws.T.cov(), covariance, atol=0.04)
        one_by_one = model.posterior(test_X.unsqueeze(-2)).variance.flatten()
        assert_all_close(covariance.diagonal(), one_by_one, rtol=1e-8)

    def test_further_trials(self) -> None:
        for data in (outcomes, duels):
            X, Y = data(60)
            options: Any = {"inducing_points": 15, "covar_module": kernel()}
            model = InducingGP(X[:50], Y[:50], **options).eval()
            rows = model.inducing_rows
            model.approximation  # noqa: B018
            warm = model.condition_on_observations(X[50:], Y[50:])
            cold = InducingGP(X, Y, **options)
            cold._chosen = rows
            test_X = uniform(9, 2, seed=2)
            with mock.patch.object(inducing, "_match", wraps=inducing._match) as sweep:
                found = warm.posterior_mean(test_X)
                num_warm = sweep.call_count
                expected = cold.posterior_mean(test_X)
            assert_all_close(found, expected, rtol=0, atol=1e-4)
            assert num_warm < sweep.call_count

    def test_guesses_give_nearly_the_mean_of_the_full_model(self) -> None:
        X, Y = outcomes(60)
        likelihood = ProbitLikelihood(0.5, 0.02)
        options: Any = {"likelihood": likelihood, "covar_module": kernel(4.0)}
        model = InducingGP(X, Y, **options).eval()
        full = BinaryGP(X, Y, **options).eval()
        test_X = uniform(9, 2, seed=2)
        found = model.posterior(test_X)
        expected = full.posterior(test_X)
        error = (found.mean - expected.mean).abs() / expected.variance.sqrt()
        assert error.max().item() < 0.3

    def test_learns_hyperparameters_with_a_transform(self) -> None:
        X, Y = outcomes(80)
        transform = Normalize(2, bounds=torch.tensor([[0.0, 0.0], [10.0, 10.0]]))
        model = InducingGP(
            10 * X, Y, inducing_points=20, input_transform=transform.double()
        )
        full = BinaryGP(X, Y, covar_module=InducingGP(X, Y).covar_module)
        for m in (model, full):
            fit_gpytorch_mll(ApproximateMarginalLogLikelihood(m.likelihood, m))
        for a, b in zip(model.parameters(), full.parameters(), strict=True):
            assert_all_close(a, b, rtol=0, atol=1e-3)
        assert model.original_datapoints.max().item() > 1.0
        assert model.posterior(10 * X[:2]).mean.isfinite().all()

    def test_rules_work_except_those_that_need_all_trials(self) -> None:
        space = ContextSpace(
            torch.tensor([[0.5, 0.0], [2.0, 1.0]]).double(), [0], [1.0]
        )
        options: Any = {"inducing_points": 12}
        for data, rules in (
            (outcomes, ("ucb99-ald", "ts-ald", "bald", "mkg")),
            (duels, ("muc-ald", "eubo-ald")),
        ):
            X, Y = data(40)
            X[..., 0] = 0.5 + 1.5 * (X[..., 0] if X.ndim == 2 else X[:, :1, 0])
            covar_module = MultiplicativeContextKernel(kernel(), [0])
            model = InducingGP(X, Y, covar_module=covar_module, **options)
            for rule in rules:
                trial = suggest(model, space, rule)
                assert trial.shape == torch.Size([1, *X.shape[1:]])
            assert bool(recommend(model, space).isfinite().all())
            rule = "cbkg" if X.ndim == 2 else "kg"
            with pytest.raises(UnsupportedError, match="model of all trials"):
                suggest(model, space, rule)

    def test_refuses_what_it_cannot(self) -> None:
        X, Y = outcomes(12)
        model = InducingGP(X, Y, covar_module=kernel())
        for job in (
            lambda: model.exact_posterior(X),
            lambda: model.expand_data(torch.Size([2])),
            model.log_posterior_of_hyperparameters,
        ):
            with pytest.raises(UnsupportedError, match="Expected a model of all"):
                job()
        with pytest.raises(InputDataError, match="without a batch"):
            InducingGP(X.expand(2, 2, 12, 2), Y.expand(2, 2, 12, 1))
        with pytest.raises(InputDataError, match="without a batch"):
            InducingGP(X[:0], Y[:0])
        with pytest.raises(InputDataError, match="inducing_points"):
            InducingGP(X, Y, inducing_points=0)

    def test_says_if_it_did_not_converge(self) -> None:
        X, Y = outcomes(12)
        model = InducingGP(X, Y, covar_module=kernel(9.0)).eval()
        with (
            mock.patch.object(inducing, "MAX_SWEEPS", 1),
            pytest.warns(NumericsWarning, match="did not reach its tolerance"),
        ):
            model.approximation  # noqa: B018

    def test_single_precision(self) -> None:
        X, Y = outcomes(40)
        test_X = uniform(5, 2, seed=2)
        double = InducingGP(X, Y, inducing_points=10, covar_module=kernel())
        with pytest.warns(InputDataWarning):
            single = InducingGP(
                X.float(), Y.float(), inducing_points=10, covar_module=kernel()
            )
        single._chosen = double.inducing_rows
        found = single.posterior_mean(test_X.float())
        assert found.dtype == torch.float
        expected = double.posterior_mean(test_X)
        assert_all_close(found.double(), expected, rtol=0, atol=5e-3)
