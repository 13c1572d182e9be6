from __future__ import annotations

import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.exceptions.warnings import InputDataWarning
from gpytorch.kernels import RBFKernel, ScaleKernel
from torch import Tensor

from botorch_binary_context import (
    AdditiveContextKernel,
    BinaryLaplaceGP,
    MultiplicativeContextKernel,
    PreferenceLaplaceGP,
)
from botorch_binary_context.models.validation import check_duel_contexts
from tests.small_models import MODEL_CLASSES, random_model, random_trials, simple_kernel
from tests.tensors import double, uniform

# (bad value, how the message prints it)
BAD_NUMBERS = (
    (float("nan"), "nan"),
    (float("inf"), "inf"),
    (float("-inf"), "-inf"),
)


class TestLabels:
    def test_must_be_zero_or_one(self) -> None:
        for model_class in MODEL_CLASSES:
            for value in (-1.0, 0.5, 2.0):
                X, Y = random_trials(model_class, 4)
                Y[2, 0] = value
                message = rf"``train_Y`` .* 0 and 1, but got {value} at index \[2, 0\]"
                with pytest.raises(InputDataError, match=message):
                    model_class(X, Y)

    def test_must_be_finite(self) -> None:
        for model_class in MODEL_CLASSES:
            for value, shown in BAD_NUMBERS:
                X, Y = random_trials(model_class, 4, batch_shape=(2,))
                Y[1, 3, 0] = value
                message = rf"``train_Y`` .* but got {shown} at index \[1, 3, 0\]"
                with pytest.raises(InputDataError, match=message):
                    model_class(X, Y)


class TestInputs:
    def test_must_be_finite(self) -> None:
        for model_class in MODEL_CLASSES:
            for value, shown in BAD_NUMBERS:
                X, Y = random_trials(model_class, 4)
                X[2, ..., 1] = value
                message = rf"``train_X`` .* finite .* but got {shown} at index \[2, "
                with pytest.raises(InputDataError, match=message):
                    model_class(X, Y)

    def test_one_label_for_each_trial(self) -> None:
        for model_class in MODEL_CLASSES:
            X, Y = random_trials(model_class, 4)
            for wrong in (Y[:3], Y.squeeze(-1), Y.expand(4, 2), Y.expand(2, 4, 1)):
                shape = str(list(wrong.shape)).replace("[", r"\[")
                message = rf"``train_Y`` .* shape \[4, 1\], but got {shape}"
                with pytest.raises(BotorchTensorDimensionError, match=message):
                    model_class(X, wrong)

    def test_batch_shapes_must_agree(self) -> None:
        for model_class in MODEL_CLASSES:
            X, _ = random_trials(model_class, 4, batch_shape=(2,))
            _, Y = random_trials(model_class, 4, batch_shape=(3,))
            message = r"shape \[2, 4, 1\], but got \[3, 4, 1\]"
            with pytest.raises(BotorchTensorDimensionError, match=message):
                model_class(X, Y)

    def test_one_dimension_is_too_few(self) -> None:
        with pytest.raises(BotorchTensorDimensionError, match="``train_X``"):
            BinaryLaplaceGP(uniform(4), double([0, 1, 0, 1]))

    def test_duels_are_pairs(self) -> None:
        Y = random_trials(PreferenceLaplaceGP, 4)[1]
        for shape in ((4, 2), (4, 1, 2), (4, 3, 2), (4, 4)):
            shown = str(list(shape)).replace("[", r"\[")
            message = rf"``train_X`` to hold duels, .* but got shape {shown}"
            with pytest.raises(BotorchTensorDimensionError, match=message):
                PreferenceLaplaceGP(uniform(*shape), Y)

    def test_must_share_a_floating_point_dtype(self) -> None:
        for model_class in MODEL_CLASSES:
            X, Y = random_trials(model_class, 4)
            for wrong_X, wrong_Y, shown in (
                (X, Y.int(), "torch.float64 and torch.int32"),
                (X, Y.float(), "torch.float64 and torch.float32"),
                (X.int(), Y.int(), "torch.int32 and torch.int32"),
                (X, Y.bool(), "torch.float64 and torch.bool"),
            ):
                message = f"share a floating point dtype, but got {shown}"
                with pytest.raises(InputDataError, match=message):
                    model_class(wrong_X, wrong_Y)

    def test_inputs_outside_the_unit_cube_warn(self) -> None:
        # The default kernel has priors for the unit cube; another kernel has its own.
        for model_class in MODEL_CLASSES:
            X, Y = random_trials(model_class, 8)
            with pytest.warns(InputDataWarning, match="unit cube"):
                model_class(10 * X, Y)
            model_class(10 * X, Y, covar_module=simple_kernel())


