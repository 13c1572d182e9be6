r"""A test function to be maximized, in units of its standard deviation."""

from __future__ import annotations

import math

from botorch.test_functions.synthetic import SyntheticTestFunction
from torch import Tensor
from torch.nn import Module


class ScaledObjective(Module):
    r"""The performance ``g(x) = (y(x) - E y) / sqrt(V y)`` with ``y(x) = -f(x)``.

    ``f`` is a test function to be minimized; with the logarithm, ``y(x) = -log(1 +
    f(x))``. Points lie in the box of the function. Like the functions of BoTorch, an
    objective is moved to a device by ``to``.

    Example:
        >>> objective = ScaledObjective(Sphere(), mean=-17.5, variance=122.2)
        >>> objective(torch.zeros(3, 2))
    """

    def __init__(
        self,
        function: SyntheticTestFunction,
        mean: float,
        variance: float,
        log: bool = False,
    ) -> None:
        r"""
        Args:
            function: The function ``f``, with a known optimum.
            mean: The mean of ``y`` over the box.
            variance: The variance of ``y`` over the box.
            log: Whether to take ``log1p``; ``f`` must then not be negative.
        """
        super().__init__()
        self.function = function
        self.mean = mean
        self.variance = variance
        self.log = log

    @property
    def dim(self) -> int:
        """The number of variables."""
        return self.function.dim

    @property
    def bounds(self) -> Tensor:
        """The ``2 x d`` bounds of the box."""
        return self.function.get_buffer("bounds")

    @property
    def optimal_value(self) -> float:
        """The maximum of ``g`` over the box."""
        value = self.function.optimal_value
        y = -math.log1p(value) if self.log else -value
        return (y - self.mean) / math.sqrt(self.variance)

    def forward(self, X: Tensor) -> Tensor:
        r"""Evaluate ``g``.

        Args:
            X: A ``... x d`` tensor of points in the box.

        Returns:
            A ``...`` tensor of standardized values; higher is better.
        """
        # Some functions of BoTorch move themselves to the dtype of their inputs.
        value = self.function(X.to(self.bounds))
        y = -value.log1p() if self.log else -value
        return ((y - self.mean) / math.sqrt(self.variance)).to(X)
