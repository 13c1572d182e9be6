from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from gpytorch import settings
from gpytorch.kernels import (
    ConstantKernel,
    Kernel,
    LinearKernel,
    MaternKernel,
    PeriodicKernel,
    RBFKernel,
    ScaleKernel,
)
from hypothesis import given
from hypothesis import strategies as st
from linear_operator import to_dense
from torch import Tensor
from torch.autograd import gradgradcheck

from botorch_binary_context.numerics import covariance as covariance_module
from botorch_binary_context.numerics.covariance import (
    covariance,
    raise_variance,
    register_evaluation,
    variance,
)
from botorch_binary_context.numerics.distances import (
    EXPANSION_DIM,
    squared_distance,
)
from tests import strategies
from tests.closeness import assert_all_close
from tests.derivatives import finite_difference, jacobian
from tests.devices import RequireDevice
from tests.tensors import double, uniform

DIM = 4
NUS = (0.5, 1.5, 2.5)
KernelFactory = Callable[[torch.Size], Kernel]


class TwiceRBF(RBFKernel):
    """A subclass of a kernel with a rule, that is another kernel."""

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Any:
        return 2 * to_dense(super().forward(x1, x2, diag=diag, **params))


def rbf(batch: torch.Size, **kwargs: Any) -> RBFKernel:
    return RBFKernel(batch_shape=batch, **kwargs)


def matern(batch: torch.Size, **kwargs: Any) -> MaternKernel:
    return MaternKernel(batch_shape=batch, **kwargs)


def scale(base: Kernel, batch: torch.Size) -> ScaleKernel:
    return ScaleKernel(base, batch_shape=batch)


KERNELS: dict[str, KernelFactory] = {
    "rbf": lambda b: rbf(b),
    "rbf_ard": lambda b: rbf(b, ard_num_dims=DIM),
    "rbf_active": lambda b: rbf(b, active_dims=[2, 0], ard_num_dims=2),
    "matern12": lambda b: matern(b, nu=0.5),
    "matern32_ard": lambda b: matern(b, nu=1.5, ard_num_dims=DIM),
    "matern52_active": lambda b: matern(b, nu=2.5, active_dims=[1, 3], ard_num_dims=2),
    "constant": lambda b: ConstantKernel(batch_shape=b),
    "scale": lambda b: scale(rbf(b, ard_num_dims=DIM), b),
    "scale_active": lambda b: scale(matern(b, active_dims=[3]), b),
    "scale_scale_active": lambda b: scale(scale(rbf(b, active_dims=[0, 2]), b), b),
    "scale_unbatched_base": lambda b: scale(rbf(torch.Size()), b),
    "sum": lambda b: rbf(b, active_dims=[0]) + scale(matern(b, nu=1.5), b),
    "product": lambda b: rbf(b, active_dims=[0]) * rbf(b, active_dims=[1, 2, 3]),
    "nested": lambda b: (
        scale(
            rbf(b, active_dims=[1])
            * (matern(b, nu=0.5) + ConstantKernel(batch_shape=b)),
            b,
        )
        + scale(rbf(b, active_dims=[0, 3]), b)
    ),
    "periodic": lambda b: PeriodicKernel(batch_shape=b),
    "linear": lambda b: LinearKernel(batch_shape=b),
    "scale_periodic_active": lambda b: scale(
        PeriodicKernel(batch_shape=b, active_dims=[1, 2]), b
    ),
    "linear_plus_rbf": lambda b: LinearKernel(batch_shape=b, active_dims=[3]) + rbf(b),
    "periodic_times_linear": lambda b: (
        scale(PeriodicKernel(batch_shape=b), b) * LinearKernel(batch_shape=b)
    ),
    "subclass": lambda b: scale(TwiceRBF(batch_shape=b), b),
}


def make_kernel(
    name: str, batch: tuple[int, ...] = (), dtype: torch.dtype = torch.double
) -> Kernel:
    """A kernel with hyperparameters that all differ."""
    kernel = KERNELS[name](torch.Size(batch)).to(dtype)
    for seed, parameter in enumerate(kernel.parameters()):
        parameter.data = uniform(*parameter.shape, seed=seed).to(parameter) - 0.5
    return kernel


@contextmanager
def parameter_value(parameter: torch.nn.Parameter, value: Tensor) -> Iterator[None]:
    old = parameter.data
    parameter.data = value
    try:
        yield
    finally:
        parameter.data = old


