r"""
Rates of guesses and lapses, which may be learned.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from botorch.exceptions import InputDataError, UnsupportedError
from gpytorch.constraints import Interval
from gpytorch.priors import Prior
from torch import Tensor

from botorch_binary_context.checks import describe, to_float
from botorch_binary_context.likelihoods.base import OutcomeLikelihood
from botorch_binary_context.likelihoods.priors import BetaPrior

# The prior of a learned rate: mostly below a tenth, hardly ever above a fifth.
RATE_PRIOR = (1.5, 30.0)
LOWEST_RATE = 1e-6


class RatedLikelihood(OutcomeLikelihood):
    r"""A likelihood with rates, each fixed or a hyperparameter of the model."""

    _rates: dict[str, float]

    def __init__(self) -> None:
        super().__init__()
        self._rates = {}

    def _set_up_rate(
        self,
        name: str,
        rate: float,
        highest: float,
        learn: bool,
        prior: Prior | None,
        batch_shape: torch.Size,
    ) -> None:
        """Keep a rate fixed, or make it a parameter."""
        if not learn:
            self._rates[name] = float(rate)
            return
        # Do not start at either end, where the search would get stuck.
        constraint = Interval(LOWEST_RATE, highest - LOWEST_RATE)
        raw = torch.nn.Parameter(
            torch.zeros(*batch_shape, 1, dtype=torch.double, device="cpu")
        )
        self.register_parameter(f"raw_{name}", raw)
        self.register_constraint(f"raw_{name}", constraint)
        self.register_prior(
            f"{name}_prior",
            BetaPrior(*RATE_PRIOR) if prior is None else prior,
            partial(_get_rate, name=name),
            partial(set_rate, name=name),  # pyright: ignore[reportArgumentType]
        )
        begin = min(max(float(rate), 0.01 * highest), 0.99 * highest)
        set_rate(self, torch.full_like(raw, begin), name)

    def _rate(self, name: str) -> float | Tensor:
        if name in self._rates:
            return self._rates[name]
        raw: Tensor = getattr(self, f"raw_{name}")
        constraint: Interval = getattr(self, f"raw_{name}_constraint")
        return constraint.transform(raw)

    def _settings(self) -> tuple[Any, ...]:
        return tuple(sorted(self._rates.items()))

    def extra_repr(self) -> str:
        r"""The rates, for ``repr``."""
        shown = [f"{name}={rate:g}" for name, rate in sorted(self._rates.items())]
        for parameter, raw in self.named_parameters(recurse=False):
            name = parameter.removeprefix("raw_")
            if name.endswith("_rate"):
                one = raw.numel() == 1
                value = (
                    f"{rate_as_float(self._rate(name), name):.3g}" if one else "batch"
                )
                shown.append(f"{name}={value} (learned)")
        return ", ".join(shown)


def check_rate(name: str, rate: float, highest: float = 1.0) -> None:
    r"""Raise an error unless a rate is a number from zero to a limit.

    Args:
        name: The name of the rate.
        rate: The rate.
        highest: The limit, which the rate must be below.
    """
    if not 0.0 <= to_float(rate) < highest:
        raise InputDataError(
            f"Expected ``{name}`` to be in [0, {highest:g}), but got {describe(rate)}."
        )


def rate_as_float(rate: float | Tensor, name: str) -> float:
    r"""A rate as one number.

    Args:
        rate: The rate.
        name: Its name.
    """
    if not isinstance(rate, Tensor):
        return rate
    if rate.numel() != 1:
        raise UnsupportedError(
            f"Expected ``{name}`` to be one number, but got {rate.numel()} of a batch."
        )
    return float(rate.detach())


def _get_rate(likelihood: RatedLikelihood, name: str) -> Tensor:
    return getattr(likelihood, name)


def set_rate(likelihood: RatedLikelihood, value: Tensor, name: str) -> None:
    r"""Set a rate that is learned.

    Args:
        likelihood: The likelihood.
        value: The rate, ``batch_shape x 1`` or fewer dimensions.
        name: Its name.
    """
    constraint: Interval = getattr(likelihood, f"raw_{name}_constraint")
    raw: Tensor = getattr(likelihood, f"raw_{name}")
    value = constraint.inverse_transform(value.to(raw)).expand_as(raw)
    likelihood.initialize(**{f"raw_{name}": value})
