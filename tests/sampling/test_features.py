r"""Tests of the features of composed kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.exceptions import UnsupportedError
from botorch.utils.sampling import manual_seed
from gpytorch.kernels import (
    ConstantKernel,
    Kernel,
    LinearKernel,
    MaternKernel,
    PeriodicKernel,
    RBFKernel,
    ScaleKernel,
)
from torch import Tensor

from botorch_binary_context import (
    AdditiveContextKernel,
    CategoryKernel,
    MultiplicativeContextKernel,
)
from botorch_binary_context.peaks import PeakKernel, Peaks
from botorch_binary_context.sampling.features import FeatureOptions, kernel_features
from tests.devices import RequireDevice
from tests.sampling.test_hilbert import ACCURACY, grid_in
from tests.sampling_errors import LARGEST_Z, largest_z
from tests.stationary_kernels import matrix_of, stationary_kernel
from tests.tensors import double, uniform

BOUNDS = double([[-1.0, 0.0, 2.0, 0.5], [1.0, 0.8, 3.0, 1.5]])
DIM = 4


def rbf(*lengthscale: float, **kwargs: Any) -> RBFKernel:
    """A squared exponential kernel with the given lengthscales."""
    kernel = RBFKernel(ard_num_dims=len(lengthscale), **kwargs).double()
    kernel.lengthscale = double([lengthscale])
    return kernel


def matern(*lengthscale: float, nu: float = 2.5, **kwargs: Any) -> MaternKernel:
    """A Matérn kernel with the given lengthscales."""
    kernel = MaternKernel(nu, ard_num_dims=len(lengthscale), **kwargs).double()
    kernel.lengthscale = double([lengthscale])
    return kernel


def scaled(base: Kernel, outputscale: float, **kwargs: Any) -> ScaleKernel:
    kernel = ScaleKernel(base, **kwargs).double()
    kernel.outputscale = outputscale
    return kernel


def constant(value: float) -> ConstantKernel:
    kernel = ConstantKernel().double()
    kernel.constant = double([value])
    return kernel


def additive(base: Kernel, dims: list[int], variance: float) -> AdditiveContextKernel:
    kernel = AdditiveContextKernel(base, context_dims=dims)
    kernel.context_variance = variance
    return kernel


def multiplicative(base: Kernel, dims: list[int]) -> MultiplicativeContextKernel:
    return MultiplicativeContextKernel(base, context_dims=dims)


COMPOSITIONS: dict[str, Callable[[], Kernel]] = {
    "stationary": lambda: rbf(1.0, 1.5, 2.0, 2.5),
    "scale": lambda: scaled(rbf(1.0, 1.5, 2.0, 2.5), 7.0),
    "scale of a scale": lambda: scaled(scaled(matern(0.6, active_dims=[1]), 2.0), 3.0),
    "active columns": lambda: matern(0.5, 1.5, active_dims=[3, 0]),
    "active columns of a scale": lambda: scaled(rbf(0.5, active_dims=[2]), 3.0),
    "constant": lambda: constant(2.5),
    "sum": lambda: (
        scaled(rbf(0.5, active_dims=[0]), 2.0) + matern(1.0, active_dims=[2])
    ),
    "sum with a constant": lambda: rbf(0.5, active_dims=[0]) + constant(3.0),
    "product": lambda: rbf(0.8, active_dims=[0]) * rbf(0.5, 0.9, active_dims=[3, 1]),
    "product of three": lambda: (
        rbf(1.0, active_dims=[0]) * rbf(1.0, active_dims=[2]) * constant(4.0)
    ),
    "scaled sum of a product": lambda: scaled(
        rbf(1.0, active_dims=[0]) * matern(1.0, active_dims=[2])
        + rbf(0.4, active_dims=[1]),
        5.0,
    ),
    "multiplicative context": lambda: multiplicative(scaled(rbf(1, 2, 1), 3.0), [0]),
    "multiplicative, last column": lambda: multiplicative(rbf(1, 2, 1), [-1]),
    "multiplicative, two columns": lambda: multiplicative(matern(1, 1), [2, 0]),
    "multiplicative, three columns": lambda: multiplicative(matern(0.5), [3, 0, 1]),
    "multiplicative, active columns of x": lambda: multiplicative(
        rbf(0.5, active_dims=[1]), [0, 1]
    ),
    "additive context": lambda: additive(scaled(rbf(1, 2, 1), 3.0), [0], 4.0),
    "additive, two columns": lambda: additive(matern(0.6, 1.0), [-1, 1], 0.3),
    "scaled context": lambda: scaled(multiplicative(rbf(1, 2, 1), [1]), 6.0),
    "context and constant": lambda: additive(rbf(1, 2, 1), [3], 2.0) + constant(1.5),
    "peak": lambda: additive(
        scaled(rbf(1, 2, 1), 3.0) + PeakKernel(Peaks(uniform(16, 3))), [0], 4.0
    ),
    "context of contexts": lambda: additive(
        multiplicative(rbf(0.5, 0.9), [0]), [1], 2.0
    ),
}


def relative_error(kernel: Kernel, options: FeatureOptions, X: Tensor) -> float:
    """The largest error, relative to the largest variance."""
    Phi = kernel_features(kernel, options)(X)
    K = matrix_of(kernel, X)
    variance = K.diagonal(dim1=-2, dim2=-1).max()
    return ((Phi @ Phi.mT - K).abs().max() / variance).item()


@pytest.mark.parametrize("name", COMPOSITIONS)
class TestCompositions:
    def test_hilbert_features_give_the_kernel(self, name: str) -> None:
        options = FeatureOptions(BOUNDS, DIM, max_features=4096)
        error = relative_error(COMPOSITIONS[name](), options, grid_in(BOUNDS, n=2))
        assert error < ACCURACY

    def test_fourier_features_give_the_kernel_in_expectation(self, name: str) -> None:
        """Without bounds the features are random: right in expectation."""
        kernel = COMPOSITIONS[name]()
        options = FeatureOptions(None, DIM, 16)
        X = grid_in(BOUNDS, n=1)[:10]
        samples = []
        for seed in range(150):
            with manual_seed(seed):
                Phi = kernel_features(kernel, options)(X)
            samples.append(Phi @ Phi.mT)
        assert largest_z(torch.stack(samples), matrix_of(kernel, X)) < LARGEST_Z

    def test_values_do_not_depend_on_other_rows(self, name: str) -> None:
        features = kernel_features(COMPOSITIONS[name](), FeatureOptions(BOUNDS, DIM))
        X = grid_in(BOUNDS)[:6].reshape(2, 3, DIM)
        Phi = features(X)
        assert Phi.shape[:-1] == (2, 3)
        torch.testing.assert_close(Phi[1, :1], features(X[1, :1]))
        assert features(X[:, :0]).shape == (2, 0, Phi.shape[-1])

    def test_features_have_finite_gradients(self, name: str) -> None:
        features = kernel_features(COMPOSITIONS[name](), FeatureOptions(BOUNDS, DIM))
        X = grid_in(BOUNDS)[-2:].requires_grad_()
        Phi = features(X)
        gradient = torch.autograd.grad(Phi.square().sum(), X, allow_unused=True)[0]
        assert gradient is not None
        assert gradient.isfinite().all()

    @pytest.mark.parametrize("bounds", [BOUNDS, None])
    def test_size_is_the_number_of_features(
        self, name: str, bounds: Tensor | None
    ) -> None:
        options = FeatureOptions(bounds, DIM, 16 if bounds is None else 2048)
        features = kernel_features(COMPOSITIONS[name](), options)
        assert features(grid_in(BOUNDS)[:2]).shape == (2, features.size)

    @pytest.mark.parametrize("bounds", [BOUNDS, None])
    @pytest.mark.parametrize("shape", [(2, 3, 1), (4, 2, 3, 5), (1, 1, 5), (5,)])
    def test_weighted_functions(
        self, name: str, shape: tuple[int, ...], bounds: Tensor | None
    ) -> None:
        """Points of each function, of several draws, and the same for all."""
        options = FeatureOptions(bounds, DIM, 16 if bounds is None else 2048)
        features = kernel_features(COMPOSITIONS[name](), options)
        weights = uniform(2, 3, features.size) - 0.5
        X = BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * uniform(*shape, DIM, seed=1)
        X.requires_grad_()
        expected = (features(X) * weights.unsqueeze(-2)).sum(dim=-1)
        found = features.weigh(weights)(X)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
        slopes, expected_slopes = (
            torch.autograd.grad(values.square().sum(), X, allow_unused=True)[0]
            for values in (found, expected)
        )
        torch.testing.assert_close(slopes, expected_slopes, rtol=1e-8, atol=1e-8)

    def test_makes_nothing_on_the_default_device(self, name: str) -> None:
        X = grid_in(BOUNDS)[:3]
        kernel = COMPOSITIONS[name]()
        for bounds in (BOUNDS, None):
            with RequireDevice():
                features = kernel_features(kernel, FeatureOptions(bounds, DIM, 64))
                features.weigh(features(X)[:1])(X[None])


def batched_kernel(batch_shape: torch.Size) -> Kernel:
    """Every part with hyperparameters of its own for each element."""
    shape = tuple(batch_shape)
    base = stationary_kernel(math.inf, 0.6 + uniform(*shape, 1, 2, seed=1))
    scale = ScaleKernel(base, batch_shape=batch_shape).double()
    scale.outputscale = 1 + uniform(*shape, seed=2)
    context = AdditiveContextKernel(scale, context_dims=[1])
    context.context_variance = 1 + 3 * uniform(*shape, seed=3)
    offset = ConstantKernel(batch_shape=batch_shape).double()
    offset.constant = 0.5 + uniform(*shape, 1, seed=4)
    return context + offset


@pytest.mark.parametrize("batch_shape", [(2,), (2, 3)])
def test_batch_of_hyperparameters(batch_shape: tuple[int, ...]) -> None:
    bounds = BOUNDS[:, :3]
    kernel = batched_kernel(torch.Size(batch_shape))
    features = kernel_features(kernel, FeatureOptions(bounds, 3))
    X = grid_in(bounds)
    for points in (
        X,
        X.expand(*batch_shape, -1, -1),
        X.expand(4, *batch_shape, -1, -1),
    ):
        Phi = features(points)
        K = matrix_of(kernel, points)
        assert Phi.shape[:-1] == K.shape[:-1]
        assert ((Phi @ Phi.mT - K).abs() / K.max()).max() < ACCURACY


class TestOptions:
    def test_many_dimensions_fall_back_on_random_features(self) -> None:
        kernel = rbf(*[0.3] * 8)
        bounds = torch.stack([torch.zeros(8), torch.ones(8)]).double()
        options = FeatureOptions(bounds, 8, max_features=512)
        first, second = (kernel_features(kernel, options) for _ in range(2))
        X = uniform(3, 8)
        assert first(X).shape == (3, 512)
        assert not torch.equal(first(X), second(X))

    def test_hilbert_features_are_not_random(self) -> None:
        options = FeatureOptions(BOUNDS, DIM)
        kernel = rbf(1.0, 1.5, 2.0, 2.5)
        X = grid_in(BOUNDS)
        first, second = (kernel_features(kernel, options)(X) for _ in range(2))
        assert torch.equal(first, second)

    def test_large_products_fall_back_on_random_features(self) -> None:
        """Features of factors multiply: beyond a limit they are too many."""
        kernel = rbf(0.3, active_dims=(0,)) * rbf(0.4, 0.4, active_dims=(1, 2))
        X = grid_in(BOUNDS[:, :3])
        with manual_seed(0):
            many = kernel_features(kernel, FeatureOptions(BOUNDS[:, :3], 3, 256))(X)
            few = kernel_features(kernel, FeatureOptions(BOUNDS[:, :3], 3, 64))(X)
        assert 256 < many.shape[-1] <= 4 * 256
        assert few.shape[-1] == 64
        expected = matrix_of(kernel, X)
        torch.testing.assert_close(many @ many.mT, expected, rtol=0.0, atol=ACCURACY)
        assert (few @ few.mT - expected).abs().mean() < 0.15

    def test_number_of_random_features(self) -> None:
        kernel = rbf(1.0, 1.5, 2.0, 2.5)
        for count in (2, 64, 2048):
            features = kernel_features(kernel, FeatureOptions(None, DIM, count))
            assert features(uniform(2, DIM)).shape == (2, count)

    def test_select_picks_the_bounds_of_the_columns(self) -> None:
        options = FeatureOptions(BOUNDS, DIM, 100).select([2, 0])
        assert options.bounds is not None
        assert torch.equal(options.bounds, BOUNDS[:, [2, 0]])
        assert (options.dim, options.max_features) == (2, 100)
        assert FeatureOptions(None, DIM).select([1]).bounds is None


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (LinearKernel(), "LinearKernel"),
        (ScaleKernel(LinearKernel()), "LinearKernel"),
        (RBFKernel() + LinearKernel(), "LinearKernel"),
        (MultiplicativeContextKernel(LinearKernel(), [0]), "LinearKernel"),
    ],
)
def test_unsupported_kernel(kernel: Kernel, name: str) -> None:
    message = (
        "Expected ``kernel`` to be composed of AdditiveContextKernel, AdditiveKernel, "
        "CategoryKernel, ColumnKernel, ConstantKernel, DriftKernel, MaternKernel, "
        "MultiplicativeContextKernel, PeakKernel, PeriodicKernel, ProductKernel, "
        f"RBFKernel, SameKernel, ScaleKernel, SubjectKernel, but got {name}."
    )
    with pytest.raises(UnsupportedError, match=message):
        kernel_features(kernel, FeatureOptions(None, 2))


class TestCategoriesAndCircles:
    """Features of the kernels of mixed parameters, exact or random."""

    rows = torch.cat(
        [uniform(12, 2, seed=3), torch.eye(3).double().repeat(4, 1)], dim=-1
    )

    def circle(self, *lengthscale: float, **kwargs: Any) -> PeriodicKernel:
        kernel = PeriodicKernel(ard_num_dims=len(lengthscale), **kwargs).double()
        kernel.lengthscale = double([lengthscale])
        return kernel.initialize(period_length=1.0)

    def categories(self, **kwargs: Any) -> CategoryKernel:
        kernel = CategoryKernel([3], **kwargs).double()
        kernel.correlation = 0.6
        return kernel

    def product(self) -> Kernel:
        return scaled(
            rbf(0.5, active_dims=(0,))
            * self.circle(2.0, active_dims=(1,))
            * self.categories(active_dims=[2, 3, 4]),
            3.0,
        )

    @pytest.mark.parametrize("lengthscale", [0.05, 0.7, 20.0])
    def test_series_gives_the_periodic_kernel(self, lengthscale: float) -> None:
        kernel = self.circle(lengthscale, 2.0)
        phi = kernel_features(kernel, FeatureOptions(None, 2))(self.rows[:, :2])
        expected = matrix_of(kernel, self.rows[:, :2])
        torch.testing.assert_close(phi @ phi.mT, expected, rtol=0, atol=1e-5)

    def test_categories_are_exact(self) -> None:
        kernel = CategoryKernel([2, 3]).double()
        kernel.correlation = double([0.3, 0.8])
        X = uniform(7, 5)
        phi = kernel_features(kernel, FeatureOptions(None, 5))(X)
        torch.testing.assert_close(phi @ phi.mT, matrix_of(kernel, X))

    def test_product_on_a_box(self) -> None:
        bounds = torch.stack([torch.zeros(5), torch.ones(5)]).double()
        phi = kernel_features(self.product(), FeatureOptions(bounds, 5))(self.rows)
        expected = matrix_of(self.product(), self.rows)
        torch.testing.assert_close(phi @ phi.mT, expected, rtol=0, atol=0.02)

    @pytest.mark.parametrize("with_box", [True, False])
    def test_random_product(self, with_box: bool) -> None:
        """As many as are wanted, also where all pairs would be too many."""
        bounds = torch.stack([torch.zeros(5), torch.ones(5)]).double()
        options = FeatureOptions(bounds if with_box else None, 5, 64)
        expected = matrix_of(self.product(), self.rows)
        with manual_seed(0):
            drawn = []
            for _ in range(400):
                phi = kernel_features(self.product(), options)(self.rows)
                assert phi.shape[-1] == 64
                drawn.append(phi @ phi.mT)
        draws = torch.stack(drawn)
        error = draws.std(dim=0) / len(drawn) ** 0.5
        assert float(((draws.mean(dim=0) - expected).abs() / (error + 1e-9)).max()) < 5

    def test_batches_of_random_products_have_their_shape(self) -> None:
        batch = torch.Size([2])
        kernel = RBFKernel(active_dims=(0,), batch_shape=batch) * CategoryKernel(
            [3], batch_shape=batch, active_dims=[1, 2, 3]
        )
        X = self.rows[:, 1:].expand(2, 12, 4)
        phi = kernel_features(kernel.double(), FeatureOptions(None, 4, 256))(X)
        assert phi.shape == (2, 12, 256)
