r"""
Queries of AEPsych's clients about a model: its extrema, its values, and where it has a
value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from botorch.exceptions import InputDataError, UnsupportedError
from torch import Tensor
from torch.quasirandom import SobolEngine

from botorch_binary_context.errors import quote
from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.experiment.space import Encoder, Values
from botorch_binary_context.experiment.variables import Value
from botorch_binary_context.models.latent_gp import LatentGP

NUM_POINTS = 2048
NUM_NEAR = 256
# How far to look around the best point so far, as fractions of the box.
REACHES = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)


class Query:
    r"""Answers questions about the model of an experiment."""

    def __init__(self, experiment: Experiment, probability_space: bool) -> None:
        r"""
        Args:
            experiment: The experiment, which has at least one answer.
            probability_space: Whether values are success probabilities instead of
                values of the latent function.
        """
        if probability_space and not experiment.feedback.functional.sees_offset:
            raise UnsupportedError(
                "Expected ``probability_space`` to be false for duels, which do not "
                "tell how probable success is, but got true."
            )
        self._model: LatentGP = experiment.model()
        self._encoder: Encoder = experiment.encoder
        self._probability_space = probability_space

    def _values(self, X: Tensor) -> Tensor:
        """The value at rows, ``n x d``."""
        with torch.no_grad():
            posterior = self._model.posterior(X.unsqueeze(-2))
            mean, variance = (
                moment.flatten() for moment in (posterior.mean, posterior.variance)
            )
            if not self._probability_space:
                return mean
            return self._model.likelihood.expected_probability(mean, variance)

    def predict(self, trials: list[tuple[Values, Values]]) -> list[float]:
        r"""The values at trials.

        Args:
            trials: The contexts and the parameters of each.
        """
        rows = [self._encoder.encode(context, [side]) for context, side in trials]
        return self._values(torch.cat(rows)).tolist()

    def extremum(
        self, sign: float, fixed: Mapping[str, Value]
    ) -> tuple[float, dict[str, Value]]:
        r"""The largest or the smallest value.

        Args:
            sign: 1 for the largest, -1 for the smallest.
            fixed: The values of the variables that are given.

        Returns:
            The value and where it is.
        """
        return self._search(lambda values: sign * values, fixed)

    def inverse(
        self, value: Any, fixed: Mapping[str, Value]
    ) -> tuple[float, dict[str, Value]]:
        r"""The trial whose value is nearest to a given one.

        Args:
            value: The value.
            fixed: The values of the variables that are given.

        Returns:
            The nearest value and where it is.
        """
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputDataError(f"Expected ``y`` to be a number, but got {value!r}.")
        return self._search(lambda values: -(values - value).abs(), fixed)

    def _search(
        self, score: Callable[[Tensor], Tensor], fixed: Mapping[str, Value]
    ) -> tuple[float, dict[str, Value]]:
        """Search all over the box first, then closer and closer to the best so far."""
        bounds = self._encoder.context_space.bounds
        width = bounds[1] - bounds[0]
        sobol = SobolEngine(bounds.shape[-1], scramble=True, seed=0)
        X = bounds[0] + width * sobol.draw(NUM_POINTS, dtype=bounds.dtype)
        best, value = self._best(score, X, fixed)
        generator = torch.Generator().manual_seed(0)
        for reach in REACHES:
            noise = torch.randn(
                NUM_NEAR, len(best), dtype=best.dtype, generator=generator
            )
            near = (best + reach * width * noise).clamp(bounds[0], bounds[1])
            X = torch.cat([best.unsqueeze(0), near])
            best, value = self._best(score, X, fixed)
        context, sides = self._encoder.decode(best.unsqueeze(0))
        return value, {**context, **sides[0]}

    def _best(
        self, score: Callable[[Tensor], Tensor], X: Tensor, fixed: Mapping[str, Value]
    ) -> tuple[Tensor, float]:
        """The best of points that can be shown, and its value."""
        X = self._encoder.snap(X)
        for name, value in fixed.items():
            column = self._column(name)
            X[:, column] = self._encode(name, value)
        values = self._values(X)
        best = score(values).argmax()
        return X[best], float(values[best])

    def _column(self, name: str) -> int:
        names = self._encoder.column_names
        if name not in names:
            raise InputDataError(
                f"Expected ``constraints`` to name some of {names}, but got "
                f"{quote(name)}."
            )
        return names.index(name)

    def _encode(self, name: str, value: Value) -> float:
        for context in self._encoder.space.contexts:
            if context.name == name:
                return float(context.encode(value, self._encoder.centered))
        (part,) = (p for p in self._encoder.space.parts if p.name == name)
        return float(part.encode(value))
