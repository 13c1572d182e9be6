r"""
What an experiment recommends, and how sure it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from torch import Tensor

from botorch_binary_context.acquisition.entropy_search import (
    MAX_FEATURES,
    ROUGH_PATH_SEARCH,
    maximize_paths,
)
from botorch_binary_context.bands import (
    exact_probability_band,
    exact_threshold_band,
)
from botorch_binary_context.experiment.angles import Periodic
from botorch_binary_context.experiment.space import Encoder, Values
from botorch_binary_context.experiment.variables import Categorical, Context, Value
from botorch_binary_context.functionals import DIFFERENCE, VALUE
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.rules import frozen, recommend
from botorch_binary_context.sampling.paths import draw_exact_paths

NUM_PATHS = 64
LEVEL = 0.9
# Between so many values of a context curves are taken to be straight.
NUM_VALUES = 201


class Estimate(NamedTuple):
    r"""A probability and its credible interval.

    Attributes:
        mean: The mean.
        low: The lower end of the interval.
        high: The upper end.
    """

    mean: float
    low: float
    high: float


class Threshold(NamedTuple):
    r"""The value of a context up to which tests are passed, and its credible interval.

    Values outside of the bounds of the context are minus or plus infinity.

    Attributes:
        median: The median.
        low: The lower end of the interval.
        high: The upper end.
    """

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Recommendation:
    r"""The inferred best parameters.

    Attributes:
        parameters: The parameters that are best in the reference context, in the user's
            units.
        uncertainty: Where else the best may be, by the maxima of functions drawn from
            the true posterior: for numbers an interval that holds nine tenths of them
            (of periodic ones from the first end upwards to the second, which may be
            smaller), for categories the share of each.
        num_answers: The number of answers it rests on.
    """

    parameters: Values
    uncertainty: dict[str, tuple[float, float] | dict[Value, float]]
    num_answers: int
    _model: LatentGP
    _encoder: Encoder

    def success_probability(
        self, context: Values | None = None, level: float = LEVEL
    ) -> Estimate:
        r"""The probability that a test of the recommended parameters is passed.

        Args:
            context: The values of all contexts, not only such as can be shown; by
                default the reference context.
            level: The probability of the credible interval.

        Returns:
            The mean and the interval of the probability. Near zero and one the mean may
            lie outside of the interval, as it does of skewed distributions.
        """
        self._check_pass_fail()
        return self._estimate([self.parameters], context, level)

    def threshold(
        self,
        name: str | None = None,
        probability: float | None = None,
        context: Values | None = None,
        level: float = LEVEL,
    ) -> Threshold:
        r"""How hard a test of the recommended parameters may be to be passed.

        It is taken for granted that harder tests are passed less often. The interval
        is that of the true posterior, not of a Gaussian approximation.

        Args:
            name: The name of the context, whose ``harder`` says which way is hard; not
                needed if there is only one.
            probability: The probability with which the test is to be passed; by default
                halfway between the guess rate and 1 - the lapse rate.
            context: The values of all contexts, of which that of this one is not used;
                by default the reference context.
            level: The probability of the credible interval.

        Returns:
            The median and the interval of the value.

        Example:
            >>> best = experiment.recommend()
            >>> best.threshold("letter size", probability=0.8)
        """
        self._check_pass_fail()
        varied = self._find_context(name)
        _check_level(level)
        likelihood = self._model.likelihood
        latent = 0.0 if probability is None else likelihood.contrast_at(probability)
        fixed = {varied.name: varied.reference, **self._complete(context)}
        line = self._encoder.encode_difficulties(
            fixed, self.parameters, varied.name, NUM_VALUES
        )
        with torch.no_grad():
            band = exact_threshold_band(self._model, line, latent, level)
        median, *ends = (
            varied.at_difficulty(float(position) / (NUM_VALUES - 1))
            for position in band
        )
        return Threshold(median, min(ends), max(ends))

    def preference_probability(
        self, other: Values, context: Values | None = None, level: float = LEVEL
    ) -> Estimate:
        r"""The probability that the recommended parameters win a duel.

        Args:
            other: The parameters of the other side.
            context: The values of all contexts; by default the reference context.
            level: The probability of the credible interval.

        Returns:
            The mean and the interval of the probability.
        """
        if self._model.functional != DIFFERENCE:
            raise UnsupportedError(
                "Expected duels to predict the preference of, but got pass/fail "
                "outcomes: use ``success_probability``."
            )
        return self._estimate([self.parameters, other], context, level)

    def _estimate(
        self, sides: list[Values], context: Values | None, level: float
    ) -> Estimate:
        _check_level(level)
        X = self._encoder.encode(self._complete(context), sides)
        with torch.no_grad():
            band = exact_probability_band(self._model, X, level)
        return Estimate(*map(float, band))

    def _complete(self, context: Values | None) -> Values:
        reference = self._encoder.space.reference_context()
        return reference if context is None else context

    def _check_pass_fail(self) -> None:
        if self._model.functional != VALUE:
            raise UnsupportedError(
                "Expected pass/fail outcomes to predict the success of, but got duels: "
                "use ``preference_probability``."
            )

    def _find_context(self, name: str | None) -> Context:
        """The context of a name, or the only one."""
        contexts = self._encoder.space.contexts
        found = [c for c in contexts if name is None or c.name == name]
        if len(found) != 1:
            raise InputDataError(
                "Expected ``name`` to be that of one of the contexts "
                f"{[c.name for c in contexts]}, but got {name!r}."
            )
        if found[0].harder is None:
            raise UnsupportedError(
                f"Expected ``harder`` of {found[0].name!r} to be 'up' or 'down' to "
                "have a threshold, but got None."
            )
        return found[0]


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise InputDataError(
            f"Expected ``level`` to be between 0 and 1, but got {level}."
        )


def make_recommendation(model: LatentGP, encoder: Encoder, seed: int) -> Recommendation:
    r"""The inferred best parameters of a model.

    Args:
        model: The model of the answers.
        encoder: The way to the user's units.
        seed: The seed of the draws from the posterior.

    Returns:
        The recommendation.
    """
    space = encoder.context_space
    best = recommend(model, space, seed=seed)
    with frozen(model), torch.no_grad():
        paths = draw_exact_paths(model, NUM_PATHS, space.bounds, MAX_FEATURES, seed)
        optima, _ = maximize_paths(paths, space, seed, ROUGH_PATH_SEARCH)
    return Recommendation(
        parameters=encoder.decode_parameters(best),
        uncertainty=_spread(encoder, optima),
        num_answers=model.train_targets.shape[-1],
        _model=model,
        _encoder=encoder,
    )


def interval(values: Sequence[float], level: float) -> tuple[float, float]:
    r"""The ends of an interval that holds a further draw with a probability.

    Args:
        values: Independent draws.
        level: The probability.

    Returns:
        The ends.
    """
    tails = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(values, tails, method="weibull").tolist()
    return low, high


def circular_interval(
    values: Sequence[float], level: float, variable: Periodic
) -> tuple[float, float]:
    r""":func:`interval` on a circle that is cut where the draws leave the widest gap.

    Args:
        values: Independent draws.
        level: The probability.
        variable: The variable they are values of.

    Returns:
        The ends: the interval goes upwards from the first, if need be past the upper
        bound, to the second.
    """
    period = variable.period
    ordered = np.sort((np.asarray(values) - variable.low) % period)
    gaps = np.diff(ordered, append=ordered[0] + period)
    first = (int(gaps.argmax()) + 1) % len(ordered)
    unrolled = np.concatenate([ordered[first:], ordered[:first] + period])
    ends = interval(unrolled.tolist(), level)
    low, high = (variable.low + end % period for end in ends)
    return low, high


def _spread(
    encoder: Encoder, optima: Tensor
) -> dict[str, tuple[float, float] | dict[Value, float]]:
    """Intervals and shares of ``num_paths x k`` points."""
    points = [encoder.decode_parameters(point) for point in optima]
    uncertainty: dict[str, Any] = {}
    for parameter in encoder.space.parts:
        found: list[Any] = [point[parameter.name] for point in points]
        if isinstance(parameter, Categorical):
            uncertainty[parameter.name] = {
                value: found.count(value) / len(found) for value in parameter.values
            }
        elif isinstance(parameter, Periodic):
            uncertainty[parameter.name] = circular_interval(found, LEVEL, parameter)
        else:
            uncertainty[parameter.name] = interval(found, LEVEL)
    return uncertainty
