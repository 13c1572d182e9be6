r"""Stored posteriors and their models, for the tests of the exact posterior."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest
import torch
from gpytorch.kernels import (
    ConstantKernel,
    Kernel,
    LinearKernel,
    MaternKernel,
    RBFKernel,
    ScaleKernel,
)
from gpytorch.means import ConstantMean, LinearMean, Mean
from scipy.optimize import brentq
from scipy.special import ndtr
from torch import Tensor

from botorch_binary_context import (
    MixedGP,
    Observations,
    PreferenceLikelihood,
    ProbitLikelihood,
)
from botorch_binary_context.inference import (
    ExpectationPropagation,
    Inference,
    Laplace,
)
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.posteriors import ExactPosterior
from tests.acquisition.by_hand import Array, squared_exponential
from tests.exact_posteriors import PATH
from tests.tensors import double

# The largest of a few dozen normal variables is below this but for 1e-4.
LARGEST_Z = 4.5


# Errors of the probabilities of rare events, which are not normal.
RARE = 1e-3


INFERENCES = (ExpectationPropagation(), Laplace())


both_inferences = pytest.mark.parametrize(
    "inference", INFERENCES, ids=lambda inference: type(inference).__name__
)


def array(tensor: Tensor) -> Array:
    """The numbers of a posterior, without its trailing output dimension."""
    return tensor.detach().squeeze(-1).numpy()


def assert_agree(
    found: Tensor, found_error: Tensor, expected: Any, expected_error: Any = 0.0
) -> None:
    """Two results agree within their Monte Carlo errors."""
    error = np.hypot(array(found_error), expected_error)
    z = (array(found) - expected) / error
    assert np.abs(z).max() < LARGEST_Z, z


BY_NAME = {record["name"]: record for record in json.loads(PATH.read_text())}


def prior_of(record: dict[str, Any]) -> tuple[Kernel, Mean | None]:
    """The kernel and the mean of a record, of GPyTorch's parts."""
    prior, dim = record["kernel"], len(record["test_X"][0])
    if prior["type"] == "rbf":
        return _add_constant(_scaled(RBFKernel(), prior), prior), None
    linear = LinearKernel(active_dims=(0,)).double()
    linear.variance = prior["context_variance"]
    base = MaternKernel(2.5, active_dims=tuple(range(1, dim)))
    mean: Any = LinearMean(dim, bias=False)
    weights = double([[prior["slope"]], *[[0.0]] * (dim - 1)])
    mean.weights = torch.nn.Parameter(weights)
    return _add_constant(_scaled(base, prior) + linear, prior), mean


def _scaled(base: Kernel, prior: dict[str, Any]) -> Kernel:
    kernel = ScaleKernel(base).double()
    kernel.outputscale = prior["variance"]
    base.lengthscale = double(prior["lengthscale"])
    return kernel


def _add_constant(kernel: Kernel, prior: dict[str, Any]) -> Kernel:
    if not prior["constant"]:
        return kernel
    constant = ConstantKernel().double()
    constant.constant = double(prior["constant"])
    return kernel + constant


def observations_of(record: dict[str, Any], kind: str) -> Observations:
    """The trials of one kind."""
    data = record[kind]
    X = double(data["X"])
    Y = double(data["Y"]).unsqueeze(-1)
    if kind == "duels":
        return Observations(X, Y, PreferenceLikelihood())
    rates = data["guess_rate"], data["lapse_rate"]
    return Observations(X, Y, ProbitLikelihood(*rates))


def model_of(record: dict[str, Any], inference: Inference | None = None) -> MixedGP:
    kinds = [kind for kind in ("outcomes", "duels") if record[kind]]
    observations = [observations_of(record, kind) for kind in kinds]
    return MixedGP(observations, *prior_of(record), inference=inference)


def assert_equals_record(model: LatentGP, record: dict[str, Any]) -> Array:
    """Mean, variance and probability in the test rows; z-scores of the former two."""
    X = double(record["test_X"])
    sd = np.array(record["sd"])
    posterior = model.exact_posterior(X)
    found = np.stack([array(posterior.mean), array(posterior.variance)])
    errors = np.stack([array(posterior.mean_error), array(posterior.variance_error)])
    expected_errors = record["mean_error"], 2 * sd * np.array(record["sd_error"])
    z = (found - [record["mean"], sd**2]) / np.hypot(errors, expected_errors)
    assert np.abs(z).max() < LARGEST_Z, z
    assert_right_probability(model, record)
    return z


