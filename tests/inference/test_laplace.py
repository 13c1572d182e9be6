from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from botorch_binary_context import ProbitLikelihood
from botorch_binary_context.inference import Start
from botorch_binary_context.inference.laplace import (
    LaplaceApproximation,
    attach_gradient,
    factorize,
    find_mode,
    laplace_approximation,
)
from tests.closeness import assert_all_close
from tests.derivatives import finite_difference, jacobian
from tests.strategies import inputs, labels, latent_means, rates, tensors
from tests.tensors import double, uniform

PLAIN = ProbitLikelihood()
RATES = ProbitLikelihood(guess_rate=0.1, lapse_rate=0.05)


def problem(
    n: int = 6, batch_shape: tuple[int, ...] = (), scale: float = 3.0, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """A prior mean, a prior covariance of full rank and labels."""
    X = uniform(*batch_shape, n, 2, seed=seed)
    squared = (X.unsqueeze(-2) - X.unsqueeze(-3)).square().sum(dim=-1)
    K = scale * (torch.exp(-3 * squared) + 0.1 * torch.eye(n, dtype=X.dtype))
    mean = uniform(*batch_shape, n, seed=seed + 1) - 0.5
    targets = (uniform(*batch_shape, n, seed=seed + 2) > 0.4).double()
    return mean, K, targets


def begin_at(weights: Tensor) -> Start:
    return Start(weights.unsqueeze(-1))


def stationarity(
    likelihood: ProbitLikelihood, mean: Tensor, K: Tensor, targets: Tensor, mode: Tensor
) -> float:
    """``max |f - m - K ∇log p(c|f)|``, by SciPy."""
    f = mode.numpy()
    c = targets.numpy()
    gradient = torch.from_numpy(np.asarray(numpy_gradient(likelihood, f, c)))
    residual = mode - mean - (K @ gradient.unsqueeze(-1)).squeeze(-1)
    return float(residual.abs().max())


def numpy_gradient(
    likelihood: ProbitLikelihood, f: np.ndarray, c: np.ndarray
) -> np.ndarray:
    """``∇log p(c|f)`` from the definition of the likelihood."""
    span = 1 - likelihood.guess_rate - likelihood.lapse_rate
    if likelihood.is_log_concave:
        sign = 2 * c - 1
        return sign * np.exp(stats.norm.logpdf(f) - stats.norm.logcdf(sign * f))
    p = likelihood.guess_rate + span * stats.norm.cdf(f)
    return span * stats.norm.pdf(f) * np.where(c == 1, 1 / p, -1 / (1 - p))


def log_posterior(
    likelihood: ProbitLikelihood, mean: Tensor, K: Tensor, targets: Tensor, f: Tensor
) -> Tensor:
    """``log p(c|f) - ½ (f-m)ᵀ K⁻¹ (f-m)`` of ``... x n`` contrasts."""
    span = 1 - likelihood.guess_rate - likelihood.lapse_rate
    p = likelihood.guess_rate + span * torch.special.ndtr(f)
    log_likelihood = torch.where(targets == 1, p, 1 - p).log().sum(dim=-1)
    residual = f - mean
    return log_likelihood - (residual @ K.inverse() * residual).sum(dim=-1) / 2


class TestFindMode:
    def test_is_stationary(self, subtests: pytest.Subtests) -> None:
        for likelihood in (PLAIN, RATES):
            for batch_shape in ((), (3,), (2, 3)):
                for n, scale in ((1, 0.1), (6, 3.0), (40, 30.0)):
                    with subtests.test(g=likelihood.guess_rate, b=batch_shape, n=n):
                        mean, K, c = problem(n, batch_shape, scale)
                        mode = laplace_approximation(likelihood, mean, K, c).mode
                        assert mode.shape == (*batch_shape, n)
                        error = stationarity(likelihood, mean, K, c, mode)
                        assert error < 1e-10

    def test_gives_the_weights_of_the_mode(self) -> None:
        mean, K, c = problem()
        approximation = laplace_approximation(PLAIN, mean, K, c)
        assert_all_close(approximation.mode, find_mode(PLAIN, mean, K, c))
        f = mean + K @ approximation.weights
        assert_all_close(f, approximation.mode, rtol=0, atol=1e-12)

    def test_agrees_with_a_root_finder(self) -> None:
        for likelihood in (PLAIN, RATES):
            mean, K, c = problem()
            m = mean.numpy()
            k = K.numpy()
            labels_ = c.numpy()

            def equation(f, likelihood=likelihood, m=m, k=k, c=labels_):
                return f - m - k @ numpy_gradient(likelihood, f, c)

            solution = optimize.root(equation, m, tol=1e-13)
            mode = laplace_approximation(likelihood, mean, K, c).mode
            assert_all_close(mode, double(solution.x), rtol=0, atol=1e-10)

    def test_warm_start_equals_cold(self) -> None:
        for likelihood in (PLAIN, RATES):
            for batch_shape in ((), (3,), (2, 3)):
                mean, K, c = problem(batch_shape=batch_shape)
                cold = laplace_approximation(likelihood, mean, K, c)
                near = cold.weights + 0.1 * uniform(*batch_shape, 6, seed=5)
                for start in (cold.weights, near, -cold.weights):
                    warm = laplace_approximation(
                        likelihood, mean, K, c, begin_at(start)
                    )
                    assert_all_close(warm.mode, cold.mode, rtol=0, atol=1e-10)
                    assert_all_close(
                        warm.log_evidence, cold.log_evidence, rtol=0, atol=1e-10
                    )

    def test_recovers_from_a_bad_start(self) -> None:
        mean, K, c = problem()
        cold = laplace_approximation(PLAIN, mean, K, c).mode
        for start in (torch.full_like(c, 50.0), torch.full_like(c, -50.0)):
            warm = laplace_approximation(PLAIN, mean, K, c, begin_at(start)).mode
            assert_all_close(warm, cold, rtol=0, atol=1e-10)

    def test_easy_and_hard_elements_of_one_batch(self) -> None:
        scales = double([1e-3, 1.0, 1e2, 1e4])
        mean, K, c = problem(n=10)
        batch = laplace_approximation(
            PLAIN, mean.expand(4, -1), scales[:, None, None] * K, c.expand(4, -1)
        )
        for i, scale in enumerate(scales):
            single = laplace_approximation(PLAIN, mean, scale * K, c)
            assert_all_close(batch.mode[i], single.mode, rtol=1e-10, atol=1e-10)
            error = stationarity(PLAIN, mean, scale * K, c, batch.mode[i])
            assert error < 1e-10

    def test_no_trials(self) -> None:
        for batch_shape in ((), (2, 3)):
            mean, targets = torch.zeros(2, *batch_shape, 0, dtype=torch.double)
            K = torch.zeros(*batch_shape, 0, 0, dtype=torch.double)
            approximation = laplace_approximation(PLAIN, mean, K, targets)
            assert approximation.mode.shape == (*batch_shape, 0)
            assert_all_close(
                approximation.log_evidence, torch.zeros(batch_shape, dtype=torch.double)
            )

    def test_mode_with_rates_is_a_maximum(self) -> None:
        # Not log-concave: a stationary point might as well be a saddle.
        for seed in range(5):
            mean, K, c = problem(n=5, scale=20.0, seed=seed)
            mode = laplace_approximation(RATES, mean, K, c).mode
            top = log_posterior(RATES, mean, K, c, mode)
            directions = uniform(400, 5, seed=9) - 0.5
            for size in (1e-3, 1e-2, 1e-1):
                around = log_posterior(RATES, mean, K, c, mode + size * directions)
                assert bool((around < top).all())


class TestFindModeProperties:
    @given(
        X=inputs((5, 2)),
        mean=tensors(latent_means(3.0), (5,)),
        targets=labels((5,)),
        scale=st.sampled_from([1e-3, 1e-1, 1.0, 1e1, 1e2]),
    )
    def test_is_stationary(
        self, X: Tensor, mean: Tensor, targets: Tensor, scale: float
    ) -> None:
        squared = (X.unsqueeze(-2) - X.unsqueeze(-3)).square().sum(dim=-1)
        K = scale * torch.exp(-squared)  # singular where points coincide
        mode = laplace_approximation(PLAIN, mean, K, targets).mode
        assert stationarity(PLAIN, mean, K, targets, mode) < 1e-10

    @given(
        X=inputs((4, 2)),
        targets=labels((4,)),
        rates=rates(low=0.01),
        scale=st.sampled_from([0.1, 1.0, 10.0, 100.0]),
    )
    def test_is_stationary_with_rates(
        self, X: Tensor, targets: Tensor, rates: tuple[float, float], scale: float
    ) -> None:
        likelihood = ProbitLikelihood(*rates)
        squared = (X.unsqueeze(-2) - X.unsqueeze(-3)).square().sum(dim=-1)
        K = scale * torch.exp(-squared)
        mean = torch.zeros_like(targets)
        mode = laplace_approximation(likelihood, mean, K, targets).mode
        assert stationarity(likelihood, mean, K, targets, mode) < 1e-10


class TestLaplaceApproximation:
    def test_evidence_and_covariance_follow_the_definition(self) -> None:
        # Everything from K⁻¹ and the curvature of the log likelihood, by NumPy.
        for n in (1, 2, 3):
            mean, K, c = problem(n)
            approximation = laplace_approximation(PLAIN, mean, K, c)
            f = approximation.mode.numpy()
            k = K.numpy()
            W = -finite_difference(
                lambda v, c=c: double(numpy_gradient(PLAIN, v.numpy(), c.numpy())),
                approximation.mode,
            ).numpy()
            precision = np.linalg.inv(k) + W
            residual = f - mean.numpy()
            evidence = (
                stats.norm.logcdf((2 * c.numpy() - 1) * f).sum()
                - residual @ np.linalg.inv(k) @ residual / 2
                - np.log(np.linalg.det(k) * np.linalg.det(precision)) / 2
            )
            assert_all_close(
                approximation.log_evidence, double(evidence), rtol=0, atol=1e-10
            )
            V = approximation.whiten(K)  # the trials themselves as test points
            assert_all_close(
                K - V.mT @ V, double(np.linalg.inv(precision)), rtol=0, atol=1e-10
            )
            W_approximation = approximation.sqrt_information.square().diag()
            assert_all_close(W_approximation, double(W), rtol=0, atol=1e-10)
            assert_all_close(approximation.residual, approximation.mode - mean)

    def test_uses_the_fisher_information_with_rates(self) -> None:
        mean, K, c = problem()
        approximation = laplace_approximation(RATES, mean, K, c)
        f = approximation.mode.numpy()
        span, p = 0.85, 0.1 + 0.85 * stats.norm.cdf(f)
        fisher = (span * stats.norm.pdf(f)) ** 2 / (p * (1 - p))
        assert_all_close(
            approximation.sqrt_information.square(), double(fisher), atol=1e-12
        )

    def test_batch_equals_loop(self) -> None:
        for likelihood in (PLAIN, RATES):
            for batch_shape in ((3,), (2, 3)):
                mean, K, c = problem(batch_shape=batch_shape)
                batch = laplace_approximation(likelihood, mean, K, c)
                for index in np.ndindex(*batch_shape):
                    single = laplace_approximation(
                        likelihood, mean[index], K[index], c[index]
                    )
                    self.assert_equal_element(batch, single, index)

    def assert_equal_element(
        self,
        batch: LaplaceApproximation,
        single: LaplaceApproximation,
        index: tuple[int, ...],
    ) -> None:
        assert batch.inflation is None
        fields = set(LaplaceApproximation.__dataclass_fields__) - {"inflation"}
        for name in (*fields, "log_evidence"):
            found = getattr(batch, name)[index]
            expected = getattr(single, name)
            assert_all_close(found, expected, rtol=0, atol=1e-10)

    def test_is_detached_without_a_graph(self) -> None:
        approximation = laplace_approximation(PLAIN, *problem())
        assert not approximation.weights.requires_grad

    def test_factor_is_the_cholesky_factor_of_its_definition(self) -> None:
        _, K, _ = problem(batch_shape=(2,))
        root = uniform(2, 6, seed=3)
        L = factorize(K, root)
        B = torch.eye(6, dtype=K.dtype) + root.diag_embed() @ K @ root.diag_embed()
        assert_all_close(L @ L.mT, B)
        assert_all_close(L, L.tril())


def symmetric(K: Tensor) -> Tensor:
    """Finite differences perturb one entry of a matrix that stays symmetric."""
    return (K + K.mT) / 2


@pytest.mark.parametrize("likelihood", [PLAIN, RATES], ids=["plain", "rates"])
class TestGradient:
    def test_of_the_mode(self, likelihood: ProbitLikelihood) -> None:
        mean, K, c = problem(n=4)

        def mode_in_K(K: Tensor) -> Tensor:
            return laplace_approximation(likelihood, mean, symmetric(K), c).mode

        def mode_in_mean(mean: Tensor) -> Tensor:
            return laplace_approximation(likelihood, mean, K, c).mode

        for func, x in ((mode_in_K, K), (mode_in_mean, mean)):
            expected = finite_difference(func, x)
            assert torch.allclose(jacobian(func, x), expected, rtol=0, atol=1e-9)

    def test_of_everything_in_batches(self, likelihood: ProbitLikelihood) -> None:
        mean, K, c = problem(n=3, batch_shape=(2,))

        def everything(mean: Tensor, K: Tensor) -> tuple[Tensor, ...]:
            result = laplace_approximation(likelihood, mean, symmetric(K), c)
            return (
                result.mode,
                result.weights,
                result.sqrt_information,
                result.cholesky,
                result.log_likelihood,
                result.log_evidence,
            )

        arguments = (mean.requires_grad_(), K.requires_grad_())
        assert gradcheck(everything, arguments, atol=1e-6, rtol=1e-6)

    def test_double_backward(self, likelihood: ProbitLikelihood) -> None:
        mean, K, c = problem(n=3)

        def evidence(mean: Tensor, K: Tensor) -> Tensor:
            return laplace_approximation(likelihood, mean, symmetric(K), c).log_evidence

        arguments = (mean.requires_grad_(), K.requires_grad_())
        assert gradgradcheck(evidence, arguments, atol=1e-6, rtol=1e-6)

    def test_attach_leaves_the_value(self, likelihood: ProbitLikelihood) -> None:
        mean, K, c = problem()
        mode = laplace_approximation(likelihood, mean, K, c).mode
        attached = attach_gradient(likelihood, mean.requires_grad_(), K, c, mode)
        assert attached.requires_grad
        assert torch.equal(attached, mode)
