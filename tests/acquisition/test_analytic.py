from __future__ import annotations

from math import log
from typing import Any

import mpmath
import pytest
import torch
from botorch.acquisition import AcquisitionFunction, FixedFeatureAcquisitionFunction
from botorch.exceptions import UnsupportedError
from hypothesis import given
from torch import Tensor

from botorch_binary_context import (
    BernoulliMutualInformation,
    BinaryLaplaceGP,
    BinaryUpperConfidenceBound,
    LatentUpperConfidenceBound,
    MaximallyUncertainChallenge,
    PreferenceLaplaceGP,
    ProbitLikelihood,
)
from tests.acquisition.problems import (
    KINDS,
    MakeAcquisition,
    Problem,
    assert_batch_equals_loop,
    assert_close,
    assert_right_gradient,
    assert_takes_t_batches,
    optimize,
)
from tests.devices import RequireDevice
from tests.golden_numbers import (
    BINARY_FILES,
    golden_duels,
    golden_kernel,
    golden_preference_kernel,
    load_golden,
)
from tests.latent_posteriors import latent
from tests.quadrature import normal_expectation
from tests.small_models import MODEL_CLASSES, random_model, simple_kernel
from tests.strategies import binary_data, duel_data
from tests.tensors import double, uniform

BETA_95 = 1.6448536269514722  # Φ⁻¹(0.95)


def challenge(problem: Problem) -> MaximallyUncertainChallenge:
    """A challenge of the middle of the box."""
    return MaximallyUncertainChallenge(problem.model, problem.bounds.mean(dim=0))


class AgainstMiddle(MaximallyUncertainChallenge):
    """On duels, whose first row is the challenger: for tests that are shared."""

    def forward(self, X: Tensor) -> Tensor:
        return super().forward(X[..., :1, :])


CASES: list[tuple[MakeAcquisition, Any]] = [
    (lambda problem: BinaryUpperConfidenceBound(problem.model), BinaryLaplaceGP),
    (lambda problem: LatentUpperConfidenceBound(problem.model), BinaryLaplaceGP),
    (lambda problem: BernoulliMutualInformation(problem.model), BinaryLaplaceGP),
    (lambda problem: BernoulliMutualInformation(problem.model), PreferenceLaplaceGP),
    (
        lambda problem: AgainstMiddle(problem.model, problem.bounds.mean(dim=0)),
        PreferenceLaplaceGP,
    ),
]
NAMES = ["ucb", "latent-ucb", "bald", "bald-duel", "muc"]
every_function = pytest.mark.parametrize(("make", "model_class"), CASES, ids=NAMES)


# ----------------------------------------------------------------------- golden numbers


@pytest.mark.parametrize("name", BINARY_FILES)
class TestGoldenBinary:
    def cases(self, name: str) -> list[tuple[BinaryLaplaceGP, Tensor, dict[str, Any]]]:
        golden = load_golden(name)
        X = double(golden["z"])
        Y = double(golden["c"]).unsqueeze(-1)
        return [
            (
                BinaryLaplaceGP(
                    X, Y, covar_module=golden_kernel(case["name"], case["hyper"])
                ),
                double(golden["z_test"]).unsqueeze(-2),
                case["laplace"],
            )
            for case in golden["kernels"]
        ]

    def test_upper_confidence_bound(self, name: str) -> None:
        for model, X, expected in self.cases(name):
            found = BinaryUpperConfidenceBound(model)(X)
            assert_close(found, expected["ucb_beta95"], 1e-9)

    def test_mutual_information(self, name: str) -> None:
        for model, X, expected in self.cases(name):
            found = BernoulliMutualInformation(model)(X)
            assert_close(found, expected["bald_nats"], 1e-10)


