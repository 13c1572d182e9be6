r"""
Answers of several kinds: duels with ties, ratings, and outcomes with their confidence.

All of them are ordinal: see :mod:`botorch_binary_context.likelihoods.ordinal`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from botorch.exceptions import InputDataError
from gpytorch.constraints import GreaterThan
from gpytorch.priors import LogNormalPrior, Prior
from torch import Tensor

from botorch_binary_context.checks import describe, to_float
from botorch_binary_context.functionals import DIFFERENCE, Functional
from botorch_binary_context.likelihoods.ordinal import OrdinalLikelihood
from botorch_binary_context.likelihoods.rates import check_rate

# Medians of the priors of distances between thresholds, and the standard deviation of
# their logarithm.
TIE_WIDTH = 0.5
CATEGORY_WIDTH = 1.0
WIDTH_SPREAD = 0.7
NARROWEST = 1e-3


class SpacedLikelihood(OrdinalLikelihood):
    r"""An ordinal likelihood whose thresholds are given by distances between them."""

    fixed_widths: Tensor

    def _set_up_widths(
        self,
        widths: Sequence[float],
        learn: bool,
        prior: Prior | None,
        batch_shape: torch.Size,
    ) -> None:
        """Keep the distances as they are, or make a parameter of them."""
        start = torch.tensor(list(widths), dtype=torch.double, device="cpu")
        self._learns_widths = learn and len(start) > 0
        if not self._learns_widths:
            self.register_buffer("fixed_widths", start)
            return
        raw = torch.zeros(*batch_shape, len(start), dtype=start.dtype, device="cpu")
        self.register_parameter("raw_widths", torch.nn.Parameter(raw))
        self.register_constraint("raw_widths", GreaterThan(NARROWEST))
        if prior is None:
            prior = LogNormalPrior(math.log(float(start.mean())), WIDTH_SPREAD)
        self.register_prior("widths_prior", prior, _get_widths, _set_widths)  # pyright: ignore
        _set_widths(self, start.expand_as(raw))

    @property
    def widths(self) -> Tensor:
        """Distances between thresholds; with ``batch_shape`` in front if learned."""
        if not self._learns_widths:
            return self.fixed_widths
        constraint: Any = self.raw_widths_constraint
        return constraint.transform(self.raw_widths)

    @widths.setter
    def widths(self, value: Tensor) -> None:
        _set_widths(self, value)

    def _settings(self) -> tuple[Any, ...]:
        fixed = None if self._learns_widths else tuple(self.fixed_widths.tolist())
        return fixed, super()._settings()

    def _set_up_lapses(
        self, rate: float, learn: bool, prior: Prior | None, batch_shape: torch.Size
    ) -> None:
        """Set up the lapse rate, which is below the rate of random answers."""
        highest = 1 - 1 / self.num_outcomes
        check_rate("lapse_rate", rate, highest)
        self._set_up_rate("lapse_rate", rate, highest, learn, prior, batch_shape)

    @property
    def lapse_rate(self) -> float | Tensor:
        """``λ``: a number, or ``batch_shape x 1`` if it is learned."""
        return self._rate("lapse_rate")

    def confusion(self) -> Tensor | None:
        r"""The matrix of lapses, which give any other answer; None without lapses."""
        rate = self.lapse_rate
        if not isinstance(rate, Tensor):
            if rate == 0.0:
                return None
            rate = torch.tensor([rate], dtype=torch.double, device="cpu")
        k = self.num_outcomes
        same = torch.eye(k, dtype=rate.dtype, device=rate.device)
        other = (1 - same) / (k - 1)
        rate = rate.unsqueeze(-1)  # batch_shape x 1 x 1
        return (1 - rate) * same + rate * other


def _get_widths(likelihood: SpacedLikelihood) -> Tensor:
    return likelihood.widths


def _set_widths(likelihood: SpacedLikelihood, value: Tensor) -> None:
    constraint: Any = likelihood.raw_widths_constraint
    raw = likelihood.raw_widths
    assert isinstance(raw, Tensor)
    value = constraint.inverse_transform(value.to(raw)).expand_as(raw)
    likelihood.initialize(raw_widths=value)


class TiesLikelihood(SpacedLikelihood):
    r"""Duels with ties: the second is preferred (0), neither (1), or the first (2).

    ``p(2|f) = Φ(d - w)``, ``p(0|f) = Φ(-d - w)`` with the difference
    ``d = f(z₁) - f(z₂)``, and a tie otherwise. Differences below the width ``w`` mostly
    go unnoticed. The width is learned by default; with ``w = 0`` these are plain duels.
    A success means that the first is preferred.

    Example:
        >>> model = PreferenceGP(pairs, train_Y, likelihood=TiesLikelihood())
    """

    functional: Functional = DIFFERENCE
    num_outcomes: int = 3
    passing: int = 2

    def __init__(
        self,
        width: float = TIE_WIDTH,
        lapse_rate: float = 0.0,
        learn_width: bool = True,
        learn_lapse_rate: bool = False,
        width_prior: Prior | None = None,
        rate_prior: Prior | None = None,
        batch_shape: torch.Size = torch.Size(),  # noqa: B008
    ) -> None:
        r"""
        Args:
            width: ``w``, or its initial value if it is learned.
            lapse_rate: The rate of answers other than the clear one, all equally
                likely.
            learn_width: Whether the width is learned.
            learn_lapse_rate: Whether the lapse rate is learned.
            width_prior: The prior of a width that is learned, by default log-normal
                around ``width``, give or take a factor of 2.
            rate_prior: The prior of a rate that is learned, by default
                ``Beta(1.5, 30)``.
            batch_shape: The batch shape of the model; parameters that are learned have
                a value for each of its elements.
        """
        super().__init__()
        _check_width("width", width, positive=learn_width)
        self._set_up_widths([width], learn_width, width_prior, batch_shape)
        self._set_up_lapses(lapse_rate, learn_lapse_rate, rate_prior, batch_shape)

    @property
    def width(self) -> Tensor:
        """``w``, ``batch_shape x 1``."""
        return self.widths

    @property
    def thresholds(self) -> Tensor:
        """``-w`` and ``w``, ``batch_shape x 2``."""
        return torch.cat([-self.widths, self.widths], dim=-1)


class GradedLikelihood(SpacedLikelihood):
    r"""Answers of ``k`` grades; the threshold of the lowest success is 0.

    So the success probability without guesses and lapses is ``Φ(f)``, as for pass/fail
    outcomes; the other thresholds are given by their distances.
    """

    def _set_up_grades(
        self,
        passing: int,
        widths: Sequence[float] | None,
        learn: bool,
        prior: Prior | None,
        batch_shape: torch.Size,
    ) -> None:
        """The thresholds, after the number of outcomes is known."""
        self.passing = passing
        number = self.num_outcomes - 2
        widths = [CATEGORY_WIDTH] * number if widths is None else list(widths)
        if len(widths) != number:
            raise InputDataError(
                f"Expected ``widths`` to be {number} distances between the thresholds "
                f"of {self.num_outcomes} answers, but got {len(widths)}."
            )
        for width in widths:
            _check_width("widths", width, positive=True)
        self._set_up_widths(widths, learn, prior, batch_shape)

    @property
    def thresholds(self) -> Tensor:
        """``t``, ``batch_shape x (k - 1)``; it is 0 for the lowest success."""
        widths = self.widths
        below, above = widths.split(
            [self.passing - 1, self.num_outcomes - 1 - self.passing], dim=-1
        )
        zero = torch.zeros_like(widths.sum(dim=-1, keepdim=True))
        below = -below.flip(-1).cumsum(dim=-1).flip(-1)
        return torch.cat([below, zero, above.cumsum(dim=-1)], dim=-1)


class RatingLikelihood(GradedLikelihood):
    r"""Ratings of ``k`` ordered categories, labeled from 0 to ``k - 1``.

    ``p(c ≥ j|f) = Φ(f - t_j)``. The threshold of the lowest rating that counts as a
    success is 0, so that the success probability is ``Φ(f)`` as for pass/fail outcomes;
    the others are given by the distances between thresholds, which are learned. Two
    ratings are pass/fail outcomes.

    Example:
        >>> model = BinaryGP(train_X, train_Y, likelihood=RatingLikelihood(5))
    """

    def __init__(
        self,
        num_outcomes: int = 5,
        passing: int | None = None,
        widths: Sequence[float] | None = None,
        lapse_rate: float = 0.0,
        learn_widths: bool = True,
        learn_lapse_rate: bool = False,
        width_prior: Prior | None = None,
        rate_prior: Prior | None = None,
        batch_shape: torch.Size = torch.Size(),  # noqa: B008
    ) -> None:
        r"""
        Args:
            num_outcomes: ``k``, at least 2.
            passing: The lowest label that counts as a success, by default the first of
                the upper half: 3 of the labels 0 to 4, 2 of the labels 0 to 3.
            widths: The ``k - 2`` distances between thresholds, by default 1; their
                initial values if they are learned.
            lapse_rate: The rate of ratings other than the clear one, all equally
                likely.
            learn_widths: Whether the distances are learned.
            learn_lapse_rate: Whether the lapse rate is learned.
            width_prior: The prior of distances that are learned, by default log-normal
                around the mean of ``widths``, give or take a factor of 2.
            rate_prior: The prior of a rate that is learned, by default
                ``Beta(1.5, 30)``.
            batch_shape: The batch shape of the model; parameters that are learned have
                a value for each of its elements.
        """
        super().__init__()
        if not (isinstance(num_outcomes, int) and num_outcomes >= 2):
            raise InputDataError(
                "Expected ``num_outcomes`` to be a whole number of at least 2, but got "
                f"{describe(num_outcomes)}."
            )
        passing = (num_outcomes + 1) // 2 if passing is None else passing
        if not (isinstance(passing, int) and 1 <= passing < num_outcomes):
            raise InputDataError(
                f"Expected ``passing`` to be a label from 1 to {num_outcomes - 1}, but "
                f"got {describe(passing)}."
            )
        self.num_outcomes = num_outcomes
        self._set_up_grades(passing, widths, learn_widths, width_prior, batch_shape)
        self._set_up_lapses(lapse_rate, learn_lapse_rate, rate_prior, batch_shape)


class ConfidenceLikelihood(GradedLikelihood):
    r"""Pass/fail outcomes that are graded by confidence.

    With two grades the labels are a clear fail (0), a fail that was close (1), a pass
    that was close (2) and a clear pass (3). Grades tell how far the test was from
    turning out the other way. Guesses turn fails of any grade into the lowest grade of
    passes, lapses turn passes into fails of any grade. Together, passes then have the
    probability ``γ + (1 - γ - λ) Φ(f)`` of :class:`ProbitLikelihood`.

    Example:
        >>> likelihood = ConfidenceLikelihood(guess_rate=0.25)
        >>> model = BinaryGP(train_X, train_Y, likelihood=likelihood)
    """

    def __init__(
        self,
        guess_rate: float = 0.0,
        lapse_rate: float = 0.0,
        num_grades: int = 2,
        widths: Sequence[float] | None = None,
        learn_widths: bool = True,
        learn_lapse_rate: bool = False,
        width_prior: Prior | None = None,
        rate_prior: Prior | None = None,
        batch_shape: torch.Size = torch.Size(),  # noqa: B008
    ) -> None:
        r"""
        Args:
            guess_rate: ``γ``, the rate of passes of a test that is too hard.
            lapse_rate: ``λ``, the rate of fails of a test that is too easy.
            num_grades: The number of grades of a pass, and of a fail.
            widths: The distances between thresholds, by default 1; their initial values
                if they are learned.
            learn_widths: Whether the distances are learned.
            learn_lapse_rate: Whether the lapse rate is learned.
            width_prior: The prior of distances that are learned, by default log-normal
                around the mean of ``widths``, give or take a factor of 2.
            rate_prior: The prior of a rate that is learned, by default
                ``Beta(1.5, 30)``.
            batch_shape: The batch shape of the model; parameters that are learned have
                a value for each of its elements.
        """
        super().__init__()
        if not (isinstance(num_grades, int) and num_grades >= 1):
            raise InputDataError(
                "Expected ``num_grades`` to be a whole number of at least 1, but got "
                f"{describe(num_grades)}."
            )
        self.num_outcomes = 2 * num_grades
        self._set_up_grades(num_grades, widths, learn_widths, width_prior, batch_shape)
        check_rate("guess_rate", guess_rate)
        highest = 1.0 - guess_rate
        check_rate("lapse_rate", lapse_rate, highest)
        self._set_up_rate("guess_rate", guess_rate, 1.0, False, None, batch_shape)
        self._set_up_rate(
            "lapse_rate", lapse_rate, highest, learn_lapse_rate, rate_prior, batch_shape
        )

    @property
    def guess_rate(self) -> float:
        """The guess rate ``γ``."""
        return self._rates["guess_rate"]

    def confusion(self) -> Tensor | None:
        r"""The matrix of guesses and lapses; None without these."""
        guess = self.guess_rate
        lapse = self.lapse_rate
        if not isinstance(lapse, Tensor):
            if guess == lapse == 0.0:
                return None
            lapse = torch.tensor([lapse], dtype=torch.double, device="cpu")
        grades = self.passing
        same = torch.eye(2 * grades, dtype=lapse.dtype, device=lapse.device)
        guessed = torch.zeros_like(same)
        lapsed = torch.zeros_like(same)
        guessed[grades, :grades] = 1.0
        guessed -= same * guessed.sum(dim=0)
        lapsed[:grades, grades:] = 1.0 / grades
        lapsed -= same * lapsed.sum(dim=0)
        return same + guess * guessed + lapse.unsqueeze(-1) * lapsed


def _check_width(name: str, width: float, positive: bool) -> None:
    number = to_float(width)
    if not (NARROWEST < number < math.inf or (number == 0.0 and not positive)):
        zero = "" if positive else "zero or "
        raise InputDataError(
            f"Expected ``{name}`` to be {zero}a number above {NARROWEST:g}, but got "
            f"{describe(width)}."
        )
