r"""Functions to climb, and the boxes they are climbed in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from scipy.optimize import minimize
from torch import Tensor

from tests.tensors import double, uniform

Function = Callable[[Tensor], Tensor]


def unit_box(dim: int) -> Tensor:
    """Bounds of the unit cube."""
    return torch.stack([torch.zeros(dim), torch.ones(dim)]).double()


def is_within(X: Tensor, bounds: Tensor) -> bool:
    """Whether all points are in a box."""
    return torch.equal(X, X.clamp(bounds[0], bounds[1]))


class Bumps:
    """Batches of sums of Gaussian bumps, some of them centered outside the unit cube.

    Args:
        dim: The dimension.
        batch_shape: The shape of the batch of functions.
        seed: The seed of centres and heights.
    """

    width = 0.25
    num_bumps = 4

    def __init__(self, dim: int, *batch_shape: int, seed: int = 0) -> None:
        shape = (*batch_shape, self.num_bumps)
        self.batch_shape = torch.Size(batch_shape)
        self.centers = -0.2 + 1.4 * uniform(*shape, dim, seed=seed)
        self.heights = 0.4 + 0.6 * uniform(*shape, seed=seed + 1)

    def __call__(self, X: Tensor) -> Tensor:
        squares = (X.unsqueeze(-2) - self.centers).square().sum(dim=-1)
        return (self.heights * (-squares / (2 * self.width**2)).exp()).sum(dim=-1)

    def element(self, *index: int) -> Bumps:
        """One function of the batch."""
        single = Bumps(self.centers.shape[-1])
        single.centers, single.heights = self.centers[index], self.heights[index]
        return single


def highest(function: Bumps) -> float:
    """The maximum of one sum of bumps in the unit cube, by SciPy from every centre."""

    def negative(x: Any) -> tuple[float, Any]:
        X = double(x).requires_grad_()
        value = -function(X)
        (gradient,) = torch.autograd.grad(value, X)
        return value.item(), gradient.numpy()

    dim = function.centers.shape[-1]
    results = [
        minimize(
            negative,
            start.clamp(0, 1).numpy(),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, 1)] * dim,
            options={"ftol": 1e-15, "gtol": 1e-10},
        )
        for start in function.centers
    ]
    return -min(result.fun for result in results)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
