r"""The sampler of the reference posteriors, and the records that it wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from numpy import ndarray
from numpy.random import default_rng
from scipy.special import ndtr
from scipy.stats import truncnorm
from sklearn.gaussian_process.kernels import RBF, Matern

from tests.exact_posteriors import (
    NUM_CHAINS,
    NUM_SWEEPS,
    NUM_TEST_ROWS,
    PATH,
    PSYCHOMETRIC,
    SETUPS,
    Prior,
    Problem,
    diagnose,
    estimate,
    make_problem,
    plain,
    sample,
    simulate,
    sweep,
)

KEYS = ("mean", "sd", "probability")
TEST_ROWS = np.array([[0.1, 0.2, 0.3], [-0.5, 0.6, 0.9], [0.8, 0.7, 0.1]])


def z_scores(first: Mapping[str, Any], second: Mapping[str, Any]) -> ndarray:
    """Differences of two sets of results in units of their standard error."""
    scores = []
    for key in KEYS:
        errors = [np.asarray(results[f"{key}_error"]) for results in (first, second)]
        difference = np.asarray(first[key]) - np.asarray(second[key])
        scores.append(difference / np.hypot(*errors))
    return np.concatenate(scores)


def make_input(prior: Prior, outcomes: Any, duels: Any) -> dict[str, Any]:
    """A record without results, from the data as JSON holds them."""
    kind = "outcome" if outcomes else "duel"
    record = {"kernel": asdict(prior), "outcomes": outcomes, "duels": duels}
    return record | {"test_X": TEST_ROWS, "probability_kind": kind}


class Trials(NamedTuple):
    """Two trials ``g = D f(Z)`` with ``p(label) = offset + factor * Phi(g)``."""

    prior: Prior
    Z: ndarray
    D: ndarray
    likelihood: ndarray

    def grid(self) -> tuple[ndarray, ndarray, ndarray]:
        """Points ``u``, their weights, and ``root`` with ``g = E g + root u``."""
        K = self.D @ self.prior.covariance(self.Z, self.Z) @ self.D.T
        root = np.linalg.cholesky(K)
        axis = np.linspace(-8, 8, 401)
        u = np.stack(np.meshgrid(axis, axis)).reshape(2, -1)
        g = self.prior.slope * self.D @ self.Z[:, :1] + root @ u
        offset, factor = self.likelihood.T[:, :, None]
        density = (offset + factor * ndtr(g)).prod(axis=0)
        density *= np.exp(-(u**2).sum(axis=0) / 2)
        return u, density / density.sum(), root


def integrate(trials: Trials, T: ndarray, rates: Sequence[float]) -> dict[str, ndarray]:
    """The posterior by a sum over the grid.

    Args:
        trials: The data.
        T: Weights of the test rows in the latent values of the probabilities.
        rates: The offset and the factor of the probabilities.
    """
    prior, (u, weights, root) = trials.prior, trials.grid()
    cross = np.linalg.solve(root, trials.D @ prior.covariance(trials.Z, TEST_ROWS))
    f = prior.slope * TEST_ROWS[:, :1] + cross.T @ u
    left = prior.covariance(TEST_ROWS, TEST_ROWS) - cross.T @ cross
    scale = np.sqrt(1 + np.diag(T @ left @ T.T))
    probability = rates[0] + rates[1] * ndtr(T @ f / scale[:, None])
    variance = f**2 @ weights - (f @ weights) ** 2 + np.diag(left)
    values = {"mean": f @ weights, "sd": np.sqrt(variance)}
    values["probability"] = probability @ weights
    return values | {f"{key}_error": np.zeros_like(values[key]) for key in values}


class TestPrior:
    X1 = default_rng(0).random((4, 3))
    X2 = default_rng(1).random((5, 3))

    def test_rbf_equals_scikit_learn(self) -> None:
        expected = 9.0 * np.asarray(RBF(0.3)(self.X1, self.X2)) + 4.0
        actual = Prior("rbf", 9.0, 0.3, 4.0).covariance(self.X1, self.X2)
        np.testing.assert_allclose(actual, expected)

    def test_psychometric_kernel_equals_scikit_learn(self) -> None:
        matern = np.asarray(Matern(0.35, nu=2.5)(self.X1[:, 1:], self.X2[:, 1:]))
        linear = np.outer(self.X1[:, 0], self.X2[:, 0])
        actual = PSYCHOMETRIC.covariance(self.X1, self.X2)
        np.testing.assert_allclose(actual, 0.25 * linear + 9.0 * matern + 4.0)


class TestSweep:
    def test_far_tail(self) -> None:
        """Labels far against the prior mean keep finite draws of the right size."""
        empty = np.zeros((0, 1))
        for mean, log_odds in ((-30.0, np.inf), (30.0, -np.inf)):
            one = np.eye(1)
            odds = np.array([log_odds])
            problem = Problem(
                np.array([mean]), one, odds, empty, empty, empty, empty, (0.0, 0.0)
            )
            v = np.zeros((1, 20_000))
            sweep(problem, v, default_rng(0))
            expected = truncnorm.mean(30.0, np.inf, loc=-30.0)
            assert (np.sign(mean) * v < 0).all()
            assert np.abs(v).mean() / expected == pytest.approx(1.0, rel=0, abs=0.03)


class TestSample:
    def check(self, record: dict[str, Any], expected: dict[str, ndarray]) -> None:
        problem = make_problem(record)
        averages = sample(problem, default_rng(0), 400, 1000)
        results = estimate(problem, averages)
        assert np.abs(z_scores(results, expected)).max() < 4.5
        for key in KEYS:
            assert results[f"{key}_error"].max() < 0.015
        r_hat, z = diagnose(averages)
        assert r_hat < 1.02
        assert z < 4.5

    def test_guesses_and_lapses(self, subtests: pytest.Subtests) -> None:
        X = np.array([[0.3, 0.2, 0.2], [0.1, 0.4, 0.5]])
        likelihood = np.array([[0.5, 0.4], [0.5, -0.4]])
        for prior in (Prior("rbf", 9.0, 0.5), PSYCHOMETRIC):
            for second in (0, 1):
                data = {"X": X, "Y": [1, second], "guess_rate": 0.5, "lapse_rate": 0.1}
                terms = likelihood[[0, 1 - second]]
                with subtests.test(prior=prior.type, second=second):
                    trials = Trials(prior, X, np.eye(2), terms)
                    expected = integrate(trials, np.eye(3), (0.5, 0.4))
                    self.check(make_input(prior, data, None), expected)

    def test_outcome_and_duel(self) -> None:
        prior = Prior("rbf", 9.0, 0.5, 1.0)
        Z = np.array([[0.3, 0.2, 0.2], [0.1, 0.4, 0.5], [-0.2, 0.5, 0.6]])
        D = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, -1.0]])
        outcomes = {"X": Z[:1], "Y": [1], "guess_rate": 0.25, "lapse_rate": 0.05}
        duels = {"X": Z[None, 1:], "Y": [0]}
        trials = Trials(prior, Z, D, np.array([[0.25, 0.7], [1.0, -1.0]]))
        expected = integrate(trials, np.eye(3), (0.25, 0.7))
        self.check(make_input(prior, outcomes, duels), expected)

    def test_duels_equal_numerical_integrals(self, subtests: pytest.Subtests) -> None:
        Z = np.array([[0.3, 0.2, 0.2], [0.1, 0.4, 0.5], [-0.2, 0.5, 0.6], [0.5] * 3])
        D = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]])
        T = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
        likelihood = np.array([[0.0, 1.0], [1.0, -1.0]])
        duels = {"X": Z.reshape(2, 2, 3), "Y": [1, 0]}
        for prior in (Prior("rbf", 9.0, 0.5), PSYCHOMETRIC):
            with subtests.test(prior=prior.type):
                expected = integrate(Trials(prior, Z, D, likelihood), T, (0.0, 1.0))
                self.check(make_input(prior, None, duels), expected)


class TestRecords:
    records: ClassVar[list[dict[str, Any]]]

    @classmethod
    def setup_class(cls) -> None:
        cls.records = json.loads(PATH.read_text())

    def test_records_have_the_layout_of_their_setups(self) -> None:
        assert PATH.stat().st_size < 300_000
        names = [record["name"] for record in self.records]
        assert names == [setup.name for setup in SETUPS]
        for record, setup in zip(self.records, SETUPS, strict=True):
            assert Prior(**record["kernel"]) == setup.prior
            assert np.shape(record["test_X"]) == (NUM_TEST_ROWS, setup.d)
            skeleton = plain(simulate(setup, default_rng(0)))
            assert skeleton.keys() - record.keys() == set()
            for kind in ("outcomes", "duels"):
                assert (record[kind] is None) == (skeleton[kind] is None)
                if record[kind]:
                    assert np.shape(record[kind]["X"]) == np.shape(skeleton[kind]["X"])
                    assert set(record[kind]["Y"]) <= {0, 1}

    def test_errors_are_below_a_hundredth_of_the_deviations(
        self, subtests: pytest.Subtests
    ) -> None:
        """The errors are small next to what an approximation should achieve."""
        for record in self.records:
            with subtests.test(record["name"]):
                sd = np.array(record["sd"])
                assert (record["mean_error"] / sd).max() < 0.01
                assert (record["sd_error"] / sd).max() < 0.01
                assert max(record["probability_error"]) < 0.001

    def test_short_run(self) -> None:
        """A short run agrees, with errors as much larger as it is shorter."""
        chains, sweeps = 100, 400
        record = self.records[3]
        problem = make_problem(record)
        averages = sample(problem, default_rng(0), chains, sweeps)
        results = estimate(problem, averages)
        assert np.abs(z_scores(results, record)).max() < 4.5
        expected = np.sqrt(NUM_CHAINS * NUM_SWEEPS / (chains * sweeps))
        for key in KEYS:
            ratio = results[f"{key}_error"] / np.array(record[f"{key}_error"])
            assert np.median(ratio) / expected == pytest.approx(1.0, rel=0, abs=0.3)
