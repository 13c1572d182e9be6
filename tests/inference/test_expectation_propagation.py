r"""Expectation propagation against other programs, sampling, quadrature and NumPy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.warnings import NumericsWarning
from gpytorch.kernels import (
    ConstantKernel,
    Kernel,
    MaternKernel,
    RBFKernel,
    ScaleKernel,
)
from gpytorch.means import Mean
from hypothesis import given
from hypothesis import strategies as st
from numpy import ndarray
from scipy import integrate, stats
from scipy.special import log_ndtr
from torch import Tensor

from botorch_binary_context import (
    AdditiveContextKernel,
    BinaryGP,
    LinearContextMean,
    MixedGP,
    Observations,
    PreferenceGP,
    PreferenceLikelihood,
    ProbitLikelihood,
)
from botorch_binary_context.inference import (
    ExpectationPropagation,
    Inference,
    Laplace,
    SiteApproximation,
)
from tests import strategies
from tests.closeness import assert_all_close
from tests.exact_posteriors import PATH
from tests.golden_numbers import BINARY_FILES, golden_kernel, load_golden
from tests.inference.ep_cases import (
    DEFAULT,
    EXACT,
    RATES,
    Model,
    Prior,
    assert_near,
    every_rate,
    label_probability,
    make_copies,
    make_prior,
    moments,
    small_model,
)
from tests.sampling_errors import LARGEST_Z, largest_z
from tests.small_models import simple_kernel
from tests.tensors import double, uniform

with_rates = pytest.mark.parametrize("rates", list(RATES.values())[1:])


def make_duels(n: int = 8, seed: int = 0) -> Prior:
    """The prior of the differences of values at ``2n`` points."""
    rows = make_prior(2 * n, seed=seed)
    sign = torch.kron(torch.eye(n), SIDES).double()
    return Prior(sign @ rows.mean, sign @ rows.K @ sign.mT, rows.targets[::2])


SIDES = torch.tensor([[1.0, -1.0]])


GOLDEN_CASES = [
    pytest.param(name, i, id=f"{name}-{load_golden(name)['kernels'][i]['name']}")
    for name in BINARY_FILES
    for i in range(7)
]


def golden_model(name: str, i: int) -> tuple[BinaryGP, Tensor, dict[str, Any]]:
    """The model of a golden case, its test points and the expected numbers."""
    data = load_golden(name)
    case = data["kernels"][i]
    model = BinaryGP(
        double(data["z"]),
        double(data["c"]).unsqueeze(-1),
        covar_module=golden_kernel(case["name"], case["hyper"]),
        inference=EXACT,
    )
    return model, double(data["z_test"]), case["ep"]


@pytest.mark.parametrize(("name", "i"), GOLDEN_CASES)
class TestGolden:
    def test_sites_equal_the_golden_numbers(self, name: str, i: int) -> None:
        model, _, expected = golden_model(name, i)
        precision, location = model.eval().approximation.as_sites().unbind(dim=-1)
        assert_near(precision, double(expected["tau_tilde"]), 1e-9)
        assert_near(location, double(expected["nu_tilde"]), 1e-9)

    def test_posterior_equals_the_golden_numbers(self, name: str, i: int) -> None:
        model, Z, expected = golden_model(name, i)
        mean, variance = moments(model, Z)
        assert_near(mean, double(expected["latent_mean"]), 1e-10)
        assert_near(variance, double(expected["latent_variance"]), 1e-10)
        probability = model.probability_posterior(Z)
        assert_near(probability.mean.flatten(), double(expected["probability"]), 1e-10)
        spread = double(expected["probability_variance"])
        assert_near(probability.variance.flatten(), spread, 1e-10)

    def test_evidence_equals_the_golden_number(self, name: str, i: int) -> None:
        model, _, expected = golden_model(name, i)
        found = -model.eval().approximation.log_evidence
        assert_near(found, expected["neg_log_marginal_likelihood"], 1e-13)


RECORDS = {record["name"]: record for record in json.loads(PATH.read_text())}


every_record = pytest.mark.parametrize("name", RECORDS)


def record_prior(prior: Mapping[str, Any]) -> tuple[Kernel, Mean | None]:
    """The kernel and the prior mean of a record."""
    psychometric = prior["type"] == "psychometric"
    base = MaternKernel(nu=2.5) if psychometric else RBFKernel()
    kernel: Kernel = ScaleKernel(base).initialize(outputscale=prior["variance"])
    base.initialize(lengthscale=prior["lengthscale"])
    if prior["constant"]:
        constant = double([prior["constant"]])
        kernel = kernel + ConstantKernel().double().initialize(constant=constant)
    if not psychometric:
        return kernel, None
    kernel = AdditiveContextKernel(kernel, context_dims=[0])
    kernel.context_variance = prior["context_variance"]
    return kernel, LinearContextMean([0], slope=prior["slope"])


def record_model(record: Mapping[str, Any], inference: Inference) -> Model:
    """The model of a record: of outcomes, of duels or of both."""
    kernel, mean = record_prior(record["kernel"])
    settings: Any = dict(covar_module=kernel, mean_module=mean, inference=inference)
    kinds = []
    if data := record["outcomes"]:
        likelihood = ProbitLikelihood(data["guess_rate"], data["lapse_rate"])
        kinds.append((double(data["X"]), double(data["Y"]).unsqueeze(-1), likelihood))
    if data := record["duels"]:
        likelihood = PreferenceLikelihood()
        kinds.append((double(data["X"]), double(data["Y"]).unsqueeze(-1), likelihood))
    if len(kinds) > 1:
        return MixedGP([Observations(*kind) for kind in kinds], **settings)
    (kind,) = kinds
    return (BinaryGP if record["outcomes"] else PreferenceGP)(*kind, **settings)


def record_errors(record: Mapping[str, Any], inference: Inference) -> Tensor:
    """Mean errors: of the mean, of its spread (relative) and of the probability."""
    model = record_model(record, inference)
    X = double(record["test_X"])
    mean, variance = moments(model, X)
    trials = X.unsqueeze(-2)
    if record["probability_kind"] == "duel":
        trials = torch.stack([X[:-1], X[1:]], dim=-2)
    probability = model.probability_posterior(trials).mean.flatten()
    errors = [
        (mean - double(record["mean"])) / double(record["sd"]),
        variance.sqrt() / double(record["sd"]) - 1,
        probability - double(record["probability"]),
    ]
    return torch.stack([error.abs().mean() for error in errors]).detach()


@every_record
class TestExactPosteriors:
    def test_is_near(self, name: str) -> None:
        record = RECORDS[name]
        rates = record["outcomes"] or {"guess_rate": 0.0, "lapse_rate": 0.0}
        mean, sd, probability = record_errors(record, DEFAULT)
        assert mean < (0.05 if rates["guess_rate"] or rates["lapse_rate"] else 0.01)
        assert sd < 0.075
        assert probability < 0.006

    def test_is_nearer_than_laplace(self, name: str) -> None:
        found = record_errors(RECORDS[name], DEFAULT)
        other = record_errors(RECORDS[name], Laplace())
        assert (found < other / double([6.0, 1.5, 5.0])).all()


def test_laplace_is_off_by_what_the_docs_say() -> None:
    errors = [float(record_errors(record, Laplace())[0]) for record in RECORDS.values()]
    page = Path(__file__).parents[2] / "docs" / "paper.md"
    said = f"Laplace's method is off by {min(errors):.1f} to {max(errors):.1f}."
    assert said in page.read_text(encoding="utf-8")


def dense_projection(prior: Prior, sites: Tensor) -> ndarray:
    """``P = (K + T⁻¹)⁻¹``, also where a site precision is zero or negative."""
    K = prior.K.numpy()
    T = np.diag(sites[:, 0].numpy())
    return np.linalg.solve(np.eye(len(K)) + T @ K, T)


def dense_posterior(prior: Prior, sites: Tensor) -> tuple[ndarray, ndarray]:
    """The mean and the covariance that sites make of the prior, by NumPy."""
    K = prior.K.numpy()
    m = prior.mean.numpy()
    tau, nu = sites.numpy().T
    covariance = K - K @ dense_projection(prior, sites) @ K
    return m + covariance @ (nu - tau * m), covariance


def tilted_moments(
    mean: ndarray, variance: ndarray, labels: ndarray, rates: tuple[float, float]
) -> tuple[ndarray, ndarray]:
    """The moments of Gaussians times the likelihood of their labels, by quadrature."""
    u = np.linspace(-20, 20, 8001)  # the trapezoidal rule is exact to rounding
    f = mean[:, None] + np.sqrt(variance)[:, None] * u
    up, down = (label_probability(f, label, *rates) for label in (1, 0))
    density = stats.norm.pdf(u) * np.where(labels[:, None] == 1, up, down)
    mass = integrate.trapezoid(density, u)
    center = integrate.trapezoid(f * density, u) / mass
    squares = integrate.trapezoid((f - center[:, None]) ** 2 * density, u)
    return center, squares / mass


def largest_mismatch(prior: Prior, sites: Tensor, rates: tuple[float, float]) -> float:
    """By how much cavity times likelihood differs from the marginals, in their sd."""
    mean, covariance = dense_posterior(prior, sites)
    tau, nu = sites.numpy().T
    s = np.diagonal(covariance)
    variance = 1 / (1 / s - tau)
    center = variance * (mean / s - nu)
    found = tilted_moments(center, variance, prior.targets.numpy(), rates)
    errors = [(found[0] - mean) / np.sqrt(s), found[1] / s - 1]
    return float(np.abs(errors).max())


class TestFixedPoint:
    @every_rate
    @pytest.mark.parametrize("scale", [0.1, 3.0, 30.0])
    def test_moments_match(self, rates: tuple[float, float], scale: float) -> None:
        prior = make_prior(scale=scale)
        sites = prior.approximate(rates).as_sites()
        assert largest_mismatch(prior, sites, rates) < 1e-9

    def test_moments_of_duels_match(self) -> None:
        prior = make_duels()
        approximation = EXACT.approximate(PreferenceLikelihood(), *prior)
        assert largest_mismatch(prior, approximation.as_sites(), (0.0, 0.0)) < 1e-9

    @every_rate
    def test_the_tolerance_is_kept(self, rates: tuple[float, float]) -> None:
        for tolerance in (1e-3, 1e-5, 1e-7):
            for seed in range(3):
                prior = make_prior(12, seed=seed)
                inference = ExpectationPropagation(tolerance)
                sites = prior.approximate(rates, inference).as_sites()
                assert largest_mismatch(prior, sites, rates) < 2 * tolerance

    @every_rate
    def test_posterior_is_that_of_the_sites(self, rates: tuple[float, float]) -> None:
        prior = make_prior()
        found = prior.approximate(rates)
        mean, covariance = dense_posterior(prior, found.as_sites())
        assert_near(prior.mean + prior.K @ found.weights, mean, 1e-12)
        left = prior.K.diagonal() - found.explained_variance(prior.K)
        assert_near(left, np.diagonal(covariance).copy(), 1e-12)

    @pytest.mark.parametrize(
        ("n", "passes", "variance", "rates"),
        [
            (4, 2, 8.0, (0.1, 0.05)),
            (10, 5, 16.0, (0.25, 0.0)),
            (12, 11, 8.0, (0.04, 0.02)),
        ],
    )
    def test_the_tolerance_is_kept_for_copies_of_a_trial(
        self, n: int, passes: int, variance: float, rates: tuple[float, float]
    ) -> None:
        prior = make_copies(n, passes, variance)
        assert (
            largest_mismatch(prior, prior.approximate(rates).as_sites(), rates) < 1e-8
        )
        sites = prior.approximate(rates, DEFAULT).as_sites()
        assert largest_mismatch(prior, sites, rates) < 2e-5


class TestFixedPointProperties:
    @given(
        X=strategies.inputs((5, 2)),
        mean=strategies.tensors(strategies.latent_means(3.0), (5,)),
        targets=strategies.labels((5,)),
        rates=strategies.rates(),
        scale=st.sampled_from([1e-3, 1e-1, 1.0, 1e1]),
    )
    def test_moments_match(
        self,
        X: Tensor,
        mean: Tensor,
        targets: Tensor,
        rates: tuple[float, float],
        scale: float,
    ) -> None:
        squared = (X.unsqueeze(-2) - X.unsqueeze(-3)).square().sum(dim=-1)
        prior = Prior(mean, scale * torch.exp(-squared), targets)
        sites = prior.approximate(rates).as_sites()
        assert largest_mismatch(prior, sites, rates) < 1e-7


def negative_case(rates: tuple[float, float]) -> tuple[Prior, SiteApproximation]:
    """A posterior with positive and negative sites."""
    prior = make_prior(10, seed=3)
    approximation = prior.approximate(rates)
    assert (approximation.sites.precision < 0).any()
    assert (approximation.sites.precision > 0).any()
    return prior, approximation


@with_rates
class TestNegativeSites:
    def test_projection_equals_the_dense_matrix(
        self, rates: tuple[float, float]
    ) -> None:
        prior, approximation = negative_case(rates)
        P = dense_projection(prior, approximation.as_sites())
        assert_near(approximation.projection(), P, 1e-12)
        cross = uniform(10, 4, seed=5) - 0.5
        assert_near(approximation.project(cross), P @ cross.numpy(), 1e-12)
        explained = np.einsum("iq,ij,jq->q", cross, P, cross)
        assert_near(approximation.explained_variance(cross), explained, 1e-12)

    def test_weights_equal_those_of_the_dense_posterior(
        self, rates: tuple[float, float]
    ) -> None:
        prior, approximation = negative_case(rates)
        mean, _ = dense_posterior(prior, approximation.as_sites())
        weights = np.linalg.solve(prior.K.numpy(), mean - prior.mean.numpy())
        assert_near(approximation.weights, weights, 1e-11)

    def test_draws_have_the_moments_of_the_posterior(
        self, rates: tuple[float, float]
    ) -> None:
        prior, approximation = negative_case(rates)
        mean, covariance = dense_posterior(prior, approximation.as_sites())
        with torch.random.fork_rng():
            torch.manual_seed(0)
            root = torch.linalg.cholesky(prior.K)
            values = torch.randn(40_000, 10, dtype=torch.double) @ root.mT
            draws = prior.mean + values + approximation.draw_weights(values) @ prior.K
        errors = draws - torch.from_numpy(mean)
        assert largest_z(errors, torch.zeros(10)) < LARGEST_Z
        squares = errors.unsqueeze(-1) * errors.unsqueeze(-2)
        assert largest_z(squares, torch.from_numpy(covariance)) < LARGEST_Z

    def test_joint_posterior_at_points(self, rates: tuple[float, float]) -> None:
        kernel = simple_kernel()
        X = uniform(6, 2, seed=3)
        kernel.outputscale = 20.0
        model = small_model("outcomes", rates, covar_module=kernel)
        found: Any = model.posterior(X)
        Z = model.train_inputs[0]
        K, cross, own = (kernel(*pair).to_dense() for pair in ((Z, Z), (Z, X), (X, X)))
        prior = Prior(torch.zeros(len(Z)).double(), K.detach(), model.train_targets)
        sites = model.approximation.as_sites()
        assert (sites[:, 0] < 0).any()
        P = torch.from_numpy(dense_projection(prior, sites))
        covariance = found.distribution.covariance_matrix
        assert_near(covariance, own - cross.mT @ P @ cross, 1e-10)
        mean, _ = dense_posterior(prior, sites)
        expected = cross.mT @ torch.linalg.solve(K, torch.from_numpy(mean))
        assert_near(found.mean.squeeze(-1), expected, 1e-8)


def brute_evidence(prior: Prior, rates: tuple[float, float], size: int = 400) -> float:
    """``p(c)`` of one or two trials by the trapezoidal rule."""
    u, step = np.linspace(-9, 9, size, retstep=True)
    grid = np.stack(np.meshgrid(*[u] * len(prior.mean), indexing="ij"), axis=-1)
    density = np.exp(-(grid**2).sum(-1) / 2) * (step / np.sqrt(2 * np.pi)) ** len(
        prior.mean
    )
    f = prior.mean.numpy() + grid @ np.linalg.cholesky(prior.K.numpy()).T
    for i, label in enumerate(prior.targets.tolist()):
        density = density * label_probability(f[..., i], label, *rates)
    return float(np.log(density.sum()))


@every_rate
class TestEvidence:
    def test_is_exact_for_one_trial(self, rates: tuple[float, float]) -> None:
        for seed in range(4):
            for scale in (1e-2, 1.0, 100.0):
                prior = make_prior(1, scale=scale, seed=seed)
                found = prior.approximate(rates, DEFAULT).log_evidence
                assert_near(found, brute_evidence(prior, rates, 4001), 1e-12)

    def test_is_near_for_two_trials(self, rates: tuple[float, float]) -> None:
        for seed in range(6):
            prior = make_prior(2, seed=seed)
            found = prior.approximate(rates).log_evidence
            assert_near(found, brute_evidence(prior, rates), 5e-3)

    def test_is_the_same_from_inference_and_model(
        self, rates: tuple[float, float]
    ) -> None:
        prior = make_prior()
        found = prior.approximate(rates)
        evidence, start = EXACT.evidence(ProbitLikelihood(*rates), *prior)
        assert_near(evidence, found.log_evidence, 1e-13)
        assert_near(start.values, found.as_sites(), 1e-9)


def test_evidence_of_independent_trials_is_exact() -> None:
    prior = make_prior(6)
    independent = prior._replace(K=torch.diag(prior.K.diagonal()))
    z = prior.mean / (1 + prior.K.diagonal()).sqrt()
    signs = 2 * prior.targets - 1
    found = independent.approximate((0.0, 0.0), DEFAULT).log_evidence
    assert_near(found, log_ndtr((signs * z).numpy()).sum(), 1e-12)


class TestExpectationPropagation:
    def test_is_the_default(self) -> None:
        X = uniform(3, 2)
        Y = double([[0.0], [1.0], [1.0]])
        assert BinaryGP(X, Y).inference == ExpectationPropagation()
        duels = uniform(3, 2, 2)
        assert PreferenceGP(duels, Y).inference == ExpectationPropagation()

    def test_repr_and_equality(self) -> None:
        found = repr(ExpectationPropagation(1e-7, 50))
        assert found == "ExpectationPropagation(tolerance=1e-07, max_sweeps=50)"
        assert repr(Laplace()) == "Laplace()"
        assert ExpectationPropagation(1e-7) == ExpectationPropagation(1e-7)
        assert ExpectationPropagation(1e-7) != DEFAULT
        assert ExpectationPropagation(max_sweeps=3) != DEFAULT
        assert Laplace() != DEFAULT
        assert len({DEFAULT, ExpectationPropagation(), Laplace()}) == 2

    def test_warns_if_sweeps_do_not_suffice(self) -> None:
        hurried = ExpectationPropagation(max_sweeps=1)
        for rates in RATES.values():
            with pytest.warns(NumericsWarning, match="tolerance of 1e-05 in 1 sw"):
                found = make_prior().approximate(rates, hurried)
            assert bool(found.weights.isfinite().all())

    def test_no_trials(self) -> None:
        for batch_shape in ((), (2, 3)):
            zeros = torch.zeros(*batch_shape, 0, dtype=torch.double)
            prior = Prior(zeros, zeros.unsqueeze(-1).expand(*batch_shape, 0, 0), zeros)
            found = prior.approximate((0.5, 0.1))
            assert found.weights.shape == (*batch_shape, 0)
            assert found.as_sites().shape == (*batch_shape, 0, 2)
            assert_all_close(found.log_evidence, torch.zeros(batch_shape).double())

    def test_with_inference(self) -> None:
        model = small_model("outcomes", (0.5, 0.0))
        X = uniform(4, 2, seed=3)
        other = small_model("outcomes", (0.5, 0.0), Laplace())
        for first, second in ((model, other), (other, model)):
            changed = first.with_inference(second.inference)
            assert changed.inference == second.inference
            assert_near(moments(changed, X)[0], moments(second, X)[0], 1e-12)
        difference = moments(model, X)[0] - moments(other, X)[0]
        assert difference.abs().max().item() > 0.1


@every_rate
def test_conditioning_equals_building_from_scratch(rates: tuple[float, float]) -> None:
    X = uniform(12, 2, seed=1)
    Y = (uniform(12, 1, seed=4) > 0.5).double()
    settings: Any = {
        "likelihood": ProbitLikelihood(*rates),
        "covar_module": simple_kernel(),
        "inference": EXACT,
    }
    model = BinaryGP(X[:2], Y[:2], **settings)
    test_X = uniform(4, 2, seed=3)
    for i in range(2, 12, 5):
        model.posterior(test_X)  # where the search for the next begins
        new = slice(i, i + 5)
        model = model.condition_on_observations(X[new], Y[new])
    full = BinaryGP(X, Y, **settings)
    for first, second in zip(
        moments(model, test_X), moments(full, test_X), strict=True
    ):
        assert_near(first, second, 1e-9)