class TestGoldenDuels:
    def cases(self) -> list[tuple[PreferenceLaplaceGP, Tensor, dict[str, Any]]]:
        cases = []
        for case in load_golden("preference"):
            contextual = case["variant"].startswith("ctx")
            model = PreferenceLaplaceGP(
                golden_duels(case["u"], contextual),
                double(case["c"]).unsqueeze(-1),
                covar_module=golden_preference_kernel(case),
            )
            cases.append((model, golden_duels(case["u_test"], contextual), case))
        return cases

    def test_mutual_information(self) -> None:
        for model, duels, expected in self.cases():
            found = BernoulliMutualInformation(model)(duels)
            assert_close(found, expected["bald_nats"], 1e-9)

    def test_maximally_uncertain_challenge(self) -> None:
        for model, duels, expected in self.cases():
            challengers, incumbents = duels[:, :1], duels[:, 1]
            acqf = MaximallyUncertainChallenge(model, incumbents)
            assert_close(acqf(challengers), expected["probability_variance"], 1e-10)
            swapped = MaximallyUncertainChallenge(model, challengers.squeeze(-2))
            found = swapped(incumbents.unsqueeze(-2))
            assert_close(found, expected["probability_variance"], 1e-10)


# -------------------------------------------------------------------------- definitions


class TestDefinitions:
    def test_default_beta(self) -> None:
        model = random_model(BinaryLaplaceGP)
        for acqf_class in (BinaryUpperConfidenceBound, LatentUpperConfidenceBound):
            assert acqf_class(model).beta == pytest.approx(BETA_95, rel=0, abs=1e-13)

    def test_binary_bound(self) -> None:
        # The weight multiplies the standard deviation, not its square root.
        model = random_model(BinaryLaplaceGP)
        X = uniform(5, 1, 2, seed=3)
        posterior = model.probability_posterior(X)
        mean = posterior.mean.flatten()
        sd = posterior.variance.sqrt().flatten()
        for beta in (0.0, 1.0, 4.0):
            found = BinaryUpperConfidenceBound(model, beta=beta)(X)
            assert_close(found, mean + beta * sd, 1e-12)

    def test_latent_bound(self) -> None:
        model = random_model(BinaryLaplaceGP)
        X = uniform(5, 1, 2, seed=3)
        posterior = latent(model, X)
        mean = posterior.mean.flatten()
        sd = posterior.variance.sqrt().flatten()
        for beta in (0.0, 1.0, 4.0):
            found = LatentUpperConfidenceBound(model, beta=beta)(X)
            assert_close(found, mean + beta * sd, 1e-12)

    def test_challenge_of_equals_is_certain(self) -> None:
        for kind in KINDS:
            problem = Problem(kind, 2, PreferenceLaplaceGP)
            acqf = challenge(problem)
            assert acqf(acqf.incumbent.expand(1, 1, -1)).item() < 1e-9

    def test_an_incumbent_for_each_element(self) -> None:
        batched = Problem("product", 2, PreferenceLaplaceGP, [0, 1, 2])
        incumbents = uniform(3, 3, seed=5)
        X = uniform(4, 3, 1, 3, seed=6)
        values = MaximallyUncertainChallenge(batched.model, incumbents)(X)
        for i in range(3):
            alone = batched.element((i,)).model
            expected = MaximallyUncertainChallenge(alone, incumbents[i])(X[:, i])
            assert_close(values[:, i], expected, 1e-10)

    def test_incumbent_is_a_buffer(self) -> None:
        acqf = challenge(Problem("none", 2, PreferenceLaplaceGP))
        assert "incumbent" in dict(acqf.named_buffers())


# ------------------------------------------------------------------- guesses and lapses


def entropy(p: Any) -> Any:
    return -sum(q * mpmath.log(q) for q in (p, 1 - p) if q > 0)