class TestAgainstGPyTorch:
    def test_matrix_and_diagonal(self, subtests: pytest.Subtests) -> None:
        for name in KERNELS:
            for kernel_batch, x_batch in (
                ((), ()),
                ((), (3,)),
                ((3,), (3,)),
                ((3,), ()),
                ((3,), (2, 1)),
                ((2, 3), (2, 3)),
            ):
                with subtests.test(name=name, kernel=kernel_batch, X=x_batch):
                    kernel = make_kernel(name, kernel_batch)
                    X1 = uniform(*x_batch, 5, DIM, seed=1)
                    X2 = uniform(*x_batch, 3, DIM, seed=2)
                    self._check(kernel, X1, X2)

    def _check(self, kernel: Kernel, X1: Tensor, X2: Tensor) -> None:
        expected = kernel(X1, X2).to_dense()
        assert_all_close(covariance(kernel, X1, X2), expected, rtol=1e-12)
        # The same points once more, as prediction needs them.
        full = covariance(kernel, X1, X1)
        assert_all_close(full, kernel(X1).to_dense(), rtol=1e-12)
        diagonal = to_dense(kernel(X1, diag=True))
        found = variance(kernel, X1)
        assert_all_close(found, diagonal.expand(found.shape), rtol=1e-12)
        assert_all_close(
            found, full.diagonal(dim1=-2, dim2=-1).expand(found.shape), rtol=1e-12
        )

    def test_single_precision_agrees(self, subtests: pytest.Subtests) -> None:
        for name in KERNELS:
            with subtests.test(name=name):
                kernel = make_kernel(name, dtype=torch.float)
                X1, X2 = (uniform(5, DIM, seed=s).float() for s in (1, 2))
                found = covariance(kernel, X1, X2)
                assert found.dtype == torch.float
                assert_all_close(found, kernel(X1, X2).to_dense(), rtol=1e-4)
                assert variance(kernel, X1).dtype == torch.float

    def test_no_points(self) -> None:
        kernel = make_kernel("nested", (2,))
        empty = torch.zeros(2, 0, DIM).double()
        X = uniform(2, 3, DIM)
        assert covariance(kernel, empty, X).shape == (2, 0, 3)
        assert covariance(kernel, X, empty).shape == (2, 3, 0)
        assert variance(kernel, empty).shape == (2, 0)

    def test_makes_nothing_on_the_default_device(
        self, subtests: pytest.Subtests
    ) -> None:
        X = uniform(3, DIM)
        for name in KERNELS:
            kernel = make_kernel(name)
            with subtests.test(name=name), RequireDevice():
                covariance(kernel, X, X)
                variance(kernel, X)


class TestAgainstFormulas:
    """GPyTorch and the rules could share an error; these are loops over entries."""

    X1 = uniform(4, 2, seed=3)
    X2 = uniform(3, 2, seed=4)
    lengthscale = (0.4, 0.9)

    def _radius(self, x: Tensor, y: Tensor) -> float:
        scaled = [(a - b) / s for a, b, s in zip(x, y, self.lengthscale, strict=True)]
        return math.sqrt(sum(float(v) ** 2 for v in scaled))

    def _check(self, kernel: Kernel, formula: Callable[[float], float]) -> None:
        kernel.lengthscale = double([self.lengthscale])
        entries = [[formula(self._radius(x, y)) for y in self.X2] for x in self.X1]
        found = covariance(kernel, self.X1, self.X2)
        assert_all_close(found, double(entries), rtol=1e-13)

    def test_rbf_equals_its_formula(self) -> None:
        self._check(RBFKernel(ard_num_dims=2).double(), lambda r: math.exp(-r * r / 2))

    def test_matern_equals_its_formulas(self, subtests: pytest.Subtests) -> None:
        formulas: dict[float, Callable[[float], float]] = {
            0.5: lambda r: math.exp(-r),
            1.5: lambda r: (1 + math.sqrt(3) * r) * math.exp(-math.sqrt(3) * r),
            2.5: lambda r: (
                (1 + math.sqrt(5) * r + 5 * r * r / 3) * math.exp(-math.sqrt(5) * r)
            ),
        }
        for nu, formula in formulas.items():
            kernel = MaternKernel(nu=nu, ard_num_dims=2).double()
            with subtests.test(nu=nu):
                self._check(kernel, formula)


