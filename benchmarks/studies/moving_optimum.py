r"""
A benchmark function whose best parameters move with the condition of the test.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import torch
from gpytorch.kernels import ConstantKernel, Kernel, MaternKernel, RBFKernel
from gpytorch.kernels import ScaleKernel as Scale
from torch import Tensor

from benchmarks.studies.cases import THRESHOLD_SLOPE
from benchmarks.studies.hyperparameters import Hyperparameters
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.kernels import AdditiveContextKernel
from botorch_binary_context.numerics.optim import SearchOptions, maximize
from botorch_binary_context.problems import (
    ContextProblem,
    ScaledObjective,
    make_objective,
)
from botorch_binary_context.problems.registry import MATERN_32, MATERN_52

#: The share of a function's box that the parameters span in one condition; the
#: condition shifts them by the rest.
SPAN = 0.7
THRESHOLDS = (-2.0, 3.0)
REFERENCE_THRESHOLD = 2.0
#: The conditions that count for averages and worst cases.
CONDITIONS = (0.0, 0.25, 0.5, 0.75, 1.0)
REFERENCE_CONDITION = 0.5
#: How the performance in all conditions, ``... x 5``, becomes one number.
SUMMARIES: dict[str, Callable[[Tensor], Tensor]] = {
    "reference": lambda g: g[..., CONDITIONS.index(REFERENCE_CONDITION)],
    "average": lambda g: g.mean(dim=-1),
    "worst": lambda g: g.amin(dim=-1),
}
DENSE = SearchOptions(num_restarts=64, raw_samples=2**14, max_evaluations=200)


class MovingOptimumProblem(ContextProblem):
    r"""Pass/fail outcomes with ``p(c=1|t,s,x) = Φ(a (g(u(s,x)) - t))``.

    The first context is the difficulty ``t`` of the test, the second the condition
    ``s``, from 0 to 1, in which it is done. The condition shifts the parameters,
    ``u = 0.7 x + 0.3 s`` in every other variable and ``u = 0.7 x + 0.3 (1 - s)`` in the
    rest, so the best ones move by 0.43 of their range. The reference context is a
    difficulty of 2 in the middle condition.
    """

    def __init__(self, objective: ScaledObjective, summary: str) -> None:
        r"""
        Args:
            objective: The performance ``g``.
            summary: What counts, one of ``SUMMARIES``.
        """
        super().__init__()
        self.objective = objective
        self.summary = summary

    @property
    def space(self) -> ContextSpace:
        """The box that trials come from, the two contexts first."""
        dim = self.objective.dim
        bounds = [
            [THRESHOLDS[0], 0.0] + [0.0] * dim,
            [THRESHOLDS[1], 1.0] + [1.0] * dim,
        ]
        return ContextSpace(
            self.objective.bounds.new_tensor(bounds),
            context_dims=[0, 1],
            reference_context=[REFERENCE_THRESHOLD, REFERENCE_CONDITION],
        )

    @property
    def optimal_score(self) -> float:
        """The highest score, found by a dense search."""
        return self._optimum

    @property
    def _optimum(self) -> float:
        bounds = self.space.parameter_bounds
        shape = torch.Size([])
        return float(maximize(self.score, bounds, shape, DENSE, seed=0)[1])

    def performance(self, condition: Tensor, parameters: Tensor) -> Tensor:
        r"""How good parameters are in a condition.

        Args:
            condition: A ``...`` tensor.
            parameters: A ``... x d`` tensor.

        Returns:
            A ``...`` tensor of standardized values; higher is better.
        """
        s = condition.unsqueeze(-1)
        ahead = torch.arange(parameters.shape[-1], device=parameters.device) % 2 == 0
        shift = torch.where(ahead, s, 1.0 - s)
        low, high = self.objective.bounds.to(parameters)
        unit = (SPAN * parameters + (1.0 - SPAN) * shift).clamp(0.0, 1.0)
        return self.objective(torch.lerp(low, high, unit)).to(parameters)

    def score(self, parameters: Tensor) -> Tensor:
        r"""How good parameters are in the conditions that count.

        Args:
            parameters: A ``... x d`` tensor.

        Returns:
            A ``...`` tensor of scores; higher is better.
        """
        conditions = parameters.new_tensor(CONDITIONS)
        values = self.performance(conditions, parameters.unsqueeze(-2))
        return SUMMARIES[self.summary](values)

    def latent(self, X: Tensor) -> Tensor:
        r"""``f(t,s,x) = a (g(u(s,x)) - t)``."""
        return THRESHOLD_SLOPE * (self.performance(X[..., 1], X[..., 2:]) - X[..., 0])


@cache
def best_score(function: str, summary: str) -> float:
    r"""The highest score of a function.

    Args:
        function: The name of the function.
        summary: What counts.
    """
    return MovingOptimumProblem(make_objective(function), summary).optimal_score


def moving_kernel(fitted: Hyperparameters) -> Kernel:
    r"""``θ t t' + k((s,x), (s',x')) + constant``.

    The lengthscales are those of the function, in the units of the parameters. That of
    the condition is the change of the condition over which the function changes as much
    as over a lengthscale. The data have to show that condition and parameters can
    compensate for each other.

    Args:
        fitted: The hyperparameters of the function.
    """
    shift = (1.0 - SPAN) * math.sqrt(sum(x**-2 for x in fitted.lengthscales))
    lengthscales = [1.0 / shift, *(x / SPAN for x in fitted.lengthscales)]
    nu = {MATERN_32: 1.5, MATERN_52: 2.5}.get(fitted.kernel)
    size = len(lengthscales)
    base: Kernel = RBFKernel(ard_num_dims=size)
    if nu is not None:
        base = MaternKernel(nu=nu, ard_num_dims=size)
    base.double().lengthscale = torch.tensor(lengthscales, dtype=torch.double)
    smooth = Scale(base).double()
    constant = ConstantKernel().double()
    smooth.outputscale = THRESHOLD_SLOPE**2 * fitted.outputscale
    constant.constant = torch.tensor([THRESHOLD_SLOPE**2], dtype=torch.double)
    kernel = AdditiveContextKernel(smooth + constant, [0])
    kernel.context_variance = THRESHOLD_SLOPE**2
    return kernel
