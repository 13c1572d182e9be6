r"""Expectation propagation against other programs, sampling, quadrature and NumPy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from botorch.exceptions.warnings import InputDataWarning, NumericsWarning
from botorch.settings import propagate_grads
from gpytorch.kernels import (
    ConstantKernel,
    Kernel,
    MaternKernel,
    RBFKernel,
    ScaleKernel,
)
from gpytorch.means import ConstantMean, Mean
from hypothesis import given
from hypothesis import strategies as st
from numpy import ndarray
from scipy import integrate, stats
from scipy.special import log_ndtr, ndtr
from torch import Tensor
from torch.func import functional_call

from botorch_binary_context import (
    AdditiveContextKernel,
    ApproximateMarginalLogLikelihood,
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
    Start,
)
from tests import strategies
from tests.closeness import assert_all_close
from tests.derivatives import finite_difference, jacobian
from tests.exact_posteriors import PATH
from tests.golden_numbers import BINARY_FILES, golden_kernel, load_golden
from tests.sampling_errors import LARGEST_Z, largest_z
from tests.small_models import simple_kernel
from tests.tensors import double, uniform

EXACT = ExpectationPropagation(tolerance=1e-10)
DEFAULT = ExpectationPropagation()
RATES = {
    "plain": (0.0, 0.0),
    "two_choices": (0.5, 0.0),
    "guesses_and_lapses": (0.1, 0.05),
    "mostly_chance": (0.5, 0.3),
}
every_rate = pytest.mark.parametrize("rates", RATES.values(), ids=RATES)
with_rates = pytest.mark.parametrize("rates", list(RATES.values())[1:])
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


def make_duels(n: int = 8, seed: int = 0) -> Prior:
    """The prior of the differences of values at ``2n`` points."""
    rows, sign = make_prior(2 * n, seed=seed), torch.kron(torch.eye(n), SIDES).double()
    return Prior(sign @ rows.mean, sign @ rows.K @ sign.mT, rows.targets[::2])


def make_copies(n: int, passes: int, variance: float) -> Prior:
    """A trial that was passed and failed a few times."""
    targets = (torch.arange(n) < passes).double()
    K = torch.full((n, n), variance, dtype=torch.double)
    return Prior(torch.zeros_like(targets), K, targets)


SIDES = torch.tensor([[1.0, -1.0]])


def assert_near(found: Any, expected: Any, atol: float, rtol: float = 0.0) -> None:
    found = torch.as_tensor(found).detach()
    expected = torch.as_tensor(expected, dtype=found.dtype).detach()
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)


def moments(model: Any, X: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and variance of the latent function at points, one by one."""
    posterior = model.posterior(X.unsqueeze(-2))
    return posterior.mean.flatten(-2).squeeze(-1), posterior.variance[..., 0, 0]


# ------------------------------------------------------------------ another program

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
    def test_sites(self, name: str, i: int) -> None:
        model, _, expected = golden_model(name, i)
        precision, location = model.eval().approximation.as_sites().unbind(dim=-1)
        assert_near(precision, double(expected["tau_tilde"]), 1e-9)
        assert_near(location, double(expected["nu_tilde"]), 1e-9)

    def test_posterior(self, name: str, i: int) -> None:
        model, Z, expected = golden_model(name, i)
        mean, variance = moments(model, Z)
        assert_near(mean, double(expected["latent_mean"]), 1e-10)
        assert_near(variance, double(expected["latent_variance"]), 1e-10)
        probability = model.probability_posterior(Z)
        assert_near(probability.mean.flatten(), double(expected["probability"]), 1e-10)
        spread = double(expected["probability_variance"])
        assert_near(probability.variance.flatten(), spread, 1e-10)

    def test_evidence(self, name: str, i: int) -> None:
        model, _, expected = golden_model(name, i)
        found = -model.eval().approximation.log_evidence
        assert_near(found, expected["neg_log_marginal_likelihood"], 1e-13)


# ----------------------------------------------------------------- exact posteriors

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
    model, X = record_model(record, inference), double(record["test_X"])
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