class TestDerivatives:
    X1 = uniform(3, DIM, seed=1)
    X2 = uniform(2, DIM, seed=2)

    def test_in_the_inputs(self, subtests: pytest.Subtests) -> None:
        for name in KERNELS:
            kernel = make_kernel(name)

            def of_first(X: Tensor, kernel: Kernel = kernel) -> Tensor:
                return covariance(kernel, X, self.X2)

            def of_second(X: Tensor, kernel: Kernel = kernel) -> Tensor:
                return covariance(kernel, self.X1, X)

            def of_both(X: Tensor, kernel: Kernel = kernel) -> Tensor:
                return variance(kernel, X)

            for func, X in (
                (of_first, self.X1),
                (of_second, self.X2),
                (of_both, self.X1),
            ):
                with subtests.test(name=name, func=func.__name__):
                    expected = finite_difference(func, X)
                    assert_all_close(jacobian(func, X), expected, rtol=1e-7, atol=1e-9)

    def test_of_a_square_matrix(self, subtests: pytest.Subtests) -> None:
        """The diagonal has distance zero: no NaN, no noise, in any dimension."""
        for dim in (2, EXPANSION_DIM + 1):
            X = uniform(4, dim, seed=5)
            for kernel in (RBFKernel(), *(MaternKernel(nu=nu) for nu in NUS)):
                kernel = kernel.double()
                kernel.lengthscale = double(math.sqrt(dim))

                def square(X: Tensor, kernel: Kernel = kernel) -> Tensor:
                    return covariance(kernel, X, X)

                nu = getattr(kernel, "nu", None)
                with subtests.test(dim=dim, kernel=type(kernel).__name__, nu=nu):
                    expected = finite_difference(square, X)
                    assert_all_close(
                        jacobian(square, X), expected, rtol=1e-7, atol=1e-8
                    )

    def test_in_the_hyperparameters(self, subtests: pytest.Subtests) -> None:
        for name in KERNELS:
            kernel = make_kernel(name)
            for key, parameter in kernel.named_parameters():
                with subtests.test(name=name, parameter=key):
                    self._check_hyperparameter(kernel, parameter)

    def _check_hyperparameter(
        self, kernel: Kernel, parameter: torch.nn.Parameter
    ) -> None:
        def total(value: Tensor) -> Tensor:
            with parameter_value(parameter, value):
                K = covariance(kernel, self.X1, self.X2)
                return torch.cat([K.sin().sum()[None], variance(kernel, self.X1)])

        expected = finite_difference(total, parameter.detach())
        with torch.enable_grad():
            K = covariance(kernel, self.X1, self.X2)
            value = torch.cat([K.sin().sum()[None], variance(kernel, self.X1)])
        for entry, row in zip(value, expected, strict=True):
            (slope,) = torch.autograd.grad(
                entry, parameter, retain_graph=True, materialize_grads=True
            )
            assert_all_close(slope, row, rtol=1e-7, atol=1e-9)

    def test_second_derivatives(self, subtests: pytest.Subtests) -> None:
        X1 = self.X1[:2, :2].clone()
        X2 = self.X2[:, :2].clone()
        for kernel in (RBFKernel(), *(MaternKernel(nu=nu) for nu in NUS)):
            kernel = kernel.double()
            inputs = X1.requires_grad_(), X2.requires_grad_()
            with subtests.test(type(kernel).__name__, nu=getattr(kernel, "nu", None)):
                assert gradgradcheck(
                    lambda a, b, k=kernel: covariance(k, a, b), inputs, atol=1e-7
                )

    def test_second_derivatives_at_equal_points(
        self, subtests: pytest.Subtests
    ) -> None:
        X1 = self.X1[:2, :2].clone().requires_grad_()
        X2 = self.X1[:2, :2].clone().requires_grad_()
        for kernel in (RBFKernel(), MaternKernel(nu=2.5)):
            kernel = kernel.double()
            with subtests.test(type(kernel).__name__):
                assert gradgradcheck(
                    lambda a, b, k=kernel: covariance(k, a, b), (X1, X2), atol=1e-5
                )

    def test_curvature_at_equal_points(self, subtests: pytest.Subtests) -> None:
        # -∂²k/∂x²: the prior variance of the slope, 1/l² and 5/(3 l²).
        for kernel, expected in ((RBFKernel(), 4.0), (MaternKernel(nu=2.5), 20 / 3)):
            kernel = kernel.double()
            kernel.lengthscale = double(0.5)
            fixed = double([[0.3]])

            def value(x: Tensor, k: Kernel = kernel, fixed: Tensor = fixed) -> Tensor:
                return covariance(k, x, fixed).sum()

            for gap in (0.0, 1e-9):
                hessian: Any = torch.autograd.functional.hessian(value, fixed + gap)
                with subtests.test(type(kernel).__name__, gap=gap):
                    assert_all_close(-hessian.sum(), double(expected), rtol=1e-6)


