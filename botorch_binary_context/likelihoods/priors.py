r"""
The prior of a rate.
"""

from __future__ import annotations

from typing import Any

import torch
from gpytorch.priors import Prior
from torch import Tensor
from torch.distributions import Beta


class BetaPrior(Prior):
    r"""A Beta distribution, for rates between 0 and 1.

    Example:
        >>> prior = BetaPrior(1.5, 30.0)  # of a lapse rate
    """

    arg_constraints = {}  # pyright: ignore[reportAssignmentType]
    concentrations: Tensor
    _transform = None

    def __init__(self, concentration1: float, concentration0: float) -> None:
        r"""
        Args:
            concentration1: The weight of rates near 1.
            concentration0: The weight of rates near 0.
        """
        # This calls the constructor of ``Module``, so it comes before buffers are set.
        torch.distributions.Distribution.__init__(self, validate_args=False)
        concentrations = torch.tensor(
            [concentration1, concentration0], dtype=torch.double, device="cpu"
        )
        self.register_buffer("concentrations", concentrations)

    def _distribution(self) -> Beta:
        return Beta(*self.concentrations.unbind(), validate_args=False)

    def log_prob(self, x: Tensor) -> Tensor:
        r"""The log density.

        Args:
            x: Rates, of any shape.

        Returns:
            A tensor of the same shape.
        """
        return self._distribution().log_prob(x)

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        r"""Draw rates.

        Args:
            sample_shape: The shape of the draw.

        Returns:
            A tensor of that shape.
        """
        return self._distribution().rsample(sample_shape)

    def expand(self, batch_shape: Any, _instance: Any = None) -> BetaPrior:
        r"""The same prior, which serves any batch.

        Args:
            batch_shape: Not used.
            _instance: Not used.
        """
        return self
