r"""Priors, rates and models for the tests of expectation propagation."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from scipy.special import ndtr
from torch import Tensor

from botorch_binary_context import (
    BinaryGP,
    MixedGP,
    Observations,
    PreferenceGP,
    PreferenceLikelihood,
    ProbitLikelihood,
)
from botorch_binary_context.inference import (
    ExpectationPropagation,
    Inference,
    SiteApproximation,
    Start,
)
from tests.small_models import simple_kernel
from tests.tensors import uniform

EXACT = ExpectationPropagation(tolerance=1e-10)


DEFAULT = ExpectationPropagation()


RATES = {
    "plain": (0.0, 0.0),
    "two_choices": (0.5, 0.0),
    "guesses_and_lapses": (0.1, 0.05),
    "mostly_chance": (0.5, 0.3),
}


every_rate = pytest.mark.parametrize("rates", RATES.values(), ids=RATES)


Model = BinaryGP | PreferenceGP | MixedGP


class Prior(NamedTuple):
    """The prior of contrasts, and their labels."""

    mean: Tensor
    K: Tensor
    targets: Tensor

    def approximate(
        self,
        rates: tuple[float, float],
        inference: ExpectationPropagation = EXACT,
        start: Start | None = None,
    ) -> SiteApproximation:
        """The approximation of a probit model with these error rates."""
        return inference.approximate(ProbitLikelihood(*rates), *self, start)


def make_prior(
    n: int = 8, batch_shape: tuple[int, ...] = (), scale: float = 3.0, seed: int = 0
) -> Prior:
    """A prior mean, a prior covariance of full rank and labels."""
    X = uniform(*batch_shape, n, 2, seed=seed)
    squared = (X.unsqueeze(-2) - X.unsqueeze(-3)).square().sum(dim=-1)
    K = scale * (torch.exp(-3 * squared) + 0.1 * torch.eye(n, dtype=X.dtype))
    mean = uniform(*batch_shape, n, seed=seed + 1) - 0.5
    targets = (uniform(*batch_shape, n, seed=seed + 2) > 0.4).double()
    return Prior(mean, K, targets)


def make_copies(n: int, passes: int, variance: float) -> Prior:
    """A trial that was passed and failed a few times."""
    targets = (torch.arange(n) < passes).double()
    K = torch.full((n, n), variance, dtype=torch.double)
    return Prior(torch.zeros_like(targets), K, targets)


def assert_near(found: Any, expected: Any, atol: float, rtol: float = 0.0) -> None:
    found = torch.as_tensor(found).detach()
    expected = torch.as_tensor(expected, dtype=found.dtype).detach()
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)


def moments(model: Any, X: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and variance of the latent function at points, one by one."""
    posterior = model.posterior(X.unsqueeze(-2))
    return posterior.mean.flatten(-2).squeeze(-1), posterior.variance[..., 0, 0]


def label_probability(f: Any, label: float, guess: float, lapse: float) -> Any:
    """``p(c|f)``."""
    floor, sign = (guess, 1) if label else (lapse, -1)
    return floor + (1 - guess - lapse) * ndtr(sign * f)


def small_model(
    kind: str,
    rates: tuple[float, float] = (0.0, 0.0),
    inference: Inference = EXACT,
    n: int = 12,
    **kwargs: Any,
) -> Model:
    """A model of a few outcomes, duels, or both."""
    X = uniform(n, 2, seed=1)
    pairs = uniform(n, 2, 2, seed=2)
    labels = (uniform(n, 1, seed=4) > 0.5).double()
    likelihood = kwargs.pop("likelihood", ProbitLikelihood(*rates))
    kwargs = {"covar_module": simple_kernel(), "inference": inference, **kwargs}
    if kind == "outcomes":
        return BinaryGP(X, labels, likelihood, **kwargs)
    if kind == "duels":
        return PreferenceGP(pairs, labels, **kwargs)
    duels = Observations(pairs, 1 - labels, PreferenceLikelihood())
    return MixedGP([Observations(X, labels, likelihood), duels], **kwargs)