def assert_right_probability(model: LatentGP, record: dict[str, Any]) -> None:
    """That of passes in the test rows, or of duels between neighbors."""
    X = double(record["test_X"])
    if record["probability_kind"] == "duel":
        X = torch.stack([X[:-1], X[1:]], dim=-2)
    posterior = model.exact_posterior(X)
    found = array(posterior.probability).ravel()
    error = array(posterior.probability_error).ravel()
    error = np.hypot(error, record["probability_error"])
    assert (np.abs(found - record["probability"]) < LARGEST_Z * error + RARE).all()


ROWS = double([[0.1], [0.35], [0.6], [0.8]])


LENGTHSCALE = 0.4


SHARES = double([0.05, 0.5, 0.9])


@dataclass(frozen=True)
class Mixture:
    """The exact posterior in some rows: a mixture of Gaussians, over a grid.

    Attributes:
        weights: Those of the Gaussians, which have one covariance.
        means: Their means, ``q x N``.
        covariance: ``q x q``.
    """

    weights: Array
    means: Array
    covariance: Array

    @property
    def mean(self) -> Array:
        return self.means @ self.weights

    @property
    def joint_covariance(self) -> Array:
        deviations = self.means - self.mean[:, None]
        return self.covariance + (self.weights * deviations) @ deviations.T

    @property
    def variance(self) -> Array:
        return np.diag(self.joint_covariance)

    def of(self, T: Array) -> Mixture:
        """That of linear combinations of the rows."""
        return Mixture(self.weights, T @ self.means, T @ self.covariance @ T.T)

    def probability(self, rates: tuple[float, float]) -> Array:
        guess, lapse = rates
        scale = np.sqrt(1 + np.diag(self.covariance))[:, None]
        return guess + (1 - guess - lapse) * ndtr(self.means / scale) @ self.weights

    def quantiles(self, shares: Sequence[float]) -> Array:
        """``len(shares) x q``, where the distribution function has these values."""
        sd = np.sqrt(np.diag(self.covariance))

        def quantile(share: float, i: int) -> float:
            def excess(x: float) -> float:
                return ndtr((x - self.means[i]) / sd[i]) @ self.weights - share

            return brentq(excess, -100.0, 100.0, xtol=1e-10)  # pyright: ignore

        return np.array([[quantile(p, i) for i in range(len(sd))] for p in shares])


