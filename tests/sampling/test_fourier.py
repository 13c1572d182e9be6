r"""Tests of the random Fourier features."""

from __future__ import annotations

import math

import pytest
import torch
from botorch.utils.sampling import manual_seed
from gpytorch.kernels import MaternKernel, RBFKernel
from torch import Tensor

from botorch_binary_context.sampling.fourier import FourierFeatures, fourier_features
from tests.derivatives import finite_difference, jacobian
from tests.devices import RequireDevice
from tests.sampling_errors import LARGEST_Z, largest_z
from tests.stationary_kernels import matrix_of, stationary_kernel
from tests.tensors import double, uniform

SMOOTHNESS = (0.5, 1.5, 2.5, math.inf)
NUM_SEEDS = 300


def draw(
    kernel: RBFKernel | MaternKernel, dim: int, num_features: int, seed: int
) -> FourierFeatures:
    with manual_seed(seed):
        return fourier_features(kernel, dim, num_features)


def estimates(kernel: RBFKernel | MaternKernel, X: Tensor) -> Tensor:
    """``φ(x)ᵀφ(x')`` for some hundred seeds, ``seeds x batch_shape x n x n``."""
    Phi = [draw(kernel, X.shape[-1], 32, seed)(X) for seed in range(NUM_SEEDS)]
    return torch.stack([P @ P.mT for P in Phi])


@pytest.mark.parametrize("nu", SMOOTHNESS)
class TestExpectation:
    def test_is_the_kernel(self, nu: float) -> None:
        kernel = stationary_kernel(nu, double([[0.6, 1.5]]))
        X = 2 * uniform(12, 2, seed=4)
        samples = estimates(kernel, X)
        assert largest_z(samples, matrix_of(kernel, X)) < LARGEST_Z

    def test_of_a_batch(self, nu: float) -> None:
        """Each element has its own lengthscales, and frequencies of its own."""
        kernel = stationary_kernel(nu, 0.3 + uniform(2, 1, 2, seed=1))
        X = uniform(6, 2, seed=4)
        samples = estimates(kernel, X)
        assert samples.shape == (NUM_SEEDS, 2, 6, 6)
        assert largest_z(samples, matrix_of(kernel, X)) < LARGEST_Z
        first, second = samples[:, 0, 0, 1], samples[:, 1, 0, 1]
        correlation = torch.corrcoef(torch.stack([first, second]))[0, 1]
        assert abs(correlation) < LARGEST_Z / math.sqrt(NUM_SEEDS)

    def test_variance_is_exact(self, nu: float) -> None:
        kernel = stationary_kernel(nu, double([[0.6, 1.5]]))
        Phi = draw(kernel, 2, 8, seed=0)(10 * uniform(5, 2))
        variance = Phi.square().sum(dim=-1)
        torch.testing.assert_close(variance, torch.ones(5).double())


def test_error_falls_with_the_number_of_features() -> None:
    """By 8 for 64 times as many."""
    kernel = stationary_kernel(1.5, double([[0.5]]))
    X = uniform(40, 1)
    K = matrix_of(kernel, X)

    def error(num_features: int) -> float:
        Phi = [draw(kernel, 1, num_features, seed)(X) for seed in range(20)]
        squares = [(P @ P.mT - K).square().mean() for P in Phi]
        return torch.stack(squares).mean().sqrt().item()

    assert 6 < error(64) / error(4096) < 10


def test_common_lengthscale() -> None:
    kernel = RBFKernel().double()
    kernel.lengthscale = double([[0.7]])
    X = uniform(8, 3)
    samples = estimates(kernel, X)
    assert largest_z(samples, matrix_of(kernel, X)) < LARGEST_Z


def test_shape_and_dtype() -> None:
    for dtype in (torch.float, torch.double):
        kernel = stationary_kernel(2.5, 0.3 + uniform(3, 1, 2)).to(dtype)
        features = draw(kernel, 2, 64, seed=0)
        for shape in ((5, 2), (3, 5, 2), (4, 3, 5, 2)):
            Phi = features(uniform(*shape).to(dtype))
            assert Phi.dtype == dtype
            batch = torch.broadcast_shapes(shape[:-2], (3,))
            assert Phi.shape == (*batch, 5, 64)


def test_gradient_of_features_equals_finite_differences() -> None:
    features = draw(stationary_kernel(1.5, double([[0.5, 0.8]])), 2, 16, seed=0)
    X = uniform(2, 2, seed=5)
    torch.testing.assert_close(
        jacobian(features, X), finite_difference(features, X), rtol=1e-6, atol=1e-8
    )


def test_same_seed_draws_the_same_features_and_another_does_not() -> None:
    kernel = stationary_kernel(1.5, double([[0.5, 0.8]]))
    X = uniform(4, 2)
    first, second, other = (draw(kernel, 2, 16, seed)(X) for seed in (0, 0, 1))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_fourier_features_make_nothing_on_the_default_device() -> None:
    kernel = stationary_kernel(1.5, double([[0.5]]))
    X = uniform(3, 1)
    with RequireDevice():
        fourier_features(kernel, 1, 16)(X)
