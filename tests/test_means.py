from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError
from botorch.fit import fit_gpytorch_mll
from gpytorch.priors import LogNormalPrior
from torch import Tensor

from botorch_binary_context import (
    AdditiveContextKernel,
    BinaryLaplaceGP,
    LaplaceMarginalLogLikelihood,
    LinearContextMean,
    suggest,
)
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.sampling import draw_sample_paths
from tests.closeness import assert_all_close
from tests.devices import RequireDevice
from tests.small_models import simple_kernel
from tests.tensors import double, uniform


def outcomes(X: Tensor, slope: float) -> Tensor:
    """Of tests that become easier with the first column."""
    probability = torch.special.ndtr(slope * (X[..., :1] - 0.5))
    return (uniform(*X.shape[:-1], 1, seed=7) < probability).double()


class TestLinearContextMean:
    def test_value_is_the_slope_times_the_contexts(self) -> None:
        X = uniform(3, 4, 5)
        mean = LinearContextMean([0, -1], slope=2.0).double()
        assert_all_close(mean(X), 2 * (X[..., 0] + X[..., 4]))
        mean.slope = double([1.0, 3.0])
        assert_all_close(mean(X), X[..., 0] + 3 * X[..., 4])

    @pytest.mark.parametrize(
        ("harder", "signs"),
        [
            ("up", [-1.0, -1.0]),
            ("down", [1.0, 1.0]),
            (["up", "up"], [-1.0, -1.0]),
            (["up", "down"], [-1.0, 1.0]),
            (("down", "up"), [1.0, -1.0]),
        ],
    )
    @pytest.mark.parametrize("dims", [(0, 2), (2, 0), (-1, 1)])
    def test_each_context_has_its_direction(
        self, harder: str | Sequence[str], signs: list[float], dims: tuple[int, int]
    ) -> None:
        """In the order of ``context_dims``, as the slopes."""
        X = uniform(3, 4, 3)
        mean = LinearContextMean(dims, harder=harder).double()
        mean.slope = double([2.0, 5.0])
        first, second = (X[..., i] for i in dims)
        assert_all_close(mean(X), signs[0] * 2 * first + signs[1] * 5 * second)

    def test_directions_of_a_batch(self) -> None:
        mean = LinearContextMean(
            [0, 1], harder=["down", "up"], batch_shape=torch.Size([3])
        ).double()
        a = 1 + uniform(3, 2, seed=1)
        mean.slope = a
        X = uniform(2, 3, 4, 2)
        assert_all_close(mean(X), a[:, :1] * X[..., 0] - a[:, 1:] * X[..., 1])

    def test_batch_has_a_slope_for_each_element(self) -> None:
        mean = LinearContextMean([1], batch_shape=torch.Size([3])).double()
        mean.slope = double([[1.0], [2.0], [3.0]])
        X = uniform(2, 3, 4, 2)
        expected = double([1.0, 2.0, 3.0])[:, None] * X[..., 1]
        assert_all_close(mean(X), expected)

    def test_posterior_without_data(self) -> None:
        mean = LinearContextMean([0], slope=4.0).double()
        kernel = AdditiveContextKernel(simple_kernel(2), [0]).double()
        model = BinaryLaplaceGP(
            uniform(0, 3), uniform(0, 1), covar_module=kernel, mean_module=mean
        )
        X = uniform(5, 3)
        found = model.posterior(X).mean.squeeze(-1)
        assert_all_close(found, 4 * X[:, 0])

    def test_learns_the_slope(self) -> None:
        X = uniform(200, 3)
        slopes = []
        for true_slope in (2.0, 8.0):
            mean = LinearContextMean([0], 4.0, LogNormalPrior(1.4, 1.0)).double()
            kernel = AdditiveContextKernel(simple_kernel(2), [0]).double()
            kernel.context_variance = 1e-4
            for parameter in kernel.parameters():
                parameter.requires_grad_(False)
            Y = outcomes(X, true_slope)
            model = BinaryLaplaceGP(X, Y, covar_module=kernel, mean_module=mean)
            fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
            slopes.append(mean.slope.item())
        assert slopes[0] < 4.0
        assert slopes[1] > 5.0

    def test_rules_and_paths(self) -> None:
        mean = LinearContextMean([0], slope=4.0).double()
        kernel = AdditiveContextKernel(simple_kernel(2), [0]).double()
        X = uniform(10, 3)
        model = BinaryLaplaceGP(
            X, outcomes(X, 4.0), covar_module=kernel, mean_module=mean
        )
        box = double([[0.0] * 3, [1.0] * 3])
        space = ContextSpace(box, context_dims=[0], reference_context=0.5)
        assert suggest(model, space, "cjes", seed=0).shape == (1, 3)
        paths = draw_sample_paths(model, 4096, bounds=space.bounds, seed=0)
        test_X = uniform(4, 3, seed=1)
        expected = model.posterior(test_X).mean.squeeze(-1)
        with torch.no_grad():
            assert_all_close(paths(test_X).mean(dim=0), expected, atol=0.1)

    def test_copies_and_state(self) -> None:
        mean = LinearContextMean([0], slope=3.0, harder="up").double()
        other = LinearContextMean([0], harder="up").double()
        other.load_state_dict(mean.state_dict())
        X = uniform(4, 1)
        for same in (other, copy.deepcopy(mean)):
            assert_all_close(same.slope, double([3.0]))
            assert_all_close(same(X), -3 * X[:, 0])

    def test_makes_nothing_on_the_default_device(self) -> None:
        with RequireDevice():
            mean = LinearContextMean([0], slope=3.0)
            mean(uniform(4, 2).float())

    def test_wrong_arguments(self) -> None:
        with pytest.raises(InputDataError, match="``context_dims``"):
            LinearContextMean([])
        with pytest.raises(InputDataError, match="``slope``"):
            LinearContextMean([0], slope=0.0)
        with pytest.raises(InputDataError, match="``context_dims``"):
            LinearContextMean([5])(uniform(4, 3))

    @pytest.mark.parametrize(
        "harder",
        [True, False, None, 1, "UP", "", "updown", ["up"], ["up"] * 3, [True, False]],
    )
    def test_wrong_directions(self, harder: Any) -> None:
        message = "``harder`` to be 'up' or 'down', or a list .* 2 contexts, but got "
        with pytest.raises(InputDataError, match=message + re.escape(repr(harder))):
            LinearContextMean([0, 1], harder=harder)

    @pytest.mark.parametrize("harder", [True, [], ["up", "up"], ["easy"], double([1])])
    def test_wrong_direction_of_one_context(self, harder: Any) -> None:
        with pytest.raises(
            InputDataError, match="``harder`` to be 'up' or 'down', but"
        ):
            LinearContextMean([0], harder=harder)
