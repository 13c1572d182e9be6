from __future__ import annotations

import numpy as np
import pytest

from botorch_binary_context.acquisition.posterior_mean import maximize_posterior_mean
from tests.acquisition.problems import KINDS, Problem, assert_close, inner_maximum
from tests.devices import RequireDevice
from tests.small_models import MODEL_CLASSES, ModelClass, simple_kernel
from tests.tensors import double


@pytest.mark.parametrize("model_class", MODEL_CLASSES)
class TestPosteriorMean:
    def test_maximum_equals_that_by_hand(self, model_class: ModelClass) -> None:
        for kind in KINDS:
            for parameters in (1, 2):
                problem = Problem(kind, parameters, model_class, constant=0.4)
                x, value = maximize_posterior_mean(problem.model, problem.space)
                best, maximum = inner_maximum(problem, problem.by_hand)
                assert_close(value, maximum, 1e-10)
                assert_close(x, best, 1e-4)

    def test_of_a_batch(self, model_class: ModelClass) -> None:
        problem = Problem("product", 2, model_class, [[0, 1, 2], [3, 4, 5]])
        x, value = maximize_posterior_mean(problem.model, problem.space)
        assert x.shape == (2, 3, 2)
        for index in np.ndindex(2, 3):
            alone = problem.element(index)
            _, expected = inner_maximum(alone, alone.by_hand)
            assert_close(value[index], expected, 1e-10)

    def test_peak_that_only_the_data_show(self, model_class: ModelClass) -> None:
        # So narrow that quasi-random points miss it.
        problem = Problem("none", 2, model_class, n=4)
        kernel = simple_kernel()
        kernel.base_kernel.lengthscale = double(1e-4)
        problem.model.covar_module = kernel
        rows = problem.model.datapoints
        x, value = maximize_posterior_mean(problem.model, problem.space)
        expected = problem.model.posterior_mean(rows).max()
        assert expected > 0.1
        assert_close(value, expected, 1e-9)
        assert (rows - x).abs().amax(dim=-1).min() < 1e-8

    def test_without_data(self, model_class: ModelClass) -> None:
        problem = Problem("product", 2, model_class, n=0, constant=0.4)
        x, value = maximize_posterior_mean(problem.model, problem.space)
        assert x.shape == (2,)
        assert_close(value, 0.4, 1e-15)

    def test_makes_nothing_on_the_default_device(self, model_class: ModelClass) -> None:
        problem = Problem("product", 2, model_class)
        with RequireDevice():
            maximize_posterior_mean(problem.model, problem.space)
