from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import (
    ConstantKernel,
    Kernel,
    MaternKernel,
    PeriodicKernel,
    RBFKernel,
    ScaleKernel,
)
from gpytorch.priors import GammaPrior
from hypothesis import given
from hypothesis import strategies as st
from linear_operator import to_dense
from torch import Tensor

from botorch_binary_context import AdditiveContextKernel, MultiplicativeContextKernel
from botorch_binary_context.kernels import context_dims_of
from botorch_binary_context.numerics.covariance import covariance, variance
from tests import strategies
from tests.closeness import assert_all_close
from tests.derivatives import finite_difference, jacobian
from tests.devices import RequireDevice
from tests.tensors import double, uniform

ContextKernel = MultiplicativeContextKernel | AdditiveContextKernel
CLASSES = (MultiplicativeContextKernel, AdditiveContextKernel)
THETA, LENGTHSCALE, SCALE = 2.5, 0.6, 1.7


def rbf_entry(x: Sequence[float], y: Sequence[float]) -> float:
    squared = sum((a - b) ** 2 for a, b in zip(x, y, strict=True))
    return SCALE * math.exp(-squared / (2 * LENGTHSCALE**2))


def dot(x: Sequence[float], y: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True))


ENTRIES: dict[type, Callable[[float, float], float]] = {
    MultiplicativeContextKernel: lambda context, base: context * base,
    AdditiveContextKernel: lambda context, base: THETA * context + base,
}


def explicit(
    kernel_class: type, columns: Sequence[int], X1: Tensor, X2: Tensor
) -> Tensor:
    """The covariance entry by entry, as on paper."""
    dim = X1.shape[-1]
    context = sorted(c % dim for c in columns)
    rest = [i for i in range(dim) if i not in context]

    def entry(z: list[float], w: list[float]) -> float:
        product = dot([z[i] for i in context], [w[i] for i in context])
        base = rbf_entry([z[i] for i in rest], [w[i] for i in rest])
        return ENTRIES[kernel_class](product, base)

    return double([[entry(z, w) for w in X2.tolist()] for z in X1.tolist()])


def make_base(batch: Sequence[int] = ()) -> ScaleKernel:
    shape = torch.Size(batch)
    base = RBFKernel(batch_shape=shape)
    kernel = ScaleKernel(base, batch_shape=shape).double()
    base.lengthscale = double(LENGTHSCALE)
    kernel.outputscale = double(SCALE)
    return kernel


def make_kernel(
    kernel_class: type[Any], columns: Sequence[int], batch: Sequence[int] = ()
) -> ContextKernel:
    kernel = kernel_class(make_base(batch), context_dims=columns)
    if isinstance(kernel, AdditiveContextKernel):
        kernel.context_variance = THETA
    return kernel


def vary(kernel: Kernel) -> Kernel:
    """Give the elements of a batch hyperparameters of their own."""
    for seed, parameter in enumerate(kernel.parameters()):
        parameter.data = uniform(*parameter.shape, seed=seed).to(parameter)
    return kernel


@st.composite
def cases(draw: st.DrawFn) -> tuple[type, list[int], Tensor, Tensor]:
    """A kernel class, context columns of rows of some width, and two sets of rows."""
    dim = draw(st.integers(2, 5))
    columns = draw(strategies.context_columns(dim, min_size=1))
    kernel_class = draw(st.sampled_from(CLASSES))
    X1 = draw(strategies.inputs((4, dim)))
    X2 = draw(strategies.inputs((2, dim)))
    return kernel_class, columns, X1, X2


