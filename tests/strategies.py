r"""Hypothesis strategies that the tests share."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, prod

import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from torch import Tensor

MAX_VARIANCE = 400.0
MIN_VARIANCE = 1e-8

batch_shapes: SearchStrategy[tuple[int, ...]] = st.sampled_from(
    [(), (1,), (3,), (2, 1), (2, 3)]
)


def tensors(
    elements: SearchStrategy[float],
    shape: Sequence[int],
    dtype: torch.dtype = torch.double,
) -> SearchStrategy[Tensor]:
    """Tensors of one shape with the given elements."""
    size = prod(shape)
    return st.lists(elements, min_size=size, max_size=size).map(
        lambda values: torch.tensor(values, dtype=dtype).reshape(tuple(shape))
    )


def latent_means(bound: float = 8.0) -> SearchStrategy[float]:
    """Means of a latent value."""
    return st.floats(-bound, bound)


def latent_variances(
    low: float = MIN_VARIANCE, high: float = MAX_VARIANCE
) -> SearchStrategy[float]:
    """Variances of a latent value, spread over their orders of magnitude."""
    return st.floats(log(low), log(high)).map(lambda u: float(torch.tensor(u).exp()))


@st.composite
def latent_moments(
    draw: DrawFn, shape: Sequence[int] = (4,), bound: float = 8.0
) -> tuple[Tensor, Tensor]:
    """Means and variances of the same shape."""
    return (
        draw(tensors(latent_means(bound), shape)),
        draw(tensors(latent_variances(), shape)),
    )


def labels(shape: Sequence[int]) -> SearchStrategy[Tensor]:
    """Labels 0 and 1, as floating point numbers."""
    return tensors(st.sampled_from([0.0, 1.0]), shape)


def inputs(shape: Sequence[int], bound: float = 2.0) -> SearchStrategy[Tensor]:
    """Points in a cube around zero; some coincide."""
    return tensors(st.floats(-bound, bound).map(lambda v: round(v, 2)), shape)


@st.composite
def rates(draw: DrawFn, low: float = 0.0) -> tuple[float, float]:
    """A guess rate and a lapse rate, at least ``low`` each."""
    return draw(st.floats(low, 0.5)), draw(st.floats(low, 0.2))


@st.composite
def boxes(draw: DrawFn, dim: int) -> Tensor:
    """Bounds, ``2 x dim``."""
    lower = draw(tensors(st.floats(-5.0, 5.0), (dim,)))
    width = draw(tensors(st.floats(0.1, 10.0), (dim,)))
    return torch.stack([lower, lower + width])


@st.composite
def context_columns(draw: DrawFn, dim: int, min_size: int = 0) -> list[int]:
    """Some of ``dim`` columns but not all, in any order, some counted from the end."""
    columns = draw(st.permutations(range(dim)))
    size = draw(st.integers(min_size, dim - 1))
    from_end = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    return [c - dim if end else c for c, end in zip(columns, from_end, strict=False)]


@st.composite
def binary_data(
    draw: DrawFn, max_n: int = 8, max_d: int = 3, batched: bool = True
) -> tuple[Tensor, Tensor]:
    """Trials ``batch_shape x n x d`` and their labels ``batch_shape x n x 1``."""
    batch = draw(batch_shapes) if batched else ()
    n = draw(st.integers(1, max_n))
    d = draw(st.integers(1, max_d))
    return draw(inputs((*batch, n, d))), draw(labels((*batch, n, 1)))


@st.composite
def duel_data(
    draw: DrawFn, max_n: int = 6, max_d: int = 3, batched: bool = True
) -> tuple[Tensor, Tensor]:
    """Duels ``batch_shape x n x 2 x d`` and their labels ``batch_shape x n x 1``."""
    batch = draw(batch_shapes) if batched else ()
    n = draw(st.integers(1, max_n))
    d = draw(st.integers(1, max_d))
    return draw(inputs((*batch, n, 2, d))), draw(labels((*batch, n, 1)))
