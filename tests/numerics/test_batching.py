from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from botorch_binary_context.numerics.batching import expand_batch, fold, unfold
from tests.strategies import batch_shapes

sizes = st.integers(0, 3)


def numbered(*shape: int) -> Tensor:
    """A tensor whose entries all differ."""
    return torch.arange(torch.Size(shape).numel()).reshape(shape)


class TestExpandBatch:
    def test_broadcasts_with_the_batch_shape(self) -> None:
        for shape, batch_shape, expected in (
            ((), (), ()),
            ((), (3,), (3,)),
            ((1,), (3,), (3,)),
            ((5,), (), (5,)),
            ((5, 1), (3,), (5, 3)),
            ((3,), (2, 3), (2, 3)),
            ((2, 1), (2, 3), (2, 3)),
            ((7, 1, 3), (2, 3), (7, 2, 3)),
            ((3,), (2, 1), (2, 3)),
        ):
            X = numbered(*shape, 2, 4)
            found = expand_batch(X, torch.Size(batch_shape))
            assert found.shape == (*expected, 2, 4)
            assert torch.equal(found, X.expand_as(found))

    def test_leaves_what_fits_alone(self) -> None:
        for shape, batch_shape in (((), ()), ((5,), ()), ((3,), (3,)), ((5, 3), (3,))):
            X = numbered(*shape, 2, 4)
            assert expand_batch(X, torch.Size(batch_shape)) is X

    def test_refuses_what_does_not_fit(self) -> None:
        for shape, batch_shape in (((2,), (3,)), ((3, 2), (3, 1, 4))):
            with pytest.raises(RuntimeError, match="broadcast|incompatible"):
                expand_batch(numbered(*shape, 2, 4), torch.Size(batch_shape))


class TestFold:
    @given(t=batch_shapes, batch_shape=batch_shapes, q=sizes, d=st.integers(1, 3))
    def test_rows_of_an_element(
        self, t: tuple[int, ...], batch_shape: tuple[int, ...], q: int, d: int
    ) -> None:
        X = numbered(*t, *batch_shape, q, d)
        folded = fold(X, len(batch_shape))
        T = torch.Size(t).numel()
        assert folded.shape == (*batch_shape, T * q, d)
        for index in np.ndindex(*batch_shape):
            rows = X[(slice(None),) * len(t) + index]  # t x q x d
            assert torch.equal(folded[index], rows.reshape(-1, d))

    @given(t=batch_shapes, batch_shape=batch_shapes, q=sizes, d=st.integers(1, 3))
    def test_unfold_is_the_inverse(
        self, t: tuple[int, ...], batch_shape: tuple[int, ...], q: int, d: int
    ) -> None:
        X = numbered(*t, *batch_shape, q, d)
        num_batch = len(batch_shape)
        again = unfold(fold(X, num_batch), X.shape[:-2], q, num_batch)
        assert torch.equal(again, X)

    def test_unfold_of_another_width(self) -> None:
        # What is computed from rows need not have as many columns.
        X = numbered(4, 5, 2, 3, 6, 1)
        Z = fold(X, 2) * torch.arange(7)
        again = unfold(Z, X.shape[:-2], 6, 2)
        assert torch.equal(again, X * torch.arange(7))

    def test_no_t_batch(self) -> None:
        X = numbered(2, 3, 6, 4)
        assert torch.equal(fold(X, 2), X)
        assert torch.equal(unfold(X, X.shape[:-2], 6, 2), X)