# --------------------------------------------------------------------- a fixed point


def dense_projection(prior: Prior, sites: Tensor) -> ndarray:
    """``P = (K + T⁻¹)⁻¹``, also where a site precision is zero or negative."""
    K, T = prior.K.numpy(), np.diag(sites[:, 0].numpy())
    return np.linalg.solve(np.eye(len(K)) + T @ K, T)


def dense_posterior(prior: Prior, sites: Tensor) -> tuple[ndarray, ndarray]:
    """The mean and the covariance that sites make of the prior, by NumPy."""
    K, m = prior.K.numpy(), prior.mean.numpy()
    tau, nu = sites.numpy().T
    covariance = K - K @ dense_projection(prior, sites) @ K
    return m + covariance @ (nu - tau * m), covariance


def label_probability(f: Any, label: float, guess: float, lapse: float) -> Any:
    """``p(c|f)``."""
    floor, sign = (guess, 1) if label else (lapse, -1)
    return floor + (1 - guess - lapse) * ndtr(sign * f)


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


# -------------------------------------------------------------------- negative sites


def negative_case(rates: tuple[float, float]) -> tuple[Prior, SiteApproximation]:
    """A posterior with positive and negative sites."""
    prior = make_prior(10, seed=3)
    approximation = prior.approximate(rates)
    assert (approximation.sites.precision < 0).any()
    assert (approximation.sites.precision > 0).any()
    return prior, approximation


@with_rates
class TestNegativeSites:
    def test_projection(self, rates: tuple[float, float]) -> None:
        prior, approximation = negative_case(rates)
        P = dense_projection(prior, approximation.as_sites())
        assert_near(approximation.projection(), P, 1e-12)
        cross = uniform(10, 4, seed=5) - 0.5
        assert_near(approximation.project(cross), P @ cross.numpy(), 1e-12)
        explained = np.einsum("iq,ij,jq->q", cross, P, cross)
        assert_near(approximation.explained_variance(cross), explained, 1e-12)

    def test_weights(self, rates: tuple[float, float]) -> None:
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
        kernel, X = simple_kernel(), uniform(6, 2, seed=3)
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


# -------------------------------------------------------------------------- evidence


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


