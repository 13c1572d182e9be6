r"""What holds for all forms of the knowledge gradient."""

from __future__ import annotations

import pickle
from copy import deepcopy

import pytest
import torch
from botorch.exceptions import UnsupportedError

from botorch_binary_context import BinaryLaplaceGP, PreferenceLaplaceGP
from tests.acquisition.moment_matched_cases import both_models, by_ep
from tests.acquisition.problems import (
    MakeAcquisition,
    Problem,
    assert_close,
    assert_takes_t_batches,
    nested,
)
from tests.devices import RequireDevice
from tests.small_models import ModelClass
from tests.tensors import uniform

both_forms = pytest.mark.parametrize("make", [nested, by_ep])


@both_models
class TestCalls:
    @both_forms
    def test_t_batches(self, model_class: ModelClass, make: MakeAcquisition) -> None:
        for elements in (0, [0, 1, 2], [[0, 1, 2], [3, 4, 5]]):
            problem = Problem("additive", 1, model_class, elements)
            assert_takes_t_batches(make, problem)

    @pytest.mark.parametrize(("make", "tolerance"), [(nested, 1e-3), (by_ep, 1e-4)])
    def test_single_precision(
        self, model_class: ModelClass, make: MakeAcquisition, tolerance: float
    ) -> None:
        problem = Problem("product", 2, model_class)
        X = problem.candidates(4)
        expected = make(problem)(X)
        problem.model.float()
        X = X.float().requires_grad_()
        found = make(problem)(X)
        assert found.dtype == torch.float
        assert_close(found.double(), expected, tolerance)
        (gradient,) = torch.autograd.grad(found.sum(), X)
        assert gradient.isfinite().all()

    @both_forms
    def test_makes_nothing_on_the_default_device(
        self, model_class: ModelClass, make: MakeAcquisition
    ) -> None:
        problem = Problem("product", 1, model_class)
        X = problem.candidates(4).requires_grad_()
        with RequireDevice():
            make(problem)(X).sum().backward()

    @pytest.mark.parametrize(("make", "tolerance"), [(nested, 1e-14), (by_ep, 1e-9)])
    def test_copies_and_pickles_give_the_same_values(
        self, model_class: ModelClass, make: MakeAcquisition, tolerance: float
    ) -> None:
        problem = Problem("product", 1, model_class)
        X = problem.candidates(4)
        acqf = make(problem)
        expected = acqf(X)
        for copy in (deepcopy(acqf), pickle.loads(pickle.dumps(acqf))):
            assert_close(copy(X), expected, tolerance)


@both_forms
class TestMessages:
    def test_number_of_rows(self, make: MakeAcquisition) -> None:
        for model_class, rows, message in (
            (BinaryLaplaceGP, 2, "one row, but got 2 rows"),
            (PreferenceLaplaceGP, 1, "a duel, two rows, but got 1 rows"),
        ):
            problem = Problem("product", 1, model_class)
            with pytest.raises(UnsupportedError, match=message):
                make(problem)(uniform(4, rows, 2))

    def test_one_dimension(self, make: MakeAcquisition) -> None:
        with pytest.raises(ValueError, match="at least 2 dimensions"):
            make(Problem())(uniform(2))