def duels_in_contexts(first: float, second: float) -> tuple[Tensor, Tensor]:
    """Duels of which the third has other contexts (column 1) on its two sides."""
    X, Y = random_trials(PreferenceLaplaceGP, 4, dim=3)
    X[..., 1] = 0.5
    X[2, :, 1] = double([first, second])
    return X, Y


class TestKernelBatchShape:
    def test_must_broadcast_to_the_data(self) -> None:
        for batch_shape, kernel_shape in (((), (3,)), ((2,), (3,)), ((2,), (2, 2))):
            X, Y = random_trials(BinaryLaplaceGP, 4, batch_shape=batch_shape)
            kernel = RBFKernel(batch_shape=torch.Size(kernel_shape))
            message = (
                r"``covar_module`` .* ``train_X``, "
                rf"\{list(batch_shape)}, but got \{list(kernel_shape)}"
            )
            with pytest.raises(InputDataError, match=message):
                BinaryLaplaceGP(X, Y, covar_module=kernel)

    def test_one_for_all_elements(self) -> None:
        X, Y = random_trials(BinaryLaplaceGP, 4, batch_shape=(3, 2))
        for kernel_shape in ((), (1,), (2,), (3, 1)):
            kernel = RBFKernel(batch_shape=torch.Size(kernel_shape))
            found = BinaryLaplaceGP(X, Y, covar_module=kernel).posterior(X).mean
            # All have the same lengthscale, so each element is as if it were alone.
            alone = BinaryLaplaceGP(X[2, 1], Y[2, 1], covar_module=RBFKernel())
            torch.testing.assert_close(found[2, 1], alone.posterior(X[2, 1]).mean)


class TestDuelContexts:
    message = (
        r"share their context columns \[1\], but got \[0.25\] and \[0.75\] in "
        r"duel \[2\]"
    )

    def test_named_by_the_kernel(self) -> None:
        X, Y = duels_in_contexts(0.25, 0.75)
        base = ScaleKernel(RBFKernel(ard_num_dims=2))
        for kernel in (
            MultiplicativeContextKernel(base, context_dims=[1]),
            AdditiveContextKernel(base, context_dims=[-2]),
            ScaleKernel(MultiplicativeContextKernel(base, context_dims=[1])),
        ):
            with pytest.raises(InputDataError, match=self.message):
                PreferenceLaplaceGP(X, Y, covar_module=kernel)

    def test_named_by_the_argument(self) -> None:
        X, Y = duels_in_contexts(0.25, 0.75)
        for columns in ([1], [-2]):
            with pytest.raises(InputDataError, match=self.message):
                PreferenceLaplaceGP(X, Y, context_dims=columns)

    def test_in_a_batch(self) -> None:
        X, Y = duels_in_contexts(0.25, 0.75)
        message = r"in duel \[0, 2\]"
        with pytest.raises(InputDataError, match=message):
            PreferenceLaplaceGP(
                X.expand(2, *X.shape), Y.expand(2, *Y.shape), context_dims=[1]
            )

    def test_rounding_is_forgiven(self) -> None:
        X, Y = duels_in_contexts(0.5, 0.5 + 1e-12)
        PreferenceLaplaceGP(X, Y, context_dims=[1])
        check_duel_contexts(X, [1])

    def test_sides_may_differ_in_all_columns_without_a_context(self) -> None:
        X, Y = duels_in_contexts(0.25, 0.75)
        model = PreferenceLaplaceGP(X, Y)
        assert torch.equal(model.original_datapoints.reshape(X.shape), X)

    def test_several_columns(self) -> None:
        X, _ = duels_in_contexts(0.5, 0.5)
        X[:, 1, 2] = X[:, 0, 2]
        check_duel_contexts(X, [1, 2])
        X[3, 0, 2] += 0.1
        with pytest.raises(InputDataError, match=r"columns \[1, 2\].*duel \[3\]"):
            check_duel_contexts(X, [1, 2])

    def test_columns_out_of_range(self) -> None:
        X, Y = duels_in_contexts(0.5, 0.5)
        message = r"``context_dims`` .* with 3 columns, but got \[3\]"
        with pytest.raises(InputDataError, match=message):
            PreferenceLaplaceGP(X, Y, context_dims=[3])
        kernel = MultiplicativeContextKernel(ScaleKernel(RBFKernel()), [-4])
        message = r"``context_dims`` .* with 3 columns, but got \[-4\]"
        with pytest.raises(InputDataError, match=message):
            PreferenceLaplaceGP(X, Y, covar_module=kernel)

    def test_column_named_twice(self) -> None:
        X, Y = duels_in_contexts(0.5, 0.5)
        with pytest.raises(InputDataError, match=r"each column once.*\[1, -2\]"):
            PreferenceLaplaceGP(X, Y, context_dims=[1, -2])