class Loss(torch.nn.Module):
    """The marginal likelihood of the training data, as a function of parameters."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
        self.train()

    def forward(self) -> Tensor:
        model: Any = self.mll.model
        value: Any = self.mll(model(*model.train_inputs), model.train_targets)
        return value


def small_model(
    kind: str,
    rates: tuple[float, float] = (0.0, 0.0),
    inference: Inference = EXACT,
    n: int = 12,
    **kwargs: Any,
) -> Model:
    """A model of a few outcomes, duels, or both."""
    X, pairs = uniform(n, 2, seed=1), uniform(n, 2, 2, seed=2)
    labels = (uniform(n, 1, seed=4) > 0.5).double()
    likelihood = kwargs.pop("likelihood", ProbitLikelihood(*rates))
    kwargs = {"covar_module": simple_kernel(), "inference": inference, **kwargs}
    if kind == "outcomes":
        return BinaryGP(X, labels, likelihood, **kwargs)
    if kind == "duels":
        return PreferenceGP(pairs, labels, **kwargs)
    duels = Observations(pairs, 1 - labels, PreferenceLikelihood())
    return MixedGP([Observations(X, labels, likelihood), duels], **kwargs)


def learned_model(kind: str) -> Model:
    """A model that learns its kernel, its mean and a lapse rate."""
    kernel = ScaleKernel(RBFKernel(ard_num_dims=2)) + ScaleKernel(MaternKernel(nu=2.5))
    model = small_model(
        kind,
        likelihood=ProbitLikelihood(0.5, 0.05, learn_lapse_rate=True),
        covar_module=kernel,
        mean_module=ConstantMean(),
    )
    for i, parameter in enumerate(model.parameters()):
        shift = uniform(*parameter.shape, seed=i) - 0.5
        parameter.data.add_(shift.reshape(parameter.shape))
    return model


@pytest.mark.parametrize("kind", ["outcomes", "duels", "both"])
def test_gradient_in_every_hyperparameter(kind: str) -> None:
    loss = Loss(learned_model(kind))
    names = dict(loss.named_parameters())
    assert len(names) == (5 if kind == "duels" else 6)
    found = torch.autograd.grad(loss(), list(names.values()))
    for (name, value), gradient in zip(names.items(), found, strict=True):

        def func(changed: Tensor, name: str = name) -> Tensor:
            return functional_call(loss, {name: changed}, tie_weights=False)

        expected = finite_difference(func, value.detach())
        assert_near(gradient, expected, atol=1e-11, rtol=1e-7)


def test_gradient_of_the_evidence_of_an_approximation() -> None:
    # Its sites carry no graph, so that it is stationary in them.
    for rates in RATES.values():
        prior = make_prior(5)
        likelihood = ProbitLikelihood(*rates)

        def evidence(mean: Tensor, prior: Prior = prior, likelihood=likelihood):
            changed = prior._replace(mean=mean)
            return EXACT.approximate(likelihood, *changed).log_evidence

        found = jacobian(evidence, prior.mean)
        assert_near(found, finite_difference(evidence, prior.mean), 1e-10)


# ------------------------------------------------------- derivatives of the posterior


@pytest.mark.parametrize(
    ("kind", "rates"),
    [
        ("outcomes", (0.0, 0.0)),
        ("outcomes", (0.5, 0.0)),
        ("outcomes", (0.1, 0.05)),
        ("duels", (0.0, 0.0)),
        ("both", (0.5, 0.0)),
    ],
)
class TestConditioning:
    @pytest.mark.parametrize("label", [0.0, 1.0])
    def test_is_differentiable_in_the_inputs(
        self, kind: str, rates: tuple[float, float], label: float
    ) -> None:
        model = small_model(kind, rates)
        shape = (2, 2, 2) if kind == "duels" else (2, 2)
        X, Y = uniform(*shape, seed=6), double([[label], [1 - label]])

        def func(X: Tensor) -> Tensor:
            conditioned = model.condition_on_observations(X, Y)
            return torch.stack(moments(conditioned, uniform(3, 2, seed=7)))

        found, expected = jacobian(func, X), finite_difference(func, X)
        assert expected.abs().max() > 0.1
        assert_near(found, expected, 1e-8)

    def test_default_tolerance_suffices(
        self, kind: str, rates: tuple[float, float]
    ) -> None:
        shape = (1, 2, 2) if kind == "duels" else (1, 2)
        X, Y = uniform(*shape, seed=6), double([[1.0]])
        gradients = []
        for inference in (EXACT, DEFAULT):
            model = small_model(kind, rates, inference)

            def func(X: Tensor, model: Model = model) -> Tensor:
                conditioned = model.condition_on_observations(X, Y)
                return torch.stack(moments(conditioned, uniform(3, 2, seed=7)))

            gradients.append(jacobian(func, X))
        assert_near(*gradients, atol=1e-4)


@every_rate
def test_approximation_is_differentiable_in_the_prior(
    rates: tuple[float, float],
) -> None:
    prior = make_prior(5)
    directions = uniform(2, 5, 5, seed=4) - 0.5
    directions = directions + directions.mT

    def func(inputs: Tensor) -> Tensor:
        """The posterior at the trials, as the prior moves."""
        K = prior.K + (0.1 * inputs[:2, None, None] * directions).sum(dim=0)
        moved = Prior(prior.mean + inputs[2:], K, prior.targets)
        found = moved.approximate(rates)
        mean = moved.mean + K @ found.weights
        return torch.cat([mean, K.diagonal() - found.explained_variance(K)])

    zero = torch.zeros(7, dtype=torch.double)
    assert_near(jacobian(func, zero), finite_difference(func, zero), 1e-8)


class Posterior(torch.nn.Module):
    """The posterior at some points, with a graph to the hyperparameters."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model.eval()

    def forward(self) -> Tensor:
        with propagate_grads(True):
            return torch.stack(moments(self.model, uniform(3, 2, seed=7)))