class TestContextKernels:
    @given(cases())
    def test_kernel_equals_its_formula(
        self, case: tuple[type, list[int], Tensor, Tensor]
    ) -> None:
        kernel_class, columns, X1, X2 = case
        kernel = make_kernel(kernel_class, columns)
        expected = explicit(kernel_class, columns, X1, X2)
        assert_all_close(covariance(kernel, X1, X2), expected, rtol=1e-12)
        assert_all_close(kernel(X1, X2).to_dense(), expected, rtol=1e-12)
        diagonal = explicit(kernel_class, columns, X1, X1).diagonal()
        assert_all_close(variance(kernel, X1), diagonal, rtol=1e-12)
        assert_all_close(to_dense(kernel(X1, diag=True)), diagonal, rtol=1e-12)

    @given(cases())
    def test_symmetric_and_psd(
        self, case: tuple[type, list[int], Tensor, Tensor]
    ) -> None:
        kernel_class, columns, X, _ = case
        K = covariance(make_kernel(kernel_class, columns), X, X).detach()
        assert_all_close(K, K.mT, rtol=0, atol=1e-13)
        assert float(torch.linalg.eigvalsh(K).min()) > -1e-12

    @given(st.permutations([0, 2, 3]), st.sampled_from(CLASSES))
    def test_order_of_columns_is_irrelevant(
        self, columns: list[int], kernel_class: type
    ) -> None:
        X = uniform(4, 5)
        expected = covariance(make_kernel(kernel_class, [0, 2, 3]), X, X)
        found = covariance(make_kernel(kernel_class, columns), X, X)
        assert torch.equal(found, expected)

    def test_base_sees_only_parameters(self) -> None:
        """Columns of an ARD base or ``active_dims`` count parameters only."""
        X = uniform(4, 3)
        for kernel_class in CLASSES:
            base = RBFKernel(ard_num_dims=2).double()
            base.lengthscale = double([[0.3, 0.9]])
            kernel = kernel_class(base, context_dims=[1])
            scaled = X[:, [0, 2]] / double([0.3, 0.9])
            squared = torch.cdist(scaled, scaled).square()
            context = X[:, [1]] @ X[:, [1]].T
            expected = torch.exp(-squared / 2)
            if isinstance(kernel, AdditiveContextKernel):
                expected = kernel.context_variance * context + expected
            else:
                expected = context * expected
            assert_all_close(covariance(kernel, X, X), expected, rtol=1e-10)

            active = kernel_class(
                RBFKernel(active_dims=(1,)).double(), context_dims=[0]
            )
            alone = kernel_class(RBFKernel().double(), context_dims=[0])
            assert_all_close(
                covariance(active, X, X), covariance(alone, X[:, [0, 2]], X[:, [0, 2]])
            )

    def test_batches_of_kernels_and_inputs_are_broadcast(
        self, subtests: pytest.Subtests
    ) -> None:
        for kernel_class in CLASSES:
            for kernel_batch, x_batch in (
                ((), (3,)),
                ((3,), ()),
                ((3,), (3,)),
                ((3,), (2, 1)),
                ((2, 3), (3,)),
            ):
                with subtests.test(
                    kernel_class=kernel_class, kernel=kernel_batch, X=x_batch
                ):
                    self._check_batch(kernel_class, kernel_batch, x_batch)

    def _check_batch(
        self,
        kernel_class: type,
        kernel_batch: tuple[int, ...],
        x_batch: tuple[int, ...],
    ) -> None:
        kernel = vary(make_kernel(kernel_class, [-1], kernel_batch))
        assert kernel.batch_shape == kernel_batch
        X1 = uniform(*x_batch, 4, 3)
        X2 = uniform(*x_batch, 2, 3, seed=1)
        batch = torch.broadcast_shapes(kernel_batch, x_batch)
        K = covariance(kernel, X1, X2)
        assert K.shape == (*batch, 4, 2)
        assert_all_close(kernel(X1, X2).to_dense(), K, rtol=1e-12)
        diagonal = covariance(kernel, X1, X1).diagonal(dim1=-2, dim2=-1)
        assert_all_close(variance(kernel, X1), diagonal, rtol=1e-12)
        assert_all_close(to_dense(kernel(X1, diag=True)), diagonal, rtol=1e-12)
        if kernel_batch == x_batch:  # each element of the batch by itself
            for i in range(kernel_batch[0]):
                alone = covariance(kernel[i], X1[i], X2[i])
                assert_all_close(alone, K[i], rtol=1e-12)
                assert_all_close(kernel(X1, X2)[i].to_dense(), K[i], rtol=1e-12)

    def test_rows_of_a_lazy_matrix(self) -> None:
        X = uniform(5, 3)
        for kernel_class in CLASSES:
            kernel = make_kernel(kernel_class, [0])
            rows = kernel(X)[1:3, 2:].to_dense()
            assert_all_close(rows, covariance(kernel, X, X)[1:3, 2:], rtol=1e-12)

    def test_gradients_equal_finite_differences(self) -> None:
        X1 = uniform(3, 3)
        X2 = uniform(2, 3, seed=1)
        for kernel_class in CLASSES:
            kernel = make_kernel(kernel_class, [2, 0])

            def value(X: Tensor, kernel: Kernel = kernel) -> Tensor:
                return torch.cat(
                    [covariance(kernel, X, X2).T, variance(kernel, X)[None]]
                )

            expected = finite_difference(value, X1)
            assert_all_close(jacobian(value, X1), expected, rtol=1e-8, atol=1e-10)

    def test_no_rows(self) -> None:
        for kernel_class in CLASSES:
            kernel = make_kernel(kernel_class, [0], (2,))
            empty = torch.zeros(2, 0, 3).double()
            X = uniform(2, 4, 3)
            assert covariance(kernel, empty, X).shape == (2, 0, 4)
            assert variance(kernel, empty).shape == (2, 0)

    def test_single_precision_agrees_with_double(self) -> None:
        X = uniform(4, 3)
        for kernel_class in CLASSES:
            kernel = make_kernel(kernel_class, [0])
            exact = covariance(kernel, X, X)
            single = kernel.to(torch.float)
            assert all(p.dtype == torch.float for p in single.parameters())
            found = covariance(single, X.float(), X.float())
            assert found.dtype == torch.float
            assert_all_close(found.double(), exact, rtol=1e-5, atol=1e-6)

    def test_copies_and_loaded_states_give_the_same_matrix(self) -> None:
        X = uniform(4, 3)
        for kernel_class in CLASSES:
            kernel = vary(make_kernel(kernel_class, [-1], (2,)))
            expected = covariance(kernel, X, X)
            fresh = make_kernel(kernel_class, [-1], (2,))
            assert not torch.allclose(covariance(fresh, X, X), expected)
            fresh.load_state_dict(kernel.state_dict())
            copies = (fresh, deepcopy(kernel), pickle.loads(pickle.dumps(kernel)))
            for copy in copies:
                assert torch.equal(covariance(copy, X, X), expected)

    def test_not_stationary(self) -> None:
        for kernel_class in CLASSES:
            assert not make_kernel(kernel_class, [0]).is_stationary

    def test_columns_out_of_range(self) -> None:
        X = uniform(4, 3)
        message = (
            "Expected ``context_dims`` to be columns of rows with 3 columns, but got "
            r"\[{0}\]"
        )
        for kernel_class in CLASSES:
            for column in (3, -4):
                kernel = make_kernel(kernel_class, [column])
                expected = message.format(column)
                with pytest.raises(InputDataError, match=expected):
                    covariance(kernel, X, X)
                with pytest.raises(InputDataError, match=expected):
                    variance(kernel, X)
                with pytest.raises(InputDataError, match=expected):
                    kernel(X).to_dense()

    def test_repeated_columns(self) -> None:
        kernel = make_kernel(MultiplicativeContextKernel, [0, -3])
        with pytest.raises(InputDataError, match="to name each column once"):
            covariance(kernel, uniform(4, 3), uniform(4, 3))

    def test_makes_nothing_on_the_default_device(self) -> None:
        X = uniform(4, 3)
        base = make_base()
        with RequireDevice():
            additive = AdditiveContextKernel(base, [0], GammaPrior(2.0, 1.0))
            additive.context_variance = THETA
            additive.sample_from_prior("context_variance_prior")
            for kernel in (additive, MultiplicativeContextKernel(base, [0])):
                covariance(kernel, X, X)
                variance(kernel, X)
                kernel(X).to_dense()
            # A base kernel without parameters says nothing about the device.
            AdditiveContextKernel(Kernel(), [0])


