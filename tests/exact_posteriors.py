r"""Posteriors of small data sets by Gibbs sampling, as a reference for the models.

A pass/fail trial observes the latent value :math:`g = f(z)` and a duel the
difference :math:`g = f(z_1) - f(z_2)`. With noise :math:`\epsilon \sim N(0, 1)` the
label follows the sign of :math:`v = g + \epsilon`, except for guesses and lapses:
:math:`p(c = 1 \mid g) = \gamma + (1 - \gamma - \lambda) \Phi(g)`, in duels with
:math:`\gamma = \lambda = 0`. The sampler draws each :math:`v_j` given all others, and
given :math:`v` the latent function is Gaussian. Only Monte Carlo error, which is
stated, separates the results from the exact posterior.

``python -m tests.exact_posteriors`` writes ``tests/data/exact_posteriors.json``, a
list of records. ``kernel`` has the fields of :class:`Prior`. The label ``Y`` of a
duel is 1 if its first row won. ``mean`` and ``sd`` are those of :math:`f` in the rows
``test_X``. ``probability`` is that of a pass in each test row (``probability_kind``
"outcome") or that each test row but the last wins a duel against the next ("duel").
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray
from numpy.random import Generator, default_rng
from scipy.linalg import block_diag
from scipy.special import expit, log_ndtr, ndtr, ndtri_exp

PATH = Path(__file__).parent / "data" / "exact_posteriors.json"
# The chains look at the test rows after every THIN sweeps.
NUM_CHAINS, NUM_SWEEPS, THIN, NUM_TEST_ROWS = 400, 40_000, 5, 20


@dataclass(frozen=True)
class Prior:
    """A Gaussian process prior.

    "rbf" has mean zero and covariance ``variance * RBF + constant``. "psychometric"
    has a context ``s`` in the first column, mean ``slope * s`` and covariance
    ``context_variance * s * s' + variance * Matern52 + constant``, where the Matern
    kernel sees the other columns only.
    """

    type: str
    variance: float
    lengthscale: float
    constant: float = 0.0
    context_variance: float = 0.0
    slope: float = 0.0

    def covariance(self, X1: ndarray, X2: ndarray) -> ndarray:
        """The prior covariance between the rows of ``X1`` and of ``X2``."""
        skip = int(self.type == "psychometric")
        r = np.linalg.norm(X1[:, None, skip:] - X2[:, skip:], axis=-1)
        r /= self.lengthscale
        shape = np.exp(-(r**2) / 2)
        if self.type == "psychometric":
            shape = (1 + 5**0.5 * r + 5 / 3 * r**2) * np.exp(-(5**0.5) * r)
        linear = self.context_variance * np.outer(X1[:, 0], X2[:, 0])
        return self.variance * shape + self.constant + linear


class Problem(NamedTuple):
    """What the sampler needs to know of a record."""

    # Prior mean and inverse prior covariance of the values v, one to a trial.
    mean: ndarray
    precision: ndarray
    # Logarithm of p(label | v > 0) / p(label | v < 0); infinite without errors.
    log_odds: ndarray
    # Of f in the test rows: prior mean, change of the mean with v, covariance given v.
    test_mean: ndarray
    gain: ndarray
    test_covariance: ndarray
    # Which differences of test rows the probabilities are of, and the error rates.
    contrast: ndarray
    rates: tuple[float, float]


def label_log_odds(Y: Any, guess_rate: float = 0.0, lapse_rate: float = 0.0) -> ndarray:
    """The logarithm of ``p(Y | v > 0) / p(Y | v < 0)``."""
    passed = np.asarray(Y) == 1
    up = np.where(passed, 1 - lapse_rate, lapse_rate)
    down = np.where(passed, guess_rate, 1 - guess_rate)
    with np.errstate(divide="ignore"):
        return np.log(up) - np.log(down)


def stack_trials(record: Mapping[str, Any]) -> tuple[ndarray, ndarray, ndarray]:
    """Rows ``Z`` and weights ``D`` such that ``g = D f(Z)``, and the log odds."""
    parts = []
    if data := record["outcomes"]:
        log_odds = label_log_odds(data["Y"], data["guess_rate"], data["lapse_rate"])
        parts.append((np.asarray(data["X"]), np.eye(len(log_odds)), log_odds))
    if data := record["duels"]:
        log_odds = label_log_odds(data["Y"])
        D = np.kron(np.eye(len(log_odds)), [1.0, -1.0])
        parts.append((np.concatenate(np.asarray(data["X"])), D, log_odds))
    Z, D, log_odds = zip(*parts, strict=True)
    return np.concatenate(Z), np.asarray(block_diag(*D)), np.concatenate(log_odds)


def make_problem(record: Mapping[str, Any]) -> Problem:
    """Condense the prior, the data and the test rows of a record."""
    prior = Prior(**record["kernel"])
    X = np.asarray(record["test_X"])
    Z, D, log_odds = stack_trials(record)
    contrast, rates = np.eye(len(X)), (0.0, 0.0)
    if record["probability_kind"] == "duel":
        contrast = contrast[:-1] - contrast[1:]
    else:
        rates = record["outcomes"]["guess_rate"], record["outcomes"]["lapse_rate"]
    precision = np.linalg.inv(D @ prior.covariance(Z, Z) @ D.T + np.eye(len(D)))
    cross = prior.covariance(X, Z) @ D.T
    gain = cross @ precision
    left = prior.covariance(X, X) - gain @ cross.T
    mean, test_mean = prior.slope * D @ Z[:, 0], prior.slope * X[:, 0]
    return Problem(mean, precision, log_odds, test_mean, gain, left, contrast, rates)


def start(problem: Problem, rng: Generator, chains: int) -> ndarray:
    """Draws of ``v`` from the prior, turned to the side of each error-free label."""
    covariance, log_odds = np.linalg.inv(problem.precision), problem.log_odds[:, None]
    noise = rng.standard_normal((len(covariance), chains))
    v = problem.mean[:, None] + np.linalg.cholesky(covariance) @ noise
    return np.where(np.isfinite(log_odds), v, np.sign(log_odds) * np.abs(v))


def sweep(problem: Problem, v: ndarray, rng: Generator) -> None:
    """Redraw, in place, every row of the ``n x chains`` values given the others.

    With ``a`` the conditional mean in units of the conditional standard deviation, a
    value is positive with odds ``Phi(a) / Phi(-a)`` times those of the label, and
    then has a normal distribution truncated at zero.
    """
    errors = v - problem.mean[:, None]
    log_uniform = -rng.standard_exponential(v.shape)
    coins = rng.random(v.shape)
    for j, row in enumerate(problem.precision):
        root = np.sqrt(row[j])
        a = root * v[j] - row @ errors / root
        log_odds = problem.log_odds[j] + log_ndtr(a) - log_ndtr(-a)
        side = np.where(coins[j] < expit(log_odds), 1.0, -1.0)
        tail = ndtri_exp(log_uniform[j] + log_ndtr(side * a))
        v[j] = (a - side * tail) / root
        errors[j] = v[j] - problem.mean[j]


def predict(problem: Problem, v: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """Given ``v``: the mean of the test rows, its square, and the probabilities."""
    mean = problem.test_mean[:, None] + problem.gain @ (v - problem.mean[:, None])
    T, (guess_rate, lapse_rate) = problem.contrast, problem.rates
    scale = np.sqrt(1 + np.diag(T @ problem.test_covariance @ T.T))
    probability = ndtr(T @ mean / scale[:, None])
    return mean, mean**2, guess_rate + (1 - guess_rate - lapse_rate) * probability


def average(problem: Problem, v: ndarray, rng: Generator, sweeps: int) -> list[ndarray]:
    """Averages of :func:`predict` over some sweeps, for each of the chains."""
    sums = [np.zeros_like(term) for term in predict(problem, v)]
    for i in range(sweeps):
        sweep(problem, v, rng)
        if (i + 1) % THIN == 0:
            sums = [a + b for a, b in zip(sums, predict(problem, v), strict=True)]
    return [total / (sweeps // THIN) for total in sums]


def sample(problem: Problem, rng: Generator, chains: int, sweeps: int) -> list[ndarray]:
    """Averages over both halves of the chains after burn-in, ``2 x rows x chains``."""
    v = start(problem, rng, chains)
    _, *halves = [average(problem, v, rng, sweeps // 2) for _ in range(3)]
    return [np.stack(pair) for pair in zip(*halves, strict=True)]


def mean_and_error(chains: ndarray) -> tuple[ndarray, ndarray]:
    """Mean over the chains in the last dimension, and its standard error."""
    return chains.mean(-1), chains.std(-1, ddof=1) / np.sqrt(chains.shape[-1])


def estimate(problem: Problem, averages: list[ndarray]) -> dict[str, ndarray]:
    """The posterior with standard errors from the spread between the chains."""
    means, squares, probabilities = (halves.mean(axis=0) for halves in averages)
    mean, mean_error = mean_and_error(means)
    # Deviations from the overall mean: its own error enters in the second order.
    squared_errors = squares - 2 * mean[:, None] * means + mean[:, None] ** 2
    variance, variance_error = mean_and_error(squared_errors)
    sd = np.sqrt(variance + np.diag(problem.test_covariance))
    pairs = {"mean": (mean, mean_error), "sd": (sd, variance_error / (2 * sd))}
    pairs["probability"] = mean_and_error(probabilities)
    values = {key: value for key, (value, _) in pairs.items()}
    return values | {f"{key}_error": error for key, (_, error) in pairs.items()}


def diagnose(averages: list[ndarray]) -> tuple[float, float]:
    """The largest split R-hat, and the largest z-score between the two halves."""
    means, squares = averages[:2]
    within = (squares - means**2).mean(axis=(0, 2))
    r_hat = np.sqrt(1 + means.var(axis=(0, 2)) / within)
    change, error = mean_and_error(means[1] - means[0])
    return r_hat.max(), np.abs(change / error).max()


class Setup(NamedTuple):
    """How to simulate a data set."""

    name: str
    prior: Prior
    d: int
    num_outcomes: int
    num_duels: int = 0
    guess_rate: float = 0.0
    lapse_rate: float = 0.0


PSYCHOMETRIC = Prior("psychometric", 9.0, 0.35, 4.0, 0.25, 6.0)
SETUPS = (
    Setup("pass_fail_variance_4", Prior("rbf", 4.0, 0.3), 2, 40),
    Setup("pass_fail_variance_25", Prior("rbf", 25.0, 0.3), 2, 40),
    Setup("pass_fail_1d", Prior("rbf", 4.0, 0.2), 1, 60),
    Setup("two_choices_n30", PSYCHOMETRIC, 3, 30, 0, 0.5),
    Setup("two_choices_n60", PSYCHOMETRIC, 3, 60, 0, 0.5),
    Setup("four_choices", PSYCHOMETRIC, 3, 40, 0, 0.25),
    Setup("letters", PSYCHOMETRIC, 3, 40, 0, 1 / 26),
    Setup("guesses_and_lapses", Prior("rbf", 9.0, 0.3), 2, 40, 0, 0.1, 0.05),
    Setup("two_choices_and_lapses", Prior("rbf", 4.0, 0.2), 1, 40, 0, 0.5, 0.02),
    Setup("duels_variance_4", Prior("rbf", 4.0, 0.3), 2, 0, 40),
    Setup("duels_variance_25", Prior("rbf", 25.0, 0.3), 2, 0, 40),
    Setup("duels_3d", Prior("rbf", 9.0, 0.4), 3, 0, 60),
    Setup("mixed", Prior("rbf", 9.0, 0.3), 2, 20, 20),
    Setup("mixed_two_choices", Prior("rbf", 4.0, 0.3, 4.0), 2, 25, 15, 0.5),
    Setup("only_passes", Prior("rbf", 4.0, 0.2), 1, 20),
)


def draw_rows(prior: Prior, num: int, d: int, rng: Generator) -> ndarray:
    """Rows in the unit cube, but contexts from -1 to 1."""
    low = np.zeros(d)
    low[0] = -(prior.type == "psychometric")
    return rng.uniform(low, 1.0, (num, d)).round(4)


def draw_trials(setup: Setup, rng: Generator) -> tuple[ndarray, ndarray]:
    """Rows of the trials, every second context close to a zero of ``f``, and ``f``."""
    prior, num = setup.prior, setup.num_outcomes + 2 * setup.num_duels
    X = draw_rows(prior, num, setup.d, rng)
    still = replace(prior, context_variance=0.0)
    root = np.linalg.cholesky(still.covariance(X, X) + 1e-6 * np.eye(num))
    f = root @ rng.standard_normal(num)
    noise = rng.standard_normal(num + 1)
    if prior.type == "psychometric":
        slope = prior.slope + prior.context_variance**0.5 * noise[-1]
        X[::2, 0] = (0.15 * noise[:-1] - f / slope)[::2].clip(-1, 1).round(4)
        f = f + slope * X[:, 0]
    return X, f


def simulate(setup: Setup, rng: Generator) -> dict[str, Any]:
    """A record without the results."""
    (X, f), n = draw_trials(setup, rng), setup.num_outcomes
    rates = {"guess_rate": setup.guess_rate, "lapse_rate": setup.lapse_rate}
    p = setup.guess_rate + (1 - sum(rates.values())) * ndtr(f[:n])
    Y = 1 * ((rng.random(n) < p) | (setup.name == "only_passes"))
    wins = 1 * (rng.random(setup.num_duels) < ndtr(f[n::2] - f[n + 1 :: 2]))
    duels = {"X": X[n:].reshape(-1, 2, setup.d), "Y": wins}
    return {
        "name": setup.name,
        "kernel": asdict(setup.prior),
        "outcomes": {"X": X[:n], "Y": Y, **rates} if n else None,
        "duels": duels if setup.num_duels else None,
        "test_X": draw_rows(setup.prior, NUM_TEST_ROWS, setup.d, rng),
        "probability_kind": "outcome" if n else "duel",
    }


def plain(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record as it will be read from JSON, with seven significant digits."""
    text = json.dumps(record, default=ndarray.tolist)
    return json.loads(text, parse_float=lambda number: float(f"{float(number):.7g}"))


def make_record(setup: Setup, seed: int) -> dict[str, Any]:
    """Simulate a data set, sample its posterior and print how well that went."""
    rng = default_rng(seed)
    record = plain(simulate(setup, rng))
    problem = make_problem(record)
    averages = sample(problem, rng, NUM_CHAINS, NUM_SWEEPS)
    r_hat, z = diagnose(averages)
    print(f"{setup.name}: R-hat {r_hat:.4f}, z-score of the halves {z:.1f}", flush=True)
    return record | plain(estimate(problem, averages))


def main() -> None:
    """Write the records of all data sets, one to a line."""
    records = [make_record(setup, seed) for seed, setup in enumerate(SETUPS, 15)]
    lines = [json.dumps(record, separators=(",", ":")) for record in records]
    PATH.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
