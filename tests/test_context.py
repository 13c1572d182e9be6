from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from torch import Tensor

from botorch_binary_context import ContextSpace
from botorch_binary_context.context import normalize_context_dims
from tests import strategies
from tests.devices import RequireDevice
from tests.tensors import double

BOUNDS = [[0.0, -4.0, 1.0, -1.0], [1.0, 4.0, 2.0, 3.0]]


@st.composite
def spaces(draw: DrawFn) -> tuple[ContextSpace, list[int], Tensor]:
    """A space, with the context columns and the reference context it was made of."""
    dim = draw(st.integers(1, 5))
    bounds = draw(strategies.boxes(dim))
    columns = draw(strategies.context_columns(dim))
    shares = draw(strategies.tensors(st.floats(0.0, 1.0), (len(columns),)))
    low, high = bounds[:, columns]
    reference = (low + shares * (high - low)).clamp(low, high)
    return ContextSpace(bounds, columns, reference), columns, reference


class TestNormalizeContextDims:
    def test_columns_are_sorted_and_counted_from_the_front(
        self, subtests: pytest.Subtests
    ) -> None:
        for given_, expected in (
            ([], ()),
            ([0], (0,)),
            ([-1], (3,)),
            ([3, 1], (1, 3)),
            ([-4, 2], (0, 2)),
            ((-1, 0, -2), (0, 2, 3)),
        ):
            with subtests.test(given_=given_):
                assert normalize_context_dims(given_, 4) == expected

    def test_out_of_range(self, subtests: pytest.Subtests) -> None:
        for columns, wrong in (([4], 4), ([-5], -5), ([0, 7], 7)):
            message = (
                r"Expected ``context_dims`` to be columns of rows with 4 columns, but "
                rf"got \[{wrong}\] in \[.*\]"
            )
            with (
                subtests.test(columns=columns),
                pytest.raises(InputDataError, match=message),
            ):
                normalize_context_dims(columns, 4)

    def test_refuses_repeated_columns(self, subtests: pytest.Subtests) -> None:
        for columns in ([1, 1], [3, -1]):
            message = (
                r"Expected ``context_dims`` to name each column once, but got "
                rf"\[{columns[0]}, {columns[1]}\]"
            )
            with (
                subtests.test(columns=columns),
                pytest.raises(InputDataError, match=message),
            ):
                normalize_context_dims(columns, 4)