class TestContextVariance:
    def test_setting_it_takes_numbers_tensors_and_batches(self) -> None:
        for batch in ((), (2,), (2, 3)):
            kernel = AdditiveContextKernel(make_base(batch), [0])
            assert kernel.context_variance.shape == batch
            for value in (3.0, double(0.1), uniform(*batch) + 0.5):
                kernel.context_variance = value
                expected = torch.as_tensor(value, dtype=torch.double).expand(batch)
                assert_all_close(kernel.context_variance, expected, rtol=1e-12)
                kernel.initialize(context_variance=value)
                assert_all_close(kernel.context_variance, expected, rtol=1e-12)

    def test_follows_the_dtype_of_the_base(self) -> None:
        for dtype in (torch.float, torch.double):
            kernel = AdditiveContextKernel(RBFKernel().to(dtype), [0])
            assert kernel.context_variance.dtype == dtype

    def test_gradient_equals_its_formula(self) -> None:
        X = uniform(3, 2)
        kernel = make_kernel(AdditiveContextKernel, [0])
        assert isinstance(kernel, AdditiveContextKernel)
        K = covariance(kernel, X, X)
        theta = kernel.context_variance
        (slope,) = torch.autograd.grad(K.sum(), kernel.raw_context_variance)
        raw = kernel.raw_context_variance.detach()
        # dK/dθ = s s', and θ is the softplus of the parameter
        expected = X[:, 0].sum().square() * torch.sigmoid(raw)
        assert_all_close(slope, expected, rtol=1e-12)
        assert_all_close(theta, torch.nn.functional.softplus(raw), rtol=1e-12)

    def test_constraint_is_kept(self) -> None:
        kernel = AdditiveContextKernel(
            make_base(), [0], context_variance_constraint=GreaterThan(2.0)
        )
        kernel.raw_context_variance.data.fill_(-50.0)
        assert kernel.context_variance.item() >= 2.0

    def test_prior_can_be_found_and_sampled(self) -> None:
        for batch in ((), (3,)):
            prior = GammaPrior(2.0, 1.0)
            kernel = AdditiveContextKernel(make_base(batch), [0], prior)
            names = {name: closure for name, _, _, closure, _ in kernel.named_priors()}
            closure = names["context_variance_prior"]
            assert_all_close(closure(kernel), kernel.context_variance)
            before = kernel.context_variance.detach().clone()
            with torch.random.fork_rng():
                torch.manual_seed(0)
                kernel.sample_from_prior("context_variance_prior")
            after = kernel.context_variance
            assert after.shape == batch
            assert bool((after != before).all() and (after > 0).all())
            assert bool(prior.log_prob(after).isfinite().all())

    def test_no_prior(self) -> None:
        kernel = AdditiveContextKernel(RBFKernel(), [0])
        assert list(kernel.named_priors()) == []


