r"""
Random trials of one smooth function, and a kernel that suits it.
"""

from __future__ import annotations

import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from torch import Tensor

DIM = 3
BATCH = 40


def performance(X: Tensor) -> Tensor:
    """A smooth latent function of the unit cube."""
    return 2 * torch.sin(4 * X.sum(dim=-1, keepdim=True))


def outcomes(*shape: int) -> tuple[Tensor, Tensor]:
    """Random pass/fail trials."""
    X = torch.rand(*shape, DIM, dtype=torch.float64)
    return X, torch.bernoulli(torch.special.ndtr(performance(X)))


def duels(n: int) -> tuple[Tensor, Tensor]:
    """Random duels, the preferred side first."""
    pairs = torch.rand(n, 2, DIM, dtype=torch.float64)
    difference = performance(pairs[:, 0]) - performance(pairs[:, 1])
    won = torch.bernoulli(torch.special.ndtr(difference)).bool().unsqueeze(-1)
    return torch.where(won, pairs, pairs.flip(-2)), torch.ones_like(difference)


def kernel() -> ScaleKernel:
    """A kernel with hyperparameters that suit ``performance``."""
    base_kernel = RBFKernel(ard_num_dims=DIM)
    base_kernel.lengthscale = torch.full((1, DIM), 0.3)
    covar_module = ScaleKernel(base_kernel)
    covar_module.outputscale = 2.0
    return covar_module.double()


def index_pairs(n: int) -> Tensor:
    """The comparisons of the consecutive rows of ``2n`` points."""
    return torch.arange(2 * n).view(n, 2)