class TestContextSpace:
    def test_columns_and_bounds(self) -> None:
        for dtype in (torch.float, torch.double):
            bounds = torch.tensor(BOUNDS, dtype=dtype)
            space = ContextSpace(bounds, context_dims=[-2], reference_context=[1.5])
            assert space.dim == 4
            assert space.num_contexts == 1
            assert space.context_dims == (2,)
            assert space.parameter_dims == (0, 1, 3)
            assert torch.equal(space.bounds, bounds)
            assert torch.equal(space.context_bounds, bounds[:, [2]])
            assert torch.equal(space.parameter_bounds, bounds[:, [0, 1, 3]])
            assert torch.equal(
                space.reference_context, torch.tensor([1.5], dtype=dtype)
            )

    def test_bounds_may_be_lists_and_then_have_double_precision(self) -> None:
        space = ContextSpace([[0, -4], [1, 4]], [0], [0.5])
        assert torch.equal(space.bounds, double([[0.0, -4.0], [1.0, 4.0]]))

    def test_quasi_random_trials_fill_the_box(self) -> None:
        space = ContextSpace(double(BOUNDS), [0], [0.5])
        trials = space.draw_quasi_random(64, seed=0)
        assert trials.shape == (64, 4)
        assert torch.equal(trials, space.draw_quasi_random(64, seed=0))
        low, high = space.bounds
        shares = ((trials - low) / (high - low) * 4).long()
        # A quarter of the points of a Sobol sequence is in each quarter of a side.
        assert all(torch.bincount(s).tolist() == [16] * 4 for s in shares.T)

    def test_reference_forms(self) -> None:
        for reference in (0.5, [0.5], (0.5,), torch.tensor(0.5), torch.tensor([0.5])):
            space = ContextSpace(double(BOUNDS), [0], reference)
            assert torch.equal(space.reference_context, double([0.5]))

    def test_reference_follows_the_order_of_context_dims(
        self, subtests: pytest.Subtests
    ) -> None:
        value = {0: 0.25, 2: 1.5, 3: 2.0}
        for columns in itertools.permutations((0, 2, 3)):
            for offset in (0, 4):  # counted from the start and from the end
                dims = [i - offset for i in columns]
                reference = [value[i] for i in columns]
                with subtests.test(dims=dims):
                    space = ContextSpace(double(BOUNDS), dims, reference)
                    assert space.context_dims == (0, 2, 3)
                    trial = space.at_reference(double([-3.0]))
                    assert trial.tolist() == [0.25, -3.0, 1.5, 2.0]

    def test_reference_at_the_bounds(self) -> None:
        for value in (0.0, 1.0):
            space = ContextSpace(double(BOUNDS), [0], value)
            assert space.reference_context.tolist() == [value]

    def test_no_context(self) -> None:
        space = ContextSpace(double(BOUNDS))
        X = torch.rand(3, 5, 4, dtype=torch.double)
        assert space.context_dims == ()
        assert space.num_contexts == 0
        assert space.context_bounds.shape == (2, 0)
        assert space.contexts(X).shape == (3, 5, 0)
        assert torch.equal(space.parameters(X), X)
        assert torch.equal(space.at_reference(X), X)

    def test_join_broadcasts(self) -> None:
        space = ContextSpace(double(BOUNDS), [1, 3], [0.0, 0.0])
        parameters = torch.rand(3, 1, 2, dtype=torch.double)
        contexts = torch.rand(5, 2, dtype=torch.double)
        X = space.join(parameters, contexts)
        assert X.shape == (3, 5, 4)
        assert torch.equal(space.parameters(X), parameters.expand(3, 5, 2))
        assert torch.equal(space.contexts(X), contexts.expand(3, 5, 2))

    def test_follows_the_parameters(self) -> None:
        space = ContextSpace(double(BOUNDS), [1], [0.5])
        X = space.at_reference(torch.rand(2, 3, dtype=torch.float))
        assert X.dtype == torch.float
        assert X[:, 1].tolist() == [0.5, 0.5]

    def test_gradients_pass(self) -> None:
        space = ContextSpace(double(BOUNDS), [1], [0.0])
        parameters = torch.rand(3, dtype=torch.double, requires_grad=True)
        context = torch.rand(1, dtype=torch.double, requires_grad=True)
        weights = double([1.0, 2.0, 3.0, 4.0])
        (space.join(parameters, context) * weights).sum().backward()
        assert parameters.grad is not None
        assert context.grad is not None
        assert parameters.grad.tolist() == [1.0, 3.0, 4.0]
        assert context.grad.tolist() == [2.0]

    def test_to_converts_the_tensors_and_keeps_the_original(self) -> None:
        space = ContextSpace(double(BOUNDS), [3, 0], [2.5, 0.5])
        single = space.to(torch.zeros(1, dtype=torch.float))
        assert single.bounds.dtype == torch.float
        assert single.reference_context.dtype == torch.float
        assert single.reference_context.tolist() == [0.5, 2.5]
        assert single.context_dims == (0, 3)
        assert space.bounds.dtype == torch.double

    def test_to_keeps_a_reference_at_a_bound(self) -> None:
        # 0.1 is not a float: bound and reference must be rounded alike.
        bounds = double([[0.1, 0.0], [0.7, 1.0]])
        for value in (0.1, 0.7):
            space = ContextSpace(bounds, [0], [value]).to(torch.zeros(1))
            assert float(space.reference_context) == pytest.approx(
                value, rel=0, abs=0.5e-6
            )

    def test_repr_shows_bounds_columns_and_reference(self) -> None:
        space = ContextSpace(double(BOUNDS), [-1, 0], [2.5, 0.5])
        assert (
            repr(space) == f"ContextSpace(bounds={BOUNDS}, context_dims=[0, 3], "
            "reference_context=[0.5, 2.5])"
        )

    @given(spaces(), strategies.batch_shapes, st.data())
    def test_split_and_join_are_inverse(
        self,
        case: tuple[ContextSpace, list[int], Tensor],
        batch: tuple[int, ...],
        data: st.DataObject,
    ) -> None:
        space = case[0]
        X = data.draw(strategies.inputs((*batch, 2, space.dim)))
        parameters = space.parameters(X)
        contexts = space.contexts(X)
        assert contexts.shape[-1] == space.num_contexts
        assert parameters.shape[-1] == space.dim - space.num_contexts
        assert torch.equal(space.join(parameters, contexts), X)

    @given(spaces())
    def test_at_reference(self, case: tuple[ContextSpace, list[int], Tensor]) -> None:
        space, columns, reference = case
        parameters = torch.rand(3, len(space.parameter_dims), dtype=torch.double)
        X = space.at_reference(parameters)
        assert torch.equal(space.parameters(X), parameters)
        # Column by column, as the space was described.
        for column, value in zip(columns, reference.tolist(), strict=True):
            assert X[..., column].tolist() == [value] * 3

    @given(spaces())
    def test_columns_partition(
        self, case: tuple[ContextSpace, list[int], Tensor]
    ) -> None:
        space, columns, _ = case
        both = sorted(space.context_dims + space.parameter_dims)
        assert both == list(range(space.dim))
        assert {c % space.dim for c in columns} == set(space.context_dims)

    def test_makes_nothing_on_the_default_device(self) -> None:
        bounds = double(BOUNDS)
        X = torch.rand(3, 4, dtype=torch.double)
        with RequireDevice():
            space = ContextSpace(bounds, [-1, 0], [2.5, 0.5])
            space.join(space.parameters(X), space.contexts(X))
            space.at_reference(space.parameters(X))
            space.to(X.float())
            ContextSpace(bounds)


