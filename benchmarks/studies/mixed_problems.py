r"""
Duels in a context about real, whole and categorical parameters.

The performance is a sum of benchmark functions, each of some of the parameters. A whole
number or a category stands for one of a few values of its function's variable, one of
which is at the optimum; those of a category have no order. The context is one of three
kinds: a gain, a drift of the optimum, or a blend with another function.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from botorch_binary_context.context import ContextSpace
from botorch_binary_context.experiment import (
    Categorical,
    Context,
    Integer,
    NamedSpace,
    Real,
)
from botorch_binary_context.experiment.space import Encoder
from botorch_binary_context.experiment.variables import Parameter
from botorch_binary_context.functionals import DIFFERENCE, Functional
from botorch_binary_context.numerics.optim import SearchOptions, maximize
from botorch_binary_context.probability import normal_cdf
from botorch_binary_context.problems import (
    ContextProblem,
    ScaledObjective,
    make_objective,
)

# The standard deviation of the latent performance in the reference context.
AMPLITUDE = 2.0
DRIFT = 0.25  # of the box, over the range of the context


@dataclass(frozen=True)
class Kind:
    r"""The definition of a mixed problem.

    Attributes:
        parts: Benchmark functions, each with a letter for each of its variables: "r"
            for a real one, "i" for a whole number, "c" for a category.
        context: "gain", "drift" or "blend".
        reference: The reference context, from 0 to 1.
        seed: The seed of the order of categories.
        num_values: The number of values of a category and of a whole number.
    """

    parts: tuple[tuple[str, str], ...]
    context: str
    reference: float
    seed: int = 0
    num_values: tuple[int, int] = (4, 5)


@dataclass(frozen=True)
class _Variable:
    """A variable of a function and the parameter that stands for it."""

    parameter: Parameter
    table: Tensor | None  # the values in the unit cube, of a whole number or category


class MixedDuels(ContextProblem):
    r"""Duels with ``p(c=1|s,x,x') = Φ(f(s,x) - f(s,x'))`` about mixed parameters.

    Attributes:
        named: The parameters and the context by their names.
    """

    functional: Functional = DIFFERENCE
    objectives: list[ScaledObjective]

    def __init__(self, kind: Kind) -> None:
        r"""
        Args:
            kind: The definition of the problem.
        """
        super().__init__()
        self.kind = kind
        self.objectives = [make_objective(function) for function, _ in kind.parts]
        generator = torch.Generator().manual_seed(kind.seed)
        self._variables = [
            _make_variable(i, letter, optimum, kind.num_values, generator)
            for i, (letter, optimum) in enumerate(self._letters())
        ]
        context = Context("s", reference=kind.reference, low=0.0, high=1.0)
        parameters = [variable.parameter for variable in self._variables]
        self.named = NamedSpace(parameters, [context])
        self._encoder = Encoder(self.named)
        self._direction = torch.randint(2, (len(parameters),), generator=generator)

    def _letters(self) -> list[tuple[str, float]]:
        """The letter and the optimum, in the unit cube, of every variable."""
        found = []
        for (_, letters), objective in zip(
            self.kind.parts, self.objectives, strict=True
        ):
            found += zip(letters, _find_optimum(objective).tolist(), strict=True)
        return found

    @property
    def space(self) -> ContextSpace:
        """The box of encoded trials, the context first."""
        return self._encoder.context_space

    @property
    def optimal_score(self) -> float:
        """The highest score: every part is at its optimum."""
        total = sum(objective.optimal_value for objective in self.objectives)
        return total / math.sqrt(len(self.objectives))

    def score(self, parameters: Tensor) -> Tensor:
        r"""The sum of the parts, with about unit variance.

        Args:
            parameters: A ``... x d`` tensor of encoded parameters.

        Returns:
            A ``...`` tensor of scores; higher is better.
        """
        return self._evaluate(self._coordinates(parameters))

    def latent(self, X: Tensor) -> Tensor:
        r"""The latent function ``f(s,x)``.

        Args:
            X: A ``... x (1 + d)`` tensor, the context in [-1, 1] first.

        Returns:
            A ``...`` tensor of latent values.
        """
        away = (X[..., :1] + 1.0) / 2.0 - self.kind.reference
        U = self._coordinates(X[..., 1:])
        if self.kind.context == "gain":
            gain = 1.0 + away.squeeze(-1) / self.kind.reference
            return AMPLITUDE * gain * self._evaluate(U)
        if self.kind.context == "drift":
            direction = 2.0 * self._direction.to(U) - 1.0
            return AMPLITUDE * self._evaluate(
                (U + DRIFT * away * direction).clamp(0, 1)
            )
        weight = away.squeeze(-1).square()
        mirrored = self._evaluate(1.0 - U)
        return AMPLITUDE * ((1.0 - weight) * self._evaluate(U) + weight * mirrored)

    def success_probability(self, X: Tensor) -> Tensor:
        r"""The probability that the first side of a duel is preferred.

        Args:
            X: A ``... x 2 x (1 + d)`` tensor of duels.

        Returns:
            A ``...`` tensor of probabilities.
        """
        return normal_cdf(self.functional(self.latent(X)).squeeze(-1))

    def _coordinates(self, parameters: Tensor) -> Tensor:
        """The variables of the functions in the unit cube, ``... x k``."""
        sizes = [variable.parameter.num_columns for variable in self._variables]
        parts = parameters.split(sizes, dim=-1)
        columns = [
            _coordinate(variable, U)
            for variable, U in zip(self._variables, parts, strict=True)
        ]
        return torch.stack(columns, dim=-1)

    def _evaluate(self, U: Tensor) -> Tensor:
        sizes = [objective.dim for objective in self.objectives]
        values = [
            objective(torch.lerp(objective.bounds[0], objective.bounds[1], part))
            for objective, part in zip(
                self.objectives, U.split(sizes, dim=-1), strict=True
            )
        ]
        return torch.stack(values).sum(dim=0) / math.sqrt(len(values))


def _find_optimum(objective: ScaledObjective) -> Tensor:
    """Where a function is best, in the unit cube."""
    low, high = objective.bounds
    known: Any = getattr(objective.function, "optimizers", None)
    if known is not None:
        return (known[0].to(low) - low) / (high - low)
    unit = torch.stack([torch.zeros_like(low), torch.ones_like(low)])
    options = SearchOptions(num_restarts=20, raw_samples=1024)
    return maximize(
        lambda U: objective(low + U * (high - low)), unit, torch.Size(), options, seed=0
    )[0]


def _coordinate(variable: _Variable, U: Tensor) -> Tensor:
    """The variable of a function that encoded columns stand for."""
    if variable.table is None:
        return U.squeeze(-1)
    if isinstance(variable.parameter, Categorical):
        index = U.argmax(dim=-1)
    else:
        index = (U.squeeze(-1) * (len(variable.table) - 1)).round().long()
    return variable.table.to(U)[index]


def _make_variable(
    number: int,
    letter: str,
    optimum: float,
    num_values: tuple[int, int],
    generator: torch.Generator,
) -> _Variable:
    name = f"x{number + 1}"
    if letter == "r":
        return _Variable(Real(name, 0.0, 1.0), None)
    size = num_values[0] if letter == "c" else num_values[1]
    table = torch.linspace(0.0, 1.0, size, dtype=torch.double)
    table[(table - optimum).abs().argmin()] = optimum
    if letter == "i":
        return _Variable(Integer(name, 1, size), table)
    order = torch.randperm(size, generator=generator)
    return _Variable(Categorical(name, list("abcdefgh"[:size])), table[order])
