r"""
The recommendation of an experiment, with its uncertainty.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from botorch.exceptions import InputDataError, UnsupportedError
from torch import Tensor

from botorch_binary_context.bands import (
    exact_probability_band,
    exact_threshold_band,
)
from botorch_binary_context.experiment.computing import computing
from botorch_binary_context.experiment.estimates import (
    CREDIBLE,
    Estimate,
    Loss,
    Threshold,
    Uncertainty,
    num_sets,
    uncertainty_of,
)
from botorch_binary_context.experiment.region import Region, find_region
from botorch_binary_context.experiment.settings import Settings
from botorch_binary_context.experiment.space import Encoder, Values
from botorch_binary_context.experiment.threshold_distribution import (
    ThresholdDistribution,
)
from botorch_binary_context.experiment.variables import Context
from botorch_binary_context.feasibility import Feasibility
from botorch_binary_context.functionals import DIFFERENCE, VALUE
from botorch_binary_context.goals import (
    AtReference,
    AverageSuccess,
    Goal,
    ThresholdMap,
)
from botorch_binary_context.models.averaged_gp import AveragedGP
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.optima import OptimumDraws, draw_optima
from botorch_binary_context.rules import recommend, value_of_next_trial

# The number of functions drawn from the posterior.
NUM_PATHS = 128
NUM_SAMPLES = 4096
# Curves are interpolated between this many values of a context.
NUM_VALUES = 201
#: The unit of a loss that is a difference of success probabilities.
PROBABILITY = "success probability"


@dataclass(frozen=True)
class Recommendation:
    r"""The inferred best parameters.

    Intervals come from the true posterior, not from a Gaussian approximation, and allow
    for unknown hyperparameters. They are computed when first used, which may take a
    second or more. Experiments without parameters, and maps, have thresholds and
    success probabilities only.

    Attributes:
        parameters: The parameters that are best by the goal, by default in the
            reference context, in the user's units; empty if there are none to choose.
            If the settings have an outcome for infeasible trials, they are feasible,
            and so are all parameters that they are compared with.
        num_answers: The number of answers it is based on.
    """

    parameters: Values
    num_answers: int
    _model: LatentGP = field(repr=False)
    # The model that knows only the levels of contexts.
    _asking: LatentGP = field(repr=False)
    _encoder: Encoder = field(repr=False)
    _seed: int = field(default=0, repr=False)
    _goal: Goal = field(default=AtReference(), repr=False)
    # The success probability at the threshold, if none is given.
    _probability: float | None = field(default=None, repr=False)
    _feasibility: Feasibility | None = field(default=None, repr=False)

    @cached_property
    def _averaged(self) -> AveragedGP:
        with computing():
            return AveragedGP(self._model, num_sets(self.num_answers), self._seed)

    @cached_property
    def _optima(self) -> OptimumDraws:
        self._check_choice()
        best = self._encoder.encode_parameters(self.parameters)
        space = self._encoder.context_space
        with computing():
            return draw_optima(
                self._averaged,
                space,
                best,
                NUM_PATHS,
                self._seed,
                NUM_SAMPLES,
                self._encoder.steps(),
                self._goal,
                self._encoder.circles(),
                self._feasibility,
            )

    @cached_property
    def uncertainty(self) -> Uncertainty:
        """Where else the optimum may be, from the maxima of functions of the posterior.
        For numbers this is an interval that contains nine tenths of them (for periodic
        ones, from the first end upward to the second, which may be smaller; both bounds
        for the whole circle), for categories the share of each. It includes regions
        that were hardly tried; see :attr:`local_uncertainty` and :meth:`expected_loss`.
        """
        return (
            uncertainty_of(self._encoder, self._optima.optima)
            if self.parameters
            else {}
        )

    @cached_property
    def local_uncertainty(self) -> Uncertainty:
        """Where the peak nearest to the recommended parameters is.

        It has the form of :attr:`uncertainty`, and is narrower where the optimum may be
        elsewhere.
        """
        return (
            uncertainty_of(self._encoder, self._optima.near) if self.parameters else {}
        )

    def expected_loss(
        self, unit: str | None = None, credible: float = CREDIBLE
    ) -> Loss:
        r"""How much better the best parameters may be than the recommended ones.

        Args:
            unit: The name of a context, to express the loss in its units: how much
                easier tests must be to make up for it, by the mean slope along its
                range. By default the only context along which tests become harder, or
                else units of the latent function. If the goal is the average success,
                it is a difference of probabilities.
            credible: The probability of not losing more than ``high``.

        Returns:
            The mean loss and a bound, for example 0.02 logMAR, with 90 % below 0.06.
        """
        _check_credible(credible)
        losses, name = self._losses(unit)
        high = float(losses.quantile(credible))
        return Loss(float(losses.mean()), high, name)

    @property
    def is_graded(self) -> bool:
        """Whether the loss can be computed.

        It cannot without parameters to choose, or if its unit is the unit of a context
        along which tests do not become harder, according to the answers.
        """
        if not self.parameters:
            return False
        context = self._unit(None)
        return context is None or self._steepness(context) > 0.0

    def _steepness(self, context: Context) -> float:
        """The fall of the latent function from the easiest to the hardest test."""
        position = [c.name for c in self._encoder.space.contexts].index(context.name)
        easiest, hardest = context.difficulties(2, self._encoder.centered)
        rise = self._optima.slopes[..., position]
        return float((rise * (easiest - hardest).sign()).mean())

    def value_of_next_trial(self) -> float:
        r"""How much the next trial is expected to improve the recommendation.

        Returns:
            The maximum of the knowledge gradient over trials that can be shown, in
            units of the latent function, with the hyperparameters as they were learned.
        """
        self._check_choice()
        space = self._encoder.context_space
        with computing():
            value = value_of_next_trial(
                self._asking,
                space,
                self._goal,
                seed=self._seed,
                feasibility=self._feasibility,
            )
        return float(value)

    def region(self, tolerance: float, unit: str | None = None) -> Region | None:
        r"""How far each parameter can be moved on its own at little expected loss.

        Args:
            tolerance: The largest expected loss against the best possible.
            unit: Its unit, as in :meth:`expected_loss`.

        Returns:
            For each number the interval around the recommended value within which the
            expected loss stays below the tolerance, with the other parameters as
            recommended; for each categorical parameter the values for which it does.
            None if the recommended parameters themselves lose more.
        """
        if not tolerance >= 0.0:
            raise InputDataError(
                f"Expected ``tolerance`` not to be negative, but got {tolerance}."
            )
        least = self.expected_loss(unit).mean
        if least > tolerance:
            return None
        latent = float(self._optima.losses.mean())
        # What may be lost on top of what is lost anyway, in units of ``f``.
        more = (tolerance - least) * (latent / least if least > 0.0 else 1.0)
        with computing():
            return find_region(
                self._averaged,
                self._encoder,
                self.parameters,
                more,
                self._goal,
                self._feasibility,
            )

    def _losses(self, unit: str | None) -> tuple[Tensor, str | None]:
        """Draws of the loss, and the context whose unit they are in."""
        context = self._unit(unit)
        if context is None:
            probability = isinstance(self._goal, AverageSuccess)
            return self._optima.losses, PROBABILITY if probability else None
        steep = self._steepness(context)
        low, high = context.bounds
        if not steep > 0.0:
            raise UnsupportedError(
                f"Expected tests to become harder along {context.name!r} to tell a "
                "loss in its unit, but by the answers so far they do not."
            )
        return self._optima.losses * ((high - low) / steep), context.name

    def _unit(self, name: str | None) -> Context | None:
        contexts = self._encoder.space.contexts
        if isinstance(self._goal, AverageSuccess):
            if name is not None:
                raise UnsupportedError(
                    "Expected ``unit`` to be left out where the goal is a probability, "
                    f"but got {name!r}."
                )
            return None
        if name is None:
            graded = [c for c in contexts if c.harder is not None]
            fits = self._model.functional == VALUE and len(graded) == 1
            return graded[0] if fits and graded[0].scale == "linear" else None
        self._check_pass_fail()
        context = self._find_context(name)
        if context.scale != "linear":
            raise UnsupportedError(
                f"Expected ``unit`` to be a context on a linear scale, but got "
                f"{context.name!r} on a {context.scale} scale."
            )
        return context

    def success_probability(
        self,
        context: Values | None = None,
        credible: float = CREDIBLE,
        parameters: Values | None = None,
    ) -> Estimate:
        r"""The probability that a test of the recommended parameters is passed.

        Args:
            context: The values of all contexts, which need not be values that can be
                shown; by default the reference context.
            credible: The probability of the credible interval.
            parameters: Parameters to use instead of the recommended ones.

        Returns:
            The mean and the interval of the probability. Near zero and one the mean may
            lie outside the interval, since the distribution is skewed.
        """
        self._check_pass_fail()
        shown = self.parameters if parameters is None else parameters
        return self._estimate([shown], context, credible)

    def threshold(
        self,
        name: str | None = None,
        probability: float | None = None,
        context: Values | None = None,
        credible: float = CREDIBLE,
        parameters: Values | None = None,
    ) -> Threshold:
        r"""How hard a test with the recommended parameters may be and still be passed.

        Harder tests are assumed to be passed less often.

        Args:
            name: The name of the context, whose ``harder`` says which way is hard; not
                needed if there is only one.
            probability: The probability with which the test is to be passed; by default
                halfway between the guess rate and 1 minus the lapse rate.
            context: The values of all contexts; the value of ``name`` is ignored; by
                default the reference context.
            credible: The probability of the credible interval.
            parameters: Parameters to use instead of the recommended ones; for a map,
                those at which to find the threshold.

        Returns:
            The median and the interval of the value.

        Example:
            >>> best = experiment.recommend()
            >>> best.threshold("letter size", probability=0.8)
        """
        _check_credible(credible)
        varied, line, latent = self._line(name, probability, context, parameters)
        with computing(), torch.no_grad():
            band = exact_threshold_band(
                self._averaged, line, latent, credible, NUM_SAMPLES, self._seed
            )
        median, *ends = (
            varied.at_difficulty(float(position) / (NUM_VALUES - 1))
            for position in band
        )
        return Threshold(median, min(ends), max(ends))

    def threshold_distribution(
        self,
        name: str | None = None,
        probability: float | None = None,
        context: Values | None = None,
        parameters: Values | None = None,
    ) -> ThresholdDistribution:
        r"""The distribution of the value whose median :meth:`threshold` gives.

        Args:
            name: The name of the context, as in :meth:`threshold`.
            probability: The probability of passing, as in :meth:`threshold`.
            context: The values of the other contexts, as in :meth:`threshold`.
            parameters: Parameters to use instead of the recommended ones.

        Returns:
            The distribution, given that the threshold is within the bounds.
        """
        varied, line, latent = self._line(name, probability, context, parameters)
        with computing(), torch.no_grad():
            posterior = self._averaged.exact_posterior(
                line.unsqueeze(-2), NUM_SAMPLES, self._seed
            )
        values = [varied.at_difficulty(i / (NUM_VALUES - 1)) for i in range(NUM_VALUES)]
        return ThresholdDistribution.by_failing(values, posterior.cdf(latent).flatten())

    def _line(
        self,
        name: str | None,
        probability: float | None,
        context: Values | None,
        parameters: Values | None,
    ) -> tuple[Context, Tensor, float]:
        """A context, ever harder trials along it, and ``f`` at its threshold."""
        self._check_pass_fail()
        varied = self._find_context(name)
        likelihood = self._model.likelihood
        asked = self._probability if probability is None else probability
        latent = 0.0 if asked is None else likelihood.contrast_at(asked)
        fixed = {varied.name: varied.reference, **self._complete(context)}
        shown = self.parameters if parameters is None else parameters
        line = self._encoder.encode_difficulties(fixed, shown, varied.name, NUM_VALUES)
        return varied, line, latent

    def preference_probability(
        self, other: Values, context: Values | None = None, credible: float = CREDIBLE
    ) -> Estimate:
        r"""The probability that the recommended parameters win a duel.

        Args:
            other: The parameters of the other side.
            context: The values of all contexts; by default the reference context.
            credible: The probability of the credible interval.

        Returns:
            The mean and the interval of the probability.
        """
        if self._model.functional != DIFFERENCE:
            raise UnsupportedError(
                "Expected duels, since preferences need two sides, but got pass/fail "
                "outcomes: use ``success_probability``."
            )
        return self._estimate([self.parameters, other], context, credible)

    def _estimate(
        self, sides: list[Values], context: Values | None, credible: float
    ) -> Estimate:
        _check_credible(credible)
        X = self._encoder.encode(self._complete(context), sides)
        with computing(), torch.no_grad():
            band = exact_probability_band(
                self._averaged, X, credible, NUM_SAMPLES, self._seed
            )
        return Estimate(*map(float, band))

    def _complete(self, context: Values | None) -> Values:
        reference = self._encoder.space.reference_context()
        return reference if context is None else context

    def _check_choice(self) -> None:
        if not self.parameters:
            raise UnsupportedError(
                "Expected an experiment with parameters to optimize, but got none: see "
                "``threshold`` and ``success_probability``."
            )

    def _check_pass_fail(self) -> None:
        if self._model.functional != VALUE:
            raise UnsupportedError(
                "Expected pass/fail outcomes to predict the success of, but got duels: "
                "use ``preference_probability``."
            )

    def _find_context(self, name: str | None) -> Context:
        """The context with a given name, or the only one."""
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


def _check_credible(credible: float) -> None:
    if not 0.0 < credible < 1.0:
        raise InputDataError(
            f"Expected ``credible`` to be between 0 and 1, but got {credible}."
        )


def make_recommendation(
    model: LatentGP,
    asking: LatentGP,
    settings: Settings,
    seed: int,
    num_answers: int,
    feasibility: Feasibility | None = None,
) -> Recommendation:
    r"""The inferred best parameters of a model.

    Args:
        model: The model of the answers.
        asking: The same model, which knows only the levels of contexts.
        settings: The settings of the experiment.
        seed: The seed of the draws from the posterior.
        num_answers: The number of answers.
        feasibility: The restriction to feasible parameters, if not all are feasible.
    """
    encoder = settings.encoder()
    goal = settings.make_goal()
    parameters = {}
    optimum = goal if isinstance(goal, Goal) else AtReference()
    if not settings.measures:
        best = recommend(
            model,
            encoder.context_space,
            seed=seed,
            goal=optimum,
            feasibility=feasibility,
        )
        parameters = encoder.decode_parameters(best)
    return Recommendation(
        parameters=parameters,
        num_answers=num_answers,
        _model=model,
        _asking=asking,
        _encoder=encoder,
        _seed=seed,
        _goal=optimum,
        _probability=goal.probability if isinstance(goal, ThresholdMap) else None,
        _feasibility=feasibility,
    )