class TestRates:
    RATES = ((0.5, 0.0), (0.0, 0.05), (1 / 26, 0.02))

    def moments(
        self, guess_rate: float, lapse_rate: float
    ) -> tuple[BinaryLaplaceGP, Tensor, list[tuple[float, float]]]:
        likelihood = ProbitLikelihood(guess_rate, lapse_rate)
        model = random_model(BinaryLaplaceGP, likelihood=likelihood)
        assert isinstance(model, BinaryLaplaceGP)
        X = uniform(2, 1, 2, seed=3)
        mean, variance = (part.tolist() for part in model.moments(X))
        return model, X, list(zip(mean, variance, strict=True))

    def test_mutual_information(self) -> None:
        for guess_rate, lapse_rate in self.RATES:
            model, X, moments = self.moments(guess_rate, lapse_rate)

            def p(f: Any, rates: tuple[float, float] = (guess_rate, lapse_rate)) -> Any:
                return rates[0] + (1 - sum(rates)) * mpmath.ncdf(f)

            expected = [
                entropy(normal_expectation(p, *moment))
                - normal_expectation(lambda f, p=p: entropy(p(f)), *moment)
                for moment in moments
            ]
            found = BernoulliMutualInformation(model)(X)
            assert_close(found, [float(e) for e in expected], 1e-10)

    def test_upper_confidence_bound(self) -> None:
        for guess_rate, lapse_rate in self.RATES:
            model, X, moments = self.moments(guess_rate, lapse_rate)
            expected = []
            for moment in moments:
                mean = normal_expectation(mpmath.ncdf, *moment)
                square = normal_expectation(lambda f: mpmath.ncdf(f) ** 2, *moment)
                scale = 1 - guess_rate - lapse_rate
                deviation = scale * mpmath.sqrt(square - mean**2)
                expected.append(float(guess_rate + scale * mean + BETA_95 * deviation))
            assert_close(BinaryUpperConfidenceBound(model)(X), expected, 1e-10)


# --------------------------------------------------------- derivatives, batches, shapes


@every_function
class TestContract:
    @pytest.mark.parametrize("kind", KINDS)
    def test_gradient_equals_finite_differences(
        self, make: MakeAcquisition, model_class: Any, kind: str
    ) -> None:
        problem = Problem(kind, 2, model_class)
        assert_right_gradient(make(problem), problem.candidates(3), 1e-8)

    def test_gradient_of_a_batch(self, make: MakeAcquisition, model_class: Any) -> None:
        problem = Problem("additive", 1, model_class, [0, 1], normalized=True)
        assert_right_gradient(make(problem), problem.candidates(3, 2), 1e-8)

    @pytest.mark.parametrize("kind", KINDS)
    def test_batch_equals_loop(
        self, make: MakeAcquisition, model_class: Any, kind: str
    ) -> None:
        problem = Problem(kind, 2, model_class, [[0, 1, 2], [3, 4, 5]])
        assert_batch_equals_loop(make, problem, 1e-10)

    def test_t_batches(self, make: MakeAcquisition, model_class: Any) -> None:
        for elements in (0, [0, 1, 2], [[0, 1, 2], [3, 4, 5]]):
            problem = Problem("additive", 1, model_class, elements)
            assert_takes_t_batches(make, problem)

    def test_single_precision(self, make: MakeAcquisition, model_class: Any) -> None:
        problem = Problem("product", 2, model_class)
        X = problem.candidates(4)
        expected = make(problem)(X)
        problem.model.float()
        found = make(problem)(X.float())
        assert found.dtype == torch.float
        assert_close(found.double(), expected, 1e-3)

    def test_without_data(self, make: MakeAcquisition, model_class: Any) -> None:
        problem = Problem("product", 1, model_class, n=0)
        assert make(problem)(problem.candidates(4)).isfinite().all()

    def test_makes_nothing_on_the_default_device(
        self, make: MakeAcquisition, model_class: Any
    ) -> None:
        problem = Problem("product", 1, model_class)
        X = problem.candidates(4).requires_grad_()
        with RequireDevice():
            make(problem)(X).sum().backward()


class TestMutualInformation:
    @given(data=binary_data(batched=False))
    def test_range_on_outcomes(self, data: tuple[Tensor, Tensor]) -> None:
        model = BinaryLaplaceGP(*data, covar_module=simple_kernel(data[0].shape[-1]))
        values = BernoulliMutualInformation(model)(data[0].unsqueeze(-2))
        assert bool(((values >= 0) & (values <= log(2))).all())

    @given(data=duel_data(batched=False))
    def test_of_duels_is_symmetric(self, data: tuple[Tensor, Tensor]) -> None:
        kernel = simple_kernel(data[0].shape[-1])
        acqf = BernoulliMutualInformation(
            PreferenceLaplaceGP(*data, covar_module=kernel)
        )
        values = acqf(data[0])
        swapped = acqf(data[0].flip(-2))
        assert bool(((values >= 0) & (values <= log(2))).all())
        assert_close(values, swapped, 1e-12)