class TestCompositions:
    """With stock kernels, each against the sum or product of the parts."""

    X1 = uniform(4, 3)
    X2 = uniform(3, 3, seed=1)

    def part(self, kernel_class: type, columns: Sequence[int] = (0,)) -> Tensor:
        return explicit(kernel_class, columns, self.X1, self.X2)

    def check(self, kernel: Kernel, expected: Tensor) -> None:
        found = covariance(kernel, self.X1, self.X2)
        assert_all_close(found, expected, rtol=1e-12)
        lazy = kernel(self.X1, self.X2).to_dense()
        assert_all_close(lazy, expected, rtol=1e-12)
        square = covariance(kernel, self.X1, self.X1)
        assert_all_close(variance(kernel, self.X1), square.diagonal(), rtol=1e-12)
        lazy_diagonal = to_dense(kernel(self.X1, diag=True))
        assert_all_close(lazy_diagonal, square.diagonal(), rtol=1e-12)

    def test_scale_multiplies_the_kernel(self) -> None:
        for kernel_class in CLASSES:
            kernel = ScaleKernel(make_kernel(kernel_class, [0])).double()
            kernel.outputscale = double(3.0)
            self.check(kernel, 3 * self.part(kernel_class))

    def test_sum_with_a_constant(self) -> None:
        for kernel_class in CLASSES:
            constant = ConstantKernel().double()
            constant.constant = double(0.4)
            kernel = make_kernel(kernel_class, [0]) + constant
            self.check(kernel, self.part(kernel_class) + 0.4)

    def test_sum_and_product_of_both(self) -> None:
        first = make_kernel(MultiplicativeContextKernel, [0])
        second = make_kernel(AdditiveContextKernel, [-1])
        parts = self.part(type(first)), self.part(type(second), [-1])
        self.check(first + second, parts[0] + parts[1])
        self.check(first * second, parts[0] * parts[1])

    def test_product_with_active_dims(self) -> None:
        stock = RBFKernel(active_dims=(0,)).double()
        stock.lengthscale = double(LENGTHSCALE)
        context = [
            [rbf_entry([a], [b]) / SCALE for b in self.X2[:, 0].tolist()]
            for a in self.X1[:, 0].tolist()
        ]
        kernel = stock * make_kernel(AdditiveContextKernel, [1])
        expected = double(context) * self.part(AdditiveContextKernel, [1])
        self.check(kernel, expected)

    def test_nested_kernel_has_the_remaining_columns(self) -> None:
        """A context kernel as the base of another: its columns are the others."""
        inner = make_kernel(AdditiveContextKernel, [0])
        kernel = MultiplicativeContextKernel(inner, context_dims=[1])
        context = self.X1[:, [1]] @ self.X2[:, [1]].T
        rest1, rest2 = self.X1[:, [0, 2]], self.X2[:, [0, 2]]
        expected = context * explicit(AdditiveContextKernel, [0], rest1, rest2)
        self.check(kernel, expected)

    def test_other_bases(self) -> None:
        for base in (MaternKernel(nu=1.5), PeriodicKernel(), ConstantKernel()):
            base = base.double()
            rest1, rest2 = self.X1[:, :2], self.X2[:, :2]
            expected = self.X1[:, [2]] @ self.X2[:, [2]].T
            expected = expected * base(rest1, rest2).to_dense()
            self.check(MultiplicativeContextKernel(base, [-1]), expected)

    def test_general_product_of_stock_kernels(self) -> None:
        factors = RBFKernel(active_dims=(0,)), RBFKernel(active_dims=(1, 2))
        for factor in factors:
            factor.double().lengthscale = double(LENGTHSCALE)
        rows1 = self.X1.tolist()
        rows2 = self.X2.tolist()
        entries = [
            [rbf_entry(a[:1], b[:1]) * rbf_entry(a[1:], b[1:]) for b in rows2]
            for a in rows1
        ]
        self.check(factors[0] * factors[1], double(entries) / SCALE**2)


class TestContextDimsOf:
    def test_found_in_compositions(self) -> None:
        base = make_base()
        for kernel_class in CLASSES:
            kernel = kernel_class(base, context_dims=[-1, 0])
            for whole in (
                kernel,
                ScaleKernel(kernel),
                kernel + ConstantKernel(),
                RBFKernel() * ScaleKernel(kernel),
            ):
                assert context_dims_of(whole) == (-1, 0)

    def test_kernels_without_a_context_have_none(self) -> None:
        assert context_dims_of(make_base()) == ()
