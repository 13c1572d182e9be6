from __future__ import annotations

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import UnsupportedError
from botorch.optim import optimize_acqf
from torch import Tensor

from botorch_binary_context import (
    BernoulliMutualInformation,
    BinaryLaplaceGP,
    PreferenceLaplaceGP,
)
from botorch_binary_context.acquisition.base import TrialAcquisitionFunction
from botorch_binary_context.functionals import DIFFERENCE, VALUE
from tests.acquisition.problems import Problem, assert_close, nested, one_shot
from tests.helpers import MODEL_CLASSES, StrictTestCase, random_model, uniform


class RowSum(TrialAcquisitionFunction):
    """The sum of all numbers of a candidate, for each element of the model."""

    def evaluate(self, X: Tensor) -> Tensor:
        shape = torch.broadcast_shapes(X.shape[:-2], self.model.batch_shape)
        return X.sum(dim=(-2, -1)).expand(shape)


class TestTrialAcquisitionFunction(StrictTestCase):
    def test_is_abstract(self) -> None:
        model = random_model(BinaryLaplaceGP)
        with self.assertRaisesRegex(TypeError, "abstract.*evaluate"):
            TrialAcquisitionFunction(model)  # pyright: ignore

    def test_forward_is_evaluate(self) -> None:
        for model_class in MODEL_CLASSES:
            for batch_shape in ((), (3,)):
                acqf = RowSum(random_model(model_class, batch_shape=batch_shape))
                X = uniform(4, *batch_shape, 2, 2)
                assert_close(acqf(X), X.sum(dim=(-2, -1)), 1e-15)
                self.assertEqual(acqf(X[0]).shape, batch_shape or (1,))

    def test_kind_of_model(self) -> None:
        binary, duels = (random_model(model_class) for model_class in MODEL_CLASSES)
        for model, functional in ((binary, VALUE), (duels, DIFFERENCE)):
            self.assertIs(RowSum(model).model, model)
            self.assertIs(RowSum(model, functional).model, model)
        message = "a model of duels for RowSum, but got a BinaryLaplaceGP"
        with self.assertRaisesRegex(UnsupportedError, message):
            RowSum(binary, DIFFERENCE)
        message = "pass/fail outcomes for RowSum, but got a PreferenceLaplaceGP"
        with self.assertRaisesRegex(UnsupportedError, message):
            RowSum(duels, VALUE)

    def test_pending_points_are_refused(self) -> None:
        problem = Problem("product", 1)
        acqfs: list[AcquisitionFunction] = [nested(problem), one_shot(problem)]
        for acqf in (*acqfs, BernoulliMutualInformation(problem.model)):
            acqf.set_X_pending(None)
            with self.assertRaisesRegex(UnsupportedError, r"X_pending.*\[1, 2\]"):
                acqf.set_X_pending(uniform(1, 2))

    def test_sequential_optimisation_is_refused(self) -> None:
        # The second point would be chosen as if the first did not exist.
        problem = Problem("product", 1)
        with self.assertRaisesRegex(UnsupportedError, "X_pending"):
            optimize_acqf(
                BernoulliMutualInformation(problem.model),
                problem.bounds,
                q=2,
                num_restarts=1,
                raw_samples=4,
                sequential=True,
            )

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
