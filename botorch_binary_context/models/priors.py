r"""
A prior of many lengthscales that pulls them toward a common one.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from botorch.exceptions import InputDataError
from gpytorch.priors import Prior
from torch import Tensor
from torch.distributions.constraints import positive


class PooledLogNormalPrior(Prior):
    r"""Log-normal numbers that share a scale: ``log x_i = loc + c + e_i``.

    The common part ``c`` and the individual parts ``e_i`` are normal. Data that say
    little about each of many lengthscales still say something about their common scale,
    and only clear evidence sets one of them apart.

    Example:
        >>> prior = PooledLogNormalPrior(math.log(0.5), common=0.5, own=0.3)
        >>> RBFKernel(ard_num_dims=9, lengthscale_prior=prior)
    """

    arg_constraints = {}  # pyright: ignore[reportAssignmentType]
    support = positive  # pyright: ignore[reportAssignmentType]
    moments: Tensor
    _transform = None

    def __init__(self, loc: float, common: float, own: float) -> None:
        r"""
        Args:
            loc: The mean of the logarithm.
            common: The standard deviation of the common part, not negative.
            own: The standard deviation of each number's own part, positive.
        """
        if not (common >= 0.0 and own > 0.0):
            raise InputDataError(
                "Expected ``common`` not to be negative and ``own`` to be positive, "
                f"but got {common} and {own}."
            )
        # This calls the constructor of ``Module``, so it comes before buffers are set.
        torch.distributions.Distribution.__init__(self, validate_args=False)
        moments = torch.tensor([loc, common, own], dtype=torch.double, device="cpu")
        self.register_buffer("moments", moments)

    def log_prob(self, x: Tensor) -> Tensor:
        r"""The log density of the numbers together.

        Args:
            x: A ``... x k`` tensor of positive numbers.

        Returns:
            A ``...`` tensor of log densities.
        """
        loc, common, own = self.moments.to(x).unbind()
        k = x.shape[-1]
        log = x.log()
        z = log - loc
        total = own.square() + k * common.square()  # the variance along (1, ..., 1)
        pooled = common.square() / total * z.sum(dim=-1).square()
        quadratic = (z.square().sum(dim=-1) - pooled) / own.square()
        log_det = 2 * (k - 1) * own.log() + total.log()
        constant = k * math.log(2 * math.pi)
        return -0.5 * (quadratic + log_det + constant) - log.sum(dim=-1)

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        r"""Draw numbers.

        Args:
            sample_shape: The shape of the draw, ``... x k``.

        Returns:
            A tensor of that shape, whose last dimension shares the common part.
        """
        loc, common, own = self.moments.unbind()
        shape = torch.Size(sample_shape)
        like = {"dtype": self.moments.dtype, "device": self.moments.device}
        shared = common * torch.randn(*shape[:-1], 1, **like)
        return (loc + shared + own * torch.randn(shape, **like)).exp()

    def expand(self, batch_shape: Any, _instance: Any = None) -> PooledLogNormalPrior:
        r"""The same prior, which serves any batch.

        Args:
            batch_shape: Not used.
            _instance: Not used.
        """
        return self
