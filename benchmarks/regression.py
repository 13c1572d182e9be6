r"""
Regression of noise-free values with the three kernels that the paper compares.

The prior is ``f ~ GP(0, σ² k)``. No hyperparameter has a prior: lengthscales and output
scale maximise the exact marginal likelihood, with bounds, so that a flat likelihood
does not carry them away. The diagonal of ``k`` is raised by ``JITTER``; since that is
relative to the output scale, the best output scale for given lengthscales is known in
closed form, ``σ² = yᵀ (K + JITTER I)⁻¹ y / n``, and only lengthscales are searched for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

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
STARTS = (0.05, 0.3, 1.5)  # lengthscales


@dataclass(frozen=True)
class Fit:
    r"""Hyperparameters of a kernel that maximise the marginal likelihood.

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
        base_kernel = make_kernel(self.kernel, dim=len(self.lengthscales))
        size = base_kernel.lengthscale.shape[-1]
        base_kernel.lengthscale = torch.tensor(self.lengthscales[:size]).double()
        covar_module = ScaleKernel(base_kernel).double()
        covar_module.outputscale = self.outputscale
        return covar_module


def make_kernel(kernel: str, dim: int) -> Kernel:
    r"""A kernel of variance 1 whose raw lengthscales are logarithms.

    Args:
        kernel: One of ``KERNELS``.
        dim: The number of variables.

    Returns:
        The kernel, in double precision.
    """
    constraint = Positive(transform=torch.exp, inv_transform=torch.log)
    if kernel == SE_ARD:
        module: Kernel = RBFKernel(ard_num_dims=dim, lengthscale_constraint=constraint)
    else:
        nu = {MATERN_32: 1.5, MATERN_52: 2.5}[kernel]
        module = MaternKernel(nu=nu, lengthscale_constraint=constraint)
    return module.double()


def fit_kernel(kernel: str, X: Tensor, Y: Tensor) -> Fit:
    r"""Maximise the marginal likelihood from several starts.

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
        ``m`` values.
    """
    with torch.no_grad():
        module = fit.covar_module().base_kernel
        weights = torch.cholesky_solve(Y.unsqueeze(-1), _cholesky(module, X))
        return (to_dense(module(test_X, X)) @ weights).squeeze(-1)


def profile_likelihood(module: Kernel, X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
    r"""The log marginal likelihood, maximised over the output scale.

    Args:
        module: A kernel of variance 1.
        X: ``n x d`` points.
        Y: ``n`` values.

    Returns:
        The log likelihood and the output scale.
    """
    L = _cholesky(module, X)
    white = torch.linalg.solve_triangular(L, Y.unsqueeze(-1), upper=False)
    squares, n = white.square().sum(), len(Y)
    outputscale = (squares / n).clamp(*OUTPUTSCALE_BOUNDS)
    log_determinant = 2 * L.diagonal().log().sum() + n * outputscale.log()
    value = squares / outputscale + log_determinant + n * math.log(2 * math.pi)
    return -value / 2, outputscale


def _cholesky(module: Kernel, X: Tensor) -> Tensor:
    jitter = JITTER * torch.eye(len(X), dtype=X.dtype)
    return torch.linalg.cholesky(to_dense(module(X)) + jitter)


def _loss(module: Kernel, X: Tensor, Y: Tensor) -> Tensor:
    return -profile_likelihood(module, X, Y)[0] / len(Y)


def _climb(kernel: str, X: Tensor, Y: Tensor, lengthscale: float) -> Fit:
    """A local maximum of the marginal likelihood."""
    dim = X.shape[-1]
    module = make_kernel(kernel, dim)
    module.lengthscale = lengthscale
    parameters: dict[str, Tensor] = dict(module.named_parameters())
    low, high = map(math.log, LENGTHSCALE_BOUNDS)
    scipy_minimize(
        ForwardBackwardClosure(partial(_loss, module, X, Y), parameters),
        parameters,
        bounds={name: (low, high) for name in parameters},
        options={"maxiter": 200},
    )
    with torch.no_grad():
        log_likelihood, outputscale = profile_likelihood(module, X, Y)
    return Fit(
        kernel=kernel,
        lengthscales=tuple(module.lengthscale.detach().expand(1, dim)[0].tolist()),
        outputscale=outputscale.item(),
        log_likelihood=log_likelihood.item(),
    )