class TestSquaredDistance:
    @given(st.integers(1, EXPANSION_DIM + 3), strategies.batch_shapes, st.data())
    def test_both_branches(
        self, dim: int, batch: tuple[int, ...], data: st.DataObject
    ) -> None:
        X1 = data.draw(strategies.inputs((*batch, 3, dim)))
        X2 = data.draw(strategies.inputs((*batch, 2, dim)))
        found = squared_distance(X1, X2)
        expected = (X1.unsqueeze(-2) - X2.unsqueeze(-3)).square().sum(-1)
        assert_all_close(found, expected, rtol=0, atol=1e-13)
        assert bool((found >= 0).all())

    def test_near_points_far_from_zero(self) -> None:
        X = double([[1e6, -1e6], [1e6 + 2**-10, -1e6]])
        found = squared_distance(X, X)
        assert torch.equal(found, double([[0.0, 2**-20], [2**-20, 0.0]]))

    def test_broadcasts_batches_of_points(self) -> None:
        for dim in (2, EXPANSION_DIM):
            X1 = uniform(3, 1, 4, dim)
            X2 = uniform(2, 5, dim, seed=1)
            assert squared_distance(X1, X2).shape == (3, 2, 4, 5)

    def test_gradients_equal_finite_differences(self) -> None:
        for dim in (2, EXPANSION_DIM):
            X1 = uniform(2, dim)
            X2 = uniform(3, dim, seed=1)
            expected = finite_difference(lambda X, Y=X2: squared_distance(X, Y), X1)
            found = jacobian(lambda X, Y=X2: squared_distance(X, Y), X1)
            assert_all_close(found, expected, rtol=1e-9, atol=1e-10)


class TestRules:
    def test_registered_rule_is_used_in_a_sum(
        self, request: pytest.FixtureRequest
    ) -> None:
        class Zero(Kernel):
            """A kernel without a ``forward``: only its rule can be called."""

        register_evaluation(
            Zero,
            lambda k, X1, X2: X1 @ X2.mT * 0,
            lambda k, X: X.sum(-1) * 0,
        )
        request.addfinalizer(lambda: covariance_module._RULES.pop(Zero))
        X = uniform(3, DIM)
        kernel = RBFKernel().double() + Zero(active_dims=(1,))
        assert_all_close(
            covariance(kernel, X, X), covariance(RBFKernel().double(), X, X)
        )
        assert_all_close(variance(kernel, X), torch.ones(3).double())

    def test_raise_variance(self) -> None:
        for dtype in (torch.float, torch.double):
            lowest: Any = settings.min_variance.value(dtype)
            low = torch.tensor([-0.1, -1.234e-9, 0.0, lowest / 3, lowest], dtype=dtype)
            high = torch.tensor([2 * lowest, 2.0], dtype=dtype)
            off = torch.full((2, 7, 7), 0.1, dtype=dtype)
            covar = off.diagonal_scatter(torch.cat([low, high]).expand(2, 7), 0, 1, 2)
            lifted = raise_variance(covar.requires_grad_())
            diagonal = lifted.detach().diagonal(dim1=-2, dim2=-1)
            # Not one rounding error below: GPyTorch would warn.
            assert bool((diagonal[:, :5] == lowest).all())
            assert torch.equal(diagonal[:, 5:], high.expand(2, 2))
            kept = ~torch.eye(7, dtype=torch.bool)
            assert torch.equal(lifted[:, kept], covar[:, kept])
            (slope,) = torch.autograd.grad(lifted.sum(), covar)
            assert torch.equal(slope, torch.ones_like(slope))


class TestPositiveDefinite:
    @given(st.sampled_from(sorted(KERNELS)), strategies.inputs((5, DIM)))
    def test_symmetric_and_psd(self, name: str, X: Tensor) -> None:
        K = covariance(make_kernel(name), X, X).detach()
        assert_all_close(K, K.mT, rtol=0, atol=1e-14)
        assert float(torch.linalg.eigvalsh(K).min()) > -1e-12