class TestPosteriorArguments:
    def test_number_of_columns(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class)
            for shape in ((3, 1), (3, 3), (5, 3, 4), (2,)):
                shown = str(list(shape)).replace("[", r"\[")
                message = rf"``X`` to be ``batch_shape x q x 2``, but got shape {shown}"
                with pytest.raises(InputDataError, match=message):
                    model.posterior(uniform(*shape))

    def test_output_indices(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class)
            X = uniform(2, 2)
            model.posterior(X, output_indices=[0])
            assert model.subset_output([0]) is model
            message = r"``output_indices`` to be None or \[0\] .*but got \[1\]"
            with pytest.raises(UnsupportedError, match=message):
                model.posterior(X, output_indices=[1])
            with pytest.raises(UnsupportedError, match=message):
                model.subset_output([1])

    def test_observation_noise(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class)
            with pytest.raises(
                UnsupportedError,
                match="``observation_noise`` to be a bool, but got a tensor",
            ):
                model.posterior(uniform(2, 2), observation_noise=uniform(2, 1))


class TestConditioningArguments:
    def test_labels_must_be_zero_or_one(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class)
            X, Y = random_trials(model_class, 2)
            for value, shown in ((0.5, "0.5"), *BAD_NUMBERS):
                wrong = Y.clone()
                wrong[1] = value
                with pytest.raises(InputDataError, match=f"``Y`` .* got {shown}"):
                    model.condition_on_observations(X, wrong)

    def test_finite_inputs(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class)
            X, Y = random_trials(model_class, 2)
            for value, shown in BAD_NUMBERS:
                X[1] = value
                with pytest.raises(InputDataError, match=f"``X`` .* got {shown}"):
                    model.condition_on_observations(X, Y)

    def test_one_label_for_each_trial(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class)
            X, Y = random_trials(model_class, 2)
            for wrong in (Y[:1], Y.squeeze(-1), Y.expand(2, 2)):
                with pytest.raises(
                    BotorchTensorDimensionError,
                    match="``Y`` to have one label for each",
                ):
                    model.condition_on_observations(X, wrong)

    def test_number_of_columns(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class)
            X, Y = random_trials(model_class, 2, dim=3)
            with pytest.raises(
                BotorchTensorDimensionError,
                match=r"x 2``, but got shape \[2, (2, )?3\]",
            ):
                model.condition_on_observations(X, Y)

    def test_duels_are_pairs(self) -> None:
        model = random_model(PreferenceLaplaceGP)
        for shape in ((2, 2), (2, 3, 2)):
            with pytest.raises(
                BotorchTensorDimensionError,
                match="``X`` to be ``batch_shape x n x 2 x 2``",
            ):
                model.condition_on_observations(uniform(*shape), double([[1.0], [0.0]]))
        binary = random_model(BinaryLaplaceGP)
        with pytest.raises(
            BotorchTensorDimensionError, match="``X`` to be ``batch_shape x n x 2``"
        ):
            binary.condition_on_observations(uniform(2), double([[1.0]]))