@pytest.mark.parametrize("kind", ["outcomes", "duels", "both"])
def test_posterior_is_differentiable_in_every_hyperparameter(kind: str) -> None:
    posterior = Posterior(learned_model(kind))
    for name, value in posterior.named_parameters():

        def func(changed: Tensor, name: str = name) -> Tensor:
            return functional_call(posterior, {name: changed}, tie_weights=False)

        start = value.detach().clone()
        assert_near(jacobian(func, start), finite_difference(func, start), 1e-9)


@pytest.mark.filterwarnings("ignore:Expectation propagation found no sites")
class TestWithoutMatch:
    """The search finds no sites that match the moments, and negative ones are given up.

    So it is with a pass and a fail of one trial, a wide prior and a few guesses.
    """

    rates = (0.1, 0.0)
    zero = torch.zeros(2, dtype=torch.double)

    def approximate(self, shift: Tensor) -> tuple[Prior, SiteApproximation]:
        """The approximation with another prior mean and variance."""
        prior = make_copies(2, 1, 27.0)
        moved = prior._replace(mean=prior.mean + shift[0], K=prior.K + shift[1])
        return moved, moved.approximate(self.rates)

    def posterior(self, shift: Tensor) -> Tensor:
        """The mean and the variance at the trial."""
        prior, found = self.approximate(shift)
        mean = prior.mean + prior.K @ found.weights
        variance = prior.K.diagonal() - found.explained_variance(prior.K)
        return torch.stack([mean[0], variance[0]])

    def evidence(self, shift: Tensor) -> Tensor:
        return self.approximate(shift)[1].log_evidence

    def test_a_warning_says_so(self) -> None:
        with pytest.warns(NumericsWarning, match="found no sites that match"):
            self.approximate(self.zero)

    def test_posterior_does_not_depend_on_a_graph(self) -> None:
        attached = self.zero.clone().requires_grad_()
        assert_near(self.posterior(attached), self.posterior(self.zero), 1e-9)

    def test_gradient_of_the_posterior(self) -> None:
        expected = finite_difference(self.posterior, self.zero)
        assert_near(jacobian(self.posterior, self.zero), expected, 1e-7)

    def test_gradient_of_the_evidence(self) -> None:
        expected = finite_difference(self.evidence, self.zero)
        assert_near(jacobian(self.evidence, self.zero), expected, 1e-7)


# ----------------------------------------------------------------- batches and starts


@every_rate
class TestBatch:
    @pytest.mark.parametrize("batch_shape", [(1,), (3,), (2, 3)])
    def test_equals_a_loop(
        self, rates: tuple[float, float], batch_shape: tuple[int, ...]
    ) -> None:
        prior = make_prior(batch_shape=batch_shape)
        batch = prior.approximate(rates)
        for index in np.ndindex(*batch_shape):
            single = Prior(*(t[index] for t in prior)).approximate(rates)
            assert_near(batch.weights[index], single.weights, 1e-9)
            assert_near(batch.projection()[index], single.projection(), 1e-9)
            assert_near(batch.log_evidence[index], single.log_evidence, 1e-12)

    def test_easy_and_hard_elements(self, rates: tuple[float, float]) -> None:
        scales = double([1e-3, 1.0, 1e2])
        mean, K, targets = make_prior(10)
        prior = Prior(
            mean.expand(3, -1), scales[:, None, None] * K, targets.expand(3, -1)
        )
        batch = prior.approximate(rates)
        for i, scale in enumerate(scales):
            single = Prior(mean, scale * K, targets).approximate(rates)
            assert_near(batch.weights[i], single.weights, 1e-8)

    def test_warm_start_equals_cold(self, rates: tuple[float, float]) -> None:
        for batch_shape in ((), (3,)):
            prior = make_prior(batch_shape=batch_shape)
            cold = prior.approximate(rates)
            laplace = Laplace().approximate(ProbitLikelihood(*rates), *prior)
            for start in (cold.as_sites(), 0.5 * cold.as_sites(), laplace.as_sites()):
                warm = prior.approximate(rates, start=Start(start))
                assert_near(warm.weights, cold.weights, 1e-9)
                assert_near(warm.log_evidence, cold.log_evidence, 1e-12)

    def test_recovers_from_a_bad_start(self, rates: tuple[float, float]) -> None:
        prior = make_prior()
        cold = prior.approximate(rates)
        for start in (
            -cold.as_sites(),
            100 * torch.ones_like(cold.as_sites()),
            9 * cold.as_sites(),
        ):
            warm = prior.approximate(rates, start=Start(start))
            assert_near(warm.weights, cold.weights, 1e-9)