class TestContextSpaceErrors:
    def check(self, message: str, *args: Any) -> None:
        with pytest.raises(InputDataError, match=message):
            ContextSpace(*args)

    def test_bounds_shape(self) -> None:
        message = r"Expected ``bounds`` to be a ``2 x d`` tensor, but got shape "
        self.check(message + r"\[3, 4\]", torch.zeros(3, 4))
        self.check(message + r"\[4\]", torch.zeros(4))
        self.check(message + r"\[1, 2, 4\]", torch.zeros(1, 2, 4))
        self.check(message + r"\[2\]", [0.0, 1.0])

    def test_bounds_that_are_not_numbers(self) -> None:
        message = "Expected ``bounds`` to be a ``2 x d`` tensor or two lists of numbers"
        for wrong in (None, "low", [[0.0, 1.0], [1.0]], [["a"], ["b"]]):
            self.check(message, wrong)

    def test_bounds_values(self) -> None:
        message = "Expected ``bounds`` to hold finite floating point numbers, but got "
        self.check(message + r".*inf.*torch.float64", double([[0.0], [float("inf")]]))
        self.check(message + r".*nan", double([[float("nan")], [1.0]]))
        self.check(message + r".*torch.int64", torch.tensor([[0], [1]]))

    def test_bounds_order(self) -> None:
        message = (
            "Expected ``bounds`` to have every lower bound below its upper bound, but "
            r"got lower bounds \[0.0, {0}\] and upper bounds \[1.0, {1}\]"
        )
        for low, high in ((2.0, 1.0), (1.0, 1.0)):
            bounds = double([[0.0, low], [1.0, high]])
            self.check(message.format(low, high), bounds)

    def test_context_dims(self) -> None:
        bounds = double(BOUNDS)
        self.check("``context_dims`` to be columns of rows with 4", bounds, [4], [0.0])
        self.check("``context_dims`` to name each column once", bounds, [0, -4], [0.0])

    def test_no_parameter_left(self) -> None:
        """A pure threshold: contexts are all there is."""
        space = ContextSpace(double(BOUNDS)[:, :2], [0, 1], [0.5, 0.0])
        assert space.parameter_dims == ()
        assert space.parameter_bounds.shape == (2, 0)
        trial = space.at_reference(double(BOUNDS)[0, :0])
        assert trial.tolist() == [0.5, 0.0]

    def test_number_of_references(self) -> None:
        bounds = double(BOUNDS)
        message = (
            "Expected ``reference_context`` to have one number for each of the {0} "
            r"context columns, but got \[{1}\]"
        )
        self.check(message.format(1, "0.5, 0.5"), bounds, [0], [0.5, 0.5])
        self.check(message.format(1, ""), bounds, [0])
        self.check(message.format(2, "0.5"), bounds, [0, 1], 0.5)
        self.check(message.format(0, "0.5"), bounds, [], 0.5)

    def test_reference_outside(self) -> None:
        message = (
            "Expected ``reference_context`` to lie within the bounds of the context "
            r"columns, \[0.0\] to \[1.0\], but got \[{0}\]"
        )
        for value in (1.5, -0.1, float("nan")):
            self.check(message.format(value), double(BOUNDS), [0], value)
        # Each against the bounds of its own column.
        self.check("to lie within the bounds", double(BOUNDS), [2, 0], [0.5, 1.5])
