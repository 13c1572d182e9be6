r"""
Benchmark functions seen through pass/fail outcomes and duels in a chosen context.

A trial is a row ``z = (s, x)``, the context first. The parameters ``x`` of a benchmark
function lie in the unit cube, where lengthscales and the priors of models are
comparable, and are mapped to the box of the objective internally; contexts keep their
own units.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from botorch.exceptions import InputDataError
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor
from torch.nn import Module

from botorch_binary_context.context import ContextSpace
from botorch_binary_context.functionals import DIFFERENCE, VALUE, Functional
from botorch_binary_context.models.validation import check_duel_contexts
from botorch_binary_context.probability import normal_cdf
from botorch_binary_context.problems.objective import ScaledObjective


class ContextProblem(Module, ABC):
    r"""A system whose performance ``g(x)`` shows only in the outcomes of tests.

    An outcome is 1 with probability ``Φ(f)``, where ``f`` is what the trial observes of
    the latent function ``f(s,x)``, unless the problem says otherwise.
    """

    #: What a trial observes.
    functional: Functional = VALUE

    @property
    @abstractmethod
    def space(self) -> ContextSpace:
        """The box that trials come from, ``d + 1`` columns, the context first."""

    @property
    @abstractmethod
    def optimal_score(self) -> float:
        """The highest score."""

    @abstractmethod
    def score(self, parameters: Tensor) -> Tensor:
        r"""How good parameters are: ``g`` itself, which no outcome shows.

        Args:
            parameters: A ``... x d`` tensor.

        Returns:
            A ``...`` tensor of scores; higher is better.
        """

    @abstractmethod
    def latent(self, X: Tensor) -> Tensor:
        r"""The latent function ``f(s,x)``.

        Args:
            X: A ``... x (d + 1)`` tensor, the context first.

        Returns:
            A ``...`` tensor of latent values.
        """

    def success_probability(self, X: Tensor) -> Tensor:
        r"""The probability of the outcome 1.

        Args:
            X: A ``... x (d + 1)`` tensor of trials, the context first.

        Returns:
            A ``...`` tensor of probabilities.
        """
        return normal_cdf(self.latent(X))

    def observe(self, X: Tensor, generator: torch.Generator | None = None) -> Tensor:
        r"""Run tests: draw their outcomes.

        Args:
            X: Trials, as in :meth:`success_probability`.
            generator: The source of randomness, on the device of ``X``; by default that
                of the process.

        Returns:
            A ``... x 1`` tensor of zeros and ones, the labels that models take.
        """
        probability = self.success_probability(X)
        return torch.bernoulli(probability, generator=generator).unsqueeze(-1)


class WrappedProblem(ContextProblem):
    r"""Another problem, except for what a subclass changes."""

    def __init__(self, problem: ContextProblem) -> None:
        r"""
        Args:
            problem: The other problem.
        """
        super().__init__()
        self.problem = problem

    @property
    def space(self) -> ContextSpace:
        """The box that trials come from."""
        return self.problem.space

    @property
    def optimal_score(self) -> float:
        """The highest score."""
        return self.problem.optimal_score

    def score(self, parameters: Tensor) -> Tensor:
        r"""How good parameters are.

        Args:
            parameters: A ``... x d`` tensor.

        Returns:
            A ``...`` tensor of scores; higher is better.
        """
        return self.problem.score(parameters)

    def latent(self, X: Tensor) -> Tensor:
        r"""The latent function ``f(s,x)``.

        Args:
            X: A ``... x (d + 1)`` tensor.

        Returns:
            A ``...`` tensor of latent values.
        """
        return self.problem.latent(X)


class BenchmarkProblem(ContextProblem):
    r"""A benchmark function seen through the outcomes of tests."""

    objective: ScaledObjective
    _context_bounds: tuple[float, float]
    _reference_context: float

    def __init__(self, objective: ScaledObjective) -> None:
        r"""
        Args:
            objective: The performance ``g``.
        """
        super().__init__()
        self.objective = objective

    @property
    def space(self) -> ContextSpace:
        """The box that trials come from, ``d + 1`` columns, the context first."""
        low, high = self._context_bounds
        dim = self.objective.dim
        bounds = [[low] + [0.0] * dim, [high] + [1.0] * dim]
        return ContextSpace(
            self.objective.bounds.new_tensor(bounds),
            context_dims=[0],
            reference_context=self._reference_context,
        )

    @property
    def optimal_score(self) -> float:
        """The highest score."""
        return self.objective.optimal_value

    def score(self, parameters: Tensor) -> Tensor:
        r"""How good parameters are: ``g`` itself, which no outcome shows.

        Args:
            parameters: A ``... x d`` tensor in the unit cube.

        Returns:
            A ``...`` tensor of scores; higher is better.
        """
        low, high = self.objective.bounds
        if parameters.shape[-1] != len(low):
            raise BotorchTensorDimensionError(
                f"Expected parameters to have {len(low)} columns, but got shape "
                f"{list(parameters.shape)}."
            )
        # Unlike low + x (high - low), ``lerp`` does not leave the box by rounding.
        points = torch.lerp(low, high, parameters.to(low))
        return self.objective(points).to(parameters)


class _MultiplicativeProblem(BenchmarkProblem):
    """The context is how much the performance counts, from 0 to 1."""

    _context_bounds = (0.0, 1.0)
    _reference_context = 1.0

    def latent(self, X: Tensor) -> Tensor:
        r"""``f(s,x) = s g(x)``."""
        return X[..., 0] * self.score(X[..., 1:])


class BinaryContextProblem(_MultiplicativeProblem):
    r"""Pass/fail outcomes with ``p(c=1|s,x) = Φ(s g(x))``, ``s`` from 0 to 1.

    The synthetic study of section 4.1 of [Fauvel2022contextual]_. The context is how
    much the performance counts; the reference context is 1. The matching kernel is
    ``s s' k(x,x')``.

    Example:
        >>> problem = BinaryContextProblem(make_objective("Levy"))
        >>> X = torch.rand(5, problem.space.dim, dtype=torch.double)
        >>> Y = problem.observe(X)  # 5 x 1
    """


class DuelContextProblem(_MultiplicativeProblem):
    r"""Duels with ``p(c=1|s,x,x') = Φ(s (g(x) - g(x')))``, ``s`` from 0 to 1.

    The synthetic study of section 4.2 of [Fauvel2022contextual]_: the outcome is 1 if
    the first of two settings, shown in one context, is preferred. The reference context
    is 1, the matching kernel ``s s' k(x,x')``.

    Example:
        >>> problem = DuelContextProblem(make_objective("Levy"))
        >>> X = torch.rand(5, 2, problem.space.dim, dtype=torch.double)
        >>> X[:, 1, 0] = X[:, 0, 0]  # one context for both sides
        >>> Y = problem.observe(X)  # 5 x 1
    """

    functional: Functional = DIFFERENCE

    def success_probability(self, X: Tensor) -> Tensor:
        r"""The probability that the first side of a duel is preferred.

        Args:
            X: A ``... x 2 x (d + 1)`` tensor of duels, the context first and the same
                on both sides.

        Returns:
            A ``...`` tensor of probabilities.
        """
        if X.ndim < 2 or X.shape[-2] != 2:
            raise BotorchTensorDimensionError(
                "Expected ``X`` to hold duels, ``... x 2 x d``, but got shape "
                f"{list(X.shape)}."
            )
        check_duel_contexts(X, context_dims=[0])
        return normal_cdf(self.functional(self.latent(X)).squeeze(-1))


class ThresholdContextProblem(BenchmarkProblem):
    r"""Pass/fail outcomes with ``p(c=1|t,x) = Φ(a (g(x) - t))``, ``t`` from -2 to 3.

    The context is the difficulty of the test: parameters pass tests below their
    performance. So the informative difficulty depends on ``x``, whereas in
    :class:`BinaryContextProblem` it is nearly always ``s = 1``. The reference context
    is 2, a test that only good parameters pass: two standard deviations above the mean
    of ``g``. The matching kernel is ``θ t t' + k(x,x') + constant``. In a duel the
    threshold cancels, so there is no such problem of duels.

    Example:
        >>> problem = ThresholdContextProblem(make_objective("Levy"))
        >>> X = problem.space.at_reference(torch.rand(5, 2, dtype=torch.double))
        >>> Y = problem.observe(X)  # 5 x 1
    """

    _context_bounds = (-2.0, 3.0)
    _reference_context = 2.0

    def __init__(self, objective: ScaledObjective, slope: float = 3.0) -> None:
        r"""
        Args:
            objective: The performance ``g``.
            slope: The slope ``a`` of the outcome in the threshold, positive.
        """
        super().__init__(objective)
        if not slope > 0.0:
            raise InputDataError(f"Expected ``slope`` to be positive, but got {slope}.")
        self.slope = slope

    def latent(self, X: Tensor) -> Tensor:
        r"""``f(t,x) = a (g(x) - t)``."""
        return self.slope * (self.score(X[..., 1:]) - X[..., 0])