# ------------------------------------------------------------------------- hard data


def hard_labels(n: int) -> dict[str, Tensor]:
    """Labels of ``n`` points in a row."""
    position = torch.arange(n)
    return {
        "passes": torch.ones(n),
        "fails": torch.zeros(n),
        "separable": (position >= n // 2).float(),
        "contradictory": (position % 2).float(),
    }


def assert_sound(model: Model) -> None:
    """Finite moments, positive variances and probabilities between 0 and 1."""
    X = uniform(6, 2, seed=3)
    mean, variance = moments(model, X)
    assert mean.isfinite().all()
    assert (variance > 0).all()
    pairs = X.unflatten(0, (3, 2))
    probability = model.probability_posterior(pairs).mean
    assert ((probability >= 0) & (probability <= 1)).all()
    assert model.approximation.log_evidence.isfinite()
    total = sum(value.sum() for value in moments(model, X.requires_grad_()))
    assert torch.autograd.grad(torch.as_tensor(total), X)[0].isfinite().all()


HARD_RATES = {**RATES, "nearly_only_chance": (0.5, 0.45)}


@pytest.mark.parametrize("rates", HARD_RATES.values(), ids=HARD_RATES)
class TestHardData:
    @pytest.mark.parametrize("labels", ["passes", "fails", "separable"])
    @pytest.mark.parametrize("scale", [1e-2, 1.0, 1e2])
    def test_rows_of_points(
        self, rates: tuple[float, float], labels: str, scale: float
    ) -> None:
        n = 30
        X = torch.linspace(0, 1, n, dtype=torch.double).unsqueeze(-1).expand(n, 2)
        kernel = simple_kernel()
        kernel.outputscale = scale * kernel.outputscale
        Y = hard_labels(n)[labels].double().unsqueeze(-1)
        model = BinaryGP(X, Y, ProbitLikelihood(*rates), covar_module=kernel)
        assert_sound(model)

    @pytest.mark.parametrize("labels", ["passes", "fails", "contradictory"])
    @pytest.mark.parametrize("scale", [1.0, 1e2])
    def test_exact_duplicates(
        self, rates: tuple[float, float], labels: str, scale: float
    ) -> None:
        X = torch.full((40, 2), 0.3, dtype=torch.double)
        kernel = simple_kernel()
        kernel.outputscale = scale * kernel.outputscale
        Y = hard_labels(40)[labels].double().unsqueeze(-1)
        assert_sound(BinaryGP(X, Y, ProbitLikelihood(*rates), covar_module=kernel))

    @pytest.mark.parametrize("constant", [-40.0, 40.0])
    @pytest.mark.parametrize("scale", [1e-2, 1.0, 1e2])
    def test_prior_means_far_from_zero(
        self, rates: tuple[float, float], constant: float, scale: float
    ) -> None:
        kernel, mean = simple_kernel(), ConstantMean()
        mean.constant = double(constant)
        kernel.outputscale = scale * kernel.outputscale
        settings = {"covar_module": kernel, "mean_module": mean}
        assert_sound(small_model("outcomes", rates, DEFAULT, **settings))

    def test_no_trials(self, rates: tuple[float, float]) -> None:
        empty = torch.zeros(0, 2, dtype=torch.double)
        kernel = simple_kernel()
        model = BinaryGP(
            empty, empty[:, :1], ProbitLikelihood(*rates), covar_module=kernel
        )
        assert_sound(model)
        mean, variance = moments(model, uniform(4, 2))
        assert_near(mean, torch.zeros(4), 0.0)
        assert_near(variance, kernel.outputscale.expand(4), 1e-14)
        assert_near(model.approximation.log_evidence, 0.0, 0.0)


@pytest.mark.parametrize("labels", ["passes", "separable", "contradictory"])
def test_copies_of_one_duel(labels: str) -> None:
    X = uniform(1, 2, 2).expand(40, 2, 2)
    Y = hard_labels(40)[labels].double().unsqueeze(-1)
    assert_sound(PreferenceGP(X, Y, covar_module=simple_kernel()))


def test_a_duel_of_a_point_with_itself_tells_nothing() -> None:
    X = uniform(1, 1, 2).expand(3, 2, 2)
    model = PreferenceGP(X, double([[1.0]] * 3), covar_module=simple_kernel())
    mean, variance = moments(model, uniform(4, 2, seed=3))
    assert_near(mean, torch.zeros(4), 1e-12)
    assert_near(variance, simple_kernel().outputscale.expand(4), 1e-12)


@every_rate
@pytest.mark.parametrize("labels", ["passes", "fails", "contradictory"])
def test_duplicates_are_near_an_integral(
    rates: tuple[float, float], labels: str
) -> None:
    # All trials see one value, whose posterior is known on a line.
    n, k = 6, 2.0
    targets = hard_labels(n)[labels].double()
    prior = make_copies(n, n, k)._replace(targets=targets)
    found = prior.approximate(rates)
    f = np.linspace(-12, 12, 4001)
    density = stats.norm.pdf(f, scale=k**0.5)
    for label in targets.tolist():
        density = density * label_probability(f, label, *rates)
    mass = integrate.trapezoid(density, f)
    assert_near(found.log_evidence, np.log(mass), 0.025)
    mean = integrate.trapezoid(f * density, f) / mass
    assert_near(k * found.weights.sum(), mean, 0.03)


# ---------------------------------------------------------------- the class itself


class TestExpectationPropagation:
    def test_is_the_default(self) -> None:
        X, Y = uniform(3, 2), double([[0.0], [1.0], [1.0]])
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


@pytest.mark.parametrize("kind", ["outcomes", "duels", "both"])
@every_rate
def test_single_precision(kind: str, rates: tuple[float, float]) -> None:
    model = small_model(kind, rates, DEFAULT)
    X = uniform(5, 2, seed=3)
    expected = moments(model, X)
    found = moments(model.float(), X.float())
    for first, second in zip(found, expected, strict=True):
        assert first.dtype == torch.float
        assert_near(first.double(), second, 2e-4)
    with pytest.warns(InputDataWarning, match="double precision"):
        single = BinaryGP(X.float(), (X[:, :1] > 0.5).float())
    assert moments(single, X.float())[0].isfinite().all()


@every_rate
def test_conditioning_equals_building_from_scratch(rates: tuple[float, float]) -> None:
    X, Y = uniform(12, 2, seed=1), (uniform(12, 1, seed=4) > 0.5).double()
    settings: Any = {
        "likelihood": ProbitLikelihood(*rates),
        "covar_module": simple_kernel(),
        "inference": EXACT,
    }
    model, test_X = BinaryGP(X[:2], Y[:2], **settings), uniform(4, 2, seed=3)
    for i in range(2, 12, 5):
        model.posterior(test_X)  # where the search for the next begins
        new = slice(i, i + 5)
        model = model.condition_on_observations(X[new], Y[new])
    full = BinaryGP(X, Y, **settings)
    for first, second in zip(
        moments(model, test_X), moments(full, test_X), strict=True
    ):
        assert_near(first, second, 1e-9)