class TestMessages:
    def test_number_of_rows(self) -> None:
        binary, duels = (random_model(model_class) for model_class in MODEL_CLASSES)
        two = uniform(4, 2, 2)
        one = uniform(4, 1, 2)
        for acqf in (
            BinaryUpperConfidenceBound(binary),
            LatentUpperConfidenceBound(binary),
            BernoulliMutualInformation(binary),
        ):
            with pytest.raises(UnsupportedError, match="one row, but got 2 rows"):
                acqf(two)
        with pytest.raises(UnsupportedError, match="rows"):
            MaximallyUncertainChallenge(duels, uniform(2))(two)
        with pytest.raises(UnsupportedError, match="a duel, two rows, but got 1"):
            BernoulliMutualInformation(duels)(one)

    def test_wrong_model(self) -> None:
        binary, duels = (random_model(model_class) for model_class in MODEL_CLASSES)
        for acqf_class in (BinaryUpperConfidenceBound, LatentUpperConfidenceBound):
            message = f"outcomes for {acqf_class.__name__}, but got a Preference"
            with pytest.raises(UnsupportedError, match=message):
                acqf_class(duels)
        message = "duels for MaximallyUncertainChallenge, but got a BinaryLaplaceGP"
        with pytest.raises(UnsupportedError, match=message):
            MaximallyUncertainChallenge(binary, uniform(2))

    def test_one_dimension(self) -> None:
        acqf = BernoulliMutualInformation(random_model(BinaryLaplaceGP))
        with pytest.raises(ValueError, match="at least 2 dimensions"):
            acqf(uniform(2))


# ------------------------------------------------------------------------- optimization


class TestOptimize:
    def maximum(
        self, acqf: AcquisitionFunction, problem: Problem, q: int, **kwargs: Any
    ) -> Tensor:
        candidate, value = optimize(acqf, problem.bounds, q, **kwargs)
        assert_close(acqf(candidate), value.reshape(1), 1e-12)
        return candidate

    def assert_beats(
        self, acqf: AcquisitionFunction, candidate: Tensor, others: Tensor
    ) -> None:
        with torch.no_grad():
            assert acqf(candidate).item() >= acqf(others).max().item()

    def test_bound_at_the_reference_context(self) -> None:
        problem = Problem("multiplicative", 2)
        acqf = BinaryUpperConfidenceBound(problem.model)
        reference = problem.space.reference_context.item()
        candidate = self.maximum(acqf, problem, 1, fixed_features={1: reference})
        others = problem.candidates(256)
        others[..., 1] = reference
        self.assert_beats(acqf, candidate, others)

    def test_information_of_the_context(self) -> None:
        # The second stage of a rule: the context, given the parameters.
        problem = Problem("additive", 2)
        bald = BernoulliMutualInformation(problem.model)
        acqf = FixedFeatureAcquisitionFunction(
            bald, d=3, columns=[0, 2], values=[0.3, 0.6]
        )
        grid = torch.linspace(0, 1, 101, dtype=torch.double)
        trials = double([0.3, 0.0, 0.6]).expand(101, 1, 3).clone()
        trials[..., 0, 1] = grid
        assert_close(acqf(grid.reshape(-1, 1, 1)), bald(trials), 1e-14)
        candidate, _ = optimize(acqf, problem.bounds[:, 1:2])
        self.assert_beats(acqf, candidate, grid.reshape(-1, 1, 1))

    def test_information_of_a_duel_in_one_context(self) -> None:
        problem = Problem("multiplicative", 1, PreferenceLaplaceGP)
        acqf = BernoulliMutualInformation(problem.model)
        same_context = (torch.tensor([[0, 0], [1, 0]]), double([1.0, -1.0]), 0.0)
        candidate = self.maximum(acqf, problem, 2, equality_constraints=[same_context])
        assert_close(candidate[0, 0], candidate[1, 0], 1e-7)
        self.assert_beats(acqf, candidate, problem.candidates(256))

    def test_challenge_found_beats_all_random_trials(self) -> None:
        problem = Problem("none", 2, PreferenceLaplaceGP)
        acqf = challenge(problem)
        candidate = self.maximum(acqf, problem, 1)
        self.assert_beats(acqf, candidate, uniform(256, 1, 2))
