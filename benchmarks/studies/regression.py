r"""
Regression of noise-free values with the three kernels that the paper compares.

The prior is ``f ~ GP(0, σ² k)``. No hyperparameter has a prior: lengthscales and output
scale maximize the exact marginal likelihood, within bounds, so that a flat likelihood
does not drive them to extremes. ``JITTER`` is added to the diagonal of the covariance
of the values, whose variance is about 1. It is not relative to the output scale: it
would then lower the output scale of smooth functions, which leave no residuals at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from botorch.optim.closures import ForwardBackwardClosure
from botorch.optim.core import scipy_minimize
from gpytorch.constraints import Positive
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from linear_operator import to_dense
from torch import Tensor

from botorch_binary_context.problems.registry import MATERN_32, MATERN_52, SE_ARD

KERNELS = (SE_ARD, MATERN_32, MATERN_52)
JITTER = 1e-6
LENGTHSCALE_BOUNDS = (0.005, 20.0)
OUTPUTSCALE_BOUNDS = (1e-2, 1e4)
STARTS = (0.05, 0.5)  # lengthscales


@dataclass(frozen=True)
class Fit:
    r"""Hyperparameters of a kernel that maximize the marginal likelihood.

    Attributes:
        kernel: The kernel: ``"SE-ARD"``, ``"Matérn 3/2"`` or ``"Matérn 5/2"``.
        lengthscales: A lengthscale for each variable; those of a Matérn kernel, which
            is isotropic, are equal.
        outputscale: The variance of the prior.
        log_likelihood: The logarithm of the marginal likelihood.
    """

    kernel: str
    lengthscales: tuple[float, ...]
    outputscale: float
    log_likelihood: float

    def covar_module(self) -> ScaleKernel:
        r"""The kernel as a module, in double precision."""
        module = make_kernel(self.kernel, dim=len(self.lengthscales))
        size = module.base_kernel.lengthscale.shape[-1]
        module.base_kernel.lengthscale = _double(self.lengthscales[:size])
        module.outputscale = _double(self.outputscale)
        return module


def make_kernel(kernel: str, dim: int) -> ScaleKernel:
    r"""A kernel with an output scale whose raw parameters are logarithms.

    Args:
        kernel: One of ``KERNELS``.
        dim: The number of variables.

    Returns:
        The kernel, in double precision.
    """
    exp: Any = torch.exp
    positive = Positive(transform=exp, inv_transform=torch.log)
    if kernel == SE_ARD:
        base_kernel: Kernel = RBFKernel(
            ard_num_dims=dim, lengthscale_constraint=positive
        )
    else:
        nu = {MATERN_32: 1.5, MATERN_52: 2.5}[kernel]
        base_kernel = MaternKernel(nu=nu, lengthscale_constraint=positive)
    return ScaleKernel(base_kernel, outputscale_constraint=positive).double()


def fit_kernel(kernel: str, X: Tensor, Y: Tensor) -> Fit:
    r"""Maximize the marginal likelihood from several starts.

    Args:
        kernel: One of ``KERNELS``.
        X: ``n x d`` points.
        Y: ``n`` values.

    Returns:
        The best of the maxima found.
    """
    fits = [_climb(kernel, X, Y, lengthscale=start) for start in STARTS]
    return max(fits, key=lambda fit: fit.log_likelihood)


def predict(fit: Fit, X: Tensor, Y: Tensor, test_X: Tensor) -> Tensor:
    r"""The mean of the posterior.

    Args:
        fit: The kernel and its hyperparameters.
        X: ``n x d`` points.
        Y: ``n`` values.
        test_X: ``m x d`` points.

    Returns:
        The posterior mean at the ``m`` points.
    """
    module = fit.covar_module()
    with torch.no_grad():
        L = torch.linalg.cholesky(_covariance(module, X))
        weights = torch.cholesky_solve(Y.unsqueeze(-1), L)
        return (to_dense(module(test_X, X)) @ weights).squeeze(-1)


def log_likelihood(module: Kernel, X: Tensor, Y: Tensor) -> Tensor:
    r"""The logarithm of the marginal likelihood.

    Args:
        module: The kernel.
        X: ``n x d`` points.
        Y: ``n`` values.

    Returns:
        A scalar that can be differentiated.
    """
    return _LogDensity.apply(_covariance(module, X), Y)


class _LogDensity(torch.autograd.Function):
    """The log density of ``N(0, K)``, whose gradient costs less than Cholesky's."""

    @staticmethod
    def forward(ctx: Any, K: Tensor, Y: Tensor) -> Tensor:
        L = torch.linalg.cholesky(K)
        weights = torch.cholesky_solve(Y.unsqueeze(-1), L).squeeze(-1)
        ctx.save_for_backward(L, weights)
        log_determinant = 2 * L.diagonal().log().sum()
        return -(Y @ weights + log_determinant + len(Y) * math.log(2 * math.pi)) / 2

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        L, weights = ctx.saved_tensors
        gradient = torch.outer(weights, weights) - torch.cholesky_inverse(L)
        return grad_outputs[0] * gradient / 2, None


def _double(value: Any) -> Tensor:
    # The setters of GPyTorch take numbers in single precision.
    return torch.tensor(value, dtype=torch.double)


def _covariance(module: Kernel, X: Tensor) -> Tensor:
    return to_dense(module(X)) + JITTER * torch.eye(len(X), dtype=X.dtype)


def _loss(module: Kernel, X: Tensor, Y: Tensor) -> Tensor:
    return -log_likelihood(module, X, Y) / len(Y)


def _climb(kernel: str, X: Tensor, Y: Tensor, lengthscale: float) -> Fit:
    """A local maximum of the marginal likelihood."""
    module = make_kernel(kernel, X.shape[-1])
    module.base_kernel.lengthscale = _double(lengthscale)
    module.outputscale = _double(1.0)
    parameters: dict[str, Tensor] = dict(module.named_parameters())
    scipy_minimize(
        ForwardBackwardClosure(partial(_loss, module, X, Y), parameters),
        parameters,
        bounds={name: _log_bounds(name) for name in parameters},
        options={"maxiter": 200},
    )
    with torch.no_grad():
        lengthscales = module.base_kernel.lengthscale.expand(1, X.shape[-1])
        return Fit(
            kernel=kernel,
            lengthscales=tuple(lengthscales[0].tolist()),
            outputscale=module.outputscale.item(),
            log_likelihood=log_likelihood(module, X, Y).item(),
        )


def _log_bounds(name: str) -> tuple[float, float]:
    low, high = LENGTHSCALE_BOUNDS if "lengthscale" in name else OUTPUTSCALE_BOUNDS
    return math.log(low), math.log(high)
