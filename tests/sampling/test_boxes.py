r"""Tests of the box in which sample paths are good, seen through input transforms."""

from __future__ import annotations

from typing import Any

import torch
from botorch.models.transforms.input import Normalize

from botorch_binary_context import (
    BinaryLaplaceGP,
    CombineParameters,
    ContextSpace,
    draw_sample_paths,
)
from botorch_binary_context.sampling import paths
from tests.closeness import assert_all_close
from tests.small_models import simple_kernel
from tests.tensors import double, uniform

SPACE = ContextSpace(double([[-1.0, 0.0, -2.0], [1.0, 4.0, 2.0]]), [0], [0.0])
# The corners at which they are extreme are not the least and the largest one.
OBLIQUE = [[1.0, -1.0], [1.0, 1.0]]


def make_model(transform: Any) -> BinaryLaplaceGP:
    """A model without trials: its posterior is its prior."""
    X = uniform(4, 3)
    kernel = simple_kernel(3)
    return BinaryLaplaceGP(
        X[:0], X[:0, :1], covar_module=kernel, input_transform=transform
    )


class TestBoxes:
    def test_box_holds_all_points(self) -> None:
        low, high = SPACE.bounds
        X = torch.lerp(low, high, uniform(200, 3))
        for transform in (
            None,
            Normalize(3, bounds=SPACE.bounds),
            CombineParameters(SPACE, OBLIQUE),
        ):
            model = make_model(transform)
            box = paths._transform_box(model, SPACE.bounds)
            assert box is not None
            rows = model.transform_inputs(X)
            assert bool((box[0] <= rows).all() and (rows <= box[1]).all())

    def test_paths_vary_as_much_as_they_should_in_every_corner(self) -> None:
        model = make_model(CombineParameters(SPACE, OBLIQUE))
        corners = torch.cartesian_prod(*SPACE.bounds.unbind(dim=-1))
        drawn = draw_sample_paths(model, 4000, bounds=SPACE.bounds, seed=0)
        with torch.no_grad():
            found = drawn(corners).var(dim=0)
            expected = model.posterior(corners).variance.squeeze(-1)
        assert_all_close(found, expected, rtol=0.15)

    def test_too_many_corners(self) -> None:
        X, dim = uniform(5, 13), 13
        model = BinaryLaplaceGP(X, X[:, :1].round(), covar_module=simple_kernel(dim))
        bounds = double([[0.0] * dim, [1.0] * dim])
        assert paths._transform_box(model, bounds) is None
        drawn = draw_sample_paths(model, 3, bounds=bounds, seed=0)
        assert drawn(X).shape == (3, 5)
