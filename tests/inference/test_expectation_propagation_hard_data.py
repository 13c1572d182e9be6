r"""Expectation propagation where sites are hard to find, and in batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from botorch.exceptions.warnings import InputDataWarning, NumericsWarning
from gpytorch.means import ConstantMean
from scipy import integrate, stats
from torch import Tensor

from botorch_binary_context import (
    BinaryGP,
    PreferenceGP,
    ProbitLikelihood,
)
from botorch_binary_context.inference import (
    Laplace,
    SiteApproximation,
    Start,
)
from tests.derivatives import finite_difference, jacobian
from tests.inference.ep_cases import (
    DEFAULT,
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
from tests.small_models import simple_kernel
from tests.tensors import double, uniform


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
        kernel = simple_kernel()
        mean = ConstantMean()
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
