from __future__ import annotations

import torch
from linear_operator import to_dense
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern
from torch import Tensor
from torch.distributions import MultivariateNormal

from benchmarks.studies.regression import (
    JITTER,
    KERNELS,
    Fit,
    fit_kernel,
    log_likelihood,
    predict,
)
from tests.closeness import assert_all_close
from tests.tensors import uniform

LENGTHSCALES = {
    "SE-ARD": (0.1, 0.6),
    "Matérn 3/2": (0.3, 0.3),
    "Matérn 5/2": (0.2,) * 2,
}


def drawn(kernel: str, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """A function drawn from a known kernel, at random points."""
    X = uniform(n, 2, seed=seed)
    covariance = to_dense(Fit(kernel, LENGTHSCALES[kernel], 1.5, 0.0).covar_module()(X))
    root = torch.linalg.cholesky(covariance.detach() + 1e-9 * torch.eye(n).double())
    generator = torch.Generator().manual_seed(seed)
    return X, root @ torch.randn(n, dtype=torch.double, generator=generator)


def peer(kernel: str) -> GaussianProcessRegressor:
    """Scikit-learn's regression with the same kernel and fixed hyperparameters."""
    lengthscales = LENGTHSCALES[kernel]
    base = {
        "SE-ARD": RBF(lengthscales),  # pyright: ignore
        "Matérn 3/2": Matern(lengthscales[0], nu=1.5),
        "Matérn 5/2": Matern(lengthscales[0], nu=2.5),
    }[kernel]
    covariance = ConstantKernel(1.5) * base
    return GaussianProcessRegressor(covariance, alpha=JITTER, optimizer=None)  # pyright: ignore


class TestRegression:
    def test_agrees_with_scikit_learn(self) -> None:
        for kernel in KERNELS:
            X, Y = drawn(kernel, 40, seed=0)
            test_X = uniform(7, 2, seed=1)
            other = peer(kernel).fit(X.numpy(), Y.numpy())
            fit = Fit(kernel, LENGTHSCALES[kernel], 1.5, 0.0)
            value = log_likelihood(fit.covar_module(), X, Y)
            likelihood = torch.as_tensor(other.log_marginal_likelihood_value_)
            assert_all_close(value, likelihood, atol=1e-6)
            expected = torch.from_numpy(other.predict(test_X.numpy()))
            assert_all_close(predict(fit, X, Y, test_X), expected, atol=1e-6)

    def test_gradient_equals_that_of_a_multivariate_normal(self) -> None:
        for kernel in KERNELS:
            X, Y = drawn(kernel, 12, seed=0)
            module = Fit(kernel, LENGTHSCALES[kernel], 1.5, 0.0).covar_module()
            covariance = to_dense(module(X)) + JITTER * torch.eye(12).double()
            prior = MultivariateNormal(torch.zeros_like(Y), covariance)
            parameters = list(module.parameters())
            expected = torch.autograd.grad(prior.log_prob(Y), parameters)
            actual = torch.autograd.grad(log_likelihood(module, X, Y), parameters)
            for ours, theirs in zip(actual, expected, strict=True):
                assert_all_close(ours, theirs, rtol=1e-6)

    def test_fit_finds_the_hyperparameters(self) -> None:
        for kernel in KERNELS:
            X, Y = drawn(kernel, 250, seed=3)
            fit = fit_kernel(kernel, X, Y)
            true = Fit(kernel, LENGTHSCALES[kernel], 1.5, 0.0)
            at_true = log_likelihood(true.covar_module(), X, Y).item()
            assert fit.log_likelihood > at_true
            ratios = torch.tensor(fit.lengthscales) / torch.tensor(true.lengthscales)
            assert ((ratios > 0.6) & (ratios < 1.6)).all(), (kernel, fit)

    def test_lowest_error_finds_the_kernel(self) -> None:
        for kernel in KERNELS:
            X, Y = drawn(kernel, 650, seed=4)
            errors = {}
            for candidate in KERNELS:
                fit = fit_kernel(candidate, X[:150], Y[:150])
                mean = predict(fit, X[:150], Y[:150], X[150:])
                errors[candidate] = (mean - Y[150:]).square().mean().item()
            assert min(errors, key=errors.__getitem__) == kernel, errors
