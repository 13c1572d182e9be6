r"""The true posterior by sampling, against reference records and sums over grids."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from botorch.models.transforms import Normalize
from botorch.sampling.get_sampler import get_sampler
from botorch.utils.sampling import manual_seed
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
from scipy.stats import norm
from torch import Tensor

from botorch_binary_context import (
    BinaryGP,
    BinaryLaplaceGP,
    MixedGP,
    Observations,
    PreferenceGP,
    PreferenceLaplaceGP,
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
from tests.derivatives import finite_difference, jacobian
from tests.devices import RequireDevice
from tests.exact_posteriors import PATH
from tests.sampling_errors import largest_z
from tests.small_models import (
    MODEL_CLASSES,
    ModelClass,
    element,
    random_model,
    random_trials,
    simple_kernel,
)
from tests.tensors import double, uniform

# The largest of a few dozen normal variables is below this but for 1e-4.
LARGEST_Z = 4.5
# Errors of the probabilities of rare events, which are not normal.
RARE = 1e-3

INFERENCES = (ExpectationPropagation(), Laplace())
both_models = pytest.mark.parametrize("model_class", MODEL_CLASSES)
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


def assert_same(first: ExactPosterior, second: ExactPosterior) -> None:
    """Mean, variance and probability of two samples agree."""
    for name in ("mean", "variance", "probability"):
        found, other = getattr(first, name), array(getattr(second, name))
        errors = [getattr(draws, f"{name}_error") for draws in (first, second)]
        assert_agree(found, errors[0], other, array(errors[1]))


# ------------------------------------------------------------------------- the records


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
    X, Y = double(data["X"]), double(data["Y"]).unsqueeze(-1)
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
    X, sd = double(record["test_X"]), np.array(record["sd"])
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


@cache
def z_scores(name: str) -> Array:
    return assert_equals_record(model_of(BY_NAME[name]), BY_NAME[name])


class TestRecords:
    @pytest.mark.parametrize("name", BY_NAME)
    def test_posterior(self, name: str) -> None:
        assert z_scores(name).shape == (2, len(BY_NAME[name]["test_X"]))

    def test_size_of_errors(self) -> None:
        # Those of the rows of one record depend on each other, all together do not.
        z = np.stack([z_scores(name) for name in BY_NAME])
        assert 0.7 < np.sqrt((z**2).mean()) < 1.3

    @pytest.mark.parametrize("name", ["two_choices_n30", "guesses_and_lapses"])
    def test_from_laplace(self, name: str) -> None:
        assert_equals_record(model_of(BY_NAME[name], Laplace()), BY_NAME[name])


# --------------------------------------------------------------------- sums over a grid


ROWS = double([[0.1], [0.35], [0.6], [0.8]])
LENGTHSCALE = 0.4
LEVELS = double([0.05, 0.5, 0.9])


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
        spread = np.sqrt(1 + np.diag(self.covariance))[:, None]
        return guess + (1 - guess - lapse) * ndtr(self.means / spread) @ self.weights

    def quantiles(self, levels: Sequence[float]) -> Array:
        """``len(levels) x q``, where the distribution function has these values."""
        sd = np.sqrt(np.diag(self.covariance))

        def quantile(level: float, i: int) -> float:
            def excess(x: float) -> float:
                return ndtr((x - self.means[i]) / sd[i]) @ self.weights - level

            return brentq(excess, -100.0, 100.0, xtol=1e-10)  # pyright: ignore

        return np.array([[quantile(p, i) for i in range(len(sd))] for p in levels])


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
        n, m = len(self.outcomes), len(self.duels)
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
# Posteriors that no Gaussian is close to: the prior is wide, or labels deny its mean.
HARD_SETTINGS = {
    "a wide prior": Setting(((0.3, 1), (0.8, 1)), variance=100),
    "a wide prior and one label": Setting(((0.3, 1),), variance=400),
    "a duel of a wide prior": Setting(duels=((0.2, 0.7, 1),), variance=100),
    "neighbors that differ": Setting(((0.3, 1), (0.35, 0)), (), (0.1, 0.05), 25),
    "lapses": Setting(((0.3, 0), (0.8, 0)), (), (0.5, 0.02), 9, 6.0),
    "guesses": Setting(((0.3, 1), (0.8, 1)), (), (0.1, 0.05), 25, -8.0),
}


def assert_equals_grid(posterior: ExactPosterior, setting: Setting) -> None:
    """Mean, variance and probability in ``ROWS``."""
    exact, contrast = setting.exact, setting.exact.of(setting.contrast)
    assert_agree(posterior.mean, posterior.mean_error, exact.mean)
    assert_agree(posterior.variance, posterior.variance_error, exact.variance)
    probability = contrast.probability(setting.asked_rates)
    assert_agree(posterior.probability, posterior.probability_error, probability)


@both_inferences
class TestGrid:
    @pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
    def test_posterior(self, setting: Setting, inference: Inference) -> None:
        assert_equals_grid(setting.model(inference).exact_posterior(ROWS), setting)

    @pytest.mark.parametrize("setting", HARD_SETTINGS.values(), ids=HARD_SETTINGS)
    def test_hard_posterior(self, setting: Setting, inference: Inference) -> None:
        posterior = setting.model(inference).exact_posterior(ROWS, num_samples=16384)
        assert_equals_grid(posterior, setting)


QUANTILE_SETTINGS = [
    "a pass or a guess",
    "two choices",
    "two duels",
    "an outcome and a duel",
    "the same guesses",
]
settings_with_quantiles = pytest.mark.parametrize(
    "setting", [SETTINGS[name] for name in QUANTILE_SETTINGS], ids=QUANTILE_SETTINGS
)


@settings_with_quantiles
class TestQuantiles:
    def test_latent(self, setting: Setting) -> None:
        posterior = setting.model().exact_posterior(ROWS)
        found, error = posterior.quantile(LEVELS), posterior.quantile_error(LEVELS)
        assert found.shape == error.shape == (3, 4, 1)
        assert_agree(found, error, setting.exact.quantiles(LEVELS.tolist()))

    def test_probability(self, setting: Setting) -> None:
        # The link is monotone, with this slope.
        posterior = setting.model().exact_posterior(ROWS)
        found = array(posterior.probability_quantile(LEVELS))
        exact = setting.exact.of(setting.contrast).quantiles(LEVELS.tolist())
        guess, lapse = setting.asked_rates
        expected = guess + (1 - guess - lapse) * ndtr(exact)
        error = array(posterior.contrasts().quantile_error(LEVELS)) * norm.pdf(exact)
        assert found.shape == expected.shape
        assert (np.abs(found - expected) < LARGEST_Z * error).all()

    def test_inverts_the_distribution_function(self, setting: Setting) -> None:
        posterior = setting.model().exact_posterior(ROWS, num_samples=256)
        levels = double([1e-6, 0.01, 0.3, 0.5, 0.999])
        found = array(posterior.quantile(levels))[:, None]
        means = posterior.means.detach().numpy()
        sd = np.sqrt(np.diag(posterior.covariance.detach()))
        reached = ndtr((found - means) / sd).mean(axis=1)
        np.testing.assert_allclose(reached, levels[:, None].expand(5, 4), atol=1e-9)


class TestQuantilesOfTrials:
    """In a row of the data a draw leaves nothing open: no Gaussian is left."""

    model = SETTINGS["two outcomes"].model()
    X = double([[0.3], [0.7]])

    def test_quantile(self) -> None:
        posterior = self.model.exact_posterior(self.X)
        expected = np.quantile(posterior.means.detach().numpy(), LEVELS, axis=0)
        np.testing.assert_allclose(
            array(posterior.quantile(LEVELS)), expected, atol=0.01
        )

    def test_error(self) -> None:
        # That of a row close by, where the density is smooth.
        posterior = self.model.exact_posterior(self.X)
        near = self.model.exact_posterior(self.X + 0.02)
        found, expected = (array(p.quantile_error(LEVELS)) for p in (posterior, near))
        np.testing.assert_allclose(found, expected, rtol=0.5)


class TestWithoutData:
    """The posterior is the prior."""

    setting = Setting(rates=GUESSES, variance=2.5, mean=0.7)

    def test_outcomes(self) -> None:
        posterior = self.setting.model().exact_posterior(ROWS)
        np.testing.assert_allclose(array(posterior.mean), 0.7)
        np.testing.assert_allclose(array(posterior.variance), 2.5)
        expected = norm.ppf(LEVELS.numpy(), 0.7, 2.5**0.5)[:, None].repeat(4, 1)
        np.testing.assert_allclose(array(posterior.quantile(LEVELS)), expected)
        probability = 0.25 + 0.7 * ndtr(0.7 / 3.5**0.5)
        np.testing.assert_allclose(array(posterior.probability), probability)
        quantiles = array(posterior.probability_quantile(LEVELS))
        np.testing.assert_allclose(quantiles, 0.25 + 0.7 * ndtr(expected))
        for name in ("mean_error", "variance_error", "probability_error"):
            np.testing.assert_allclose(array(getattr(posterior, name)), 0, atol=1e-12)

    def test_duels(self) -> None:
        pairs, labels = uniform(0, 2, 1), uniform(0, 1)
        model = PreferenceGP(pairs, labels, covar_module=self.setting.kernel)
        posterior = model.exact_posterior(ROWS)
        np.testing.assert_allclose(array(posterior.probability), [0.5, 0.5])
        difference = 2 * 2.5 * (1 - np.exp(-((0.25 / 0.4) ** 2) / 2))
        expected = ndtr(norm.ppf(0.9) * np.sqrt(difference))
        found = posterior.probability_quantile(double([0.9]))[0, 0, 0]
        assert found.item() == pytest.approx(expected, rel=0, abs=0.5e-7)

    def test_duel_of_equals(self) -> None:
        # Whatever its label, it says nothing.
        for label in (0, 1):
            setting = Setting(duels=((0.3, 0.3, label),), variance=2.5)
            posterior = setting.model().exact_posterior(ROWS)
            np.testing.assert_allclose(array(posterior.mean), 0, atol=1e-12)
            np.testing.assert_allclose(array(posterior.variance), 2.5)


# ------------------------------------------------------------------- samples and shapes


class TestSamples:
    setting = SETTINGS["an outcome and a duel"]

    def test_joint_moments(self) -> None:
        # More draws than samples: the error is that of the samples.
        exact = self.setting.exact
        posterior = self.setting.model().exact_posterior(ROWS, num_samples=16384)
        with manual_seed(0):
            samples = posterior.rsample(torch.Size([2000])).detach().squeeze(-1)
        assert largest_z(samples, double(exact.mean)) < LARGEST_Z
        deviations = samples - double(exact.mean)
        products = deviations.unsqueeze(-1) * deviations.unsqueeze(-2)
        assert largest_z(products, double(exact.joint_covariance)) < LARGEST_Z
        third = torch.from_numpy(exact.means - exact.mean[:, None]) ** 3
        expected = third @ torch.from_numpy(exact.weights)
        assert largest_z(deviations**3, expected) < LARGEST_Z

    def test_shapes(self) -> None:
        for batch_shape in ((), (3,), (2, 3)):
            for model_class in MODEL_CLASSES:
                model = random_model(model_class, 5, batch_shape=batch_shape)
                for t in ((), (4,), (5, 4)):
                    X = uniform(*t, *batch_shape, 6, 2, seed=3)
                    posterior = model.exact_posterior(X, num_samples=64)
                    shape = (*t, *batch_shape, 6, 1)
                    for value in (posterior.mean, posterior.variance_error):
                        assert value.shape == shape
                    num_trials = 6 // model.functional.num_rows
                    trials = (*t, *batch_shape, num_trials, 1)
                    assert posterior.probability.shape == trials
                    assert posterior.rsample().shape == (1, *shape)
                    samples = posterior.rsample(torch.Size([2, 7]))
                    assert samples.shape == (2, 7, *shape)
                    quantile = posterior.quantile(LEVELS)
                    assert quantile.shape == (3, *shape)

    def test_one_sample(self) -> None:
        # As of every posterior of BoTorch, without a sample dimension.
        posterior = self.setting.model().exact_posterior(ROWS, num_samples=64)
        assert posterior.rsample(torch.Size()).shape == (4, 1)

    def test_samples_of_trials(self) -> None:
        # In rows of the data, some of them twice: nothing is left between draws.
        X = double([[0.3], [0.7], [0.3]])
        posterior = SETTINGS["two outcomes"].model().exact_posterior(X)
        samples = posterior.rsample(torch.Size([50])).detach()
        assert (samples[:, 0] - samples[:, 2]).abs().max().item() < 1e-3

    def test_samples_of_more_trials(self) -> None:
        # In the rows of outcomes, samples are draws; of duels they win by as much.
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, 5)
            posterior = model.exact_posterior(model.datapoints, num_samples=64)
            samples = posterior.rsample(torch.Size([50])).detach().squeeze(-1)
            found, drawn = map(model.functional, (samples, posterior.means.detach()))
            distance = (found.unsqueeze(1) - drawn).abs().amax(dim=-1)
            assert distance.amin(dim=1).max().item() < 1e-3

    def test_sampler(self) -> None:
        posterior: Any = self.setting.model().exact_posterior(ROWS, num_samples=64)
        sampler = get_sampler(posterior, torch.Size([16]), seed=5)
        assert sampler(posterior).shape == (16, 4, 1)

    def test_seed_of_sampler(self) -> None:
        posterior: Any = self.setting.model().exact_posterior(ROWS, num_samples=64)
        first, again, other = (
            get_sampler(posterior, torch.Size([16]), seed=seed)(posterior)
            for seed in (5, 5, 6)
        )
        assert torch.equal(again, first)
        assert not torch.equal(other, first)

    def test_t_batches_equal_loop(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, 5, batch_shape=(3,))
            X = uniform(4, 3, 6, 2)
            together = model.exact_posterior(X, num_samples=64)
            for i in range(4):
                alone = model.exact_posterior(X[i], num_samples=64)
                for name in ("mean", "variance", "probability"):
                    pair = getattr(together, name)[i], getattr(alone, name)
                    torch.testing.assert_close(*pair, rtol=0, atol=1e-10)

    def test_gradient(self) -> None:
        model = self.setting.model()

        def posterior(X: Tensor) -> ExactPosterior:
            return model.exact_posterior(X, num_samples=64)

        def sample(X: Tensor) -> Tensor:
            with manual_seed(0):
                return posterior(X).rsample(torch.Size([3]))

        def quantile(X: Tensor) -> Tensor:
            return posterior(X).quantile(LEVELS)

        functions = [
            lambda X: posterior(X).mean,
            lambda X: posterior(X).variance,
            lambda X: posterior(X).probability,
            sample,
            quantile,
        ]
        for function in functions:
            found, expected = (
                jacobian(function, ROWS),
                finite_difference(function, ROWS),
            )
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)

    def test_device(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, 5)
            X, Y = random_trials(model_class, 2)
            with RequireDevice():
                model.exact_posterior(uniform(4, 2, seed=3), num_samples=64)
                model = model.condition_on_observations(X, Y)
                posterior = model.exact_posterior(uniform(4, 2, seed=3), num_samples=64)
                posterior.quantile_error(LEVELS)
                posterior.rsample(torch.Size([3]))

    def test_message(self) -> None:
        for X in (uniform(4, 2), uniform(1)):
            with pytest.raises(InputDataError, match="``batch_shape x q x 1``"):
                self.setting.model().exact_posterior(X)


# ------------------------------------------------------------------------ stated errors


SEEDS = 30
# The standard deviation of so many numbers is known to 13 %.
ERROR_RANGE = 0.6, 1.5


def assert_right_errors(posteriors: list[ExactPosterior]) -> None:
    """The spread between seeds is that which every posterior states."""
    for name in ("mean", "variance", "probability"):
        values = np.stack([array(getattr(p, name)) for p in posteriors])
        errors = np.stack([array(getattr(p, f"{name}_error")) for p in posteriors])
        ratio = values.std(axis=0, ddof=1) / np.sqrt((errors**2).mean(axis=0))
        assert ratio.min() > ERROR_RANGE[0], (name, ratio)
        assert ratio.max() < ERROR_RANGE[1], (name, ratio)


class TestStatedErrors:
    X = uniform(6, 2, seed=9)

    @both_models
    def test_of_one_posterior(self, model_class: ModelClass) -> None:
        model = random_model(model_class, 10)
        model = model.with_inference(ExpectationPropagation())
        draws = [model.exact_posterior(self.X, 256, seed) for seed in range(SEEDS)]
        assert_right_errors(draws)
        found = np.stack([array(draw.quantile(LEVELS)) for draw in draws])
        stated = np.stack([array(draw.quantile_error(LEVELS)) for draw in draws])
        ratio = found.std(axis=0, ddof=1) / np.sqrt((stated**2).mean(axis=0))
        assert ERROR_RANGE[0] < ratio.min() < ratio.max() < ERROR_RANGE[1], ratio

    def test_after_conditioning(self) -> None:
        # Draws chosen anew must be as good as independent.
        kernel = simple_kernel(2)
        kernel.outputscale = 9.0
        X, Y = random_trials(BinaryLaplaceGP, 10, seed=1)
        model = BinaryGP(X, Y, ProbitLikelihood(*GUESSES), kernel)
        draws = []
        for seed in range(SEEDS):
            model.exact_posterior(self.X, 256, seed)
            # Labels that nobody expects.
            known = model.condition_on_observations(X[:2], 1 - Y[:2])
            draws.append(known.exact_posterior(self.X, 256, seed))
        assert_right_errors(draws)
        full = BinaryGP(
            torch.cat([X, X[:2]]), torch.cat([Y, 1 - Y[:2]]), model.likelihood, kernel
        )
        expected = full.exact_posterior(self.X, 16384, seed=SEEDS)
        together = torch.stack([draw.mean for draw in draws]).detach()
        error = together.std(dim=0) / SEEDS**0.5
        expected_error = array(expected.mean_error)
        assert_agree(together.mean(dim=0), error, array(expected.mean), expected_error)


# ------------------------------------------------------------------------- conditioning


def split(
    record: dict[str, Any], drop: dict[str, int]
) -> tuple[dict[str, Any], list[Observations]]:
    """The record without the last trials of some kinds, and these trials."""
    early, late = dict(record), []
    for kind, count in drop.items():
        both = [slice(None, -count), slice(-count, None)]
        parts = [
            record[kind] | {key: record[kind][key][part] for key in ("X", "Y")}
            for part in both
        ]
        early[kind] = parts[0]
        late.append(observations_of(record | {kind: parts[1]}, kind))
    return early, late


class TestConditioning:
    @pytest.mark.parametrize("name", ["mixed", "mixed_two_choices"])
    @pytest.mark.parametrize(
        "drop",
        [{"duels": 2}, {"outcomes": 3}, {"duels": 2, "outcomes": 1}],
        ids=str,
    )
    def test_equals_record(self, name: str, drop: dict[str, int]) -> None:
        record = BY_NAME[name]
        early, late = split(record, drop)
        model, X = model_of(early), double(record["test_X"])
        model.exact_posterior(X)
        for trials in late:
            model = model.condition_on_observations(trials)
        assert_equals_record(model, record)

    @pytest.mark.parametrize("name", ["two_choices_n30", "duels_variance_25"])
    def test_one_by_one(self, name: str) -> None:
        record = BY_NAME[name]
        kind = "outcomes" if record["outcomes"] else "duels"
        early, (late,) = split(record, {kind: 3})
        model, X = model_of(early), double(record["test_X"])
        for i in range(3):
            model.exact_posterior(X)
            one = replace(late, X=late.X[i : i + 1], Y=late.Y[i : i + 1])
            model = model.condition_on_observations(one)
        assert_equals_record(model, record)

    @both_inferences
    @pytest.mark.parametrize(
        "name",
        ["two choices", "two duels", "an outcome and a duel", "the same guesses"],
    )
    def test_from_nothing(self, name: str, inference: Inference) -> None:
        setting = SETTINGS[name]
        model = MixedGP(
            [
                replace(part, X=part.X[:0], Y=part.Y[:0])
                for part in setting.observations
            ],
            setting.kernel,
            inference=inference,
        )
        for part in setting.observations:
            for i in range(len(part.Y)):
                model.exact_posterior(ROWS)
                one = replace(part, X=part.X[i : i + 1], Y=part.Y[i : i + 1])
                model = model.condition_on_observations(one)
        assert_equals_grid(model.exact_posterior(ROWS), setting)

    def test_not_asked_between(self) -> None:
        # Draws of the first model serve the third.
        setting = SETTINGS["two outcomes"]
        (data,) = setting.observations
        empty = replace(data, X=data.X[:0], Y=data.Y[:0])
        model = MixedGP([empty], setting.kernel)
        model.exact_posterior(ROWS)
        for i in range(2):
            one = replace(data, X=data.X[i : i + 1], Y=data.Y[i : i + 1])
            model = model.condition_on_observations(one)
        assert_equals_grid(model.exact_posterior(ROWS), setting)

    def test_other_seed_and_number(self) -> None:
        # Draws of another seed or number are of no use, and do no harm.
        setting = SETTINGS["two outcomes"]
        (data,) = setting.observations
        model = MixedGP([replace(data, X=data.X[:1], Y=data.Y[:1])], setting.kernel)
        model.exact_posterior(ROWS, 100, seed=3)
        model = model.condition_on_observations(data.X[1:], data.Y[1:])
        assert_equals_grid(model.exact_posterior(ROWS, 4096, seed=3), setting)

    @both_models
    def test_batch(self, model_class: ModelClass) -> None:
        # Every element of a batch of models, before and after.
        model = random_model(model_class, 6, batch_shape=(2,))
        more, labels = random_trials(model_class, 2, batch_shape=(2,), seed=5)
        X = uniform(2, 4, 2, seed=3)
        model.exact_posterior(X)
        known = model.condition_on_observations(more, labels)
        for batch in (model, known):
            together = batch.exact_posterior(X)
            for i in range(2):
                alone = element(batch, (i,)).exact_posterior(X[i], seed=7)
                covariance = together.covariance[i]
                part = ExactPosterior(
                    together.means[:, i], covariance, together.likelihood
                )
                assert_same(part, alone)

    @both_models
    def test_new_batch(self, model_class: ModelClass) -> None:
        # One model with fantasies of both labels.
        model = random_model(model_class, 6)
        more, _ = random_trials(model_class, 1, seed=5)
        X, labels = uniform(4, 2, seed=3), double([0.0, 1.0]).view(2, 1, 1)
        model.exact_posterior(X)
        together = model.condition_on_observations(more, labels).exact_posterior(X)
        assert together.mean.shape == (2, 4, 1)
        for i in range(2):
            known = model.condition_on_observations(more, labels[i])
            alone = known.exact_posterior(X)
            part = ExactPosterior(
                together.means[:, i], together.covariance[i], together.likelihood
            )
            assert_same(part, alone)


# ----------------------------------------------------------------- what must not matter


class TestRepeats:
    X = uniform(4, 2, seed=3)

    def test_seed(self) -> None:
        for model_class in MODEL_CLASSES:
            first, second = (random_model(model_class, 6) for _ in range(2))
            expected = first.exact_posterior(self.X, 64).means
            state = torch.random.get_rng_state()
            found = second.exact_posterior(self.X, 64).means
            assert torch.equal(torch.random.get_rng_state(), state)
            assert torch.equal(found, expected)
            other = second.exact_posterior(self.X, 64, seed=1).means
            assert (other - expected).abs().min().item() > 0.0
            again = second.exact_posterior(self.X, 64).means
            assert torch.equal(again, expected)

    def test_seed_after_conditioning(self) -> None:
        X, Y = random_trials(BinaryLaplaceGP, 2, seed=5)
        draws = []
        for _ in range(2):
            model = random_model(BinaryLaplaceGP, 6)
            model.exact_posterior(self.X, 64)
            known = model.condition_on_observations(X, Y)
            draws.append(known.exact_posterior(self.X, 64).means)
        assert torch.equal(*draws)

    def test_copies(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, 6)
            expected = model.exact_posterior(self.X, 256).means
            for copy in (deepcopy(model), pickle.loads(pickle.dumps(model))):
                found = copy.exact_posterior(self.X, 256).means
                torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)

    def test_copies_after_conditioning(self) -> None:
        # Copies leave the draws behind; theirs are others of the same posterior.
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, 6)
            model.exact_posterior(self.X)
            X, Y = random_trials(model_class, 2, seed=5)
            model = model.condition_on_observations(X, Y)
            for copy in (deepcopy(model), pickle.loads(pickle.dumps(model))):
                found = copy.exact_posterior(self.X)
                assert_same(found, model.exact_posterior(self.X))

    def test_changes_of_the_model(self) -> None:
        # Draws of other data or other hyperparameters are not used again.
        X, Y = random_trials(BinaryLaplaceGP, 6)
        model = BinaryGP(X, Y, covar_module=simple_kernel(2))
        model.exact_posterior(self.X, 64)
        model.train()
        model.covar_module.outputscale = double(7.0)
        kernel = simple_kernel(2)
        kernel.outputscale = 7.0
        other = BinaryGP(X, 1 - Y, covar_module=kernel)
        for change, expected in (
            (lambda: None, BinaryGP(X, Y, covar_module=kernel)),
            (lambda: model.set_train_data(targets=1 - Y.squeeze(-1)), other),
            (lambda: model.load_state_dict(other.state_dict()), other),
        ):
            change()
            found = model.exact_posterior(self.X, 64).means
            assert torch.equal(found, expected.exact_posterior(self.X, 64).means)

    def test_input_transform(self) -> None:
        X, Y = random_trials(BinaryLaplaceGP, 6)
        plain = BinaryGP(X, Y, covar_module=simple_kernel(2))
        bounds = double([[-1.0, -1.0], [2.0, 2.0]])
        transform = Normalize(2, bounds=bounds)
        kernel = simple_kernel(2)
        stretched = BinaryGP(
            3 * X - 1, Y, covar_module=kernel, input_transform=transform
        )
        found = stretched.exact_posterior(3 * self.X - 1, 64).means
        expected = plain.exact_posterior(self.X, 64).means
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


class TestInference:
    """Where the chains begin does not matter."""

    def test_laplace(self) -> None:
        for pair in ((BinaryGP, BinaryLaplaceGP), (PreferenceGP, PreferenceLaplaceGP)):
            X, Y = random_trials(pair[1], 12)
            first, second = (
                model_class(X, Y, covar_module=simple_kernel(2)).exact_posterior(
                    uniform(8, 2, seed=3), seed=seed
                )
                for seed, model_class in enumerate(pair)
            )
            assert_same(first, second)

    def test_laplace_with_guesses(self) -> None:
        X, Y = random_trials(BinaryLaplaceGP, 12)
        kernel = simple_kernel(2)
        kernel.outputscale = 25.0
        first, second = (
            model_class(X, Y, ProbitLikelihood(*GUESSES), kernel).exact_posterior(
                uniform(8, 2, seed=3), seed=seed
            )
            for seed, model_class in enumerate((BinaryGP, BinaryLaplaceGP))
        )
        assert_same(first, second)

    def test_training_mode(self) -> None:
        model = SETTINGS["two outcomes"].model().train()
        assert_equals_grid(model.exact_posterior(ROWS), SETTINGS["two outcomes"])

    def test_single_precision(self) -> None:
        setting = SETTINGS["two choices"]
        model = setting.model().float()
        posterior = model.exact_posterior(ROWS.float())
        assert posterior.mean.dtype == torch.float
        assert_equals_grid(posterior, setting)
        assert posterior.rsample(torch.Size([3])).dtype == torch.float
