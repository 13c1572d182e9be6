from __future__ import annotations

import pytest
import torch
from botorch.exceptions import UnsupportedError
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.optim import optimize_acqf
from torch import Tensor

from botorch_binary_context import (
    BernoulliMutualInformation,
    BinaryLaplaceGP,
    PreferenceLaplaceGP,
)
from botorch_binary_context.acquisition.base import TrialAcquisitionFunction
from botorch_binary_context.functionals import DIFFERENCE, VALUE
from tests.acquisition.problems import Problem, assert_close, nested
from tests.small_models import MODEL_CLASSES, random_model
from tests.tensors import uniform


class RowSum(TrialAcquisitionFunction):
    """The sum of all numbers of a candidate, for each element of the model."""

    def evaluate(self, X: Tensor) -> Tensor:
        shape = torch.broadcast_shapes(X.shape[:-2], self.model.batch_shape)
        return X.sum(dim=(-2, -1)).expand(shape)


class TestTrialAcquisitionFunction:
    def test_is_abstract(self) -> None:
        model = random_model(BinaryLaplaceGP)
        with pytest.raises(TypeError, match="abstract.*evaluate"):
            TrialAcquisitionFunction(model)  # pyright: ignore

    def test_forward_is_evaluate(self) -> None:
        for model_class in MODEL_CLASSES:
            for batch_shape in ((), (3,)):
                acqf = RowSum(random_model(model_class, batch_shape=batch_shape))
                X = uniform(4, *batch_shape, 2, 2)
                assert_close(acqf(X), X.sum(dim=(-2, -1)), 1e-15)
                assert acqf(X[0]).shape == (batch_shape or (1,))

    def test_kind_of_model(self) -> None:
        binary, duels = (random_model(model_class) for model_class in MODEL_CLASSES)
        for model, functional in ((binary, VALUE), (duels, DIFFERENCE)):
            assert RowSum(model).model is model
            assert RowSum(model, functional).model is model
        message = "a model of duels for RowSum, but got a BinaryLaplaceGP"
        with pytest.raises(UnsupportedError, match=message):
            RowSum(binary, DIFFERENCE)
        message = "pass/fail outcomes for RowSum, but got a PreferenceLaplaceGP"
        with pytest.raises(UnsupportedError, match=message):
            RowSum(duels, VALUE)

    def test_pending_trials_come_out_as_expected(self) -> None:
        for model_class in (BinaryLaplaceGP, PreferenceLaplaceGP):
            problem = Problem("product", 1, model_class)
            rows = problem.candidates(2).flatten(-3, -2)
            trials = problem.model.functional.trials(rows)
            contrast = problem.model.functional(problem.model.posterior_mean(rows))
            labels = (contrast > 0).double().unsqueeze(-1)
            told = problem.model.condition_on_observations(trials, labels)
            acqf = RowSum(problem.model)
            acqf.set_X_pending(rows)
            assert acqf.X_pending is rows
            X = problem.candidates(3, 5)
            for found, expected in zip(
                acqf.model.moments(X), told.moments(X), strict=True
            ):
                assert_close(found, expected, 1e-12)
            acqf.set_X_pending(None)
            assert acqf.model is problem.model

    def test_pending_trials_of_the_wrong_shape(self) -> None:
        acqf = RowSum(Problem("product", 1).model)
        message = (
            r"pending trials to be ``batch_shape x n x 2``, but got shape \[1, 3\]"
        )
        with pytest.raises(BotorchTensorDimensionError, match=message):
            acqf.set_X_pending(uniform(1, 3))

    def test_sequential_optimization(self) -> None:
        """The second point of a batch knows of the first."""
        problem = Problem("product", 1)
        acqf = BernoulliMutualInformation(problem.model)
        batch, _ = optimize_acqf(
            acqf,
            problem.bounds,
            q=2,
            num_restarts=2,
            raw_samples=32,
            sequential=True,
            options={"seed": 0},
        )
        first, second = batch.unsqueeze(-2)
        alone = acqf(second)
        acqf.set_X_pending(first)
        assert acqf(first).item() < acqf(second).item()
        assert acqf(second).item() < alone.item()

    def test_puts_the_model_in_eval_mode(self) -> None:
        for model_class in (BinaryLaplaceGP, PreferenceLaplaceGP):
            problem = Problem("product", 1, model_class, normalized=True)
            X = problem.candidates(3)
            for make in (
                nested,
                lambda problem: BernoulliMutualInformation(problem.model),
            ):
                expected = make(problem)(X)
                problem.model.train()
                assert_close(make(problem)(X), expected, 1e-12)