@dataclass(frozen=True)
class Setting:
    """A few trials in one dimension, with a squared exponential prior.

    Attributes:
        outcomes: Inputs and labels of pass/fail trials.
        duels: Both inputs and labels of duels.
        rates: The guess rate and the lapse rate of the pass/fail trials.
        variance: The prior variance.
        mean: The prior mean.
    """

    outcomes: tuple[tuple[float, int], ...] = ()
    duels: tuple[tuple[float, float, int], ...] = ()
    rates: tuple[float, float] = (0.0, 0.0)
    variance: float = 4.0
    mean: float = 0.0

    @property
    def asks_duels(self) -> bool:
        return bool(self.duels) and not self.outcomes

    @property
    def asked_rates(self) -> tuple[float, float]:
        return (0.0, 0.0) if self.asks_duels else self.rates

    @property
    def contrast(self) -> Array:
        """What candidates observe of the test rows."""
        rows = np.eye(len(ROWS))
        return rows[::2] - rows[1::2] if self.asks_duels else rows

    def prior(self, first: Array, second: Array) -> Array:
        return self.variance * squared_exponential(first, second, LENGTHSCALE)

    @cached_property
    def kernel(self) -> Kernel:
        kernel = ScaleKernel(RBFKernel()).double()
        kernel.outputscale = self.variance
        kernel.base_kernel.lengthscale = double(LENGTHSCALE)
        return kernel

    @property
    def observations(self) -> list[Observations]:
        observations = []
        if self.outcomes or not self.duels:
            data = double(self.outcomes).reshape(-1, 2)
            likelihood = ProbitLikelihood(*self.rates)
            observations.append(Observations(data[:, :1], data[:, 1:], likelihood))
        if self.duels:
            data = double(self.duels)
            pairs = data[:, :2, None]
            duels = Observations(pairs, data[:, 2:], PreferenceLikelihood())
            observations.append(duels)
        return observations

    def model(self, inference: Inference | None = None) -> MixedGP:
        mean_module = ConstantMean().double()
        mean_module.constant = double(self.mean)
        data = self.observations
        return MixedGP(data, self.kernel, mean_module, inference=inference)

    def likelihood(self, g: Array) -> Array:
        """The probability of all labels, for contrasts ``n x N``."""
        labels = [y for *_, y in self.outcomes] + [y for *_, y in self.duels]
        sign = 2.0 * np.array(labels)[:, None] - 1
        guess, lapse = (
            np.array([rate] * len(self.outcomes) + [0.0] * len(self.duels))[:, None]
            for rate in self.rates
        )
        floor = np.where(sign > 0, guess, lapse)
        return (floor + (1 - guess - lapse) * ndtr(sign * g)).prod(axis=0)

    @property
    def design(self) -> tuple[Array, Array]:
        """Rows ``Z`` and weights ``D``: trials observe ``D f(Z)``."""
        n = len(self.outcomes)
        m = len(self.duels)
        rows = [x for x, _ in self.outcomes]
        rows += [x for *pair, _ in self.duels for x in pair]
        D = np.zeros((n + m, n + 2 * m))
        D[:n, :n], D[n:, n:] = np.eye(n), np.kron(np.eye(m), [1.0, -1.0])
        return np.array(rows)[:, None], D

    @cached_property
    def exact(self) -> Mixture:
        """Sums over a grid of what the trials observe, in independent directions."""
        (Z, D), X = self.design, ROWS.numpy()
        values, vectors = np.linalg.eigh(D @ self.prior(Z, Z) @ D.T)
        used = values > 1e-9
        root = vectors[:, used] * np.sqrt(values[used])
        axis = np.linspace(-9, 9, 2001 if used.sum() == 1 else 301)
        u = np.stack(np.meshgrid(*[axis] * used.sum())).reshape(used.sum(), -1)
        g = self.mean * D.sum(axis=1, keepdims=True) + root @ u
        weights = self.likelihood(g) * np.exp(-(u**2).sum(axis=0) / 2)
        kept = weights > 1e-14 * weights.max()
        u, weights = u[:, kept], weights[kept] / weights[kept].sum()
        cross = np.linalg.pinv(root) @ D @ self.prior(Z, X)
        left = self.prior(X, X) - cross.T @ cross
        return Mixture(weights, self.mean + cross.T @ u, left)


GUESSES = (0.25, 0.05)


SETTINGS = {
    "a pass": Setting(((0.3, 1),)),
    "a fail": Setting(((0.3, 0),), mean=0.5),
    "a pass or a guess": Setting(((0.3, 1),), rates=GUESSES),
    "a fail or a lapse": Setting(((0.3, 0),), rates=GUESSES),
    "a duel": Setting(duels=((0.2, 0.7, 1),)),
    "two outcomes": Setting(((0.3, 1), (0.7, 0))),
    "two choices": Setting(((0.3, 1), (0.7, 0)), rates=(0.5, 0.0)),
    "two choices, fails": Setting(((0.3, 0), (0.7, 0)), rates=(0.5, 0.02), variance=9),
    "guesses and lapses": Setting(((0.3, 1), (0.4, 0)), rates=GUESSES, variance=9),
    "two duels": Setting(duels=((0.2, 0.7, 1), (0.4, 0.9, 0))),
    "an outcome and a duel": Setting(((0.3, 1),), ((0.2, 0.7, 0),), GUESSES),
    "the same again": Setting(((0.3, 1), (0.3, 1), (0.3, 0))),
    "the same guesses": Setting(((0.3, 1), (0.3, 1), (0.3, 0)), rates=GUESSES),
    "a duel and its reverse": Setting(duels=((0.2, 0.7, 1), (0.7, 0.2, 0))),
    "an outcome and a duel with it": Setting(((0.3, 1),), ((0.3, 0.7, 0),)),
}


def assert_equals_grid(posterior: ExactPosterior, setting: Setting) -> None:
    """Mean, variance and probability in ``ROWS``."""
    exact, contrast = setting.exact, setting.exact.of(setting.contrast)
    assert_agree(posterior.mean, posterior.mean_error, exact.mean)
    assert_agree(posterior.variance, posterior.variance_error, exact.variance)
    probability = contrast.probability(setting.asked_rates)
    assert_agree(posterior.probability, posterior.probability_error, probability)
